"""Walks of the APIs of transactions."""

from __future__ import annotations

from typing import Any

from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages import add_partitions_to_txn, txn_offset_commit, write_txn_markers
from odradek.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.wire.messages.describe_transactions import DescribeTransactionsRequest
from odradek.wire.messages.end_txn import EndTxnRequest
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.list_transactions import ListTransactionsRequest
from odradek.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from waiting import until_async

from . import live
from .meaningful import GROUP, TOPIC, fine, walk
from .sweep import Sweeper, error_codes

NEED_A_PRODUCER = {
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.DESCRIBE_TRANSACTIONS,
}
"""No golden request knows an id and an epoch that the broker has given out."""


async def producer(sweeper: Sweeper, name: str) -> dict[str, Any]:
    """Fields that name a producer which has just initialised."""
    request = FindCoordinatorRequest(key_type=1, key=name)
    await until_async(
        lambda: sweeper.ask(request, 1),
        f"the coordinator of {name}",
        holds=lambda answer: not answer.error_code,
        every_s=0,
    )
    answer = await fine(sweeper, InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000), 4)
    return {
        "transactional_id": name,
        "producer_id": answer.producer_id,
        "producer_epoch": answer.producer_epoch,
    }


async def begin(sweeper: Sweeper, one: dict[str, Any]) -> None:
    """Let a partition join its transaction."""
    await fine(sweeper, _add_request(one, 3), 3)


async def state(sweeper: Sweeper, name: str) -> Any:
    """The description of a transactional id, all timers having fired that are due."""
    sweeper.timers.advance(0)
    answer = await fine(sweeper, DescribeTransactionsRequest(transactional_ids=[name]), 0)
    return answer.transaction_states[0]


def _add_request(one: dict[str, Any], version: int) -> add_partitions_to_txn.AddPartitionsToTxnRequest:
    topics = [add_partitions_to_txn.AddPartitionsToTxnTopic(name=TOPIC, partitions=[1])]
    if version >= 4:
        transactions = [add_partitions_to_txn.AddPartitionsToTxnTransaction(topics=topics, **one)]
        return add_partitions_to_txn.AddPartitionsToTxnRequest(transactions=transactions)
    fields = {f"v3_and_below_{name}": value for name, value in one.items()}
    return add_partitions_to_txn.AddPartitionsToTxnRequest(v3_and_below_topics=topics, **fields)


@walk(ApiKey.ADD_PARTITIONS_TO_TXN)
async def add(sweeper: Sweeper, version: int) -> None:
    one = await producer(sweeper, f"add {version}")
    if version >= 4:
        asked = _add_request(one, version)
        asked.transactions[0].verify_only = True
        refused = error_codes(await sweeper.ask(asked, version))
        assert ErrorCode.TRANSACTION_ABORTABLE in refused
    await fine(sweeper, _add_request(one, version), version)
    found = await state(sweeper, one["transactional_id"])
    assert (found.transaction_state, found.topics[0].partitions) == ("Ongoing", [1])


@walk(ApiKey.ADD_OFFSETS_TO_TXN)
async def add_offsets(sweeper: Sweeper, version: int) -> None:
    one = await producer(sweeper, f"offsets {version}")
    await fine(sweeper, AddOffsetsToTxnRequest(group_id=GROUP, **one), version)
    found = await state(sweeper, one["transactional_id"])
    assert [topic.topic for topic in found.topics] == ["__consumer_offsets"]


@walk(ApiKey.TXN_OFFSET_COMMIT)
async def commit_offsets(sweeper: Sweeper, version: int) -> None:
    one = await producer(sweeper, f"offsets {version}")
    await fine(sweeper, AddOffsetsToTxnRequest(group_id=GROUP, **one), 3)
    topic = txn_offset_commit.TxnOffsetCommitRequestTopic(
        name=TOPIC,
        topic_id=sweeper.broker.image.topic_id(TOPIC),
        partitions=[txn_offset_commit.TxnOffsetCommitRequestPartition(committed_offset=90 + version)],
    )
    request = txn_offset_commit.TxnOffsetCommitRequest(group_id=GROUP, topics=[topic], **one)
    await fine(sweeper, request, version)

    async def committed() -> int:
        wanted = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
        groups = [OffsetFetchRequestGroup(group_id=GROUP, topics=[wanted])]
        answer = await fine(sweeper, OffsetFetchRequest(groups=groups), 8)
        offset: int = answer.groups[0].topics[0].partitions[0].committed_offset
        return offset

    assert await committed() != 90 + version
    await fine(sweeper, EndTxnRequest(committed=True, **one), 3)
    assert (await state(sweeper, one["transactional_id"])).transaction_state == "CompleteCommit"
    assert await committed() == 90 + version


@walk(ApiKey.END_TXN)
async def end(sweeper: Sweeper, version: int) -> None:
    for committed in (True, False):
        one = await producer(sweeper, f"end {version}")
        assert error_codes(await sweeper.ask(EndTxnRequest(committed=True, **one), version)) == [
            ErrorCode.INVALID_TXN_STATE
        ]
        await begin(sweeper, one)
        await fine(sweeper, EndTxnRequest(committed=committed, **one), version)
        found = await state(sweeper, one["transactional_id"])
        assert found.transaction_state == ("CompleteCommit" if committed else "CompleteAbort")


@walk(ApiKey.WRITE_TXN_MARKERS)
async def write_markers(sweeper: Sweeper, version: int) -> None:
    partition = sweeper.broker.replicas.get(TOPIC, 1)
    records = live.batch(producer_id=70, producer_epoch=version + 1, base_sequence=0, transactional=True)
    partition.append(records, required_acks=-1, now_ms=sweeper.clock.now_ms())
    assert partition.log.last_stable_offset < partition.log.log_end_offset
    topics = [write_txn_markers.WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[1])]
    marker = write_txn_markers.WritableTxnMarker(
        producer_id=70,
        producer_epoch=version + 1,
        coordinator_epoch=0,
        transaction_result=True,
        topics=topics,
    )
    await fine(sweeper, write_txn_markers.WriteTxnMarkersRequest(markers=[marker]), version)
    assert partition.log.last_stable_offset == partition.log.log_end_offset
    marker.producer_epoch -= 1
    answer = await sweeper.ask(write_txn_markers.WriteTxnMarkersRequest(markers=[marker]), version)
    assert error_codes(answer) == [ErrorCode.INVALID_PRODUCER_EPOCH]


@walk(ApiKey.DESCRIBE_TRANSACTIONS)
async def describe(sweeper: Sweeper, version: int) -> None:
    one = await producer(sweeper, "describe")
    await begin(sweeper, one)
    request = DescribeTransactionsRequest(transactional_ids=["describe", "nobody", ""])
    known, unknown, unnamed = (await sweeper.ask(request, version)).transaction_states
    assert (known.error_code, known.transaction_state) == (0, "Ongoing")
    assert (known.producer_id, known.producer_epoch) == (one["producer_id"], one["producer_epoch"])
    assert (known.transaction_timeout_ms, known.transaction_start_time_ms) == (1000, sweeper.clock.now_ms())
    assert unknown.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert unnamed.error_code == ErrorCode.INVALID_REQUEST


@walk(ApiKey.LIST_TRANSACTIONS)
async def list_all(sweeper: Sweeper, version: int) -> None:
    quiet, busy = await producer(sweeper, "quiet"), await producer(sweeper, "busy")
    await begin(sweeper, busy)
    answer = await fine(sweeper, ListTransactionsRequest(), version)
    assert {(one.transactional_id, one.transaction_state) for one in answer.transaction_states} == {
        ("quiet", "Empty"),
        ("busy", "Ongoing"),
    }
    request = ListTransactionsRequest(state_filters=["Ongoing", "Odd"])
    answer = await fine(sweeper, request, version)
    assert [one.transactional_id for one in answer.transaction_states] == ["busy"]
    assert answer.unknown_state_filters == ["Odd"]
    request = ListTransactionsRequest(producer_id_filters=[quiet["producer_id"]])
    answer = await fine(sweeper, request, version)
    assert [one.transactional_id for one in answer.transaction_states] == ["quiet"]
    if version >= 1:
        request = ListTransactionsRequest(state_filters=["Ongoing"], duration_filter=50)
        assert not (await fine(sweeper, request, version)).transaction_states
        sweeper.timers.advance(51)
        assert (await fine(sweeper, request, version)).transaction_states
    if version >= 2:
        for pattern, found in (("b.*|x", {"busy"}), ("us", set()), ("", {"busy", "quiet"})):
            answer = await fine(sweeper, ListTransactionsRequest(transactional_id_pattern=pattern), version)
            assert {one.transactional_id for one in answer.transaction_states} == found
        answer = await sweeper.ask(ListTransactionsRequest(transactional_id_pattern="("), version)
        assert error_codes(answer) == [ErrorCode.INVALID_REGULAR_EXPRESSION]
    await fine(sweeper, EndTxnRequest(committed=False, **busy), 3)
    assert (await state(sweeper, "busy")).transaction_state == "CompleteAbort"
