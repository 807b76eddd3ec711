"""Fetchers of a broker that talk to leaders over channels in memory: who fetches what, pauses, the end."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.config.broker_config import BrokerConfig
from odradek.broker.event_loop.slices import Slicer
from odradek.broker.interbroker import replica_fetcher_manager
from odradek.broker.interbroker.channel import ChannelBroken
from odradek.broker.interbroker.replica_fetcher_manager import (
    Assignment,
    ReplicaFetcherManager,
    fetcher_number,
)
from odradek.log.config import LogConfig
from odradek.log.startup.loading import open_partition_log
from odradek.log.storage.memory_files import MemoryFileSystem
from odradek.replication.partition import Partition
from odradek.util.clock import ManualClock
from odradek.util.timers import ManualTimers
from odradek.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from replication.leading_side import ID, LeadingBroker
from replication.replicas import NOW, batch

ME, LEADER, OTHER = 2, 1, 3


class Channel:
    """Hands requests to a broker when the test lets it."""

    def __init__(self, broker_id: int, client_id: str) -> None:
        self.broker_id = broker_id
        self.client_id = client_id
        self.sent: list[tuple[Any, int, asyncio.Future[Any]]] = []
        self.requests = 0
        self.resets = 0
        self.closed = False

    def send(self, request: Any, version: int) -> asyncio.Future[Any]:
        assert not self.sent, "one request at a time"
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.sent.append((request, version, answer))
        self.requests += 1
        return answer

    def send_negotiated(self, request: Any, newest: int) -> asyncio.Future[Any]:
        return self.send(request, newest)

    def reset(self, reason: str) -> None:
        self.resets += 1
        while self.sent:
            self.sent.pop()[2].set_exception(ChannelBroken(reason))

    def close(self) -> None:
        self.closed = True


class World:
    """A broker that follows, and two that lead."""

    def __init__(self, *, ibp: str = "3.9", slicer: Slicer | None = None, **config: str) -> None:
        self.channels: list[Channel] = []
        self.broker_epoch = -1
        self.clock = ManualClock(NOW)
        self.timers = ManualTimers(self.clock)
        self.mine = [self.replica(ME, index) for index in range(4)]
        self.sides: dict[int, LeadingBroker] = {}
        for one in (LEADER, OTHER):
            partitions = [self.replica(one, index) for index in range(4)]
            for partition in partitions:
                partition.make_leader(0, replicas=(one, ME), isr=(one,), partition_epoch=0, now_ms=NOW)
            self.sides[one] = LeadingBroker(partitions, seed=one)
        properties = {name.replace("_", "."): value for name, value in config.items()}
        self.manager = ReplicaFetcherManager(
            self,
            BrokerConfig(properties),
            self.clock,
            self.timers,
            slicer or Slicer(),
            broker_id=ME,
            ibp=ibp,
            endpoint_of=lambda broker_id: None,
            broker_epoch=lambda: self.broker_epoch,
        )

    def replica(self, broker_id: int, index: int) -> Partition:
        log = open_partition_log(
            Path(f"/data/t-{index}"), "t", index, LogConfig(), MemoryFileSystem(), self.clock
        )
        return Partition(log, topic="t", index=index, broker_id=broker_id)

    def channel(
        self, broker_id: int, endpoint: Callable[[], object], client_id: str, timeout_ms: int
    ) -> Channel:
        assert timeout_ms == 30_000
        self.channels.append(Channel(broker_id, client_id))
        return self.channels[-1]

    def follow(self, leader: int, *indexes: int, epoch: int = 0) -> None:
        for index in indexes:
            self.mine[index].make_follower(
                leader, epoch, replicas=(leader, ME), isr=(leader,), partition_epoch=0
            )
        self.manager.add([Assignment(self.mine[index], leader, epoch, ID) for index in indexes])

    def write(self, leader: int, index: int, count: int = 1) -> None:
        self.sides[leader].partitions[index].append(batch(count), required_acks=1, now_ms=NOW)

    async def answer(self) -> None:
        """Answer what is under way, once."""
        for channel in self.channels:
            if channel.sent and not channel.closed:
                request, version, answer = channel.sent.pop()
                answer.set_result(self.sides[channel.broker_id].answer(request, version))
        await turns()

    async def break_all(self) -> None:
        for channel in self.channels:
            if channel.sent:
                channel.sent.pop()[2].set_exception(ChannelBroken("gone"))
        await turns()

    @property
    def ends(self) -> list[int]:
        return [one.log_end_offset for one in self.mine]


async def turns() -> None:
    for _ in range(30):
        await asyncio.sleep(0)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def test_partitions_are_copied_from_their_leaders_and_go_on_with_a_new_one() -> None:
    async def scenario() -> None:
        world = World()
        world.write(LEADER, 0, 3)
        world.write(OTHER, 1, 2)
        world.follow(LEADER, 0)
        world.follow(OTHER, 1)
        await world.answer()
        assert world.ends == [3, 2, 0, 0]
        assert [channel.client_id for channel in world.channels] == ["broker-2-fetcher-0"] * 2
        assert len(world.manager) == 2
        assert dict(world.manager.lags()) == {("t", 0): 0, ("t", 1): 0}

        # Another leads 0 now; its log is the same and goes on.
        moved = world.sides[OTHER].partitions[0]
        moved.make_leader(1, replicas=(OTHER, ME), isr=(OTHER,), partition_epoch=1, now_ms=NOW)
        world.write(OTHER, 0, 4)
        world.follow(OTHER, 0, epoch=1)
        world.manager.shutdown_idle_fetchers()
        assert world.channels[0].closed
        assert len(world.manager) == 1
        for _ in range(5):
            await world.answer()
        assert world.ends == [4, 2, 0, 0]

    run(scenario())


def test_after_a_broken_connection_there_is_a_pause() -> None:
    async def scenario() -> None:
        world = World(replica_fetch_backoff_ms="300")
        world.write(LEADER, 0)
        world.follow(LEADER, 0)
        await world.break_all()
        (channel,) = world.channels
        assert channel.requests == 1
        world.timers.advance(299)
        assert channel.requests == 1
        world.timers.advance(1)
        assert channel.requests == 2
        await world.answer()
        assert world.ends[0] == 1

    run(scenario())


def test_an_answer_that_is_nonsense_is_a_pause_too() -> None:
    async def scenario() -> None:
        world = World()
        world.follow(LEADER, 0)
        (channel,) = world.channels
        channel.sent.pop()[2].set_result(object())
        await turns()
        assert channel.requests == 1
        world.timers.advance(1000)
        assert channel.requests == 2

    run(scenario())


def test_removed_partitions_are_not_copied_and_an_idle_fetcher_ends() -> None:
    async def scenario() -> None:
        world = World()
        for index in (0, 1):
            world.write(LEADER, index)
        world.follow(LEADER, 0, 1)
        world.manager.remove([("t", 0), ("unknown", 7)])
        await world.answer()
        assert world.ends[:2] == [0, 1]
        world.manager.remove([("t", 1)])
        world.manager.shutdown_idle_fetchers()
        assert len(world.manager) == 0
        assert world.channels[0].closed

    run(scenario())


def test_there_are_as_many_fetchers_as_wanted_and_each_partition_has_one() -> None:
    async def scenario() -> None:
        world = World(num_replica_fetchers="2")
        world.follow(LEADER, 0, 1, 2, 3)
        assert len(world.manager) == 2
        assert {fetcher_number(("t", index), 2) for index in range(4)} == {0, 1}
        world.manager.resize(1)
        assert len(world.manager) == 1
        for index in range(4):
            world.write(LEADER, index)
        for _ in range(3):
            await world.answer()
        assert world.ends == [1, 1, 1, 1]

    run(scenario())


def test_a_newcomer_does_not_wait_for_the_fetch_of_the_others() -> None:
    async def scenario() -> None:
        world = World()
        world.follow(LEADER, 0)
        await world.answer()
        (channel,) = world.channels
        asked = channel.requests
        session = channel.sent[0][0].session_id
        assert channel.sent[0][0].session_epoch == 1

        # The leader holds it. No timer runs out from here on.
        world.write(LEADER, 1, 3)
        world.follow(LEADER, 1)
        world.follow(LEADER, 2)
        await turns()
        assert channel.resets == 1
        assert channel.requests == asked + 1
        anew = channel.sent[0][0]
        assert (anew.session_id, anew.session_epoch) == (session, 0)
        assert [one.partition for topic in anew.topics for one in topic.partitions] == [0, 1, 2]
        await world.answer()
        assert world.ends[1] == 3
        assert dict(world.manager.lags()) == {("t", 0): 0, ("t", 1): 0, ("t", 2): 0}

    run(scenario())


def test_a_newcomer_waits_for_an_answer_that_is_taken_and_for_questions_about_epochs() -> None:
    async def scenario() -> None:
        world = World(ibp="2.4")
        world.write(LEADER, 0, 1)
        world.follow(LEADER, 0)
        for _ in range(3):
            await world.answer()
        assert world.ends[0] == 1
        world.sides[LEADER].partitions[0].make_leader(
            1, replicas=(LEADER, ME), isr=(LEADER,), partition_epoch=1, now_ms=NOW
        )
        world.manager.remove([("t", 0)])
        world.manager.shutdown_idle_fetchers()
        world.follow(LEADER, 0, epoch=1)
        channel = world.channels[-1]
        assert isinstance(channel.sent[0][0], OffsetForLeaderEpochRequest)
        world.follow(LEADER, 1)
        await turns()
        assert channel.resets == 0
        assert channel.requests == 1
        await world.answer()

        # An answer that is here, and not yet taken.
        request, version, answer = channel.sent.pop()
        asked = channel.requests
        answer.set_result(world.sides[LEADER].answer(request, version))
        world.follow(LEADER, 2)
        assert channel.resets == 0
        await turns()
        assert channel.requests == asked + 1

    run(scenario())


def test_a_newcomer_among_very_many_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_fetcher_manager, "MAX_ASKED_ANEW", 1)

    async def scenario() -> None:
        world = World()
        world.follow(LEADER, 0)
        world.follow(LEADER, 1)
        await turns()
        (channel,) = world.channels
        assert channel.resets == 0
        assert channel.requests == 1

    run(scenario())


def test_a_broker_names_its_last_registration_until_it_has_another() -> None:
    async def scenario() -> None:
        world = World()
        epochs = []
        world.follow(LEADER, 0)
        for broker_epoch in (7, -1, 9, -1):
            world.broker_epoch = broker_epoch
            await world.answer()
            epochs.append(world.channels[0].sent[0][0].replica_state.replica_epoch)
        assert epochs == [7, 7, 9, 9]

    run(scenario())


def test_nobody_to_follow_and_the_end() -> None:
    async def scenario() -> None:
        world = World()
        world.write(LEADER, 0)
        world.follow(LEADER, 0)
        world.manager.add([Assignment(world.mine[0], -1, 1, ID)])
        await world.answer()
        assert world.ends[0] == 0
        world.follow(LEADER, 0)
        world.manager.stop()
        assert all(channel.closed for channel in world.channels)
        world.follow(LEADER, 1)
        assert len(world.manager) == 0
        assert world.manager.max_lag == world.manager.failed_partitions_count == 0

    run(scenario())


def test_an_answer_that_is_being_taken_changes_no_log_after_the_stop() -> None:
    """The broker closes its logs next: what came to them after that would be damage to the next start."""

    async def scenario() -> None:
        # A slice is over after each step.
        world = World(slicer=Slicer(partial(next, itertools.count())))
        for index in range(4):
            world.write(LEADER, index)
        world.follow(LEADER, *range(4))
        request, version, answer = world.channels[0].sent.pop()
        answer.set_result(world.sides[LEADER].answer(request, version))
        for _ in range(100):
            if any(world.ends):
                break
            await asyncio.sleep(0)
        ends = world.ends
        assert 0 < sum(ends) < 4
        world.manager.stop()
        await turns()
        assert world.ends == ends

    run(scenario())


def test_a_fenced_partition_is_counted() -> None:
    async def scenario() -> None:
        world = World()
        partition = world.sides[LEADER].partitions[0]
        partition.make_leader(5, replicas=(LEADER, ME), isr=(LEADER,), partition_epoch=1, now_ms=NOW)
        world.follow(LEADER, 0)
        await world.answer()
        assert world.manager.failed_partitions_count == 1

    run(scenario())
