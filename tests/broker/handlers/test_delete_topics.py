"""DeleteTopics at every version."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.broker.requests.authorization import Operation
from odradek.cluster.controller.topic_manager import NewTopic
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.primitives import ZERO_UUID

from ..admin_world import Denying, World

VERSIONS = range(7)


def _delete(version: int, *names: str) -> DeleteTopicsRequest:
    if version >= 6:
        return DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in names], timeout_ms=1000
        )
    return DeleteTopicsRequest(topic_names=list(names), timeout_ms=1000)


def _errors(response: Any) -> dict[str | None, int]:
    return {result.name: result.error_code for result in response.responses}


@pytest.fixture
def world() -> World:
    world = World()
    for name in ("a", "b"):
        world.controller.create_topic(NewTopic(name, 2, configs={"retention.ms": "5"}))
    return world


@pytest.mark.parametrize("version", VERSIONS)
def test_topics_are_deleted_by_name(world: World, version: int) -> None:
    response = world.call(_delete(version, "a", "absent"), version)
    assert _errors(response) == {"a": 0, "absent": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert set(world.image.topics) == {"b"}
    assert world.image.topic_config("a") == {}
    assert world.store.exists("/brokers/topics/a") is None
    assert world.store.exists("/config/topics/a") is None
    assert world.store.exists("/admin/delete_topics/a") is None
    if version >= 5:
        assert [r.error_message is None for r in response.responses] == [True, False]
    marked, gone = world.deltas[-2:]
    assert marked.topics_marked == {"a"}
    assert set(gone.topics_gone) == {"a"}


def test_topics_are_deleted_by_id(world: World) -> None:
    topic_id, unknown = world.image.topics["a"].topic_id, b"\x07" * 16
    request = DeleteTopicsRequest(
        topics=[
            DeleteTopicState(name=None, topic_id=topic_id),
            DeleteTopicState(name=None, topic_id=unknown),
        ],
        timeout_ms=1000,
    )
    response = world.call(request, 6)
    assert [(r.name, r.topic_id, r.error_code) for r in response.responses] == [
        ("a", topic_id, 0),
        (None, unknown, ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    assert set(world.image.topics) == {"b"}


@pytest.mark.parametrize(("release", "has_id"), [(None, True), ("4.3", True), ("3.9", False)])
def test_a_topic_deleted_by_its_name_is_answered_with_its_id(release: str | None, has_id: bool) -> None:
    """As real 3.9.1 with ZooKeeper and 4.3.1 do."""
    world = World({} if release is None else {"odradek.kafka.version": release})
    world.controller.create_topic(NewTopic("a"))
    topic_id = world.image.topics["a"].topic_id
    response = world.call(_delete(6, "a", "unknown"), 6)
    assert [(r.name, r.topic_id, r.error_code) for r in response.responses] == [
        ("a", topic_id if has_id else ZERO_UUID, 0),
        ("unknown", ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


def test_name_and_id_together_are_refused(world: World) -> None:
    topic_id = world.image.topics["a"].topic_id
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="a", topic_id=topic_id)], timeout_ms=1000)
    assert _errors(world.call(request, 6)) == {"a": ErrorCode.INVALID_REQUEST}
    assert "a" in world.image.topics


@pytest.mark.parametrize("version", VERSIONS)
def test_deletion_may_be_switched_off(version: int) -> None:
    world = World({"delete.topic.enable": "false"})
    world.controller.create_topic(NewTopic("a"))
    expected = ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST
    assert _errors(world.call(_delete(version, "a"), version)) == {"a": expected}
    assert "a" in world.image.topics


def test_a_replica_on_a_dead_broker_keeps_the_topic_marked() -> None:
    world = World(others=(1,))
    world.controller.create_topic(NewTopic("t", assignment={0: (0, 1)}))
    world.sessions[1].close()
    assert _errors(world.call(_delete(6, "t"), 6)) == {"t": 0}
    assert world.image.marked == {"t"}
    assert _errors(world.call(_delete(6, "t"), 6)) == {"t": 0}, "a second time is no error"
    with pytest.raises(Exception, match="is marked for deletion"):
        world.controller.create_topic(NewTopic("t"))
    world.add_broker(1)
    assert "t" not in world.image.topics
    world.controller.create_topic(NewTopic("t"))


def test_permissions(world: World) -> None:
    a, b = world.image.topics["a"].topic_id, world.image.topics["b"].topic_id
    world.authorizer = Denying((Operation.DELETE, "a"), (Operation.DESCRIBE, "b"))
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=None, topic_id=a), DeleteTopicState(name=None, topic_id=b)],
        timeout_ms=1000,
    )
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    response = world.call(request, 6)
    assert [(r.name, r.error_code) for r in response.responses] == [("a", denied), (None, denied)]
    assert set(world.image.topics) == {"a", "b"}


def test_who_is_not_the_controller_says_so(world: World) -> None:
    world.controller.context.is_active = False
    assert _errors(world.call(_delete(6, "a"), 6)) == {"a": ErrorCode.NOT_CONTROLLER}


def test_a_topic_of_the_same_name_gets_another_id(world: World) -> None:
    before = world.image.topics["a"].topic_id
    world.call(_delete(6, "a"), 6)
    world.controller.create_topic(NewTopic("a"))
    assert world.image.topics["a"].topic_id != before
    assert world.image.topic_by_id(before) is None
