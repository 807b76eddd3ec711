"""Who waits for whom when all of an in-sync set have died, and only some by a loss of power."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from odradek.broker.membership import unclean_return
from odradek.broker.membership.unclean_return import Doubts, be_missed, look_for_doubts, withdraw
from odradek.cluster import paths
from odradek.cluster.nodes import (
    LEADER_RECOVERED,
    LEADER_RECOVERING,
    PartitionState,
    ReplicaAssignment,
    TopicNode,
    decode_isr_change,
    decode_partition_state,
    encode_partition_state,
    encode_topic,
)
from odradek.cluster.store.memory import MemoryServer, MemoryStore
from odradek.cluster.store.store import Stat, ensure_path
from odradek.util.topic_partition import TopicPartition

KEY = ("t", 0)
ALONE: dict[TopicPartition, bool] = {KEY: False}
BESIDE_ONE_THAT_LIVES: dict[TopicPartition, bool] = {KEY: True}
LONG_S = 3600.0


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unclean_return, "_LOOK_AGAIN_S", 0.0)


Found = dict[TopicPartition, bool]


def looks(
    found: list[Found],
    unlost: set[TopicPartition],
    alone_s: float,
    patience_s: float = LONG_S,
) -> int:
    """How often a broker looks before it registers, finding one after the other; the last again and again."""
    count = 0

    async def run_in_store(work: Callable[[Any], Any]) -> Doubts:
        nonlocal count
        count += 1
        return Doubts(found[min(count, len(found)) - 1])

    asyncio.run(
        be_missed(
            run_in_store,
            0,
            (),
            unlost,
            lambda *key: False,
            patience_s=patience_s,
            alone_s=alone_s,
            is_stopped=lambda: count > 100,
        )
    )
    return count


def test_who_may_have_lost_records_waits_for_another_and_then_to_be_missed_by_it() -> None:
    assert looks([ALONE, ALONE, BESIDE_ONE_THAT_LIVES, {}], set(), LONG_S) == 4


def test_who_has_lost_nothing_comes_first() -> None:
    assert looks([ALONE], {KEY}, LONG_S) == 1
    # Beside one that lives it is missed like any other: who has registered anew leaves the ISRs.
    assert looks([BESIDE_ONE_THAT_LIVES, BESIDE_ONE_THAT_LIVES, ALONE], {KEY}, LONG_S) == 3


def test_where_nobody_comes_it_waits_no_longer(caplog: pytest.LogCaptureFixture) -> None:
    assert looks([ALONE], set(), 0.0) == 1
    assert not caplog.text
    assert looks([ALONE], set(), 1e-6) == 2
    assert caplog.text.count("nobody else of the ISRs of 1 partitions lives (t-0 …)") == 1


def test_another_one_that_comes_and_goes_does_not_begin_the_wait_anew() -> None:
    assert looks([ALONE, BESIDE_ONE_THAT_LIVES, ALONE], set(), 1e-6) == 3


def test_a_stop_ends_the_wait() -> None:
    assert looks([ALONE], set(), LONG_S) == 101


# ---------------------------------------------------------------------- whose log is gone


def store_with(state: PartitionState, live: tuple[int, ...] = ()) -> MemoryStore:
    store = MemoryStore(MemoryServer())
    for path in (paths.DELETE_TOPICS, paths.BROKER_IDS, paths.ISR_CHANGES, paths.partition("t", 0)):
        ensure_path(store, path)
    store.set(paths.topic("t"), encode_topic(TopicNode({0: ReplicaAssignment((0, 1, 2))})))
    store.create(paths.partition_state("t", 0), encode_partition_state(state))
    for broker in live:
        store.create(paths.broker_id(broker), b"{}", ephemeral=True)
    return store


def state_in(store: MemoryStore) -> PartitionState:
    path = paths.partition_state("t", 0)
    return decode_partition_state(path, store.get(path).data)


def look(store: MemoryStore) -> Doubts:
    return look_for_doubts(store, 0, (), lambda *key: key == KEY)


def test_who_has_no_log_leaves_the_isr_to_those_who_have_not_come_yet() -> None:
    store = store_with(PartitionState(0, 7, (0, 1, 2), 3))
    assert look(store) == ({}, [])
    assert state_in(store) == PartitionState(-1, 8, (1, 2), 3)
    (notice,) = store.children(paths.ISR_CHANGES)
    path = f"{paths.ISR_CHANGES}/{notice}"
    assert decode_isr_change(path, store.get(path).data) == [KEY]


def test_another_leader_stays_though_it_is_not_back() -> None:
    store = store_with(PartitionState(2, 7, (0, 2), 3))
    assert look(store) == ({}, [])
    assert state_in(store) == PartitionState(2, 8, (2,), 3)


def test_beside_one_that_lives_it_is_taken_out_of_the_isr() -> None:
    before = PartitionState(0, 7, (0, 1, 2), 3)
    store = store_with(before, live=(2,))
    assert look(store) == ({KEY: True}, [])
    assert state_in(store) == before


def test_the_last_of_an_isr_stays_in_it_and_the_partition_is_lost() -> None:
    for recovery in (LEADER_RECOVERED, LEADER_RECOVERING):
        store = store_with(PartitionState(0, 7, (0,), 3, recovery))
        assert look(store) == ({}, [KEY])
        # What an unclean election was to have it do is done, or it would begin empty once more.
        assert state_in(store) == PartitionState(0, 7, (0,), 3)


def test_who_is_in_no_isr_has_lost_nothing() -> None:
    store = store_with(PartitionState(1, 7, (1, 2), 3))
    assert look(store) == ({}, [])


def test_a_state_that_a_controller_has_written_meanwhile_is_looked_at_again() -> None:
    class Late(MemoryStore):
        """Another broker registers, and is elected, between the look and the write."""

        def set(self, path: str, data: bytes | None, version: int = -1) -> Stat:
            if version >= 0:
                super().set(path, encode_partition_state(PartitionState(1, 8, (0, 1), 4)))
            return super().set(path, data, version)

    store = store_with(PartitionState(0, 7, (0, 1), 3))
    assert look(Late(store.server)) == ({KEY: True}, [])
    assert state_in(store) == PartitionState(1, 8, (0, 1), 4)


def test_withdrawing_never_leaves_nobody() -> None:
    assert withdraw(PartitionState(0, 7, (0,), 3), 0) == PartitionState(0, 7, (0,), 3)
