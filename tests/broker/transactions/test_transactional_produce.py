"""Who may write within a transaction: Produce with transactional batches (KIP-98, KIP-890)."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest

from odradek.errors.codes import ErrorCode
from odradek.records.builder import BatchBuilder
from odradek.util.clock import ManualClock, SystemClock
from odradek.util.futures import then
from odradek.util.promise import Promise, promised
from odradek.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)

from ..live import Client, batch, connect, create_topic, produce, producer_states, running
from ..net import run, settle
from ..transactional import (
    SMALL,
    DenyingName,
    Transactional,
    find_coordinator,
    serving,
    state_of,
    until_state,
    values,
)


def transactional(producer: Transactional, sequence: int = 0, **fields: Any) -> bytes:
    return batch(
        **{
            "producer_id": producer.producer_id,
            "producer_epoch": producer.epoch,
            "base_sequence": sequence,
            "transactional": True,
            **fields,
        }
    )


async def send(
    producer: Transactional,
    records: bytes,
    *,
    version: int = 9,
    transactional_id: str | None = "id",
    **kwargs: Any,
) -> PartitionProduceResponse:
    """Produce something; the answer for its partition."""
    broker_ids = kwargs.pop("topic_id", None)
    request = produce("t", records, **kwargs)
    if broker_ids is not None:
        request.topic_data[0].topic_id = broker_ids
    request.transactional_id = transactional_id
    answer = await producer.client.call(request, version)
    found: PartitionProduceResponse = answer.responses[0].partition_responses[0]
    return found


def test_a_partition_has_to_be_added_before(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as (broker, producer):
            topic_id = broker.image.topic_id("t")
            for version in range(3, 11):
                answer = await send(producer, transactional(producer), version=version)
                assert answer.error_code == ErrorCode.INVALID_TXN_STATE
                if version >= 8:
                    assert answer.error_message == "Partition was not added to the transaction"
            answer = await send(producer, transactional(producer), version=11)
            assert answer.error_code == ErrorCode.TRANSACTION_ABORTABLE
            log = broker.replicas.get("t", 0).log
            assert log.log_end_offset == 0
            # What comes next is that batch again, or one of a new epoch.
            assert await producer.add("t", 0) == ErrorCode.NONE
            answer = await send(producer, transactional(producer, 1))
            assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            assert await producer.end(commit=False) == ErrorCode.NONE
            await until_state(producer.client, "id", "CompleteAbort")
            assert len(log.producers.verifications) == 0
            # From 12 on the broker adds it, and begins the transaction.
            for version in (12, 13):
                answer = await send(
                    producer, transactional(producer), version=version, index=version - 12, topic_id=topic_id
                )
                assert answer.error_code == 0
            found = await state_of(producer.client, "id")
            assert found.transaction_state == "Ongoing"
            assert [(one.topic, one.partitions) for one in found.topics] == [("t", [0, 1])]
            assert await producer.end(commit=True) == ErrorCode.NONE
            await until_state(producer.client, "id", "CompleteCommit")
            assert await values(producer.client, "t") == [b"value"]

    run(main)


def test_without_verification_every_partition_is_taken(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, transaction_partition_verification_enable=False) as (_, producer):
            assert (await send(producer, transactional(producer))).error_code == 0
            # That it is added is no question of verification.
            answer = await send(producer, transactional(producer), version=12, index=1)
            assert answer.error_code == 0
            found = await state_of(producer.client, "id")
            assert [(one.topic, one.partitions) for one in found.topics] == [("t", [1])]

    run(main)


@pytest.mark.parametrize("denied", [True, False])
def test_the_request_names_a_transactional_id_that_may_be_used(tmp_path: Path, denied: bool) -> None:
    async def main() -> None:
        async with serving(tmp_path) as (broker, producer):
            assert await producer.add("t") == ErrorCode.NONE
            if denied:
                broker.authorizer = DenyingName("id")  # type: ignore[assignment]
            name = "id" if denied else None
            answer = await send(producer, transactional(producer), transactional_id=name)
            assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            # The whole request is refused, plain batches as well.
            request = ProduceRequest(
                acks=-1,
                transactional_id=name,
                topic_data=[
                    TopicProduceData(
                        name="t",
                        partition_data=[
                            PartitionProduceData(index=0, records=transactional(producer)),
                            PartitionProduceData(index=1, records=batch()),
                        ],
                    )
                ],
            )
            found = (await producer.client.call(request, 9)).responses[0].partition_responses
            assert {one.error_code for one in found} == {ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
            # Who wants no answer notices by the connection.
            other = await connect(broker)
            silent = produce("t", transactional(producer), acks=0)
            silent.transactional_id = name
            other.sent.clear()
            other.send(silent, 9)
            assert await other.closed()
            other.close()
            assert broker.replicas.get("t", 0).log.log_end_offset == 0

    run(main)


def test_one_request_is_of_one_producer(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as (_, producer):
            assert await producer.add("t", 0, 1) == ErrorCode.NONE
            other = transactional(producer, producer_epoch=producer.epoch + 1)
            request = ProduceRequest(
                acks=-1,
                transactional_id="id",
                topic_data=[
                    TopicProduceData(
                        name="t",
                        partition_data=[
                            PartitionProduceData(index=0, records=transactional(producer)),
                            PartitionProduceData(index=1, records=other),
                        ],
                    )
                ],
            )
            found = (await producer.client.call(request, 9)).responses[0].partition_responses
            assert [one.error_code for one in found] == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
            # Also where the other's partition is not here yet: it may be when the append comes to it.
            request.topic_data[0].partition_data[1].index = 99
            found = (await producer.client.call(request, 9)).responses[0].partition_responses
            assert [one.error_code for one in found] == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
            request.topic_data[0].partition_data[1].index = 1
            # Beside a plain batch, and a broken one, each stands for itself.
            data = request.topic_data[0].partition_data
            data[1].records = batch()
            found = (await producer.client.call(request, 9)).responses[0].partition_responses
            assert [one.error_code for one in found] == [0, 0]
            broken = bytearray(transactional(producer))
            broken[8:12] = b"\0\0\0\1"
            data[0].records, data[1].records = transactional(producer, 1), bytes(broken)
            found = (await producer.client.call(request, 9)).responses[0].partition_responses
            assert [one.error_code for one in found] == [0, ErrorCode.CORRUPT_MESSAGE]

    run(main)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"producer_epoch": 7}, ErrorCode.INVALID_PRODUCER_EPOCH),
        ({"producer_id": 99_999}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
@pytest.mark.parametrize("version", [9, 11, 12])
def test_the_coordinator_knows_the_producer(
    tmp_path: Path, fields: dict[str, int], error: ErrorCode, version: int
) -> None:
    async def main() -> None:
        async with serving(tmp_path) as (broker, producer):
            answer = await send(producer, transactional(producer, **fields), version=version)
            assert answer.error_code == error
            log = broker.replicas.get("t", 0).log
            assert log.log_end_offset == 0
            assert len(log.producers.verifications) == 0

    run(main)


def test_nothing_but_records_of_the_transaction_while_it_is_open(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as (_, producer):
            await producer.write("t", [b"a"], commit=None)
            plain = await send(
                producer, transactional(producer, 1, transactional=False), transactional_id=None
            )
            assert plain.error_code == ErrorCode.INVALID_TXN_STATE
            builder = BatchBuilder(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                base_sequence=1,
                transactional=True,
                control=True,
            )
            builder.append(1, b"\0\0\0\1", b"\0\0\0\0\0\0")
            control = await send(producer, builder.build())
            assert control.error_code == ErrorCode.INVALID_RECORD
            gap = await send(producer, transactional(producer, 5))
            assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            again = await send(producer, transactional(producer, 0))
            assert (again.error_code, again.base_offset) == (0, 0)
            assert (await send(producer, transactional(producer, 1))).error_code == 0
            assert await producer.end(commit=True) == ErrorCode.NONE
            await until_state(producer.client, "id", "CompleteCommit")
            # It has ended: the next one has to add the partition again.
            late = await send(producer, transactional(producer, 2))
            assert late.error_code == ErrorCode.INVALID_TXN_STATE

    run(main)


def test_a_transaction_of_an_epoch_of_its_own_begins_with_sequence_0(tmp_path: Path) -> None:
    """Before KIP-890 a producer went on with its sequences, and what was before may have been deleted."""

    async def main() -> None:
        async with serving(tmp_path) as (_, producer):
            late = await send(producer, transactional(producer, 1), version=12)
            assert late.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            for sequence in (0, 1):
                answer = await send(producer, transactional(producer, sequence), version=12)
                assert answer.error_code == 0
            assert await producer.end(commit=True, version=5) == ErrorCode.NONE
            await until_state(producer.client, "id", "CompleteCommit")
            for index in (0, 1):
                late = await send(producer, transactional(producer, 1), version=12, index=index)
                assert late.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
                answer = await send(producer, transactional(producer, 0), version=12, index=index)
                assert answer.error_code == 0
            assert await producer.end(commit=True, version=5) == ErrorCode.NONE
            await until_state(producer.client, "id", "CompleteCommit")
            assert await producer.add("t", 0) == ErrorCode.NONE
            answer = await send(producer, transactional(producer, 0), version=9)
            assert answer.error_code == 0

    run(main)


def test_what_cannot_be_verified_now_is_tried_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as (broker, producer):
            assert await producer.add("t") == ErrorCode.NONE
            answers = dict.fromkeys(
                (
                    ErrorCode.NOT_COORDINATOR,
                    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                    ErrorCode.COORDINATOR_NOT_AVAILABLE,
                    ErrorCode.CONCURRENT_TRANSACTIONS,
                ),
                ErrorCode.NOT_ENOUGH_REPLICAS,
            )
            transactions = broker.transactions
            for error, told in answers.items():
                transactions.verify = transactions.add = (  # type: ignore[method-assign, assignment]
                    lambda *args, error=error: {("t", 0): error}
                )
                answer = await send(producer, transactional(producer))
                assert answer.error_code == told
                assert error.name in (answer.error_message or "")
                answer = await send(producer, transactional(producer), version=12)
                concurrent = error is ErrorCode.CONCURRENT_TRANSACTIONS
                assert answer.error_code == (error if concurrent else told)
            # What comes behind it must not come before it.
            del transactions.verify, transactions.add
            answer = await send(producer, transactional(producer, 1))
            assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            assert (await send(producer, transactional(producer))).error_code == 0
            assert (await send(producer, transactional(producer, 1))).error_code == 0

    run(main)


@pytest.mark.parametrize("stale", [True, False])
def test_an_answer_is_worth_nothing_after_a_marker(tmp_path: Path, stale: bool) -> None:
    """The coordinator said yes, its transaction was ended, and only then the batch would be appended."""

    async def main() -> None:
        async with serving(tmp_path) as (broker, producer):
            assert await producer.add("t", 0, 1) == ErrorCode.NONE
            answer: Promise[Any] = Promise(broker.loop)
            broker.transactions.verify = lambda *args: answer  # type: ignore[method-assign]
            request = produce("t", transactional(producer))
            request.transactional_id = "id"
            client = await connect(broker)
            client.send(request, 9)
            assert await client.silent()
            if stale:
                assert await producer.end(commit=False) == ErrorCode.NONE
                await until_state(producer.client, "id", "CompleteAbort")
            answer.set_result({("t", 0): ErrorCode.NONE})
            (found,) = (await client.receive()).responses[0].partition_responses
            assert found.error_code == (ErrorCode.NOT_ENOUGH_REPLICAS if stale else 0)
            assert broker.replicas.get("t", 0).log.last_stable_offset == (1 if stale else 0)
            client.close()
            # Asked again, the coordinator knows.
            del broker.transactions.verify
            again = await send(producer, transactional(producer))
            assert again.error_code == (ErrorCode.INVALID_TXN_STATE if stale else 0)

    run(main)


@pytest.mark.parametrize("cause", ["counting", "coordinator", "cancelled"])
def test_a_failure_while_the_coordinator_is_asked_is_answered(
    tmp_path: Path, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with serving(tmp_path) as (broker, producer):
            assert await producer.add("t") == ErrorCode.NONE
            answer: Promise[Any] = Promise(broker.loop)
            monkeypatch.setattr(broker.transactions, "verify", lambda *args: answer)
            request = produce("t", transactional(producer))
            request.transactional_id = "id"
            client = await connect(broker)
            client.send(request, 9)
            assert await client.silent()
            if cause == "counting":
                monkeypatch.setattr(broker.transactions, "verified", None)
                answer.set_result({("t", 0): ErrorCode.NONE})
            elif cause == "coordinator":
                answer.set_exception(RuntimeError("unforeseen"))
            else:
                answer.cancel()
            if cause == "cancelled":
                assert await client.closed()
            else:
                (found,) = (await client.receive()).responses[0].partition_responses
                assert found.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
            assert broker.replicas.get("t", 0).log.log_end_offset == 0
            client.close()

    run(main)


def test_without_a_coordinator_nothing_is_appended(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, **SMALL) as broker:
            await create_topic(broker, "t", 1)
            producer = Transactional(await connect(broker), "id")
            producer.producer_id, producer.epoch = 5, 0
            answer = await send(producer, transactional(producer))
            assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
            await find_coordinator(producer.client, "id")
            answer = await send(producer, transactional(producer))
            assert answer.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
            assert broker.replicas.get("t", 0).log.log_end_offset == 0
            producer.client.close()

    run(main)


async def described(client: Client) -> list[tuple[int, int, int, int, int]]:
    """DescribeProducers of partition 0."""
    from odradek.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest

    answer = await client.call(
        DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])]), 0
    )
    return producer_states(answer.topics[0].partitions[0])


def test_a_transaction_goes_on_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as (broker, producer):
            await producer.write("t", [b"a"], commit=False)
            await until_state(producer.client, "id", "CompleteAbort")
            await producer.write("t", [b"b"], commit=None)
            name = producer.producer_id, producer.epoch
            coordinator_epoch = broker.image.partition("__transaction_state", 0).leader_epoch
            assert await described(producer.client) == [(*name, 1, coordinator_epoch, 2)]
        async with running(tmp_path, **SMALL) as broker:
            producer.client = await connect(broker)
            log = broker.replicas.get("t", 0).log
            assert (log.last_stable_offset, log.high_watermark) == (2, 3)
            assert await described(producer.client) == [(*name, 1, coordinator_epoch, 2)]
            # No new question is needed: the partition has the transaction open.
            broker.transactions.verify = None  # type: ignore[assignment, method-assign]
            assert await producer.send("t", [b"c"]) == ErrorCode.NONE
            await find_coordinator(producer.client, "id")
            assert await producer.end(commit=True) == ErrorCode.NONE
            await until_state(producer.client, "id", "CompleteCommit")
            assert await values(producer.client, "t") == [b"b", b"c"]
            ((*_, started),) = await described(producer.client)
            assert started == -1
            producer.client.close()

    run(main)


def test_open_transactions_are_not_deleted_past_by_a_reader_of_committed_records(tmp_path: Path) -> None:
    """DeleteRecords may go up to the high watermark, and takes the beginning of an open transaction along."""
    from odradek.wire.messages.delete_records import (
        DeleteRecordsPartition,
        DeleteRecordsRequest,
        DeleteRecordsTopic,
    )

    async def main() -> None:
        async with serving(tmp_path) as (broker, producer):
            await producer.write("t", [b"a", b"b"], commit=None)
            request = DeleteRecordsRequest(
                topics=[
                    DeleteRecordsTopic(
                        name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)]
                    )
                ],
                timeout_ms=1_000,
            )
            answer = await producer.client.call(request, 2)
            (found,) = answer.topics[0].partitions
            assert (found.error_code, found.low_watermark) == (0, 2)
            assert await producer.send("t", [b"c"]) == ErrorCode.NONE
            assert await producer.end(commit=True) == ErrorCode.NONE
            await until_state(producer.client, "id", "CompleteCommit")
            log = broker.replicas.get("t", 0).log
            assert log.last_stable_offset == log.high_watermark == 4

    run(main)


def test_partitions_with_late_transactions_are_counted(tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock(SystemClock().now_ms())
        async with serving(tmp_path, clock=clock, transaction_max_timeout_ms=60_000) as (broker, producer):

            def late() -> float:
                kind = "kafka.server:ReplicaManager"
                assert broker.metrics.snapshot()[kind, "ProducerIdCount", ()] == 2
                return broker.metrics.snapshot()[kind, "PartitionsWithLateTransactionsCount", ()]

            assert await producer.add("t", 0, 1) == ErrorCode.NONE
            sent = transactional(producer, timestamp=clock.now_ms())
            for index in (0, 1):
                assert (await send(producer, sent, index=index)).error_code == 0
            clock.advance(60_000 + 5 * 60_000)
            assert late() == 0
            clock.advance(1)
            assert late() == 2
            # A sign of life in one of them.
            sent = transactional(producer, 1, timestamp=clock.now_ms())
            assert (await send(producer, sent, index=1)).error_code == 0
            assert late() == 1
            assert await producer.end(commit=True) == ErrorCode.NONE
            await until_state(producer.client, "id", "CompleteCommit")
            assert late() == 0

    run(main)


def test_what_the_coordinator_is_asked_is_counted(tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock(SystemClock().now_ms())
        async with serving(tmp_path, clock=clock) as (broker, producer):

            def read(name: str) -> float:
                return broker.metrics.snapshot()["kafka.server:AddPartitionsToTxnManager", name, ()]

            answer = broker.transactions.coordinator.add_partitions

            def slowly(*words: Any, **flags: Any) -> None:
                clock.advance(7)
                answer(*words, **flags)

            broker.transactions.coordinator.add_partitions = slowly  # type: ignore[method-assign]
            refused = await send(producer, transactional(producer, timestamp=clock.now_ms()))
            assert refused.error_code == ErrorCode.INVALID_TXN_STATE
            assert read("VerificationFailureRate") == 1
            assert await producer.add("t") == ErrorCode.NONE
            before = read("VerificationTimeMs")
            for sequence in (0, 1):
                # What continues the transaction need not be asked for.
                sent = transactional(producer, sequence, timestamp=clock.now_ms())
                assert (await send(producer, sent)).error_code == 0
            assert read("VerificationFailureRate") == 1
            assert before == 7 == read("VerificationTimeMsMax")
            assert read("VerificationTimeMs") == 14

    run(main)


def test_a_partition_that_is_taken_up_by_the_request_itself_is_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def main() -> None:
        clock = ManualClock(SystemClock().now_ms())
        async with serving(tmp_path, clock=clock) as (broker, producer):
            with monkeypatch.context() as full:
                full.setattr(broker.logs, "create", refuse)
                topic_id = await create_topic(broker, "many", 100)
            clock.advance(2_000)
            assert broker.replicas.find("many", 97) is None
            request = produce("many", transactional(producer), index=97)
            request.transactional_id = "id"
            answer = (await producer.client.call(request, 9)).responses[0].partition_responses[0]
            assert answer.error_code == ErrorCode.INVALID_TXN_STATE
            assert broker.replicas.get("many", 97).log.log_end_offset == 0
            # One that was added is written to, and one that was not is added from 12 on.
            assert await producer.add("many", 98) == ErrorCode.NONE
            for version, index in ((9, 98), (13, 99)):
                assert broker.replicas.find("many", index) is None
                request = produce("many", transactional(producer), index=index, topic_id=topic_id)
                request.transactional_id = "id"
                answer = (await producer.client.call(request, version)).responses[0].partition_responses[0]
                assert answer.error_code == 0
            found = await state_of(producer.client, "id")
            assert [(one.topic, one.partitions) for one in found.topics] == [("many", [98, 99])]

    run(main)


@pytest.mark.parametrize("beside", [False, True])
def test_a_partition_that_comes_while_others_are_verified_is_not_written_to(
    tmp_path: Path, beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with serving(tmp_path) as (broker, producer):
            assert await producer.add("t", 0) == ErrorCode.NONE
            assert await producer.add("t", 1) == ErrorCode.NONE
            if beside:
                assert (await send(producer, transactional(producer), index=0)).error_code == 0
            partition = broker.replicas.get("t", 1)
            leader_id, partition.leader_id = partition.leader_id, -1
            original = broker.transactions.verify
            waiting: asyncio.Future[Any] = broker.loop.create_future()
            calls: list[Any] = []

            def verify(*arguments: Any) -> Any:
                calls.append(arguments)
                return promised(then(waiting, lambda _: original(*arguments)))

            monkeypatch.setattr(broker.transactions, "verify", verify)
            request = produce("t", transactional(producer, 1 if beside else 0), index=0)
            request.topic_data[0].partition_data.append(
                PartitionProduceData(index=1, records=transactional(producer))
            )
            request.transactional_id = "id"
            producer.client.send(request, 9)
            if not beside:
                await settle(lambda: bool(calls))
                partition.leader_id = leader_id
                waiting.set_result(None)
            answers = (await producer.client.receive()).responses[0].partition_responses
            assert [one.error_code for one in answers] == [0, ErrorCode.NOT_LEADER_OR_FOLLOWER]
            assert partition.log.log_end_offset == 0

    run(main)
