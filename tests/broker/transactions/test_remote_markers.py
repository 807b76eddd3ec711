"""Markers for partitions that other brokers lead."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek.broker.transactions import marker_sender
from odradek.broker.transactions.marker_sender import RemoteMarkers
from odradek.coordinators.transactions.markers import TransactionMarkers
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

from ..fake_channels import BROKEN, FakeChannels

ME, OTHER, THIRD = 1, 2, 3
NONE, NOT_LEADER = ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER
A, B = ("a", 0), ("b", 3)


class World:
    """A sender, what it was answered, and what it gave to the writer of its own broker."""

    def __init__(self, version: str = "3.9") -> None:
        self.channels = FakeChannels()
        self.written: list[TransactionMarkers] = []
        self.not_owed: set[int] = set()
        self.answers: list[Any] = []
        self.send = RemoteMarkers(
            ME,
            lambda broker_id, markers, deliver: self.written.append(markers),
            self.channels,  # type: ignore[arg-type]
            asyncio.get_running_loop(),
            version,
            lambda markers: markers.producer_id not in self.not_owed,
        )

    def ask(self, producer_id: int, *partitions: tuple[str, int], to: int = OTHER, **fields: Any) -> None:
        self.send(to, markers(producer_id, *partitions, **fields), self.answers.append)


def markers(producer_id: int, *partitions: tuple[str, int], **fields: Any) -> TransactionMarkers:
    given = {"producer_epoch": 5, "coordinator_epoch": 7, "commit": True, **fields}
    return TransactionMarkers(
        f"id-{producer_id}", producer_id, partitions=frozenset(partitions or (A,)), **given
    )


def response(*results: tuple[int, tuple[str, int], ErrorCode | int]) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=int(error))
                        ],
                    )
                ],
            )
            for producer_id, (topic, index), error in results
        ]
    )


def in_loop(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        asyncio.run(test())  # type: ignore[arg-type]

    return run


def producers(request: WriteTxnMarkersRequest) -> list[int]:
    return [one.producer_id for one in request.markers]


@in_loop
async def test_a_request_says_what_was_decided() -> None:
    world = World()
    world.ask(10, ("a", 2), ("a", 0), B, commit=False, transaction_version=2)
    sent = await world.channels.take_one()
    assert (sent.broker_id, sent.purpose, sent.version) == (OTHER, "markers", 1)
    (marker,) = sent.request.markers
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (10, 5, 7)
    assert not marker.transaction_result
    assert marker.transaction_version == 2
    assert [(one.name, one.partition_indexes) for one in marker.topics] == [("a", [0, 2]), ("b", [3])]
    # The version in which it goes does not have the field; that is no failure.
    assert WriteTxnMarkersRequest.decode(sent.request.encode(1), 1).markers[0].transaction_version == 0


@in_loop
async def test_the_version_follows_from_the_inter_broker_protocol() -> None:
    world = World("2.7")
    world.ask(10)
    assert (await world.channels.take_one()).version == 0


@in_loop
async def test_what_this_broker_leads_it_writes_itself() -> None:
    world = World()
    world.ask(10, to=ME)
    assert [one.producer_id for one in world.written] == [10]
    assert await world.channels.take() == []


@in_loop
async def test_without_a_leader_there_is_no_answer() -> None:
    world = World()
    world.ask(10, to=-1)
    assert world.answers == [{}]
    assert await world.channels.take() == []


@in_loop
async def test_each_partition_gets_its_own_answer() -> None:
    world = World()
    world.ask(10, A, B)
    sent = await world.channels.take_one()
    sent.answer.set_result(response((10, A, NONE), (10, B, NOT_LEADER)))
    await world.channels.take()
    assert world.answers == [{A: NONE, B: NOT_LEADER}]


@in_loop
async def test_what_is_asked_in_one_turn_goes_in_one_request_per_broker() -> None:
    world = World()
    world.ask(10)
    world.ask(11)
    world.ask(12, to=THIRD)
    sent = await world.channels.take()
    assert {one.broker_id: producers(one.request) for one in sent} == {OTHER: [10, 11], THIRD: [12]}


@in_loop
async def test_one_request_is_under_way_and_the_others_gather() -> None:
    world = World()
    world.ask(10)
    first = await world.channels.take_one()
    world.ask(11)
    world.ask(12)
    assert await world.channels.take() == []
    first.answer.set_result(response((10, A, NONE)))
    second = await world.channels.take_one()
    assert producers(second.request) == [11, 12]
    second.answer.set_result(response((11, A, NONE), (12, A, ErrorCode.TRANSACTION_COORDINATOR_FENCED)))
    assert await world.channels.take() == []
    assert world.answers == [{A: NONE}, {A: NONE}, {A: ErrorCode.TRANSACTION_COORDINATOR_FENCED}]
    assert world.send.waiting == 0


@in_loop
async def test_a_broken_channel_is_no_answer_and_does_not_stop_what_follows() -> None:
    world = World()
    world.ask(10)
    world.ask(11, B)
    broken = await world.channels.take_one()
    world.ask(12)
    broken.answer.set_exception(BROKEN)
    following = await world.channels.take_one()
    assert world.answers == [{}, {}]
    assert producers(following.request) == [12]


@in_loop
async def test_a_request_that_was_given_up_is_no_answer() -> None:
    world = World()
    world.ask(10)
    (await world.channels.take_one()).answer.cancel()
    await world.channels.take()
    assert world.answers == [{}]


@in_loop
async def test_a_producer_is_in_a_request_once() -> None:
    """The answer tells producers apart, not transactions."""
    world = World()
    world.ask(10, A)
    world.ask(10, B)
    world.ask(11, A)
    world.ask(10, ("c", 0))
    first = await world.channels.take_one()
    assert producers(first.request) == [10, 11]
    first.answer.set_result(response((10, A, NONE), (11, A, NONE)))
    for partition in (B, ("c", 0)):
        following = await world.channels.take_one()
        assert [one.name for one in following.request.markers[0].topics] == [partition[0]]
        following.answer.set_result(response((10, partition, NOT_LEADER)))
    await world.channels.take()
    assert world.answers == [{A: NONE}, {A: NONE}, {B: NOT_LEADER}, {("c", 0): NOT_LEADER}]


@in_loop
async def test_what_is_no_longer_owed_is_not_sent() -> None:
    world = World()
    world.ask(10)
    first = await world.channels.take_one()
    world.ask(11)
    world.ask(12)
    world.not_owed.add(11)
    first.answer.set_result(response((10, A, NONE)))
    assert producers((await world.channels.take_one()).request) == [12]


@in_loop
async def test_partitions_that_the_answer_leaves_out_have_none() -> None:
    world = World()
    world.ask(10, A, B)
    world.ask(11)
    (await world.channels.take_one()).answer.set_result(response((10, A, NONE)))
    await world.channels.take()
    assert world.answers == [{A: NONE}, {}]


@in_loop
async def test_an_unknown_error_code_is_an_unknown_error() -> None:
    world = World()
    world.ask(10)
    (await world.channels.take_one()).answer.set_result(response((10, A, 12345)))
    await world.channels.take()
    assert world.answers == [{A: ErrorCode.UNKNOWN_SERVER_ERROR}]


def test_a_request_and_what_waits_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marker_sender, "MAX_PARTITIONS_PER_REQUEST", 2)
    monkeypatch.setattr(marker_sender, "MAX_PARTITIONS_WAITING", 4)

    async def main() -> None:
        world = World()
        world.ask(10, A, B, ("c", 0))
        world.ask(11)
        world.ask(12, A)
        assert world.answers == [{}]
        first = await world.channels.take_one()
        assert producers(first.request) == [10]
        world.ask(13)
        first.answer.set_exception(BROKEN)
        assert producers((await world.channels.take_one()).request) == [11, 13]

    asyncio.run(main())


@in_loop
async def test_an_answer_that_cannot_be_taken_keeps_none_of_the_others_back() -> None:
    world = World()

    def fail(errors: Any) -> None:
        raise RuntimeError("a fault of ours")

    world.send(OTHER, markers(1), fail)
    world.ask(2)
    sent = await world.channels.take_one()
    world.ask(3)
    sent.answer.set_result(response((1, A, NONE), (2, A, NONE)))
    following = await world.channels.take_one()
    assert world.answers == [{A: NONE}]
    assert producers(following.request) == [3]


@in_loop
async def test_an_answer_that_cannot_be_read_is_no_answer_and_does_not_stop_what_follows() -> None:
    world = World()
    world.ask(10)
    broken = await world.channels.take_one()
    world.ask(11)
    broken.answer.set_result(None)
    following = await world.channels.take_one()
    assert world.answers == [{}]
    assert producers(following.request) == [11]
