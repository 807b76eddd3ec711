"""CreatePartitions at every version."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.broker.requests.authorization import Operation
from odradek.cluster.controller.topic_manager import NewTopic
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)

from ..admin_world import Denying, World

VERSIONS = range(4)


def _grow(name: str, count: int, assignments: list[list[int]] | None = None) -> CreatePartitionsTopic:
    return CreatePartitionsTopic(
        name=name,
        count=count,
        assignments=None
        if assignments is None
        else [CreatePartitionsAssignment(broker_ids=brokers) for brokers in assignments],
    )


def _request(*topics: CreatePartitionsTopic, validate_only: bool = False) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(topics=list(topics), timeout_ms=1000, validate_only=validate_only)


def _errors(response: Any) -> dict[str, int]:
    return {result.name: result.error_code for result in response.results}


@pytest.fixture
def world() -> World:
    world = World(others=(1, 2))
    world.controller.create_topic(NewTopic("t", assignment={0: (1, 2), 1: (2, 0)}))
    return world


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_gets_more_partitions_and_keeps_the_old_ones(world: World, version: int) -> None:
    before = dict(world.image.topics["t"].partitions)
    response = world.call(_request(_grow("t", 5)), version)
    assert [(r.name, r.error_code, r.error_message) for r in response.results] == [("t", 0, None)]
    after = world.image.topics["t"].partitions
    assert {p: after[p] for p in before} == before
    assert sorted(after) == [0, 1, 2, 3, 4]
    assert all(p.leader == p.replicas[0] and len(p.replicas) == 2 for p in after.values())
    # Round robin goes on where it would be, had the topic been made this large.
    assert [after[i].replicas[0] for i in (2, 3, 4)] == [0, 1, 2]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_manual_assignment_is_kept(world: World, version: int) -> None:
    world.call(_request(_grow("t", 4, [[0, 1], [2, 1]])), version)
    partitions = world.image.topics["t"].partitions
    assert [partitions[i].replicas for i in (2, 3)] == [(0, 1), (2, 1)]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_cannot_be_is_refused(world: World, version: int) -> None:
    cases: list[tuple[CreatePartitionsTopic, ErrorCode, str]] = [
        (
            _grow("absent", 3),
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "The topic 'absent' does not exist.",
        ),
        (
            _grow("t", 1),
            ErrorCode.INVALID_PARTITIONS,
            "Topic currently has 2 partitions, which is higher than the requested 1.",
        ),
        (_grow("t", 2), ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partitions."),
        (
            _grow("t", 2**31 - 1),
            ErrorCode.POLICY_VIOLATION,
            "Excessively large number of partitions per request.",
        ),
        (
            _grow("t", 3, [[9, 1]]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Unknown broker(s) in replica assignment: 9.",
        ),
        (
            _grow("t", 4, [[0, 1]]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Increasing the number of partitions by 2 but 1 assignments provided.",
        ),
    ]
    for topic, code, message in cases:
        (result,) = world.call(_request(topic), version).results
        assert (result.error_code, result.error_message) == (code, message)
    assert len(world.image.topics["t"].partitions) == 2


@pytest.mark.parametrize("version", VERSIONS)
def test_validate_only_changes_nothing(world: World, version: int) -> None:
    response = world.call(_request(_grow("t", 3), _grow("absent", 2), validate_only=True), version)
    assert _errors(response) == {"t": 0, "absent": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert len(world.image.topics["t"].partitions) == 2


def test_a_topic_named_twice_is_refused_and_answered_once(world: World) -> None:
    response = world.call(_request(_grow("t", 3), _grow("t", 4)), 3)
    assert [(r.name, r.error_code) for r in response.results] == [("t", ErrorCode.INVALID_REQUEST)]
    assert len(world.image.topics["t"].partitions) == 2


def test_a_topic_being_deleted_does_not_grow(world: World) -> None:
    world.sessions[2].close()
    world.controller.delete_topics(["t"])
    assert _errors(world.call(_request(_grow("t", 3)), 3)) == {"t": ErrorCode.INVALID_TOPIC_EXCEPTION}


def test_too_few_live_brokers(world: World) -> None:
    for session in world.sessions.values():
        session.close()
    assert _errors(world.call(_request(_grow("t", 3)), 3)) == {"t": ErrorCode.INVALID_REPLICATION_FACTOR}


def test_permissions_and_the_active_controller(world: World) -> None:
    world.authorizer = Denying((Operation.ALTER, "t"))
    assert _errors(world.call(_request(_grow("t", 3)), 3)) == {"t": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    world.authorizer = None
    world.controller.context.is_active = False
    assert _errors(world.call(_request(_grow("t", 3)), 3)) == {"t": ErrorCode.NOT_CONTROLLER}
