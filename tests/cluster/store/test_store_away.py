"""The store is away at any write of the controller's work, which is done or not: all is well in the end.

Nobody dies, and nobody asks again: what is left undone is the controller's own to find (`look_again`).
"""

from __future__ import annotations

from contextlib import suppress

import pytest

from odradek.cluster import paths
from odradek.cluster.controller.partition_reassignment import is_moving, target_of
from odradek.cluster.store.store import StoreError
from odradek.errors import KafkaError

from ..brokers import World
from ..controller.test_controller_deaths import CASES, MAX_WRITES, Case, small_transactions

__all__ = ["small_transactions"]

FOLDERS = {"a folder fails"}
"""What their brokers have said is asked again, and these brokers do not answer."""


@pytest.mark.parametrize("after", [False, True], ids=["not done", "done"])
@pytest.mark.parametrize("name", sorted(CASES.keys() - FOLDERS))
def test_the_store_is_away_at_any_write(name: str, after: bool) -> None:
    for n in range(1, MAX_WRITES):
        if not _is_lost(CASES[name], n, after):
            assert n > 1
            return
    raise AssertionError("more writes than that: a controller that never comes to an end?")


def _is_lost(case: Case, n: int, after: bool) -> bool:
    """Have the n-th write of the work lose its answer; return whether there was such a write."""
    world = World((1, 2, 3))
    world.create("t", [1, 2], [2, 1], [3, 1])
    case.prepare(world)
    store = world.stores[1]
    store.writes_left, store.after, store.loses = n, after, True
    with suppress(KafkaError, StoreError):
        case.work(world)
    world.settle()
    lost = store.writes_left == float("inf")
    store.writes_left = float("inf")
    assert world.active.broker_id == 1
    world.active.look_again()
    world.settle()
    world.check()
    nothing_is_left(world, bool(world.deaf))
    return lost


def nothing_is_left(world: World, is_silent: bool) -> None:
    """Nothing waits but for brokers that are not there, have not caught up, or have not answered
    (`is_silent`): who was asked to delete something is asked again by the next controller."""
    image = world.active.image
    for name in image.marked:
        replicas = {b for one in image.topics[name].partitions.values() for b in one.replicas}
        assert is_silent or not replicas <= image.brokers.keys(), name
    for name, topic in image.topics.items():
        for index, one in topic.partitions.items():
            assert not (is_moving(one) and set(target_of(one)) <= set(one.isr)), (name, index, one)
    assert world.reader.exists(paths.PREFERRED_REPLICA_ELECTION) is None
    if world.reader.exists(paths.REASSIGN_PARTITIONS) is not None:
        assert any(is_moving(one) for one in image.topics["t"].partitions.values())
