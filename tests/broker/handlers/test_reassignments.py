"""AlterPartitionReassignments and ListPartitionReassignments at every version."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.broker.requests.authorization import Operation
from odradek.cluster.controller.topic_manager import NewTopic
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

from ..admin_world import Denying, World

INVALID = ErrorCode.INVALID_REPLICA_ASSIGNMENT


def reassign(world: World, version: int, topic: str, index: int, replicas: Any, **fields: Any) -> int:
    request = AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name=topic, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)]
            )
        ],
        **fields,
    )
    answer = world.call(request, version)
    assert (answer.error_code, answer.responses[0].name) == (0, topic)
    (partition,) = answer.responses[0].partitions
    assert partition.partition_index == index
    return int(partition.error_code)


@pytest.mark.parametrize("version", range(2))
@pytest.mark.parametrize(
    ("topic", "replicas", "error"),
    [
        ("t", [0], ErrorCode.NONE),
        ("t", [1], INVALID),
        ("t", [0, 1], INVALID),
        ("t", [], INVALID),
        ("t", [0, 0], INVALID),
        ("t", [-1], INVALID),
        ("t", [0, 99], INVALID),
        ("t", None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ("missing", [0], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("missing", [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("missing", [], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("missing", [-1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("missing", None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_broker_that_is_alone(topic: str, replicas: Any, error: ErrorCode, version: int) -> None:
    world = World()
    world.controller.create_topic(NewTopic("t", 1, 1))
    before = world.image
    assert reassign(world, version, topic, 0, replicas) == error
    assert world.image == before


@pytest.mark.parametrize("release", ["2.8", "3.9"])
@pytest.mark.parametrize(
    ("replicas", "error"),
    [
        ([0], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ([1], INVALID),
        ([], INVALID),
        ([-1], INVALID),
        ([0, 0], INVALID),
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_a_partition_that_is_not_there_with_zookeeper(replicas: Any, error: ErrorCode, release: str) -> None:
    world = World({"odradek.kafka.version": release})
    assert reassign(world, 0, "missing", 0, replicas) == error


def test_a_replica_on_a_dead_broker_may_stay() -> None:
    world = World(others=(1,))
    world.controller.create_topic(NewTopic("t", assignment={0: [0, 1]}))
    world.sessions[1].close()
    assert reassign(world, 1, "t", 0, [1, 0]) == 0


@pytest.mark.parametrize("version", range(2))
def test_another_order_and_fewer_replicas(version: int) -> None:
    world = World(others=(1, 2))
    world.controller.create_topic(NewTopic("t", assignment={0: [0, 1, 2], 1: [1, 0, 2]}))
    assert reassign(world, version, "t", 0, [2, 1, 0]) == 0
    moved = world.image.topics["t"].partitions[0]
    assert (moved.replicas, moved.leader, moved.leader_epoch) == ((2, 1, 0), 0, 1)
    assert reassign(world, version, "t", 0, [2, 1]) == 0
    moved = world.image.topics["t"].partitions[0]
    assert (moved.replicas, moved.isr, moved.leader, moved.leader_epoch) == ((2, 1), (1, 2), 2, 2)
    assert world.image.topics["t"].partitions[1].replicas == (1, 0, 2)
    world.controller.writer.refresh()
    assert world.image.topics["t"].partitions[0] == moved


def test_the_number_of_replicas_may_be_kept() -> None:
    world = World(others=(1,))
    world.controller.create_topic(NewTopic("t", assignment={0: [0, 1]}))
    error = reassign(world, 1, "t", 0, [0], allow_replication_factor_change=False)
    assert error == ErrorCode.INVALID_REPLICATION_FACTOR
    assert reassign(world, 1, "t", 0, [1, 0], allow_replication_factor_change=False) == 0


def test_replicas_that_are_not_in_sync_are_waited_for() -> None:
    world = World(others=(1,))
    world.controller.create_topic(NewTopic("t", assignment={0: [0, 1]}))
    world.sessions[1].close()
    assert reassign(world, 1, "t", 0, [1]) == 0
    under_way = world.image.topics["t"].partitions[0]
    assert (under_way.replicas, under_way.removing, under_way.leader) == ((1, 0), (0,), 0)
    assert reassign(world, 1, "t", 0, [0]) == 0
    moved = world.image.topics["t"].partitions[0]
    assert (moved.replicas, moved.isr, moved.leader) == ((0,), (0,), 0)


def test_nothing_is_under_way() -> None:
    world = World()
    world.controller.create_topic(NewTopic("t", 1, 1))
    topics = [ListPartitionReassignmentsTopics(name=name, partition_indexes=[0, 7]) for name in ("t", "u")]
    for wanted in (None, [], topics):
        answer = world.call(ListPartitionReassignmentsRequest(topics=wanted), 0)
        assert (answer.error_code, answer.error_message, answer.topics) == (0, None, [])


def test_what_another_controller_has_begun_is_named() -> None:
    world = World(others=(1,))
    world.controller.create_topic(NewTopic("t", assignment={0: [0, 1]}))
    data, stat = world.store.get("/brokers/topics/t")
    assert data is not None
    begun = data.replace(b'"adding_replicas":{}', b'"adding_replicas":{"0":[1]}')
    assert begun != data
    world.store.set("/brokers/topics/t", begun, stat.version)
    world.controller.writer.refresh()
    answer = world.call(ListPartitionReassignmentsRequest(topics=None), 0)
    (topic,) = answer.topics
    (one,) = topic.partitions
    assert (topic.name, one.partition_index, one.replicas) == ("t", 0, [0, 1])
    assert (one.adding_replicas, one.removing_replicas) == ([1], [])


def test_who_may_ask() -> None:
    world = World()
    world.authorizer = Denying((Operation.ALTER, "kafka-cluster"), (Operation.DESCRIBE, "kafka-cluster"))
    for request in (
        AlterPartitionReassignmentsRequest(topics=[]),
        ListPartitionReassignmentsRequest(topics=None),
    ):
        assert world.call(request, 0).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    world.authorizer = None
    world.controller.context.is_active = False
    for request in (
        AlterPartitionReassignmentsRequest(topics=[]),
        ListPartitionReassignmentsRequest(topics=None),
    ):
        assert world.call(request, 0).error_code == ErrorCode.NOT_CONTROLLER
