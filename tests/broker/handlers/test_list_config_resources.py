"""ListConfigResources at each version."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.broker.requests.authorization import Operation
from odradek.cluster.controller.topic_manager import NewTopic
from odradek.cluster.paths import sanitize
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.list_config_resources import ListConfigResourcesRequest

from ..admin_world import Denying, World

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


@pytest.fixture
def world() -> World:
    world = World(others=(7,))
    world.controller.create_topic(NewTopic("t", 1, 1))
    return world


def listed(world: World, version: int, types: list[int]) -> Any:
    request = ListConfigResourcesRequest()
    if version >= 1:
        request.resource_types = types
    answer = world.call(request, version)
    if answer.error_code:
        assert answer.config_resources == []
        return answer.error_code
    return [(one.resource_type, one.resource_name) for one in answer.config_resources]


def test_version_0_is_about_client_metrics(world: World) -> None:
    assert listed(world, 0, []) == []
    for name in ("b/c", "a"):
        world.controller.alter_config(f"client-metrics/{sanitize(name)}", {"interval.ms": "1000"})
    assert listed(world, 0, []) == [(METRICS, "a"), (METRICS, "b/c")]
    assert listed(world, 1, [METRICS]) == [(METRICS, "a"), (METRICS, "b/c")]


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ([], [(TOPIC, "t"), (BROKER, "0"), (BROKER, "7"), (LOGGER, "0"), (LOGGER, "7")]),
        ([TOPIC], [(TOPIC, "t")]),
        ([LOGGER, LOGGER], [(LOGGER, "0"), (LOGGER, "7")]),
        ([METRICS, GROUP], []),
        ([TOPIC, 1], ErrorCode.UNSUPPORTED_VERSION),
        ([-3], ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_resources_by_type(types: list[int], expected: Any, world: World) -> None:
    assert listed(world, 1, types) == expected


@pytest.mark.parametrize("version", range(2))
def test_who_may(version: int, world: World) -> None:
    world.authorizer = Denying((Operation.DESCRIBE_CONFIGS, "kafka-cluster"))
    assert listed(world, version, []) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
