"""DescribeTopicPartitions: pages, cursors, and what may not be seen."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.broker.requests.authorization import Operation
from odradek.cluster.controller.topic_manager import NewTopic
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)

from ..admin_world import Denying, World

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture
def world() -> World:
    """Topics a (3 partitions), b (2) and c (1)."""
    world = World()
    for name, partitions in (("c", 1), ("a", 3), ("b", 2)):
        world.controller.create_topic(NewTopic(name, partitions, 1))
    return world


def ask(world: World, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names], response_partition_limit=limit
    )
    if cursor is not None:
        request.cursor = Cursor(topic_name=cursor[0], partition_index=cursor[1])
    return world.call(request, 0)


def page(answer: Any) -> tuple[list[tuple[str, int, list[int]]], tuple[str, int] | None]:
    """Name, error and partitions of each topic, and the cursor."""
    topics = [
        (topic.name, topic.error_code, [one.partition_index for one in topic.partitions])
        for topic in answer.topics
    ]
    cursor = answer.next_cursor
    return topics, None if cursor is None else (cursor.topic_name, cursor.partition_index)


def test_all_of_everything(world: World) -> None:
    answer = ask(world)
    assert page(answer) == ([("a", NONE, [0, 1, 2]), ("b", NONE, [0, 1]), ("c", NONE, [0])], None)
    topic = answer.topics[0]
    assert (topic.topic_id, topic.is_internal) == (world.image.topic_id("a"), False)
    assert topic.topic_authorized_operations == sum(1 << bit for bit in (3, 4, 5, 6, 7, 8, 10, 11))
    partition = topic.partitions[1]
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, 0, 0)
    assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ([0], [0], [])
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([], [])


def test_named_ones_in_their_order(world: World) -> None:
    assert page(ask(world, "c", "missing", "b", "not/a/topic", "b")) == (
        [
            ("b", NONE, [0, 1]),
            ("c", NONE, [0]),
            ("missing", UNKNOWN, []),
            ("not/a/topic", ErrorCode.INVALID_TOPIC_EXCEPTION, []),
        ],
        None,
    )


@pytest.mark.parametrize("names", [(), ("a", "b", "c")])
@pytest.mark.parametrize("limit", range(-1, 8))
def test_page_by_page(names: tuple[str, ...], limit: int, world: World) -> None:
    found: list[tuple[str, int]] = []
    cursor: tuple[str, int] | None = None
    for _ in range(10):
        topics, cursor = page(ask(world, *names, limit=limit, cursor=cursor))
        partitions = [(name, index) for name, _, indexes in topics for index in indexes]
        assert 0 < len(partitions) <= max(limit, 1)
        found += partitions
        if cursor is None:
            break
    assert found == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("c", 0)]


def test_the_broker_bounds_a_page() -> None:
    world = World({"max.request.partition.size.limit": "2"})
    world.controller.create_topic(NewTopic("a", 3, 1))
    assert page(ask(world)) == ([("a", NONE, [0, 1])], ("a", 2))


def test_a_cursor_between_topics(world: World) -> None:
    assert page(ask(world, cursor=("ab", 1))) == ([("b", NONE, [0, 1]), ("c", NONE, [0])], None)
    assert page(ask(world, cursor=("a", 7))) == (
        [("a", NONE, []), ("b", NONE, [0, 1]), ("c", NONE, [0])],
        None,
    )


def test_cursors_that_cannot_be(world: World) -> None:
    # The response has no place for an error of its own: see below how it is told.
    for names, cursor in ((("a", "c"), ("b", 0)), ((), ("a", -1))):
        answer = ask(world, *names, cursor=cursor)
        assert {topic.error_code for topic in answer.topics} <= {ErrorCode.INVALID_REQUEST}
        assert [topic.name for topic in answer.topics] == list(names)


def test_what_may_not_be_seen_comes_last(world: World) -> None:
    world.authorizer = Denying((Operation.DESCRIBE, "a"))
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    answer = ask(world, "a", "b")
    assert page(answer)[0] == [("b", NONE, [0, 1]), ("a", denied, [])]
    assert answer.topics[1].topic_id == bytes(16)
    assert page(ask(world))[0] == [("b", NONE, [0, 1]), ("c", NONE, [0])]


def test_brokers_that_are_away() -> None:
    world = World(others=(1,))
    world.controller.create_topic(NewTopic("a", assignment={0: [1]}))
    world.controller.create_topic(NewTopic("b", assignment={0: [0, 1]}))
    world.sessions[1].close()
    (first,), (second,) = (topic.partitions for topic in ask(world).topics)
    assert (first.leader_id, first.replica_nodes, first.isr_nodes, first.offline_replicas) == (
        -1,
        [1],
        [1],
        [1],
    )
    assert (second.leader_id, second.isr_nodes, second.offline_replicas) == (0, [0], [1])
