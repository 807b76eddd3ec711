"""The store fails at any step of what an administrator asks for: he is told in Kafka's words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from odradek.cluster import paths
from odradek.cluster.controller.kafka_controller import KafkaController
from odradek.cluster.controller.topic_manager import NewTopic
from odradek.cluster.loading import load_config
from odradek.cluster.store.store import NodeExists, Op, OpResult, StoreUnavailable
from odradek.errors import KafkaError, KafkaStorageError

from ..brokers import MortalStore, World

COMPACT = {"cleanup.policy": "compact"}

ROADS: dict[str, Callable[[KafkaController], object]] = {
    "create topics": lambda active: active.create_topics(
        [NewTopic(name, assignment={0: [1]}) for name in ("one", "two")]
    ),
    "create partitions": lambda active: active.create_partitions("t", 3),
    "delete topics": lambda active: active.delete_topics(["t"]),
    "elect a leader": lambda active: active.elect_leader("t", 0, unclean=False),
    "reassign": lambda active: active.reassign("t", 0, [3]),
    "reassign a new partition": lambda active: active.reassign("new", 0, [3]),
    "look at configs": lambda active: active.config_of("topics/t"),
    "alter configs": lambda active: active.alter_config("topics/t", COMPACT),
    "allocate producer ids": lambda active: active.allocate_producer_ids(),
}

STEPS = (
    *("multi", "create", "set", "delete"),
    *("get", "get_many", "exists", "exists_many", "children", "watch_persistent"),
)


class FailingSteps:
    """Has steps of a store fail.

    Args:
        store: which.
        first: the first step that fails, from 0.
        count: how many do.
        is_over: whether the session is over by then.

    Attributes:
        taken: how many steps there were.
    """

    def __init__(self, store: MortalStore, first: int, count: float, is_over: bool) -> None:
        self.store = store
        self.failing = first, first + count
        self.is_over = is_over
        self.taken = 0
        for name in STEPS:
            setattr(store, name, partial(self._step, getattr(store, name)))

    def _step(self, step: Callable[..., Any], *args: Any, **more: Any) -> Any:
        is_failing = self.failing[0] <= self.taken < self.failing[1]
        self.taken += 1
        if is_failing and self.is_over:
            self.store.expire()
        elif is_failing:
            raise StoreUnavailable("/", "the store is away")
        return step(*args, **more)

    @property
    def has_failed(self) -> bool:
        """Return whether there were enough steps for one to fail."""
        return self.taken > self.failing[0]


def _world() -> World:
    world = World()
    world.create("t", [2, 1])
    world.active.create_topics([NewTopic("new", assignment={0: [9]})], unknown_brokers=True)
    world.active.reassign("t", 0, [1, 2])
    world.settle()
    return world


@pytest.mark.parametrize("store_is", ["away for a moment", "away", "over"])
@pytest.mark.parametrize("road", ROADS)
def test_no_error_of_the_store_comes_out_of_what_administrators_ask(road: str, store_is: str) -> None:
    first, fails = 0, True
    while fails:
        world = _world()
        active = world.active
        count = 1 if store_is == "away for a moment" else float("inf")
        steps = FailingSteps(world.stores[active.broker_id], first, count, store_is == "over")
        with suppress(KafkaError):
            ROADS[road](active)
        fails = steps.has_failed
        first += 1
    assert first > 1


def test_configs_that_are_written_are_answered_so_though_old_notices_stay() -> None:
    """Those are removed after the write; Kafka's brokers do so when they follow a notice."""
    world = World()
    world.create("t", [1, 2])
    active = world.active
    store = world.stores[active.broker_id]
    write = store.multi

    def write_and_lose(ops: Sequence[Op]) -> list[OpResult]:
        results = write(ops)
        store.away = True
        return results

    store.multi = write_and_lose  # type: ignore[method-assign]
    active.alter_config("topics/t", COMPACT)
    assert load_config(world.reader, "topics/t") == COMPACT
    assert active.image.config("topics/t") == COMPACT


def test_configs_that_another_writes_at_the_same_time_are_an_error_that_may_be_tried_again() -> None:
    world = World()
    world.create("t", [1, 2])
    store = world.stores[world.active.broker_id]
    path = paths.entity_config("topics/t")
    write = store.multi

    def write_too_late(ops: Sequence[Op]) -> list[OpResult]:
        raise NodeExists(path)

    store.multi = write_too_late  # type: ignore[method-assign]
    with pytest.raises(KafkaStorageError):
        world.active.alter_config("topics/t", COMPACT)
    store.multi = write  # type: ignore[method-assign]
    world.active.alter_config("topics/t", COMPACT)
    assert load_config(world.reader, "topics/t") == COMPACT
