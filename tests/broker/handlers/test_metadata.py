"""Metadata at every version."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.broker.requests.authorization import Operation
from odradek.cluster.controller.topic_manager import NewTopic
from odradek.cluster.nodes import Endpoint
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.wire.primitives import ZERO_UUID

from ..admin_world import Denying, World

VERSIONS = range(14)
UNSET = -(2**31)


def _by_name(*names: str, **fields: Any) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], **fields)


def _errors(response: Any) -> dict[str | None, int]:
    return {topic.name: topic.error_code for topic in response.topics}


@pytest.fixture
def world() -> World:
    world = World(others=(1, 2))
    for topic in (NewTopic("a", 3, 2), NewTopic("b", 1, 3), NewTopic("__consumer_offsets", 2, 1)):
        world.controller.create_topic(topic)
    return world


@pytest.mark.parametrize("version", VERSIONS)
def test_all_topics_are_asked_for_in_each_versions_way(world: World, version: int) -> None:
    everything = world.call(MetadataRequest(topics=[] if version == 0 else None), version)
    assert sorted(t.name for t in everything.topics) == ["__consumer_offsets", "a", "b"]
    assert [b.node_id for b in everything.brokers] == [0, 1, 2]
    if version > 0:
        assert world.call(MetadataRequest(topics=[]), version).topics == []
        assert everything.controller_id == 0
        assert [t.name for t in everything.topics if t.is_internal] == ["__consumer_offsets"]
    if version >= 2:
        assert everything.cluster_id == world.controller.cluster_id
        assert len(everything.cluster_id) == 22
    if version >= 8:
        assert all(t.topic_authorized_operations == UNSET for t in everything.topics)
    if version >= 10:
        assert {t.topic_id for t in everything.topics} == set(world.image.topic_names)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topics_partitions(world: World, version: int) -> None:
    (topic,) = world.call(_by_name("a", "a"), version).topics
    assert (topic.error_code, topic.name, len(topic.partitions)) == (0, "a", 3)
    for partition in topic.partitions:
        image = world.image.partition("a", partition.partition_index)
        assert image is not None
        assert partition.error_code == 0
        assert partition.leader_id == image.leader == image.replicas[0]
        assert tuple(partition.replica_nodes) == image.replicas
        assert sorted(partition.isr_nodes) == sorted(image.isr)
        assert partition.offline_replicas == []
        assert partition.leader_epoch == (0 if version >= 7 else -1)


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_topics_without_automatic_creation(version: int) -> None:
    world = World({"auto.create.topics.enable": "false"})
    response = world.call(_by_name("absent", "bad name", "x" * 250), version)
    assert list(_errors(response).values()) == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]
    assert world.image.topics == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_automatic_creation_answers_leader_not_available_first(version: int) -> None:
    world = World({"num.partitions": "3"})
    request = _by_name("fresh", "bad name")
    assert _errors(world.call(request, version)) == {
        "fresh": ErrorCode.LEADER_NOT_AVAILABLE,
        "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    again = world.call(request, version)
    assert [(t.name, t.error_code, len(t.partitions)) for t in again.topics if t.name == "fresh"] == [
        ("fresh", 0, 3)
    ]


@pytest.mark.parametrize("version", range(4, 14))
def test_a_client_may_forbid_creation(version: int) -> None:
    world = World()
    response = world.call(_by_name("fresh", allow_auto_topic_creation=False), version)
    assert _errors(response) == {"fresh": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert world.image.topics == {}


def test_internal_topics_are_created_with_their_own_configs() -> None:
    world = World({"offsets.topic.num.partitions": "4", "num.partitions": "2"})
    world.call(_by_name("__consumer_offsets", "__transaction_state"), 12)
    assert len(world.image.topics["__consumer_offsets"].partitions) == 4
    assert world.image.topic_config("__consumer_offsets") == {
        "cleanup.policy": "compact",
        "segment.bytes": "104857600",
        "compression.type": "producer",
    }
    assert len(world.image.topics["__transaction_state"].partitions) == 50
    assert world.image.topic_config("__transaction_state")["min.insync.replicas"] == "1"


def test_creation_that_fails_says_why() -> None:
    world = World({"default.replication.factor": "3"})
    assert _errors(world.call(_by_name("fresh"), 12)) == {"fresh": ErrorCode.INVALID_REPLICATION_FACTOR}
    collides = World()
    collides.controller.create_topic(NewTopic("a.b"))
    assert _errors(collides.call(_by_name("a_b"), 12)) == {"a_b": ErrorCode.INVALID_TOPIC_EXCEPTION}


def test_a_topic_being_deleted_is_unknown_and_not_created_anew(world: World) -> None:
    world.controller.create_topic(NewTopic("doomed", assignment={0: (0, 2)}))
    world.sessions[2].close()
    assert world.controller.delete_topics(["doomed"]) == {"doomed": None}
    assert "doomed" in world.image.marked
    assert _errors(world.call(_by_name("doomed"), 12)) == {"doomed": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert "doomed" not in _errors(world.call(MetadataRequest(topics=None), 12))


@pytest.mark.parametrize("version", [12, 13])
def test_topics_by_id(world: World, version: int) -> None:
    topic_id, unknown = world.image.topics["a"].topic_id, b"\x01" * 16
    request = MetadataRequest(
        topics=[
            MetadataRequestTopic(topic_id=unknown, name=None),
            MetadataRequestTopic(topic_id=topic_id, name=None),
        ]
    )
    response = world.call(request, version)
    assert [(t.name, t.topic_id, t.error_code) for t in response.topics] == [
        (None, unknown, ErrorCode.UNKNOWN_TOPIC_ID),
        ("a", topic_id, 0),
    ]


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize(
    "topic",
    [
        MetadataRequestTopic(topic_id=b"\x01" * 16, name="a"),
        MetadataRequestTopic(topic_id=ZERO_UUID, name=None),
    ],
)
def test_ids_before_version_12_are_refused(world: World, version: int, topic: MetadataRequestTopic) -> None:
    response = world.call(MetadataRequest(topics=[topic]), version)
    assert [t.error_code for t in response.topics] == [ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_dead_follower_and_a_dead_leader(version: int) -> None:
    world = World(others=(1,))
    world.controller.create_topic(NewTopic("t", assignment={0: (0, 1), 1: (1, 0)}))
    world.controller.create_topic(NewTopic("u", assignment={0: (1,)}))
    world.sessions[1].close()
    t, u = world.call(_by_name("t", "u"), version).topics
    (zero, one), (two,) = t.partitions, u.partitions
    if version == 0:
        assert (zero.error_code, zero.replica_nodes) == (ErrorCode.REPLICA_NOT_AVAILABLE, [0])
    else:
        assert (zero.error_code, zero.replica_nodes) == (0, [0, 1])
    assert zero.isr_nodes == [0]
    assert (one.leader_id, one.isr_nodes) == (0, [0])
    assert (two.error_code, two.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert two.isr_nodes == ([] if version == 0 else [1])
    if version >= 5:
        assert [p.offline_replicas for p in (zero, one, two)] == [[1], [1], [1]]
    if version >= 7:
        assert [p.leader_epoch for p in (zero, one, two)] == [1, 1, 1]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_leader_without_the_listener(version: int) -> None:
    world = World()
    world.add_broker(1, Endpoint("OTHER", "h", 1))
    world.controller.create_topic(NewTopic("t", assignment={0: (1,)}))
    response = world.call(_by_name("t"), version)
    assert [b.node_id for b in response.brokers] == [0]
    expected = ErrorCode.LISTENER_NOT_FOUND if version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE
    assert [(p.error_code, p.leader_id) for p in response.topics[0].partitions] == [(expected, -1)]
    other = world.call(_by_name("t"), version, listener="OTHER")
    assert [(b.node_id, b.host, b.port) for b in other.brokers] == [(1, "h", 1)]
    assert other.topics[0].partitions[0].error_code == 0


@pytest.mark.parametrize("version", range(8, 14))
def test_allowed_operations_when_asked_for(world: World, version: int) -> None:
    fields = {"include_topic_authorized_operations": True}
    if version <= 10:
        fields["include_cluster_authorized_operations"] = True
    response = world.call(_by_name("a", "absent", **fields), version)
    bits = sum(1 << op for op in (3, 4, 5, 6, 7, 8, 10, 11))
    assert response.topics[0].topic_authorized_operations == bits
    if version <= 10:
        assert response.cluster_authorized_operations == sum(1 << op for op in (5, 7, 8, 9, 10, 11, 12))
        world.authorizer = Denying((Operation.DESCRIBE, "kafka-cluster"))
        denied = world.call(_by_name("a", **fields), version)
        assert denied.cluster_authorized_operations == 0


def test_what_may_not_be_described_is_not_shown(world: World) -> None:
    world.authorizer = Denying((Operation.DESCRIBE, "a"), (Operation.DESCRIBE, "nope"))
    assert "a" not in _errors(world.call(MetadataRequest(topics=None), 12))
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert _errors(world.call(_by_name("a", "b", "nope"), 12)) == {"a": denied, "b": 0, "nope": denied}
    topic_id = world.image.topics["a"].topic_id
    response = world.call(MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id, name=None)]), 12)
    assert [(t.name, t.error_code) for t in response.topics] == [(None, denied)]
    assert "nope" not in world.image.topics


def test_creation_needs_a_permission(world: World) -> None:
    cluster = (Operation.CREATE, "kafka-cluster")
    world.authorizer = Denying(cluster, (Operation.CREATE, "no"))
    assert _errors(world.call(_by_name("yes", "no"), 12)) == {
        "no": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "yes": ErrorCode.LEADER_NOT_AVAILABLE,
    }
    world.authorizer = Denying((Operation.CREATE, "no"))
    assert _errors(world.call(_by_name("no"), 12)) == {"no": ErrorCode.LEADER_NOT_AVAILABLE}
