"""A leader of old writes its in-sync sets itself, and tells the controller by notices."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from odradek.broker.interbroker.unsent_isr_updates import RETRY_S
from odradek.broker.interbroker.zk_isr_manager import CHECK_INTERVAL_MS, ZkIsrManager
from odradek.cluster import nodes, paths
from odradek.cluster.nodes import PartitionState
from odradek.cluster.store.memory import MemoryStore
from odradek.cluster.store.store import MetadataStore, StoreUnavailable, ensure_path
from odradek.replication.leadership import Leadership
from odradek.replication.partition import Partition
from odradek.util.clock import Clock, ManualClock
from replication.replicas import ME, NOW, SECOND, THIRD, append, follow, lead, make

ALL = (ME, SECOND, THIRD)


class World:
    """A broker that leads partitions of `t`, and the store."""

    def __init__(self, count: int = 1, clock: Clock | None = None) -> None:
        self.store = MemoryStore()
        ensure_path(self.store, paths.ISR_CHANGES)
        self.clock = ManualClock(NOW)
        self.errors: list[Exception] = []
        self.lost = 0
        self.pauses: list[float] = []
        self.live = {SECOND, THIRD}
        self.manager = ZkIsrManager(
            broker_id=ME,
            run_in_store=self.run,
            replicas=self,
            clock=self.clock if clock is None else clock,
            controller_epoch=lambda: 5,
            is_eligible=lambda one: one in self.live,
            pause=self.pause,
        )
        self.partitions: dict[tuple[str, int], Partition] = {}
        for index in range(count):
            partition, _ = make()
            partition.index, partition.key = index, ("t", index)
            partition.on_isr_wanted = self.manager.want
            self.partitions["t", index] = partition
            ensure_path(self.store, paths.partition_state("t", index))
            lead(partition, replicas=ALL, isr=(ME, SECOND))
            append(partition, 3)
            follow(partition, SECOND, 3)

    def find(self, topic: str, index: int) -> Leadership | None:
        return self.partitions.get((topic, index))

    async def run(self, work: Callable[[MetadataStore], Any]) -> Any:
        await asyncio.sleep(0)
        if self.errors:
            raise self.errors.pop()
        result = work(self.store)
        if self.lost:
            self.lost -= 1
            raise StoreUnavailable("/", outcome_unknown=True)
        return result

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)

    async def breathe(self) -> None:
        for _ in range(30):
            await asyncio.sleep(0)

    def state(self, index: int = 0) -> tuple[PartitionState, int]:
        path = paths.partition_state("t", index)
        data, stat = self.store.get(path)
        return nodes.decode_partition_state(path, data), stat.version

    async def pass_time(self, ms: int) -> list[list[tuple[str, int]]]:
        """Let time pass, and return what notices say then."""
        self.clock.advance(ms)
        self.manager.maybe_propagate_isr_changes()
        await self.breathe()
        found = []
        for name in self.store.children(paths.ISR_CHANGES):
            assert name.startswith("isr_change_0000")
            path = f"{paths.ISR_CHANGES}/{name}"
            found.append(nodes.decode_isr_change(path, self.store.get(path)[0]))
        return found


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


def test_the_state_is_written_in_the_version_that_is_known() -> None:
    async def scenario() -> None:
        world = World()
        follow(world.partitions["t", 0], THIRD, 3)
        await world.breathe()
        assert world.state() == (PartitionState(ME, 0, ALL, 5), 1)
        partition = world.partitions["t", 0]
        assert (partition.isr, partition.partition_epoch) == (ALL, 1)

    run(scenario())


def test_another_state_is_left_alone() -> None:
    async def scenario() -> None:
        world = World()
        other = nodes.encode_partition_state(PartitionState(SECOND, 1, ALL, 6))
        world.store.set(paths.partition_state("t", 0), other)
        follow(world.partitions["t", 0], THIRD, 3)
        await world.breathe()
        assert world.state() == (PartitionState(SECOND, 1, ALL, 6), 1)
        state = world.partitions["t", 0].isr_state
        assert (state.isr, state.maximal, world.pauses) == ((ME, SECOND), ALL, [])
        assert await world.pass_time(100_000) == []

    run(scenario())


def test_a_partition_that_is_gone_is_left_alone() -> None:
    async def scenario() -> None:
        world = World()
        world.store.delete(paths.partition_state("t", 0))
        follow(world.partitions["t", 0], THIRD, 3)
        await world.breathe()
        assert world.store.exists(paths.partition_state("t", 0)) is None
        assert world.pauses == []

    run(scenario())


def test_a_write_whose_answer_was_lost_is_known_again() -> None:
    async def scenario() -> None:
        world = World()
        world.lost = 1
        follow(world.partitions["t", 0], THIRD, 3)
        await world.breathe()
        assert world.pauses == [RETRY_S]
        assert world.state()[1] == 1
        assert world.partitions["t", 0].isr == ALL
        assert await world.pass_time(5_001) == [[("t", 0)]]

    run(scenario())


@pytest.mark.parametrize("error", [StoreUnavailable("/"), ValueError("a mistake")])
def test_what_was_not_written_is_written_later(error: Exception) -> None:
    async def scenario() -> None:
        world = World()
        world.errors = [error]
        follow(world.partitions["t", 0], THIRD, 3)
        await world.breathe()
        assert world.pauses == [RETRY_S]
        assert world.partitions["t", 0].isr == ALL

    run(scenario())


def test_a_state_that_cannot_be_read_does_not_keep_others_from_theirs() -> None:
    async def scenario() -> None:
        world = World(count=2)
        world.store.set(paths.partition_state("t", 0), b"no state")
        for index in range(2):
            follow(world.partitions["t", index], THIRD, 3)
        await world.breathe()
        assert RETRY_S in world.pauses
        assert [partition.isr for partition in world.partitions.values()] == [(ME, SECOND), ALL]

    run(scenario())


def test_a_leadership_that_is_over_writes_nothing() -> None:
    async def scenario() -> None:
        world = World()
        partition = world.partitions["t", 0]
        follow(partition, THIRD, 3)
        partition.make_follower(SECOND, 1, replicas=ALL, isr=ALL, partition_epoch=0)
        await world.breathe()
        assert world.store.get(paths.partition_state("t", 0))[1].version == 0

    run(scenario())


def test_who_is_not_live_is_not_written() -> None:
    async def scenario() -> None:
        world = World()
        world.live = {SECOND}
        follow(world.partitions["t", 0], THIRD, 3)
        await world.breathe()
        assert world.store.get(paths.partition_state("t", 0))[1].version == 0

    run(scenario())


def test_a_notice_waits_for_more_changes_and_names_all() -> None:
    async def scenario() -> None:
        world = World(count=2)
        follow(world.partitions["t", 0], THIRD, 3)
        await world.breathe()
        assert await world.pass_time(CHECK_INTERVAL_MS) == []
        follow(world.partitions["t", 1], THIRD, 3)
        await world.breathe()
        assert await world.pass_time(5_000) == []
        assert await world.pass_time(1) == [[("t", 0), ("t", 1)]]
        assert await world.pass_time(100_000) == [[("t", 0), ("t", 1)]]

    run(scenario())


def test_a_notice_does_not_wait_for_ever() -> None:
    async def scenario() -> None:
        world = World(count=20)
        for index in range(19):
            follow(world.partitions["t", index], THIRD, 3)
            await world.breathe()
            said = await world.pass_time(4_000)
            # The sixtieth second after the last notice has passed with the sixteenth change.
            assert (said == []) == (index < 15)
            if said:
                assert said == [[("t", one) for one in range(16)]]

    run(scenario())


def test_a_notice_that_cannot_be_written_is_written_later() -> None:
    async def scenario() -> None:
        world = World()
        follow(world.partitions["t", 0], THIRD, 3)
        await world.breathe()
        world.errors = [StoreUnavailable("/")]
        assert await world.pass_time(5_001) == []
        assert await world.pass_time(CHECK_INTERVAL_MS) == [[("t", 0)]]

    run(scenario())


def test_nothing_is_written_after_the_stop() -> None:
    async def scenario() -> None:
        world = World(count=2)
        follow(world.partitions["t", 0], THIRD, 3)
        await world.breathe()
        world.manager.stop()
        assert await world.pass_time(100_000) == []
        follow(world.partitions["t", 1], THIRD, 3)
        await world.breathe()
        assert world.store.get(paths.partition_state("t", 1))[1].version == 0

    run(scenario())


def test_what_fails_behind_a_write_does_not_keep_others_from_theirs(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        real, failing = ManualClock(NOW), [ZeroDivisionError("a bug")]

        class FailingClock:
            def monotonic_ms(self) -> float:
                return real.monotonic_ms()

            def now_ms(self) -> int:
                if failing:
                    raise failing.pop()
                return real.now_ms()

        world = World(2, FailingClock())
        for index in range(2):
            follow(world.partitions["t", index], THIRD, 3)
        await world.breathe()
        assert world.pauses == [RETRY_S]
        assert world.partitions["t", 1].isr == ALL

    run(scenario())
    assert "ZeroDivisionError: a bug" in caplog.text
