"""Transactions whose coordinator, partitions and groups are on different brokers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from odradek.broker.handlers import add_partitions_to_txn, write_txn_markers
from odradek.broker.transactions.gate import Admission
from odradek.cluster import paths
from odradek.cluster.store.memory import MemoryStore
from odradek.coordinators.transactions.states import TransactionState
from odradek.errors import ConcurrentTransactionsError, OutOfOrderSequenceError
from odradek.errors.codes import ErrorCode
from odradek.log.producers.producer_state import Origin
from odradek.records.builder import build_batch
from odradek.records.control import ControlType, end_marker_batch
from odradek.util.promise import Promise
from odradek.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from odradek.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

from ..coordinated import FIRST, GROUPS, SECOND, TRANSACTIONS, Cluster, Producer, begun, described
from ..fake_channels import BROKEN, Sent, turns
from .test_remote_coordinator import response
from .test_remote_markers import in_loop

PREPARED, DONE = TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT
NONE, REFUSED = ErrorCode.NONE, ErrorCode.NOT_COORDINATOR
PAUSE_MS = 100
A = ("a", 0)


async def serve(cluster: Cluster, sent: Sent) -> asyncio.Task[Any]:
    """Have the broker that a request was sent to answer it; the answer may take what the test does next."""
    handle = {
        WriteTxnMarkersRequest: write_txn_markers.handle,
        AddPartitionsToTxnRequest: add_partitions_to_txn.handle,
    }[type(sent.request)]
    request = type(sent.request).decode(sent.request.encode(sent.version), sent.version)

    async def answer() -> None:
        sent.answer.set_result(await cluster[sent.broker_id].serve(handle, request, sent.version))

    serving = asyncio.get_running_loop().create_task(answer())
    await turns()
    return serving


def decided(cluster: Cluster, *partitions: tuple[str, int], commit: bool = True) -> Producer:
    """A producer whose transaction's end is committed to the log: the markers are given out."""
    producer = begun(cluster, *(partitions or (A,)))
    producer.end(commit=commit)
    cluster.commit(TRANSACTIONS, 0)
    return producer


def codes(sent: Sent) -> set[ErrorCode]:
    response: WriteTxnMarkersResponse = sent.answer.result()
    return {
        ErrorCode(one.error_code)
        for marker in response.markers
        for topic in marker.topics
        for one in topic.partitions
    }


def put_marker(cluster: Cluster, broker: int, producer: Producer, coordinator_epoch: int) -> None:
    """A marker of a later coordinator, in the log of partition a-0."""
    partition = cluster[broker].replicas.get(*A)
    batch = end_marker_batch(
        ControlType.ABORT,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp=0,
    )
    partition.append(batch, required_acks=-1, now_ms=0, origin=Origin.COORDINATOR)


# ---------------------------------------------------------------------- markers


@in_loop
async def test_a_marker_is_written_by_the_leader_of_its_partition() -> None:
    cluster = Cluster(**{TRANSACTIONS: 1, "a": 1})
    cluster.move("a", 0, SECOND, 1)
    decided(cluster)
    sent = await cluster[FIRST].channels.take_one()
    await serve(cluster, sent)
    assert not sent.answer.done(), "the marker is not committed"
    cluster.commit(*A)
    await turns()
    assert codes(sent) == {NONE}
    cluster.commit(TRANSACTIONS, 0)
    assert described(cluster[FIRST]) is DONE
    assert cluster[SECOND].replicas.get(*A).log.log_end_offset == 1


@in_loop
async def test_a_marker_makes_the_offsets_of_another_brokers_groups_count() -> None:
    cluster = Cluster(**{TRANSACTIONS: 1, GROUPS: 1})
    cluster.move(GROUPS, 0, SECOND, 1)
    producer = begun(cluster, (GROUPS, 0))
    groups = cluster[SECOND].groups.coordinator
    topic = TxnOffsetCommitRequestTopic(
        name="t", partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=8)]
    )
    stored: list[Any] = []
    groups.commit_offsets_in_transaction(
        TxnOffsetCommitRequest(
            transactional_id="x",
            group_id="g",
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            topics=[topic],
        ),
        stored.append,
    )
    cluster.commit(GROUPS, 0)
    assert stored[0].topics[0].partitions[0].error_code == 0
    offsets: list[int] = []

    def fetch() -> None:
        groups.fetch_offsets(
            OffsetFetchRequestGroup(
                group_id="g", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
            ),
            lambda response: offsets.append(response.topics[0].partitions[0].committed_offset),
            require_stable=False,
        )

    fetch()
    assert offsets == [-1]
    producer.end(commit=True)
    cluster.commit(TRANSACTIONS, 0)
    await serve(cluster, await cluster[FIRST].channels.take_one())
    fetch()
    assert offsets == [-1], "the marker could still be lost"
    cluster.commit(GROUPS, 0)
    assert offsets == [-1, 8]


@in_loop
async def test_a_marker_that_comes_to_a_former_leader_goes_to_the_next_one() -> None:
    cluster = Cluster(**{TRANSACTIONS: 1, "a": 1})
    # The image is behind: the first broker leads already.
    cluster.show("a", {0: (SECOND, 1)})
    cluster.follow()
    producer = decided(cluster)
    sent = await cluster[FIRST].channels.take_one()
    assert sent.broker_id == SECOND
    await serve(cluster, sent)
    assert codes(sent) == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
    cluster.show("a", {0: (FIRST, 2)})
    cluster.follow()
    assert await cluster[FIRST].channels.take() == []
    cluster.timers.advance(PAUSE_MS)
    cluster.commit(TRANSACTIONS, 0)
    cluster.commit(*A)
    cluster.commit(TRANSACTIONS, 0)
    assert described(cluster[FIRST]) is DONE
    assert producer.producer_id in cluster[FIRST].replicas.get(*A).log.producers.entries


@in_loop
async def test_a_follower_does_not_judge_a_marker_by_what_may_not_stand() -> None:
    """A higher epoch at a follower would have the coordinator give the transaction up."""
    cluster = Cluster(**{TRANSACTIONS: 1, "a": 1})
    producer = Producer(cluster[FIRST], 7, 3)
    put_marker(cluster, FIRST, producer, 0)
    cluster.copy(*A)
    answers: list[Any] = []
    cluster[SECOND].transactions.writer.write(
        7, 2, [A], coordinator_epoch=0, commit=True, deliver=answers.append, transaction_version=2
    )
    assert answers == [{A: ErrorCode.NOT_LEADER_OR_FOLLOWER}]


@in_loop
async def test_after_a_broken_connection_the_marker_is_sent_again() -> None:
    cluster = Cluster(**{TRANSACTIONS: 1, "a": 1})
    cluster.move("a", 0, SECOND, 1)
    decided(cluster)
    (await cluster[FIRST].channels.take_one()).answer.set_exception(BROKEN)
    assert await cluster[FIRST].channels.take() == []
    cluster.timers.advance(PAUSE_MS)
    await serve(cluster, await cluster[FIRST].channels.take_one())
    cluster.commit(*A)
    await turns()
    cluster.commit(TRANSACTIONS, 0)
    assert described(cluster[FIRST]) is DONE


@in_loop
async def test_a_broker_that_is_not_live_is_not_asked() -> None:
    cluster = Cluster(**{TRANSACTIONS: 1, "a": 1})
    cluster.move("a", 0, SECOND, 1)
    brokers = cluster.image.brokers
    cluster.image = cluster.image._replace(brokers={FIRST: brokers[FIRST]})
    cluster.follow()
    decided(cluster)
    assert await cluster[FIRST].channels.take() == []
    cluster.image = cluster.image._replace(brokers=brokers)
    cluster.follow()
    cluster.timers.advance(PAUSE_MS)
    assert (await cluster[FIRST].channels.take_one()).broker_id == SECOND


@in_loop
async def test_a_former_coordinator_is_fenced_and_stops() -> None:
    cluster = Cluster(**{TRANSACTIONS: 1, "a": 1})
    cluster.move("a", 0, SECOND, 1)
    producer = decided(cluster)
    sent = await cluster[FIRST].channels.take_one()
    put_marker(cluster, SECOND, producer, coordinator_epoch=5)
    await serve(cluster, sent)
    assert codes(sent) == {ErrorCode.TRANSACTION_COORDINATOR_FENCED}
    cluster.timers.advance(10 * PAUSE_MS)
    assert await cluster[FIRST].channels.take() == []
    assert described(cluster[FIRST]) is PREPARED


@pytest.mark.parametrize("why", ["deleted", "marked"])
def test_markers_of_a_topic_that_is_gone_count_as_written(why: str) -> None:
    async def main() -> None:
        cluster = Cluster(**{TRANSACTIONS: 1, "a": 1})
        topics = {TRANSACTIONS: cluster.image.topics[TRANSACTIONS]}
        cluster.image = cluster.image._replace(topics=topics)
        cluster.follow()
        decided(cluster)
        cluster.timers.advance(PAUSE_MS)
        cluster.commit(TRANSACTIONS, 0)
        # The store has it, so the image is behind.
        assert described(cluster[FIRST]) is PREPARED
        store = MemoryStore(cluster.server)
        if why == "deleted":
            store.delete(paths.topic("a"))
        else:
            store.create(paths.delete_topic("a"))
        cluster.timers.advance(PAUSE_MS)
        cluster.commit(TRANSACTIONS, 0)
        assert described(cluster[FIRST]) is DONE

    asyncio.run(main())


def test_that_nobody_could_say_what_is_gone_is_logged_and_asked_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        cluster = Cluster(**{TRANSACTIONS: 1, "a": 1})
        topics = {TRANSACTIONS: cluster.image.topics[TRANSACTIONS]}
        cluster.image = cluster.image._replace(topics=topics)
        cluster.follow()
        failing = asyncio.get_running_loop().create_future()
        failing.set_exception(ZeroDivisionError("a bug"))
        queue = cluster[FIRST].controller.event_queue
        real, queue.run = queue.run, lambda work: failing
        decided(cluster)
        cluster.timers.advance(PAUSE_MS)
        await turns()
        assert "ZeroDivisionError: a bug" in caplog.text
        assert described(cluster[FIRST]) is PREPARED
        queue.run = real
        MemoryStore(cluster.server).delete(paths.topic("a"))
        cluster.timers.advance(PAUSE_MS)
        cluster.commit(TRANSACTIONS, 0)
        assert described(cluster[FIRST]) is DONE

    asyncio.run(main())


@in_loop
async def test_markers_of_a_topic_that_is_not_known_yet_wait_for_it() -> None:
    cluster = Cluster(**{TRANSACTIONS: 1, "a": 1})
    known = cluster.image
    cluster.image = known._replace(topics={TRANSACTIONS: known.topics[TRANSACTIONS]})
    cluster.follow()
    decided(cluster)
    cluster.timers.advance(PAUSE_MS)
    cluster.image = known
    cluster.follow()
    cluster.timers.advance(PAUSE_MS)
    cluster.commit(*A)
    cluster.commit(TRANSACTIONS, 0)
    assert described(cluster[FIRST]) is DONE
    assert cluster[FIRST].replicas.get(*A).log.log_end_offset == 1


@in_loop
async def test_a_partition_that_is_not_known_yet_is_not_gone() -> None:
    cluster = Cluster(**{TRANSACTIONS: 1, "a": 2})
    cluster.show("a", {0: (FIRST, 0)})
    cluster.follow()
    decided(cluster, ("a", 1))
    cluster.timers.advance(PAUSE_MS)
    cluster.commit(TRANSACTIONS, 0)
    assert described(cluster[FIRST]) is PREPARED


# ---------------------------------------------------------------------- verifying and joining


@in_loop
async def test_a_transaction_is_verified_by_the_broker_that_coordinates_it() -> None:
    cluster = Cluster(**{TRANSACTIONS: 1, "a": 2})
    producer = begun(cluster, A)
    asked = cluster[SECOND].transactions.verify("x", producer.producer_id, producer.epoch, [A, ("a", 1)])
    assert isinstance(asked, Promise)
    sent = await cluster[SECOND].channels.take_one()
    assert sent.broker_id == FIRST
    await serve(cluster, sent)
    assert await asked == {A: NONE, ("a", 1): ErrorCode.TRANSACTION_ABORTABLE}


@in_loop
async def test_partitions_join_by_way_of_another_broker() -> None:
    """Several transactions at once wait for one commit, not one after the other."""
    cluster = Cluster(**{TRANSACTIONS: 1, "a": 2})
    producer = begun(cluster, A)
    joining = cluster[SECOND].transactions.add("x", producer.producer_id, producer.epoch, [("a", 1)])
    refused = cluster[SECOND].transactions.add("unknown", 5, 0, [A])
    assert isinstance(joining, Promise)
    assert isinstance(refused, Promise)
    sent = await cluster[SECOND].channels.take_one()
    await serve(cluster, sent)
    assert not sent.answer.done(), "what was written is not committed"
    cluster.commit(TRANSACTIONS, 0)
    assert await joining == {("a", 1): NONE}
    assert await refused == {A: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    coordinated = cluster[FIRST].transactions.coordinator.describe("x")
    assert coordinated.partitions == {A, ("a", 1)}


@in_loop
async def test_transactions_of_one_request_do_not_wait_for_each_other() -> None:
    cluster = Cluster(**{TRANSACTIONS: 1, "a": 2})
    producer = begun(cluster, A)
    end = cluster[FIRST].replicas.get(TRANSACTIONS, 0).log
    second = Producer(cluster[FIRST])
    second.name = "y"
    second.init()
    cluster.commit(TRANSACTIONS, 0)
    before = end.log_end_offset
    remote = cluster[SECOND].transactions
    _ = remote.add("x", producer.producer_id, producer.epoch, [("a", 1)])
    _ = remote.add("y", second.producer_id, second.epoch, [("a", 1)])
    await serve(cluster, await cluster[SECOND].channels.take_one())
    assert end.log_end_offset == before + 2


@in_loop
async def test_what_this_broker_coordinates_it_answers_itself() -> None:
    cluster = Cluster(**{TRANSACTIONS: 1, "a": 1})
    producer = begun(cluster, A)
    first = cluster[FIRST].transactions
    assert first.verify("x", producer.producer_id, producer.epoch, [A]) == {A: NONE}
    # The image is behind; the replica leads.
    cluster.show(TRANSACTIONS, {0: (SECOND, 0)})
    cluster.follow()
    assert first.verify("x", producer.producer_id, producer.epoch, [A]) == {A: NONE}


@in_loop
async def test_without_a_coordinator_that_is_live_the_producer_tries_again() -> None:
    cluster = Cluster(**{TRANSACTIONS: 1})
    second = cluster[SECOND].transactions
    unavailable = {A: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    cluster.show(TRANSACTIONS, {0: (-1, 1)})
    cluster.follow()
    assert second.verify("x", 1, 0, [A]) == unavailable
    cluster.show(TRANSACTIONS, {0: (9, 1)})
    cluster.follow()
    assert second.verify("x", 1, 0, [A]) == unavailable
    cluster.image = cluster.image._replace(topics={})
    cluster.follow()
    assert second.add("x", 1, 0, [A]) == unavailable
    assert await cluster[SECOND].channels.take() == []


# ---------------------------------------------------------------------- what a client is told


def admitted(cluster: Cluster, sequence: int, epoch: int = 0) -> Any:
    """A batch of producer 7 for partition a-0, which the second broker leads."""
    services: Any = cluster[SECOND]
    admission = Admission(services, 7, epoch, joins=False, knows_abortable=True)
    admission.note(A, services.replicas.find(*A), sequence)
    return admission.ask("x")


def joining(cluster: Cluster, sequence: int = 0) -> Any:
    """The same of a client for which the broker adds the partition, and asks again."""
    services: Any = cluster[SECOND]
    admission = Admission(services, 7, 0, joins=True, knows_abortable=True, asks_again=True)
    admission.note(A, services.replicas.find(*A), sequence)
    return admission.ask("x")


BACKOFF_MS, LONGEST_MS = 20, 100
"""`add.partitions.to.txn.retry.backoff.ms`, `….max.ms`."""


async def refuse(cluster: Cluster, error: ErrorCode) -> None:
    sent = await cluster[SECOND].channels.take_one()
    sent.answer.set_result(response(("x", A, error)))
    await turns()


@in_loop
async def test_a_coordinator_that_is_still_ending_a_transaction_is_asked_again() -> None:
    cluster = Cluster(**{TRANSACTIONS: 1, "a": 1})
    cluster.move("a", 0, SECOND, 1)
    asked = joining(cluster)
    producers = cluster[SECOND].replicas.get(*A).log.producers
    for _ in range(3):
        await refuse(cluster, ErrorCode.CONCURRENT_TRANSACTIONS)
        # The marker of the transaction before comes meanwhile: what was asked is forgotten with it.
        producers.verifications.end(7)
        cluster.timers.advance(BACKOFF_MS - 1)
        assert await cluster[SECOND].channels.take() == []
        cluster.timers.advance(1)
        await turns()
        assert not asked.done()
    await refuse(cluster, NONE)
    admission = await asked
    assert admission.errors == {}
    admission.check(A, producers, 0)
    assert cluster[SECOND].transactions.verified.total_time_ms == 3 * BACKOFF_MS


@in_loop
async def test_it_is_asked_again_for_so_long_and_no_longer() -> None:
    cluster = Cluster(**{TRANSACTIONS: 1, "a": 1})
    cluster.move("a", 0, SECOND, 1)
    timers = cluster.timers.pending
    asked = joining(cluster)
    for _ in range(LONGEST_MS // BACKOFF_MS):
        await refuse(cluster, ErrorCode.CONCURRENT_TRANSACTIONS)
        assert not asked.done()
        cluster.timers.advance(BACKOFF_MS)
        await turns()
    await refuse(cluster, ErrorCode.CONCURRENT_TRANSACTIONS)
    assert (await asked).errors == {A: ErrorCode.CONCURRENT_TRANSACTIONS}
    assert cluster.timers.pending == timers
    # What else is wrong is told at once, and whoever adds partitions by itself is told of all.
    asked = joining(cluster)
    await refuse(cluster, ErrorCode.INVALID_TXN_STATE)
    assert (await asked).errors == {A: ErrorCode.INVALID_TXN_STATE}
    asked = admitted(cluster, 0)
    await refuse(cluster, ErrorCode.CONCURRENT_TRANSACTIONS)
    assert (await asked).errors == {A: ErrorCode.CONCURRENT_TRANSACTIONS}


@in_loop
async def test_a_batch_that_could_not_be_verified_goes_before_later_ones() -> None:
    """The coordinator could not be asked; the producer is none the worse for that."""
    cluster = Cluster(**{TRANSACTIONS: 1, "a": 1})
    cluster.move("a", 0, SECOND, 1)
    first = admitted(cluster, 0)
    (await cluster[SECOND].channels.take_one()).answer.set_exception(BROKEN)
    assert (await first).errors == {A: ErrorCode.NETWORK_EXCEPTION}
    later = admitted(cluster, 5)
    sent = await cluster[SECOND].channels.take_one()
    sent.answer.set_result(response(("x", A, NONE)))
    admission = await later
    assert admission.errors == {}
    producers = cluster[SECOND].replicas.get(*A).log.producers
    with pytest.raises(OutOfOrderSequenceError):
        admission.check(A, producers, 5)
    again = admitted(cluster, 0)
    (await cluster[SECOND].channels.take_one()).answer.set_result(response(("x", A, NONE)))
    (await again).check(A, producers, 0)


@in_loop
async def test_a_transaction_that_goes_on_is_not_asked_for_and_may_end_before_the_append() -> None:
    cluster = Cluster(**{TRANSACTIONS: 1, "a": 1})
    cluster.move("a", 0, SECOND, 1)
    partition = cluster[SECOND].replicas.get(*A)
    records = [(cluster.clock.now_ms(), None, b"value", ())]
    for epoch in (0, 1):
        batch = build_batch(records, producer_id=7, producer_epoch=epoch, base_sequence=0, transactional=True)
        partition.append(batch, required_acks=1, now_ms=cluster.clock.now_ms())
        admission = admitted(cluster, 1, epoch)
        assert await cluster[SECOND].channels.take() == []
        admission.check(A, partition.log.producers, 1)
        # Its end comes while something else is waited for.
        marker = end_marker_batch(
            ControlType.COMMIT, producer_id=7, producer_epoch=epoch, coordinator_epoch=0, timestamp=0
        )
        partition.append(marker, required_acks=1, now_ms=0, origin=Origin.COORDINATOR)
        with pytest.raises(ConcurrentTransactionsError):
            admission.check(A, partition.log.producers, 1)


@in_loop
async def test_the_time_of_a_remote_verification_and_its_failures_are_counted() -> None:
    cluster = Cluster(**{TRANSACTIONS: 1, "a": 1})
    cluster.move("a", 0, SECOND, 1)
    asked = admitted(cluster, 0)
    sent = await cluster[SECOND].channels.take_one()
    cluster.clock.advance(40)
    sent.answer.set_result(response(("x", A, REFUSED)))
    await asked
    verified = cluster[SECOND].transactions.verified
    assert (verified.failures, verified.total_time_ms) == (1, 40)
