"""Writing over what others have written meanwhile: what is read anew for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from odradek.cluster import nodes, paths
from odradek.cluster.controller.alter_partition import IsrChange
from odradek.cluster.nodes import decode_partition_state, encode_partition_state
from odradek.cluster.store.store import BadVersion, Op, OpResult, SetData
from odradek.errors import InvalidUpdateVersionError, UnknownServerError, UnknownTopicOrPartitionError

from ..brokers import World

BEFORE_ALTER_PARTITION = "2.6"


class Readings:
    """The topics whose partitions the active controller reads from now on, one entry per reading."""

    def __init__(self, world: World) -> None:
        self.of: list[str] = []
        store = world.stores[world.active.broker_id]
        read = store.get_many

        def get_many(asked: Sequence[str]) -> Any:
            self.of += sorted({path.split("/")[3] for path in asked if path.endswith("/state")})
            return read(asked)

        store.get_many = get_many  # type: ignore[method-assign]


def _leader_writes(world: World, topic: str, index: int, *isr: int) -> None:
    """Change an ISR as a leader before 2.7 does, of which the controller has not heard yet."""
    path = paths.partition_state(topic, index)
    state = decode_partition_state(path, world.reader.get(path).data)
    world.reader.set(path, encode_partition_state(state._replace(isr=isr)))


def _refuse(world: World, path: str) -> None:
    """Have every write of the active controller to that node come too late."""
    store = world.stores[world.active.broker_id]
    whole = store.multi

    def multi(ops: Sequence[Op]) -> list[OpResult]:
        for index, op in enumerate(ops):
            if isinstance(op, SetData) and op.path == path:
                error = BadVersion(path)
                error.op_index = index
                raise error
        return whole(ops)

    store.multi = multi  # type: ignore[method-assign]


@pytest.mark.parametrize("ask", ["reassign", "elect_leader"])
def test_what_leaders_have_changed_of_a_topic_is_read_once_and_of_no_other_topic(ask: str) -> None:
    world = World(protocol=BEFORE_ALTER_PARTITION)
    world.create("other", [1, 2])
    world.create("t", *([1, 2] for _ in range(5)))
    active = world.active
    for index in range(5):
        if ask == "elect_leader":
            active.reassign("t", index, [2, 1])
        _leader_writes(world, "t", index, 1, 2)
    readings = Readings(world)
    for index in range(5):
        if ask == "elect_leader":
            active.elect_leader("t", index, unclean=False)
        else:
            active.reassign("t", index, [3, 1])
    assert readings.of == ["t"]
    world.settle()
    world.check()


def test_a_topic_that_cannot_be_written_has_no_other_topic_read_again() -> None:
    world = World(protocol=BEFORE_ALTER_PARTITION)
    world.create("other", [1, 2])
    world.create("t", [1, 2])
    _refuse(world, paths.partition_state("t", 0))
    readings = Readings(world)
    with pytest.raises(UnknownServerError):
        world.active.reassign("t", 0, [3, 1])
    assert set(readings.of) == {"t"}
    world.check()


def test_a_wish_for_an_isr_that_cannot_be_written_has_no_other_topic_read_again() -> None:
    world = World()
    world.create("other", [1, 2])
    world.create("t", [1, 2])
    _refuse(world, paths.partition_state("t", 0))
    readings = Readings(world)
    with pytest.raises(InvalidUpdateVersionError):
        world.active.alter_partition(IsrChange("t", 0, 1, 0, 0, (1,)))
    # Once for all wishes that were to be written together, and then the topic alone.
    assert readings.of == ["other", "t", "t"]
    world.check()


def test_a_topic_that_another_has_taken_the_place_of_is_read_with_its_configs() -> None:
    world = World()
    world.create("t", [1, 2])
    active = world.active
    world.deaf = {1, 2, 3}
    _refuse(world, paths.partition_state("t", 0))
    path = paths.topic("t")
    node = nodes.decode_topic(path, world.reader.get(path).data)
    world.reader.set(path, nodes.encode_topic(node._replace(topic_id=bytes(15) + b"\1")))
    config = nodes.encode_config({"cleanup.policy": "compact"})
    world.reader.set(paths.entity_config("topics/t"), config)
    with pytest.raises(UnknownServerError):
        active.reassign("t", 0, [3, 1])
    assert active.image.config("topics/t") == {"cleanup.policy": "compact"}
    assert active.image.topics["t"].topic_id == bytes(15) + b"\1"


def test_a_topic_that_is_gone_is_forgotten_with_its_configs() -> None:
    world = World()
    world.create("t", [1, 2])
    active = world.active
    world.reader.delete(paths.partition_state("t", 0))
    world.reader.delete(f"{paths.topic('t')}/partitions/0")
    world.reader.delete(f"{paths.topic('t')}/partitions")
    world.reader.delete(paths.topic("t"))
    with pytest.raises(UnknownTopicOrPartitionError):
        active.reassign("t", 0, [3, 1])
    assert "t" not in active.image.topics


def test_the_ends_of_reassignments_that_come_too_late_have_nothing_read_at_once() -> None:
    """The next notice has them tried again, and so has the next look at the store, which reads once."""
    world = World(protocol=BEFORE_ALTER_PARTITION)
    world.create("t", *([1, 2] for _ in range(3)))
    for index in range(3):
        world.active.reassign("t", index, [3, 1])
        _refuse(world, paths.partition_state("t", index))
        _leader_writes(world, "t", index, 1, 2, 3)
    notice = nodes.encode_isr_change([("t", index) for index in range(3)])
    readings = Readings(world)
    world.reader.create(paths.ISR_CHANGE_PREFIX, notice, sequence=True)
    world.settle()
    assert readings.of == ["t"], "by the notice"
    del world.stores[world.active.broker_id].multi  # type: ignore[attr-defined]
    world.do(world.active.broker_id, lambda active: active.look_again())
    assert readings.of == ["t", "t"]
    replicas = {partition.replicas for partition in world.active.image.topics["t"].partitions.values()}
    assert replicas == {(3, 1)}
    world.check()
