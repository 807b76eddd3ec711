"""DescribeCluster at every version."""

from __future__ import annotations

import pytest

from odradek.broker.requests.authorization import Operation
from odradek.cluster.nodes import Endpoint
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.describe_cluster import DescribeClusterRequest

from ..admin_world import Denying, World

VERSIONS = range(3)
ALL = sum(1 << op for op in (5, 7, 8, 9, 10, 11, 12))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_cluster(version: int) -> None:
    world = World(others=(1,))
    world.add_broker(2, Endpoint("OTHER", "h", 1))
    world.add_broker(3, Endpoint("PLAINTEXT", "h3", 7), rack="r")
    response = world.call(DescribeClusterRequest(), version)
    assert (response.error_code, response.cluster_id) == (0, world.controller.cluster_id)
    assert response.controller_id == 0
    assert [(b.broker_id, b.host, b.port, b.rack) for b in response.brokers] == [
        (0, "127.0.0.1", 9092, None),
        (1, "127.0.0.1", 9093, None),
        (3, "h3", 7, "r"),
    ]
    assert response.cluster_authorized_operations == -(2**31)


@pytest.mark.parametrize("version", VERSIONS)
def test_allowed_operations_when_asked_for(version: int) -> None:
    world = World()
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert world.call(request, version).cluster_authorized_operations == ALL
    world.authorizer = Denying((Operation.ALTER, "kafka-cluster"))
    assert world.call(request, version).cluster_authorized_operations == ALL - (1 << Operation.ALTER)
    world.authorizer = Denying((Operation.DESCRIBE, "kafka-cluster"))
    assert world.call(request, version).cluster_authorized_operations == 0


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("endpoint_type", "error"),
    [
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (9, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_a_broker_knows_no_controllers_endpoints(version: int, endpoint_type: int, error: ErrorCode) -> None:
    response = World().call(DescribeClusterRequest(endpoint_type=endpoint_type), version)
    assert response.error_code == error
    assert response.error_message
    assert response.brokers == []


def test_a_controller_that_is_not_reachable_here_is_not_named() -> None:
    world = World()
    world.add_broker(5, Endpoint("OTHER", "h", 1))
    response = world.call(DescribeClusterRequest(), 2, listener="OTHER")
    assert (response.controller_id, [b.broker_id for b in response.brokers]) == (-1, [5])
