"""Transactions whose coordinator is on another broker: asked for, or joined, over AddPartitionsToTxn."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from odradek.broker.transactions.remote_coordinator import RemoteCoordinator
from odradek.errors import UnsupportedVersionError
from odradek.errors.codes import ErrorCode
from odradek.wire.errors import InvalidMessageError
from odradek.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

from ..fake_channels import BROKEN, FakeChannels
from .test_remote_markers import in_loop

OTHER, THIRD = 2, 3
NONE, NETWORK, OLD_EPOCH = ErrorCode.NONE, ErrorCode.NETWORK_EXCEPTION, ErrorCode.INVALID_PRODUCER_EPOCH
A, B = ("a", 0), ("b", 3)


class World:
    """What asks, over channels of the test's own."""

    def __init__(self) -> None:
        self.channels = FakeChannels()
        self.remote = RemoteCoordinator(self.channels, asyncio.get_running_loop())  # type: ignore[arg-type]

    def ask(
        self, name: str, *partitions: tuple[str, int], to: int = OTHER, epoch: int = 0, **fields: Any
    ) -> asyncio.Future[Any]:
        producer_id = fields.pop("producer_id", 10)
        given = {"verify_only": True, **fields}
        return self.remote.ask(to, name, producer_id, epoch, list(partitions or (A,)), **given)


def response(*results: tuple[str, tuple[str, int], ErrorCode | int]) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=name,
                topic_results=[
                    AddPartitionsToTxnTopicResult(
                        name=topic,
                        results_by_partition=[
                            AddPartitionsToTxnPartitionResult(
                                partition_index=index, partition_error_code=int(error)
                            )
                        ],
                    )
                ],
            )
            for name, (topic, index), error in results
        ]
    )


def names(request: AddPartitionsToTxnRequest) -> list[tuple[str, int, bool]]:
    return [(one.transactional_id, one.producer_epoch, one.verify_only) for one in request.transactions]


@in_loop
async def test_a_question_and_its_answer() -> None:
    world = World()
    asked = world.ask("x", ("a", 2), A, B, epoch=4, verify_only=False)
    sent = await world.channels.take_one()
    assert (sent.broker_id, sent.purpose, sent.version) == (OTHER, "verification", 5)
    (one,) = sent.request.transactions
    assert (one.transactional_id, one.producer_id, one.producer_epoch) == ("x", 10, 4)
    assert not one.verify_only
    assert [(topic.name, topic.partitions) for topic in one.topics] == [("a", [2, 0]), ("b", [3])]
    sent.answer.set_result(
        response(("x", ("a", 2), NONE), ("x", A, NONE), ("x", B, ErrorCode.TRANSACTION_ABORTABLE))
    )
    assert await asked == {("a", 2): NONE, A: NONE, B: ErrorCode.TRANSACTION_ABORTABLE}


@in_loop
async def test_one_request_is_under_way_to_each_broker_and_the_others_gather() -> None:
    world = World()
    world.ask("x")
    world.ask("z", to=THIRD)
    first, elsewhere = await world.channels.take()
    assert [elsewhere.broker_id, *names(elsewhere.request)] == [THIRD, ("z", 0, True)]
    asked = [world.ask("x", epoch=0), world.ask("y", verify_only=False)]
    assert await world.channels.take() == []
    first.answer.set_result(response(("x", A, NONE)))
    second = await world.channels.take_one()
    assert names(second.request) == [("x", 0, True), ("y", 0, False)]
    second.answer.set_result(response(("x", A, NONE), ("y", A, ErrorCode.NOT_COORDINATOR)))
    assert [await one for one in asked] == [{A: NONE}, {A: ErrorCode.NOT_COORDINATOR}]


@in_loop
async def test_the_same_producer_asks_as_one() -> None:
    world = World()
    first, second = world.ask("x", A), world.ask("x", B, A)
    sent = await world.channels.take_one()
    (one,) = sent.request.transactions
    assert [(topic.name, topic.partitions) for topic in one.topics] == [("a", [0]), ("b", [3])]
    sent.answer.set_result(response(("x", A, NONE), ("x", B, ErrorCode.TRANSACTION_ABORTABLE)))
    assert await first == {A: NONE}
    assert await second == {A: NONE, B: ErrorCode.TRANSACTION_ABORTABLE}


@in_loop
async def test_a_newer_epoch_fences_what_waits() -> None:
    world = World()
    older = world.ask("x", epoch=1)
    newer = world.ask("x", epoch=2)
    oldest = world.ask("x", epoch=0)
    assert await older == {A: OLD_EPOCH}
    assert await oldest == {A: OLD_EPOCH}
    sent = await world.channels.take_one()
    assert names(sent.request) == [("x", 2, True)]
    sent.answer.set_result(response(("x", A, NONE)))
    assert await newer == {A: NONE}


@in_loop
async def test_an_id_is_in_a_request_once() -> None:
    """Another producer of the id, or the other kind of question, waits for the next one."""
    world = World()
    asked = [
        world.ask("x"),
        world.ask("x", verify_only=False),
        world.ask("x", producer_id=11),
    ]
    for verify_only, producer_id in ((True, 10), (False, 10), (True, 11)):
        sent = await world.channels.take_one()
        (one,) = sent.request.transactions
        assert (one.verify_only, one.producer_id) == (verify_only, producer_id)
        sent.answer.set_result(response(("x", A, NONE)))
    assert [await one for one in asked] == [{A: NONE}] * 3


@in_loop
async def test_a_broken_channel_is_a_network_exception_and_does_not_stop_what_follows() -> None:
    world = World()
    asked = [world.ask("x"), world.ask("y")]
    broken = await world.channels.take_one()
    following = world.ask("x")
    broken.answer.set_exception(BROKEN)
    assert [await one for one in asked] == [{A: NETWORK}] * 2
    (await world.channels.take_one()).answer.set_result(response(("x", A, NONE)))
    assert await following == {A: NONE}


@in_loop
async def test_what_the_answer_leaves_out_is_a_network_exception() -> None:
    world = World()
    asked = [world.ask("x", A, B), world.ask("y")]
    (await world.channels.take_one()).answer.set_result(response(("x", A, NONE)))
    assert [await one for one in asked] == [{A: NONE, B: NETWORK}, {A: NETWORK}]


@in_loop
async def test_what_another_partition_is_to_blame_for_may_be_tried_again() -> None:
    world = World()
    asked = world.ask("x", A, B)
    (await world.channels.take_one()).answer.set_result(
        response(("x", A, ErrorCode.OPERATION_NOT_ATTEMPTED), ("x", B, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    )
    assert await asked == {A: NETWORK, B: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR),
        (12345, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_request_that_is_refused_as_a_whole(said: int, seen: ErrorCode) -> None:
    async def main() -> None:
        world = World()
        asked = world.ask("x")
        (await world.channels.take_one()).answer.set_result(AddPartitionsToTxnResponse(error_code=int(said)))
        assert await asked == {A: seen}

    asyncio.run(main())


@pytest.mark.parametrize("error", [UnsupportedVersionError("too old"), InvalidMessageError("too old")])
def test_a_broker_that_cannot_verify(error: Exception) -> None:
    async def main() -> None:
        world = World()
        verified, added = world.ask("x"), world.ask("y", verify_only=False)
        (await world.channels.take_one()).answer.set_exception(error)
        assert await verified == {A: NONE}
        assert await added == {A: ErrorCode.UNSUPPORTED_VERSION}

    asyncio.run(main())


@in_loop
async def test_a_peer_that_has_gone_is_no_failure() -> None:
    world = World()
    gone, there = world.ask("x"), world.ask("x")
    sent = await world.channels.take_one()
    gone.cancel()
    sent.answer.set_result(response(("x", A, NONE)))
    assert await there == {A: NONE}


@in_loop
async def test_an_answer_that_cannot_be_read_is_a_network_exception_and_does_not_stop_what_follows() -> None:
    world = World()
    asked = world.ask("x")
    broken = await world.channels.take_one()
    following = world.ask("x")
    broken.answer.set_result(None)
    sent = await world.channels.take_one()
    assert await asked == {A: NETWORK}
    sent.answer.set_result(response(("x", A, NONE)))
    assert await following == {A: NONE}
