"""Several controllers over one store: who is active, and what becomes of what it does when it dies."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest

from odradek.cluster import nodes, paths
from odradek.cluster.controller import metadata_writer, topic_changes
from odradek.cluster.controller.alter_partition import IsrChange
from odradek.cluster.controller.kafka_controller import KafkaController
from odradek.cluster.controller.partition_reassignment import is_moving
from odradek.cluster.controller.topic_manager import NewTopic
from odradek.cluster.nodes import (
    LEADER_RECOVERING,
    BrokerRegistration,
    Endpoint,
    ReplicaAssignment,
    TopicNode,
    encode_reassignments,
    encode_topic,
)
from odradek.cluster.store.memory import MemoryStore
from odradek.cluster.store.store import BadVersion, StoreError, StoreUnavailable
from odradek.errors import (
    BrokerNotAvailableError,
    EligibleLeadersNotAvailableError,
    FencedLeaderEpochError,
    IneligibleReplicaError,
    InvalidReplicaAssignmentError,
    KafkaError,
    KafkaStorageError,
    NoReassignmentInProgressError,
    NotControllerError,
    StaleBrokerEpochError,
    TopicExistsError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)
from odradek.wire.primitives import ZERO_UUID
from seeds import each_seed

from ..brokers import MortalStore, World


def test_one_broker_is_the_controller_and_the_next_takes_over() -> None:
    world = World()
    world.create("t", [1, 2, 3], [2, 3, 1])
    world.check()
    assert world.active.broker_id == 1
    world.kill(1)
    world.check()
    assert world.active.broker_id == 2
    assert world.active.epoch == 2
    assert [p.leader for p in world.active.image.topics["t"].partitions.values()] == [2, 2]
    assert {b: c.image.controller_id for b, c in world.controllers.items()} == {2: 2, 3: 2}


def test_configs_reach_every_broker_by_their_notices() -> None:
    world = World((1, 2))
    heard: list[dict[str, object]] = []
    world.controllers[2].add_config_listener(lambda configs: heard.append(dict(configs)))
    world.create("t", [1])
    world.active.alter_config("topics/t", {"retention.ms": "5"})
    world.settle()
    assert heard == [{"topics/t": {"retention.ms": "5"}}]
    assert world.controllers[2].image.topic_config("t") == {"retention.ms": "5"}
    third = world.begin(3)
    assert third.image.topic_config("t") == {"retention.ms": "5"}


def test_a_notice_that_another_broker_removes_meanwhile_holds_up_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World((1, 2))
    world.create("t", [1])
    store = world.stores[2]
    children = store.children
    store.children = lambda path, watch=None: [  # type: ignore[method-assign]
        *(["config_change_gone"] if path == paths.CONFIG_CHANGES else []),
        *children(path, watch),
    ]
    world.active.alter_config("topics/t", {"retention.ms": "5"})
    world.settle()
    assert world.controllers[2].image.topic_config("t") == {"retention.ms": "5"}
    assert caplog.messages == []


def test_what_may_be_there_is_asked_for_together(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.create("t", *[[1, 2]] * 50)
    alone: list[str] = []
    exists = MortalStore.exists

    def note(store: MortalStore, path: str, watch: object = None) -> object:
        alone.append(path)
        return exists(store, path)

    monkeypatch.setattr(MortalStore, "exists", note)
    monkeypatch.setattr(
        MortalStore, "exists_many", lambda store, paths: [exists(store, path) for path in paths]
    )
    world.active.delete_topics(["t"])
    world.settle()
    assert "t" not in world.active.image.topics
    assert not any(path.startswith("/brokers/topics/t/") for path in alone)


def test_a_deposed_controller_writes_nothing_and_says_so() -> None:
    world = World()
    world.create("t", [1, 2])
    old = world.active
    assert world.controllers[2].remove_dead_controller(1)
    assert not world.controllers[2].remove_dead_controller(1)
    # The second hears of it first.
    world.posted.rotate(-1)
    while not world.controllers[2].is_active:
        broker, work = world.posted.popleft()
        if broker != 1:
            work()
        else:
            world.posted.append((broker, work))
    assert old.is_active
    # What it reads is not what it may say: its requests stay those of its own epoch.
    old.writer.refresh()
    assert (old.image.controller_id, old.image.controller_epoch) == (1, 1)
    with pytest.raises(NotControllerError):
        old.reassign("t", 0, [2, 1])
    assert not old.is_active
    assert old.image.topics == {}
    world.settle()
    world.check()
    assert world.active.broker_id == 2
    with pytest.raises(NotControllerError):
        old.create_topic(NewTopic("u", 1, 1))


def test_the_removal_of_a_controller_that_has_changed_meanwhile_does_nothing() -> None:
    world = World()
    assert not world.controllers[3].remove_dead_controller(2)
    assert world.controllers[3].remove_dead_controller(1)
    world.settle()
    world.check()


def test_a_session_that_ends_and_a_new_one() -> None:
    world = World()
    world.create("t", [1, 2, 3])
    one = world.controllers[1]
    world.stores[1].expire()
    one.session_ended()
    world.settle()
    assert world.active.broker_id == 2
    assert one.image.topics == {}
    one.store = world.stores[1] = MortalStore(world.server)
    one.start(BrokerRegistration((Endpoint("PLAINTEXT", "h", 9001),)))
    world.settle()
    world.check()
    assert sorted(world.active.image.brokers) == [1, 2, 3]
    one.stop()
    world.settle()
    assert sorted(world.active.image.brokers) == [2, 3]


def test_a_refused_broker_is_dead_until_it_is_reached_or_registers_anew() -> None:
    world = World()
    world.create("t", [3, 1, 2])
    active = world.active
    epoch = active.image.brokers[3].epoch
    active.on_broker_refused(3, epoch - 1)
    active.on_broker_refused(1)
    assert sorted(active.image.brokers) == [1, 2, 3]
    active.on_broker_refused(3, epoch)
    assert sorted(active.image.brokers) == [1, 2]
    partition = active.image.topics["t"].partitions[0]
    assert (partition.leader, partition.leader_epoch) == (1, 1)
    # Another change of the brokers does not bring it back.
    world.begin(4)
    assert sorted(active.image.brokers) == [1, 2, 4]
    active.writer.refresh()
    assert sorted(active.image.brokers) == [1, 2, 4]
    active.on_broker_reachable(3)
    assert sorted(active.image.brokers) == [1, 2, 3, 4]
    world.check()
    active.on_broker_refused(3)
    world.kill(3)
    world.begin(3)
    assert active.image.brokers[3].epoch > epoch
    assert active.refused == {}
    world.check()


def refuse_as_controller(world: World) -> int:
    """The process of the controller is gone, its session is not; all others are refused by it, and elect."""
    dead = world.active.broker_id
    del world.controllers[dead]
    for one in world.controllers.values():
        one.note_refused_controller(dead)
    world.do(next(iter(world.controllers)), lambda one: one.remove_dead_controller(dead))
    return dead


def test_a_controller_that_refused_is_left_out_of_the_first_decision_of_the_next_term() -> None:
    world = World()
    world.create("t", [1, 2, 3])
    world.take_told()
    assert refuse_as_controller(world) == 1
    active = world.active
    assert sorted(active.image.brokers) == [2, 3]
    partition = active.image.topics["t"].partitions[0]
    assert (partition.leader, partition.isr, partition.leader_epoch) == (2, (2, 3), 1)
    # Once, and not to it.
    told = world.take_told()
    assert sorted(broker for broker, kind in told if kind == "LeaderAndIsr") == [2, 3]
    assert {broker for broker, _ in told} == {2, 3}
    assert world.channels[active.broker_id].awaited == [1]
    world.check()
    active.on_broker_reachable(1)
    assert sorted(active.image.brokers) == [1, 2, 3]
    world.check()


def test_a_refusal_of_an_earlier_life_leaves_nobody_out() -> None:
    world = World()
    world.create("t", [1, 2, 3])
    for one in world.controllers.values():
        one.note_refused_controller(1)
    registration, _ = world.reader.get(paths.broker_id(1))
    del world.controllers[1]
    world.stores.pop(1).expire()
    # Its next life is there before anybody elects.
    MemoryStore(world.server).create(paths.broker_id(1), registration, ephemeral=True)
    world.settle()
    assert sorted(world.active.image.brokers) == [1, 2, 3]
    assert world.active.refused == {}
    world.check()


def test_a_refusal_is_forgotten_when_another_controller_has_been_there() -> None:
    world = World((3, 1, 2))
    world.create("t", [1, 2, 3])
    dead = world.active.broker_id
    assert dead == 3
    for one in (1, 2):
        world.controllers[one].note_refused_controller(3)
    world.controllers[1].remove_dead_controller(3)
    world.posted = deque(sorted(world.posted, key=lambda one: one[0]))
    world.settle()
    assert world.active.broker_id == 1
    world.do(1, lambda one: one.on_broker_reachable(3))
    del world.controllers[1]
    world.stores.pop(1).expire()
    world.posted = deque(sorted(world.posted, key=lambda one: one[0]))
    world.settle()
    assert world.active.broker_id == 2
    assert sorted(world.active.image.brokers) == [2, 3]
    world.check()


def bounce(world: World, *brokers: int) -> None:
    """Brokers die, and the first of them is back before anybody has looked."""
    for broker in brokers:
        del world.controllers[broker]
        world.stores.pop(broker).expire()
    world.begin(brokers[0], settle=False)


def test_a_broker_that_came_back_unseen_loses_its_leads_whatever_was_read_meanwhile() -> None:
    world = World()
    world.create("t", [2, 3, 1])
    world.create("u", [1, 3])
    bounce(world, 2)
    # A state is not as the image says, so that all is read anew before the brokers are looked at.
    path = "/brokers/topics/u/partitions/0/state"
    world.reader.set(path, world.reader.get(path)[0])
    one = world.active.image.topics["u"].partitions[0]
    world.active.alter_partitions([IsrChange("u", 0, 1, one.leader_epoch, one.partition_epoch, (1,))])
    world.settle()
    after = world.active.image.topics["t"].partitions[0]
    assert (after.leader, after.isr, after.leader_epoch) == (3, (3, 1), 1)
    world.check()


@pytest.mark.parametrize("dead", [(2, 1), (2,)])
def test_a_broker_that_came_back_while_there_was_no_controller_loses_its_leads(dead: tuple[int, ...]) -> None:
    # Who has been led by it knows what was committed; it itself may have lost that.
    world = World()
    world.create("t", [2, 3, 1])
    world.create("u", [3, 2], [2, 1])
    world.create("v", [2])
    if 1 not in dead:
        assert world.controllers[3].remove_dead_controller(1)
        world.posted.clear()
    bounce(world, *dead)
    world.settle()

    def state(topic: str, index: int = 0) -> tuple[int, tuple[int, ...]]:
        partition = world.active.image.topics[topic].partitions[index]
        return partition.leader, partition.isr

    assert state("t") == (3, tuple(broker for broker in (3, 1) if broker not in dead))
    assert state("u") == (3, (3,))
    # Where all have come back nobody knows better.
    assert state("u", 1) == ((2, (2,)) if 1 in dead else (1, (1,)))
    assert state("v") == (2, (2,))
    world.check()


def test_a_broker_that_comes_back_while_a_term_begins_has_been_gone() -> None:
    world = World()
    world.create("t", [2, 3, 1])
    registration, _ = world.reader.get(paths.broker_id(2))
    assert world.controllers[3].remove_dead_controller(1)
    del world.controllers[2]
    world.stores.pop(2).expire()
    world.posted = deque(one for one in world.posted if one[0] == 3)
    store, has_returned = world.stores[3], []

    def get_many(wanted: Sequence[str], read: Any = store.get_many) -> Any:
        found = read(wanted)
        if paths.broker_id(3) in wanted and not has_returned:
            has_returned.append(MemoryStore(world.server))
            has_returned[0].create(paths.broker_id(2), registration, ephemeral=True)
        return found

    store.get_many = get_many  # type: ignore[method-assign]
    world.settle()
    assert world.active.broker_id == 3
    assert has_returned
    after = world.active.image.topics["t"].partitions[0]
    assert (after.leader, after.isr) == (3, (3, 1))
    assert sorted(world.active.image.brokers) == [1, 2, 3]
    world.check()


def test_who_has_been_in_sync_in_its_present_life_stays_so_under_the_next_controller() -> None:
    world = World()
    world.create("t", [2, 3, 1])
    world.kill(2)
    world.begin(2)
    world.everybody_catches_up()
    world.kill(1)
    after = world.active.image.topics["t"].partitions[0]
    assert (after.leader, set(after.isr)) == (3, {2, 3})
    world.check()


def test_deletion_waits_for_every_replica_and_a_dead_one_until_its_return() -> None:
    world = World()
    world.create("t", [1, 2], [2, 3])
    world.kill(3)
    assert world.active.delete_topics(["t"]) == {"t": None}
    world.settle()
    assert world.active.image.marked == {"t"}
    with pytest.raises(TopicExistsError):
        world.create("t", [1])
    world.begin(3)
    assert world.active.image.topics == {}
    assert world.reader.exists("/brokers/topics/t") is None
    assert world.reader.exists("/admin/delete_topics/t") is None
    assert world.reader.exists("/config/topics/t") is None
    world.create("t", [1])
    world.check()


def test_a_broker_that_does_not_answer_keeps_a_topic_marked_and_the_next_controller_asks_again() -> None:
    world = World()
    world.deaf.add(2)
    world.create("t", [2, 3])
    world.active.delete_topics(["t"])
    world.settle()
    assert world.active.image.marked == {"t"}
    world.deaf.clear()
    world.kill(1)
    assert world.active.image.topics == {}
    world.check()


def test_where_topics_may_not_be_deleted_a_tools_mark_is_taken_back() -> None:
    world = World()
    world.create("t", [1, 2])
    world.config.delete_topic_enable = False
    world.take_told()
    world.reader.create("/admin/delete_topics/t")
    world.settle()
    assert world.reader.children(paths.DELETE_TOPICS) == []
    # Likewise what was marked while there was no controller.
    del world.controllers[1]
    world.reader.create("/admin/delete_topics/t")
    world.stores.pop(1).expire()
    world.settle()
    assert world.reader.children(paths.DELETE_TOPICS) == []
    assert "StopReplica" not in {kind for _, kind in world.take_told()}
    assert set(world.active.image.topics) == {"t"}
    world.check()


def test_a_mark_without_a_topic_is_removed() -> None:
    world = World()
    world.reader.create("/admin/delete_topics/nothing")
    world.settle()
    assert world.reader.children("/admin/delete_topics") == []


def test_a_reassignment_ends_when_its_target_is_in_sync() -> None:
    world = World()
    world.create("t", [1, 2])
    world.active.reassign("t", 0, [3, 1])
    world.settle()
    partition = world.active.image.topics["t"].partitions[0]
    assert (partition.replicas, partition.adding, partition.removing) == ((3, 1, 2), (3,), (2,))
    assert (partition.leader, partition.leader_epoch) == (1, 1)
    world.take_told()
    world.join_isr("t", 0, 1, 2, 3)
    partition = world.active.image.topics["t"].partitions[0]
    assert (partition.replicas, partition.adding, partition.removing) == ((3, 1), (), ())
    assert (set(partition.isr), partition.leader_epoch) == ({1, 3}, 2)
    assert (2, "StopReplica") in world.take_told()
    world.check()
    world.active.reassign("t", 0, [2])
    world.join_isr("t", 0, 1, 2, 3)
    partition = world.active.image.topics["t"].partitions[0]
    assert (partition.replicas, partition.isr, partition.leader) == ((2,), (2,), 2)
    world.check()


def test_a_reassignment_taken_back_and_those_that_cannot_be() -> None:
    world = World()
    world.create("t", [1, 2])
    active = world.active
    with pytest.raises(NoReassignmentInProgressError):
        active.reassign("t", 0, None)
    with pytest.raises(NoReassignmentInProgressError):
        active.reassign("nothing", 0, None, partition_last=True)
    with pytest.raises(UnknownTopicOrPartitionError):
        active.reassign("nothing", 0, [1])
    with pytest.raises(InvalidReplicaAssignmentError):
        active.reassign("t", 0, [9], partition_last=True)
    active.reassign("t", 0, [3])
    active.reassign("t", 0, [3, 2])
    partition = active.image.topics["t"].partitions[0]
    assert (partition.replicas, partition.adding, partition.removing) == ((3, 2, 1), (3,), (1,))
    active.reassign("t", 0, None)
    partition = active.image.topics["t"].partitions[0]
    # The first step has changed the order, as with Kafka.
    assert (partition.replicas, partition.adding, partition.removing) == ((2, 1), (), ())
    assert (3, "StopReplica") in world.take_told()
    # Another order only.
    active.reassign("t", 0, [1, 2])
    partition = active.image.topics["t"].partitions[0]
    assert (partition.replicas, partition.leader_epoch, is_moving(partition)) == ((1, 2), 4, False)
    world.check()


def test_old_tools_ask_by_nodes_that_are_removed_when_it_is_done() -> None:
    world = World()
    world.create("t", [1, 2], [1, 2])
    asked = [("t", 0, (3, 2)), ("t", 7, (1,)), ("t", 1, (2, 1))]
    world.reader.create(paths.REASSIGN_PARTITIONS, encode_reassignments(asked))
    world.settle()
    data, _ = world.reader.get(paths.REASSIGN_PARTITIONS)
    assert data == encode_reassignments(asked[:1])
    world.everybody_catches_up()
    assert world.reader.exists(paths.REASSIGN_PARTITIONS) is None
    replicas = [p.replicas for p in world.active.image.topics["t"].partitions.values()]
    assert replicas == [(3, 2), (2, 1)]
    world.reader.create(
        paths.PREFERRED_REPLICA_ELECTION,
        b'{"version":1,"partitions":[{"topic":"t","partition":1},{"topic":"x","partition":0}]}',
    )
    world.settle()
    assert world.reader.exists(paths.PREFERRED_REPLICA_ELECTION) is None
    assert world.active.image.topics["t"].partitions[1].leader == 2
    world.reader.create(paths.PREFERRED_REPLICA_ELECTION, b"{}")
    world.settle()
    assert world.reader.exists(paths.PREFERRED_REPLICA_ELECTION) is None
    world.check()


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


def test_a_broker_that_wants_to_leave_leads_nothing_any_more() -> None:
    world = World()
    world.create("t", [2, 1], [1, 2])
    world.create("alone", [2])
    epoch = world.active.image.brokers[2].epoch
    with pytest.raises(StaleBrokerEpochError):
        world.active.controlled_shutdown(2, epoch - 1)
    with pytest.raises(BrokerNotAvailableError):
        world.active.controlled_shutdown(9, -1)
    world.take_told()
    assert world.active.controlled_shutdown(2, epoch) == []
    assert (2, "StopReplica") in world.take_told()
    partitions = world.active.image.topics["t"].partitions
    assert [(p.leader, p.isr) for p in partitions.values()] == [(1, (1,)), (1, (1,))]
    with pytest.raises(IneligibleReplicaError):
        world.join_isr("t", 0, 1, 2)
    assert world.active.rebalance_leaders() == 0
    assert world.active.controlled_shutdown(1, -1) == [("t", 0), ("t", 1)]
    world.kill(2)
    world.begin(2)
    assert list(world.active.shutting_down) == [1]
    world.check()


def test_leaders_go_back_though_states_were_changed_without_a_notice_yet() -> None:
    """Leaders write them themselves before 2.7, and brokers that have lost a replica always do."""
    world = World()
    world.create("t", *[[2, 1]] * 10, [1, 2])
    world.kill(2)
    world.begin(2)
    world.everybody_catches_up()
    path = paths.partition_state("t", 3)
    data, _ = world.reader.get(path)
    world.reader.set(path, data)
    assert world.active.rebalance_leaders(10) == 10
    world.check()


def test_a_deposed_controller_gives_no_leads_back() -> None:
    world = World()
    world.create("t", *[[2, 1]] * 10)
    world.kill(2)
    world.begin(2)
    world.everybody_catches_up()
    deposed = world.active
    epoch, stat = world.reader.get(paths.CONTROLLER_EPOCH)
    world.reader.set(paths.CONTROLLER_EPOCH, epoch, stat.version)
    assert deposed.rebalance_leaders(10) == 0
    assert not deposed.is_active


def test_a_wish_that_is_over_is_fenced_though_one_of_its_members_is_about_to_leave() -> None:
    # INELIGIBLE_REPLICA would have the leader count the ISR from before the wish, which has been granted: it
    # could commit with the one that leaves what the one that has come does not have.
    world = World()
    world.create("t", [1, 2, 3])
    world.join_isr("t", 0, 1, 2)
    before = world.active.image.topics["t"].partitions[0]
    wish = IsrChange("t", 0, 1, before.leader_epoch, before.partition_epoch, (1, 2, 3))
    world.active.alter_partition(wish)
    assert world.active.controlled_shutdown(2) == []
    assert world.active.image.topics["t"].partitions[0].isr == (1, 3)
    # Its answer was lost, and it is sent again.
    with pytest.raises(FencedLeaderEpochError):
        world.active.alter_partition(wish)


def test_leaders_go_back_when_too_many_are_away() -> None:
    world = World()
    world.create("t", *[[2, 1]] * 10, [1, 2])
    world.kill(2)
    world.begin(2)
    world.everybody_catches_up()
    assert world.active.rebalance_leaders(100) == 0
    assert world.active.rebalance_leaders(10) == 10
    assert world.active.rebalance_leaders(10) == 0
    assert world.controllers[2].rebalance_leaders() == 0
    assert [p.leader for p in world.active.image.topics["t"].partitions.values()] == [2] * 10 + [1]
    world.check()


@pytest.mark.parametrize("asked", [1, 3])
def test_whoever_is_left_leads_as_soon_as_that_is_allowed(asked: int) -> None:
    world = World()
    world.create("t", [2, 3])
    world.create("u", [2, 3])
    world.kill(3)
    world.kill(2)
    world.begin(3)
    assert {topic.partitions[0].leader for topic in world.active.image.topics.values()} == {-1}
    # Any broker writes configs; the controller hears of it by the notice.
    world.controllers[asked].alter_config("topics/t", {"unclean.leader.election.enable": "true"})
    world.settle()
    leaders = {name: topic.partitions[0].leader for name, topic in world.active.image.topics.items()}
    assert leaders == {"t": 3, "u": -1}


@pytest.mark.parametrize("by", ["a failed folder", "a stop"])
def test_leaders_that_change_the_isr_again_and_again_keep_no_lead_where_it_was(
    by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before 2.7 they write it themselves, and the controller hears of it later."""
    world = World()
    world.create("t", [2, 1], [2, 1])
    store = world.active.store
    commit, left = store.multi, 3

    def commit_late(ops: Any) -> Any:
        nonlocal left
        if left:
            left -= 1
            path = paths.partition_state("t", left % 2)
            store.set(path, store.get(path)[0])
        return commit(ops)

    monkeypatch.setattr(store, "multi", commit_late)
    if by == "a stop":
        assert world.active.controlled_shutdown(2) == []
    else:
        world.active.note_offline(2, [("t", 0), ("t", 1)])
    assert left == 0
    partitions = world.active.image.topics["t"].partitions
    assert [(p.leader, p.isr) for p in partitions.values()] == [(1, (1,)), (1, (1,))]
    world.check()


def test_a_failed_folder_that_could_not_be_written_down_is_heard_of_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.create("t", [2, 1])
    store = world.active.store

    def fail(ops: Any) -> Any:
        raise BadVersion("/t", "changed again")

    with monkeypatch.context() as patched, pytest.raises(StoreError):
        patched.setattr(store, "multi", fail)
        world.active.note_offline(2, [("t", 0)])
    world.active.note_offline(2, [("t", 0)])
    assert world.active.image.topics["t"].partitions[0].leader == 1
    world.check()


def test_a_failed_folder_is_asked_about_and_loses_its_leads() -> None:
    world = World()
    world.create("t", [2, 1], [1, 2])
    world.take_told()
    world.controllers[2].notify_log_dir_failure()
    world.settle()
    assert world.take_told() == [(2, "LeaderAndIsr")]
    assert world.reader.children(paths.LOG_DIR_EVENTS) == []
    world.active.note_offline(2, [("t", 0), ("t", 1)])
    partitions = world.active.image.topics["t"].partitions
    assert [(p.leader, p.isr) for p in partitions.values()] == [(1, (1,)), (1, (1,))]
    # It is offline until the broker is back: it cannot lead even when it is the only one.
    world.create("u", [2])
    world.active.note_offline(2, [("u", 0)])
    # What is lost can begin anew, what is damaged cannot: its broker knows, and says so again.
    world.active.elect_leader("u", 0, unclean=True)
    told = world.active.image.topics["u"].partitions[0]
    assert (told.leader, told.isr, told.leader_recovery_state) == (2, (2,), LEADER_RECOVERING)
    world.active.note_offline(2, [("u", 0)])
    world.begin(4)
    assert world.active.image.topics["u"].partitions[0].leader == -1
    epoch = world.active.image.brokers[2].epoch
    world.kill(2)
    world.begin(2)
    assert world.active.offline_replicas == frozenset()
    # What it has said in its life before comes late.
    world.active.note_offline(2, [("t", 0)], broker_epoch=epoch)
    assert world.active.offline_replicas == frozenset()
    world.check()


def test_an_election_that_must_fail_pushes_nobody_out_of_the_isr() -> None:
    world = World()
    world.create("t", [1, 3])
    world.active.note_offline(1, [("t", 0)])
    world.kill(3)
    with pytest.raises(EligibleLeadersNotAvailableError):
        world.active.elect_leader("t", 0, unclean=True)
    assert world.active.image.topics["t"].partitions[0].isr == (3,)
    world.check()


def test_isrs_that_leaders_wrote_themselves_are_read_after_their_notice() -> None:
    world = World()
    world.create("t", [1, 2])
    data, _ = world.reader.get("/brokers/topics/t/partitions/0/state")
    assert data is not None
    world.reader.set("/brokers/topics/t/partitions/0/state", data.replace(b"[1,2]", b"[1]"))
    notice = b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'
    world.reader.create(f"{paths.ISR_CHANGES}/isr_change_", notice, sequence=True)
    world.settle()
    assert world.active.image.topics["t"].partitions[0].isr == (1,)
    assert world.reader.children(paths.ISR_CHANGES) == []
    world.check()


def test_taking_over_many_partitions_writes_them_in_large_transactions() -> None:
    world = World()
    world.create("t", *[[1, 2]] * 1200)
    world.kill(3)
    store = world.stores[2]
    writes: list[int] = []
    multi = store.multi
    store.multi = lambda ops: (writes.append(len(ops)), multi(ops))[1]  # type: ignore[method-assign, assignment, func-returns-value]
    world.kill(1)
    world.check()
    assert max(writes) <= metadata_writer.WRITES_PER_TRANSACTION + 1
    assert len(writes) <= 1200 / metadata_writer.WRITES_PER_TRANSACTION + 6


def test_what_could_not_be_followed_is_looked_at_again() -> None:
    world = World()
    world.create("t", [3, 1])
    store = world.stores[1]
    multi = store.multi

    def unavailable(ops: object) -> list[object]:
        raise StoreUnavailable("/")

    store.multi = unavailable  # type: ignore[method-assign, assignment]
    world.kill(3)
    assert 3 in world.active.image.brokers
    store.multi = multi  # type: ignore[method-assign]
    world.active.look_again()
    assert 3 not in world.active.image.brokers
    world.check()


@each_seed(15)
def test_a_random_life_of_a_cluster_ends_well(seed: int) -> None:
    rng = random.Random(seed)
    world = World((1, 2, 3, 4))
    made = 0
    for _ in range(60):
        if not any(controller.is_active for controller in world.controllers.values()):
            world.begin(next(broker for broker in (1, 2, 3, 4) if broker not in world.controllers))
        _random_step(rng, world, made := made + 1)
        if world.controllers:
            world.check()
    world.deaf.clear()
    for broker in (1, 2, 3, 4):
        if broker in world.controllers:
            world.kill(broker)
        world.begin(broker)
    world.everybody_catches_up()
    world.everybody_catches_up()
    world.check()
    assert not world.active.image.marked
    for topic in world.active.image.topics.values():
        for partition in topic.partitions.values():
            assert not is_moving(partition)
            assert set(partition.isr) == set(partition.replicas)
    assert world.reader.exists(paths.REASSIGN_PARTITIONS) is None


def _random_step(rng: random.Random, world: World, number: int) -> None:
    active = world.active.broker_id
    live = sorted(world.active.image.brokers)
    topics = sorted(world.active.image.topics.keys() - world.active.image.marked)
    topic = rng.choice(topics) if topics else ""
    choice = rng.randrange(12)
    if rng.random() < 0.3:
        store = world.stores[active]
        store.writes_left, store.after = rng.randint(1, 5), rng.random() < 0.5

    def quietly(work: Callable[[KafkaController], object]) -> None:
        def run(controller: KafkaController) -> None:
            with suppress(KafkaError):
                work(controller)

        world.do(active, run)

    if choice == 0 and len(world.controllers) > 1:
        world.kill(rng.choice(sorted(world.controllers)))
    elif choice <= 2:
        absent = [broker for broker in (1, 2, 3, 4) if broker not in world.controllers]
        if absent:
            world.begin(rng.choice(absent))
    elif choice <= 5:
        rows = {i: rng.sample(live, min(2, len(live))) for i in range(rng.randint(1, 3))}
        quietly(lambda c: c.create_topics([NewTopic(f"t{number}", assignment=rows)]))
    elif choice == 6 and topic:
        world.deaf = set(rng.sample([1, 2, 3, 4], rng.randint(0, 2)))
        quietly(lambda c: c.delete_topics([topic]))
    elif choice <= 8 and topic:
        target = rng.sample(live, rng.randint(1, len(live)))
        quietly(lambda c: c.reassign(topic, 0, rng.choice([target, target, None])))
    elif choice == 9:
        quietly(lambda c: c.controlled_shutdown(rng.choice(live)))
    elif choice == 10:
        broker = rng.choice(live)
        quietly(lambda c: c.on_broker_refused(broker))
        if rng.random() < 0.5 and active in world.controllers:
            quietly(lambda c: c.on_broker_reachable(broker))
    else:
        with suppress(KafkaError, ValueError):
            world.everybody_catches_up()


def test_configs_that_nobody_can_read_stay_as_they_are_known_and_hold_up_no_others() -> None:
    world = World()
    world.create("t", [2, 3])
    world.create("u", [2, 3])
    told: dict[int, dict[str, Any]] = {1: {}, 3: {}}
    for broker, seen in told.items():
        world.controllers[broker].add_config_listener(seen.update)
    world.controllers[2].alter_config("topics/t", {"cleanup.policy": "compact"})
    world.settle()
    world.reader.set(paths.entity_config("topics/t"), b"no json")
    for notice in (b"{", nodes.encode_config_change("topics/t")):
        world.reader.create(paths.CONFIG_CHANGE_PREFIX, notice, sequence=True)
    world.controllers[2].alter_config("topics/u", {"retention.ms": "1"})
    world.settle()
    for seen in told.values():
        assert seen == {"topics/t": {"cleanup.policy": "compact"}, "topics/u": {"retention.ms": "1"}}
    # The next term, and a new session, begin all the same.
    world.kill(1)
    assert world.active.broker_id == 2
    assert world.active.image.topic_config("t") == {"cleanup.policy": "compact"}
    assert world.active.image.topic_config("u") == {"retention.ms": "1"}
    renew_session(world, 3)
    assert told[3]["topics/t"] == {"cleanup.policy": "compact"}
    # A start is refused by its name: with other configs in their place records could be deleted.
    with pytest.raises(nodes.NodeFormatError, match="/config/topics/t"):
        world.begin(4)


def renew_session(world: World, broker: int) -> None:
    """A broker's session ends, and it registers in another one."""
    controller = world.controllers[broker]
    world.stores[broker].expire()
    controller.session_ended()
    controller.store = world.stores[broker] = MortalStore(world.server)
    controller.start(BrokerRegistration((Endpoint("PLAINTEXT", "h", 9000 + broker),)))
    world.settle()


def test_configs_that_were_removed_while_there_was_no_session_are_told() -> None:
    world = World()
    world.create("t", [1, 2])
    seen: dict[str, Any] = {}
    world.controllers[3].add_config_listener(seen.update)
    world.active.alter_config("topics/t", {"retention.ms": "1"})
    world.settle()
    assert seen == {"topics/t": {"retention.ms": "1"}}
    world.stores[3].expire()
    world.controllers[3].session_ended()
    world.active.alter_config("topics/t", {})
    world.settle()
    renew_session(world, 3)
    assert seen == {"topics/t": {}}


def test_a_mark_is_not_heeded_before_it_is_taken_back() -> None:
    world = World()
    world.create("t", [1, 2])
    world.config.delete_topic_enable = False
    world.take_told()
    world.reader.create("/admin/delete_topics/t")
    # Somebody else's change has everything read anew before that is seen.
    state = "/brokers/topics/t/partitions/0/state"
    world.reader.set(state, world.reader.get(state)[0])
    world.active.on_broker_refused(2)
    world.settle()
    assert "StopReplica" not in {kind for _, kind in world.take_told()}
    assert world.active.image.marked == frozenset()
    assert world.reader.children(paths.DELETE_TOPICS) == []


def test_what_a_new_controller_cannot_finish_at_once_it_finishes_later() -> None:
    """The store is away when a term has just begun: deletions and tools' wishes are not forgotten."""
    world = World()
    world.create("t", [1, 2])
    world.create("u", [3, 2])
    world.deaf.add(3)
    world.active.delete_topics(["u"])
    world.settle()
    store = world.stores[2]
    told = world.channels[2].start

    def begin_and_lose_the_store(image: Any) -> None:
        told(image)
        store.away = True

    world.channels[2].start = begin_and_lose_the_store  # type: ignore[method-assign]
    world.deaf.clear()
    world.reader.create(paths.REASSIGN_PARTITIONS, encode_reassignments([("t", 0, (3, 2))]))
    world.kill(1)
    assert world.active.broker_id == 2
    assert not is_moving(world.active.image.topics["t"].partitions[0])
    store.away = False
    world.active.look_again()
    world.settle()
    assert is_moving(world.active.image.topics["t"].partitions[0])
    assert "u" not in world.active.image.topics
    world.check()


def test_a_failed_folder_that_could_not_be_written_down_is_asked_about_again() -> None:
    world = World()
    world.create("t", [2, 1])
    world.take_told()
    world.stores[1].away = True
    with pytest.raises(KafkaStorageError):
        world.active.note_offline(2, [("t", 0)])
    world.stores[1].away = False
    world.do(1, lambda controller: controller.look_again())
    assert (2, "LeaderAndIsr") in world.take_told()
    world.active.note_offline(2, [("t", 0)])
    assert world.active.image.topics["t"].partitions[0].leader == 1
    world.check()
