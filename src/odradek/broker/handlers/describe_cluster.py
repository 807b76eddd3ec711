"""DescribeCluster 0-2: the cluster's id, its controller and its brokers (KIP-700).

Version 1 may ask for controllers instead of brokers (KIP-919): a broker answers MISMATCHED_ENDPOINT_TYPE to
that, UNSUPPORTED_ENDPOINT_TYPE to anything else. Version 2 may include fenced brokers (KIP-1073); there are
none where brokers register with the metadata store, since one that is not live is not registered.

A broker that asks about another one is told of that one alone, if it can be reached; see `witnesses`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.event_loop.slices import Steps, begin
from odradek.broker.interbroker.witnesses import asked_about
from odradek.broker.metadata.waits import wait_for_cluster
from odradek.broker.requests.authorization import CLUSTER, Operation
from odradek.errors.codes import ErrorCode
from odradek.util.futures import then
from odradek.util.promise import Promise, promised
from odradek.wire.api import ApiKey
from odradek.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext

_BROKERS, _CONTROLLERS = 1, 2


@handler(ApiKey.DESCRIBE_CLUSTER, versions=range(3))
def handle(
    context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse | Steps[DescribeClusterResponse] | Promise[DescribeClusterResponse]:
    """Describe the cluster as this broker knows it."""
    channels, about = context.broker.channels, asked_about(context.client_id)
    if about is not None and channels is not None and context.authorize(Operation.CLUSTER_ACTION, CLUSTER):
        return promised(then(channels.witnesses.reach(about), partial(_testify, context, about)))
    return begin(_answer(context, request))


def _answer(context: RequestContext, request: DescribeClusterRequest) -> Steps[DescribeClusterResponse]:
    yield from wait_for_cluster(context.broker)
    if request.endpoint_type != _BROKERS:
        return _wrong_type(request.endpoint_type)
    image = context.broker.image
    brokers = [
        DescribeClusterBroker(
            broker_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack
        )
        for broker in image.brokers.values()
        if (endpoint := broker.endpoint(context.listener_name)) is not None
    ]
    is_controller_known = any(broker.broker_id == image.controller_id for broker in brokers)
    response = DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=image.controller_id if is_controller_known else -1,
        brokers=brokers,
    )
    if request.include_cluster_authorized_operations:
        allowed = context.authorize(Operation.DESCRIBE, CLUSTER)
        response.cluster_authorized_operations = context.authorized_operations(CLUSTER) if allowed else 0
    return response


def _testify(context: RequestContext, about: int, is_reached: bool) -> DescribeClusterResponse:
    image = context.broker.image
    response = DescribeClusterResponse(cluster_id=image.cluster_id, controller_id=image.controller_id)
    if is_reached:
        response.brokers = [DescribeClusterBroker(broker_id=about)]
    return response


def _wrong_type(endpoint_type: int) -> DescribeClusterResponse:
    if endpoint_type == _CONTROLLERS:
        return DescribeClusterResponse(
            error_code=int(ErrorCode.MISMATCHED_ENDPOINT_TYPE),
            error_message="The request was sent to an endpoint of type BROKER, "
            "but we wanted an endpoint of type CONTROLLER",
        )
    return DescribeClusterResponse(
        error_code=int(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        error_message=f"Unsupported endpoint type {endpoint_type}",
    )
