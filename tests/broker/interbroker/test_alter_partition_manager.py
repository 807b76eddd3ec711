"""Wishes for in-sync sets on their way to the controller: one request at a time, until they are settled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from odradek.broker.interbroker.alter_partition_manager import REFUSED_REST_MS, AlterPartitionManager
from odradek.broker.interbroker.channel import ChannelBroken
from odradek.broker.interbroker.unsent_isr_updates import RETRY_S
from odradek.errors.codes import ErrorCode
from odradek.replication.leadership import Leadership
from odradek.replication.partition import Partition
from odradek.util.clock import ManualClock
from odradek.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from replication.replicas import ME, NOW, SECOND, THIRD, append, follow, lead, make

ALL = (ME, SECOND, THIRD)
ID = b"t" * 16


class World:
    """A broker that leads two partitions, and a controller that answers when the test says so."""

    def __init__(self, topic_id: bytes | None = ID, newest: int = 3) -> None:
        self.partitions: dict[tuple[str, int], Partition] = {}
        self.newest = newest
        self.sent: list[tuple[int, AlterPartitionRequest]] = []
        self.answers: list[asyncio.Future[AlterPartitionResponse]] = []
        self.pauses: list[float] = []
        self.epoch = 77
        self.clock = ManualClock(NOW)
        self.live = {SECOND, THIRD}
        self.manager = AlterPartitionManager(
            broker_id=ME,
            channels=self,
            replicas=self,
            clock=self.clock,
            broker_epoch=lambda: self.epoch,
            is_eligible=lambda one: one in self.live,
            pause=self.pause,
        )
        for index in range(2):
            partition, _ = make()
            partition.index, partition.key = index, ("t", index)
            if topic_id is not None:
                partition.log.set_topic_id(topic_id)
            partition.on_isr_wanted = self.manager.want
            self.partitions["t", index] = partition
            lead(partition, replicas=ALL, isr=(ME, SECOND))
            append(partition, 3)
            follow(partition, SECOND, 3)

    def find(self, topic: str, index: int) -> Leadership | None:
        return self.partitions.get((topic, index))

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.epoch = abs(self.epoch)
        await asyncio.sleep(0)

    async def to_controller(self, request: Any, newest: int, purpose: str) -> Any:
        version = min(newest, self.newest)
        self.sent.append((version, AlterPartitionRequest.decode(request.encode(version), version)))
        self.answers.append(asyncio.get_running_loop().create_future())
        return await self.answers[-1]

    async def breathe(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    async def answer(self, *partitions: ResponsePartitionData, error: int = 0, name: str = "") -> None:
        topic = ResponseTopicData(topic_name=name, topic_id=bytes(16) if name else ID)
        topic.partitions = list(partitions)
        response = AlterPartitionResponse(error_code=error, topics=[topic] if partitions else [])
        self.answers[-1].set_result(response)
        await self.breathe()

    @property
    def last(self) -> dict[int, list[int]]:
        """The ISRs in the newest request, by partition."""
        (topic,) = self.sent[-1][1].topics
        return {
            one.partition_index: one.new_isr or [member.broker_id for member in one.new_isr_with_epochs]
            for one in topic.partitions
        }


def granted(index: int, isr: tuple[int, ...] = ALL, partition_epoch: int = 1) -> ResponsePartitionData:
    return ResponsePartitionData(
        partition_index=index, leader_id=ME, leader_epoch=0, isr=list(isr), partition_epoch=partition_epoch
    )


def refused(index: int, error: ErrorCode) -> ResponsePartitionData:
    return ResponsePartitionData(partition_index=index, error_code=int(error))


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


def test_a_wish_is_asked_for_and_granted() -> None:
    async def scenario() -> None:
        world = World()
        partition = world.partitions["t", 0]
        follow(partition, THIRD, 3)
        await world.breathe()
        version, request = world.sent[0]
        assert (version, request.broker_id, request.broker_epoch) == (3, ME, 77)
        (one,) = request.topics[0].partitions
        assert (request.topics[0].topic_id, one.leader_epoch, one.partition_epoch) == (ID, 0, 0)
        assert [(m.broker_id, m.broker_epoch) for m in one.new_isr_with_epochs] == [(1, -1), (2, -1), (3, -1)]
        await world.answer(granted(0))
        assert (partition.isr, partition.partition_epoch) == (ALL, 1)
        assert (len(world.sent), world.pauses) == (1, [])

    run(scenario())


def test_the_lives_of_members_are_those_in_which_they_were_in_sync() -> None:
    async def scenario() -> None:
        world = World()
        partition = world.partitions["t", 0]
        partition.record_follower_fetch(
            THIRD, fetch_offset=3, log_start_offset=0, now_ms=NOW, broker_epoch=500
        )
        await world.breathe()
        world.answers[-1].set_exception(ChannelBroken("gone"))
        # It has come back with less, before the controller has heard of the wish.
        partition.record_follower_fetch(
            THIRD, fetch_offset=1, log_start_offset=0, now_ms=NOW, broker_epoch=501
        )
        await world.breathe()
        for _, request in world.sent:
            (one,) = request.topics[0].partitions
            members = {member.broker_id: member.broker_epoch for member in one.new_isr_with_epochs}
            assert members == {ME: -1, SECOND: -1, THIRD: 500}
        assert len(world.sent) == 2

    run(scenario())


def test_what_comes_meanwhile_goes_with_the_next_request() -> None:
    async def scenario() -> None:
        world = World()
        follow(world.partitions["t", 0], THIRD, 3)
        await world.breathe()
        follow(world.partitions["t", 1], THIRD, 3)
        await world.breathe()
        assert (len(world.sent), world.last) == (1, {0: [1, 2, 3]})
        await world.answer(granted(0))
        assert (len(world.sent), world.last) == (2, {1: [1, 2, 3]})
        await world.answer(granted(1))
        assert world.partitions["t", 1].isr == ALL
        assert len(world.sent) == 2

    run(scenario())


@pytest.mark.parametrize(
    "error", [ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH, ErrorCode.KAFKA_STORAGE_ERROR]
)
def test_a_refusal_of_all_is_asked_again(error: ErrorCode) -> None:
    async def scenario() -> None:
        world = World()
        follow(world.partitions["t", 0], THIRD, 3)
        await world.breathe()
        await world.answer(error=int(error))
        assert world.partitions["t", 0].isr_state.wanted == ALL
        assert (len(world.sent), world.pauses) == (2, [RETRY_S])
        await world.answer(granted(0))
        assert world.partitions["t", 0].isr == ALL

    run(scenario())


@pytest.mark.parametrize("error", [ChannelBroken("gone"), ValueError("a mistake")])
def test_what_did_not_arrive_is_sent_again(error: Exception) -> None:
    async def scenario() -> None:
        world = World()
        follow(world.partitions["t", 0], THIRD, 3)
        await world.breathe()
        world.answers[-1].set_exception(error)
        await world.breathe()
        assert world.partitions["t", 0].isr_state.wanted == ALL
        assert (len(world.sent), world.last, world.pauses) == (2, {0: [1, 2, 3]}, [RETRY_S])

    run(scenario())


@pytest.mark.parametrize("error", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_what_is_never_granted_may_be_wished_for_anew(error: ErrorCode) -> None:
    async def scenario() -> None:
        world = World()
        partition = world.partitions["t", 0]
        follow(partition, THIRD, 3)
        await world.breathe()
        await world.answer(refused(0, error))
        assert (partition.isr_state.wanted, len(world.sent)) == (None, 1)
        # Not with each of the fetches that a broker makes while it is about to leave.
        follow(partition, THIRD, 3)
        await world.breathe()
        assert (partition.isr_state.wanted, len(world.sent)) == (None, 1)
        world.clock.advance(REFUSED_REST_MS)
        follow(partition, THIRD, 3)
        await world.breathe()
        assert len(world.sent) == 2

    run(scenario())


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
    ],
)
def test_a_controller_that_knows_more_will_tell(error: ErrorCode) -> None:
    async def scenario() -> None:
        world = World()
        partition = world.partitions["t", 0]
        follow(partition, THIRD, 3)
        await world.breathe()
        await world.answer(refused(0, error))
        # It may have been granted: the larger set counts until LeaderAndIsr comes.
        assert (partition.isr_state.maximal, len(world.sent)) == (ALL, 1)

    run(scenario())


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NOT_CONTROLLER])
def test_what_may_have_been_granted_is_asked_again(error: ErrorCode) -> None:
    async def scenario() -> None:
        world = World()
        for partition in world.partitions.values():
            follow(partition, THIRD, 3)
        await world.breathe()
        await world.answer(granted(0), refused(1, error))
        assert world.partitions["t", 0].isr == ALL
        assert world.partitions["t", 1].isr_state.maximal == ALL
        assert (world.last, world.pauses) == ({1: [1, 2, 3]}, [RETRY_S])

    run(scenario())


def test_what_an_answer_leaves_out_is_asked_again() -> None:
    async def scenario() -> None:
        world = World()
        follow(world.partitions["t", 0], THIRD, 3)
        await world.breathe()
        await world.answer()
        assert (world.last, world.pauses) == ({0: [1, 2, 3]}, [RETRY_S])

    run(scenario())


def test_a_wish_of_a_leadership_that_is_over_is_not_sent_again() -> None:
    async def scenario() -> None:
        world = World()
        follow(world.partitions["t", 0], THIRD, 3)
        await world.breathe()
        lead(world.partitions["t", 0], epoch=1, replicas=ALL, isr=(ME, SECOND))
        await world.answer(error=int(ErrorCode.NOT_CONTROLLER))
        assert len(world.sent) == 1

    run(scenario())


def test_a_wish_of_a_partition_that_is_gone_is_forgotten() -> None:
    async def scenario() -> None:
        world = World()
        follow(world.partitions.pop(("t", 0)), THIRD, 3)
        await world.breathe()
        assert world.sent == []

    run(scenario())


def test_nothing_is_sent_by_a_broker_that_is_not_registered() -> None:
    async def scenario() -> None:
        world = World()
        world.epoch = -1
        follow(world.partitions["t", 0], THIRD, 3)
        await world.breathe()
        assert world.pauses == [RETRY_S]
        assert [request.broker_epoch for _, request in world.sent] == [1]

    run(scenario())


def test_who_is_not_live_is_not_asked_for() -> None:
    async def scenario() -> None:
        world = World()
        world.live = {SECOND}
        follow(world.partitions["t", 0], THIRD, 3)
        await world.breathe()
        assert (world.sent, world.partitions["t", 0].isr_state.wanted) == ([], None)

    run(scenario())


@pytest.mark.parametrize("newest", [0, 1, 2])
def test_a_controller_of_old_is_told_the_members_without_epochs(newest: int) -> None:
    async def scenario() -> None:
        world = World(newest=newest)
        follow(world.partitions["t", 0], THIRD, 3)
        await world.breathe()
        assert (world.sent[0][0], world.last) == (newest, {0: [1, 2, 3]})
        await world.answer(granted(0), name="" if newest == 2 else "t")
        assert world.partitions["t", 0].isr == ALL

    run(scenario())


def test_a_topic_without_an_id_is_named() -> None:
    async def scenario() -> None:
        world = World(topic_id=None)
        follow(world.partitions["t", 0], THIRD, 3)
        await world.breathe()
        version, request = world.sent[0]
        assert (version, request.topics[0].topic_name, world.last) == (1, "t", {0: [1, 2, 3]})
        await world.answer(granted(0), name="t")
        assert world.partitions["t", 0].isr == ALL

    run(scenario())


def test_nothing_is_asked_for_after_the_stop() -> None:
    async def scenario() -> None:
        world = World()
        follow(world.partitions["t", 0], THIRD, 3)
        await world.breathe()
        world.manager.stop()
        await world.breathe()
        follow(world.partitions["t", 1], THIRD, 3)
        await world.breathe()
        assert len(world.sent) == 1
        assert world.partitions["t", 1].isr_state.wanted is None

    run(scenario())


def test_an_answer_that_cannot_be_taken_is_asked_for_again(caplog: pytest.LogCaptureFixture) -> None:
    """The wish stays, and nobody else would bring it."""

    async def scenario() -> None:
        world = World()
        follow(world.partitions["t", 0], THIRD, 3)
        await world.breathe()
        real, failing = world.find, [ZeroDivisionError("a bug")]

        def find(topic: str, index: int) -> Leadership | None:
            if failing:
                raise failing.pop()
            return real(topic, index)

        world.find = find  # type: ignore[method-assign]
        await world.answer(granted(0))
        assert world.pauses == [RETRY_S]
        await world.answer(granted(0))
        assert world.partitions["t", 0].isr == ALL

    run(scenario())
    assert "ZeroDivisionError: a bug" in caplog.text


def test_an_error_of_a_later_release_is_one_that_may_pass() -> None:
    async def scenario() -> None:
        world = World()
        follow(world.partitions["t", 0], THIRD, 3)
        await world.breathe()
        await world.answer(ResponsePartitionData(partition_index=0, error_code=9_999))
        assert world.pauses == [RETRY_S]
        await world.answer(granted(0))
        assert world.partitions["t", 0].isr == ALL

    run(scenario())
