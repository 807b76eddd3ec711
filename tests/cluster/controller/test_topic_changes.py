"""Topics' nodes that old tools write: partitions are added, ids given, and nonsense is passed over."""

from __future__ import annotations

import pytest

from odradek.cluster import nodes, paths
from odradek.cluster.controller import topic_changes
from odradek.cluster.controller.topic_manager import NewTopic
from odradek.cluster.nodes import (
    ReplicaAssignment,
    TopicNode,
    encode_topic,
)
from odradek.errors import (
    UnknownServerError,
)
from odradek.wire.primitives import ZERO_UUID

from ..brokers import World


def partitions_of(world: World, topic: str) -> dict[int, tuple[tuple[int, ...], int]]:
    """Replicas and leader of each partition, as the active controller sees them."""
    return {i: (p.replicas, p.leader) for i, p in world.active.image.topics[topic].partitions.items()}


def old_topic(rows: dict[int, list[int]]) -> bytes:
    """A topic's node as tools up to 2.3 write it: they know no topic ids."""
    return nodes.dump({"version": 1, "partitions": {str(index): row for index, row in rows.items()}})


def test_old_tools_add_partitions_by_writing_the_topics_node() -> None:
    world = World()
    world.create("t", [1, 2])
    topic_id = world.active.image.topics["t"].topic_id
    world.take_told()
    world.reader.set(paths.topic("t"), old_topic({0: [1, 2], 1: [2, 3], 2: [3, 1]}))
    world.settle()
    assert partitions_of(world, "t") == {0: ((1, 2), 1), 1: ((2, 3), 2), 2: ((3, 1), 3)}
    assert world.active.image.topics["t"].topic_id == topic_id
    assert (3, "LeaderAndIsr") in world.take_told()
    world.check()
    # What the controller writes itself it does not take for news.
    world.active.reassign("t", 2, [1, 3])
    world.settle()
    assert not any(kind == "StopReplica" for _, kind in world.take_told())
    world.check()


def test_topics_of_old_tools_get_an_id_and_can_grow() -> None:
    world = World()
    world.reader.create(paths.topic("t"), old_topic({0: [2, 1]}))
    world.settle()
    assert world.active.image.topics["t"].topic_id != ZERO_UUID
    world.check()
    world.reader.set(paths.topic("t"), old_topic({0: [2, 1], 1: [3, 1]}))
    world.settle()
    assert partitions_of(world, "t") == {0: ((2, 1), 2), 1: ((3, 1), 3)}
    world.check()


def test_nodes_that_nobody_can_read_hold_up_no_others(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.create("t", [2, 3], [3, 1])
    world.create("u", [2, 3])
    path = "/brokers/topics/u/partitions/0/state"
    good = world.reader.get(path)[0]
    world.reader.create("/brokers/topics/bad", b"{")
    world.reader.set(path, b"no json")
    world.reader.create("/brokers/ids/9", b"")
    world.settle()
    world.create("v", [3, 2])
    for broker in (1, 2):
        world.kill(broker)
        world.begin(broker)
    topics = world.active.image.topics
    assert set(topics) == {"t", "v"}
    assert {p.leader for name in topics for p in topics[name].partitions.values()} == {3}
    assert set(world.active.image.brokers) == {1, 2, 3}
    # What was said of them is said once: they are looked at again and again.
    said = [message for message in caplog.messages if "bad" in message]
    assert 1 <= len(said) <= 2
    with pytest.raises(UnknownServerError, match="bad"):
        world.active.create_topic(NewTopic("bad", 1, 1))
    # Repaired, it is there again with the next look at the topics.
    world.reader.set(path, good)
    world.create("w", [3])
    assert world.active.image.topics["u"].partitions[0].leader == 2


@pytest.mark.parametrize(
    ("protocol", "status", "has_id"), [("2.6", 0, False), ("2.7", 1, False), ("2.8", 1, True)]
)
def test_nodes_hold_what_the_protocol_of_the_brokers_has(protocol: str, status: int, has_id: bool) -> None:
    world = World(protocol=protocol)
    assert nodes.load(paths.FEATURE, world.reader.get(paths.FEATURE)[0])["status"] == status
    world.create("t", [1, 2])
    node = nodes.load("t", world.reader.get("/brokers/topics/t")[0])
    assert ("topic_id" in node, node["version"]) == (has_id, 3 if has_id else 2)
    world.reader.create("/brokers/topics/u", b'{"version":1,"partitions":{"0":[2,3]}}')
    world.settle()
    assert ("topic_id" in nodes.load("u", world.reader.get("/brokers/topics/u")[0])) == has_id
    world.check()
    # The brokers go over to a newer one, and the next controller gives ids to all topics.
    world.config.inter_broker_protocol_version = "3.9"
    world.take_told()
    world.kill(1)
    for topic in world.active.image.topics.values():
        assert topic.topic_id != ZERO_UUID
    assert nodes.load(paths.FEATURE, world.reader.get(paths.FEATURE)[0])["status"] == 1
    world.check()


def test_partitions_that_were_added_under_another_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_changes, "WATCHES_AT_ONCE", 1)
    world = World()
    names = ["a", "b", "c"]
    for name in names:
        world.create(name, [2, 3])
    world.kill(1)
    assert world.active.broker_id == 2
    for name in names:
        topic = world.active.image.topics[name]
        whole = {0: ReplicaAssignment((2, 3)), 1: ReplicaAssignment((3, 2))}
        world.reader.set(paths.topic(name), encode_topic(TopicNode(whole, topic.topic_id)))
    world.settle()
    for name in names:
        assert partitions_of(world, name) == {0: ((2, 3), 2), 1: ((3, 2), 3)}
    world.check()


def test_what_is_written_into_a_topic_that_goes_is_not_looked_at() -> None:
    world = World()
    world.create("t", [1, 2])
    world.deaf = {2}
    world.active.delete_topics(["t"])
    world.reader.set(paths.topic("t"), old_topic({0: [1, 2], 1: [2, 3]}))
    world.settle()
    assert list(world.active.image.topics["t"].partitions) == [0]
    active = world.active
    active.note_deleted(2, [("t", 0)])
    world.settle()
    assert "t" not in active.image.topics
    world.check()
    # The next of that name is another one, and is followed as well.
    world.deaf = set()
    world.create("t", [1, 2])
    world.reader.set(paths.topic("t"), b"nonsense")
    world.settle()
    world.reader.set(paths.topic("t"), old_topic({0: [1, 2], 1: [2, 3]}))
    world.settle()
    assert partitions_of(world, "t") == {0: ((1, 2), 1), 1: ((2, 3), 2)}
    world.check()


def test_a_controller_that_has_resigned_follows_no_topics() -> None:
    world = World()
    world.create("t", [1, 2])
    old = world.active
    world.controllers[2].remove_dead_controller(1)
    # The second hears of it first.
    while not world.controllers[2].is_active:
        broker, work = world.posted.popleft()
        if broker == 2:
            work()
        else:
            world.posted.append((broker, work))
    world.settle()
    assert world.active is not old
    world.reader.set(paths.topic("t"), old_topic({0: [1, 2], 1: [2, 3]}))
    assert {broker for broker, _ in world.posted} == {world.active.broker_id}
    world.settle()
    assert partitions_of(world, "t") == {0: ((1, 2), 1), 1: ((2, 3), 2)}
    world.check()
