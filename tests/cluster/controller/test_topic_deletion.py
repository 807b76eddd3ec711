"""Topics that are marked for deletion: they go when every replica has gone."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.cluster import paths
from odradek.cluster.controller import metadata_writer
from odradek.cluster.controller.partition_reassignment import is_moving
from odradek.cluster.nodes import (
    encode_reassignments,
)
from odradek.cluster.store.store import Delete
from odradek.errors import (
    TopicExistsError,
)

from ..brokers import World


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


def marks_removed_by(store: Any) -> list[int]:
    """Return a list that tells of each transaction from now on that ends deletions, how many it ends."""
    removed: list[int] = []
    multi = store.multi

    def count(ops: Any) -> Any:
        result = multi(ops)
        if marks := sum(isinstance(op, Delete) and op.path.startswith(paths.DELETE_TOPICS) for op in ops):
            removed.append(marks)
        return result

    store.multi = count
    return removed


def test_many_topics_go_in_one_transaction() -> None:
    world = World()
    names = [f"t{n:03}" for n in range(100)]
    for name in names:
        world.create(name, [1, 2])
    removed = marks_removed_by(world.stores[1])
    world.active.delete_topics(names)
    world.settle()
    assert world.active.image.topics == {}
    assert world.reader.children(paths.TOPICS) == world.reader.children(paths.DELETE_TOPICS) == []
    # The first broker's answer ends nothing, as the second has replicas, too.
    assert removed == [83, 17], "6 nodes each, 500 in a transaction"


def test_a_death_between_two_transactions_leaves_whole_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_writer, "WRITES_PER_TRANSACTION", 12)
    world = World()
    for name in ("s", "t", "u", "v", "w"):
        world.create(name, [1, 2])
    store = world.stores[1]
    removed = marks_removed_by(store)
    count = store.multi

    def die_after_one(ops: Any) -> Any:
        if removed:
            store.away = True
        return count(ops)

    store.multi = die_after_one  # type: ignore[method-assign]
    world.active.delete_topics(["s", "t", "u", "v", "w"])
    world.settle()
    assert removed == [2]
    assert (
        world.reader.children(paths.TOPICS) == world.reader.children(paths.DELETE_TOPICS) == ["u", "v", "w"]
    )
    world.kill(1)
    world.begin(1)
    assert world.active.broker_id == 2
    assert world.active.image.topics == {}
    world.check()
