"""What holds for every produce: its place behind a conversion, its frame, and what comes of failures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.stand_ins import OTHER, WatchedFiles, caught_up, follow
from odradek.broker.app import Broker
from odradek.broker.event_loop.slices import AT_ONCE, Slicer, is_in_steps
from odradek.broker.handlers.produce import handle
from odradek.broker.requests.context import RequestContext
from odradek.errors import CoordinatorNotAvailableError
from odradek.errors.codes import ErrorCode
from odradek.log.partition import appending
from odradek.records.batch import iter_records
from odradek.records.compression import Codec
from odradek.util.clock import ManualClock
from odradek.util.promise import Promise
from odradek.wire.api import ApiKey
from odradek.wire.headers import RequestHeader
from odradek.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

from ..conversion.test_old_produce import OLD_BROKER, message_set
from ..dispatching import PEER
from ..live import append, batch, connect, create_topic, produce, running
from ..net import run, settle

LARGE = [b"x" * 90_000]


def held_back(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """Conversions run when the test says so: what is to be called for each."""
    held: list[Callable[[], None]] = []

    def run_later(work: Callable[[], Any], cost: object, peer: object) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = broker.loop.create_future()
        held.append(lambda: future.set_result(work()))
        return future

    monkeypatch.setattr(broker.unpacking, "run", run_later)
    return held


def context_of(broker: Broker, version: int) -> RequestContext:
    header = RequestHeader(
        api_key=int(ApiKey.PRODUCE), api_version=version, correlation_id=1, client_id="client"
    )
    return RequestContext(broker, header, PEER, broker.clock.now_ms())


def values(broker: Broker, index: int = 0) -> list[bytes]:
    log = broker.replicas.get("t", index).log
    found: list[bytes] = []
    while len(found) < log.log_end_offset:
        # From segment to segment: the old messages' timestamps have one rolled.
        read = log.read(len(found), 1 << 20, upper_bound=log.log_end_offset, min_one_batch=True)
        found += [record.value or b"" for record in iter_records(read.records)]
    return found


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_no_produce_overtakes_a_conversion_that_has_its_offsets(
    tmp_path: Path, acks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a topic of an older format; else it would have to be converted again, on the loop."""

    async def main() -> None:
        async with running(tmp_path, **OLD_BROKER) as broker:
            await create_topic(broker, "t", 2, configs={"message.format.version": "0.10.2"})
            held = held_back(broker, monkeypatch)
            old, new = await connect(broker), await connect(broker)
            old.send(produce("t", message_set(2, Codec.NONE, LARGE)), 2)
            await settle(lambda: len(held) == 1)
            new.send(produce("t", batch([b"x" * 90_000]), acks=acks), 9)
            assert (await append(await connect(broker), "t", batch([b"beside"]), index=1)).base_offset == 0
            log = broker.replicas.get("t", 0).log
            assert (log.log_end_offset, len(held)) == (0, 1)
            held.pop()()
            await settle(lambda: len(held) == 1)
            assert log.log_end_offset == 1
            held.pop()()
            with monkeypatch.context() as patch:
                # What has been converted is appended as it is.
                patch.setattr(appending, "prepare", None)
                await settle(lambda: log.log_end_offset == 2)
            assert (await old.receive()).responses[0].partition_responses[0].base_offset == 0
            if acks:
                assert (await new.receive()).responses[0].partition_responses[0].base_offset == 1
            assert not broker.conversions.latest

    run(main)


def test_others_append_while_a_conversion_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a topic of today, where what is converted gets its offsets with the append."""

    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t")
            held = held_back(broker, monkeypatch)
            old = await connect(broker)
            old.send(produce("t", message_set(2, Codec.NONE, LARGE)), 2)
            await settle(lambda: len(held) == 1)
            assert (await append(await connect(broker), "t", batch([b"first"]))).base_offset == 0
            held.pop()()
            assert (await old.receive()).responses[0].partition_responses[0].base_offset == 1
            assert values(broker) == [b"first", *LARGE]

    run(main)


def test_a_conversion_for_a_peer_that_goes_lets_the_next_one_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with running(tmp_path, **OLD_BROKER) as broker:
            await create_topic(broker, "t", configs={"message.format.version": "0.10.2"})
            held = held_back(broker, monkeypatch)
            old, other = await connect(broker), await connect(broker)
            old.send(produce("t", message_set(2, Codec.NONE, LARGE)), 2)
            await settle(lambda: len(held) == 1)
            other.send(produce("t", message_set(2, Codec.NONE, [b"small"])), 2)
            await settle(lambda: broker.slicer.is_busy is False)
            old.abort()
            await settle(lambda: len(broker.listeners[0].connections) == 1)
            held.pop()()
            assert (await other.receive()).responses[0].partition_responses[0].error_code == 0
            assert not broker.conversions.latest

    run(main)


@pytest.mark.parametrize("version", [3, 9, 13])
@pytest.mark.parametrize(
    "records", [batch([b"a"]), batch([b"a"] * 50, codec=Codec.GZIP)], ids=["plain", "gzip"]
)
def test_an_unforeseen_failure_is_told_of_its_partition_alone(
    tmp_path: Path, version: int, records: bytes
) -> None:
    async def main() -> None:
        files = WatchedFiles()
        async with running(tmp_path, files=files) as broker:
            topic_id = await create_topic(broker, "t", 3)
            client = await connect(broker)

            def fail(*_: object) -> None:
                raise ZeroDivisionError

            files.instead[broker.replicas.get("t", 1).log.segments.active.path] = {"pwrite_batch": fail}
            request = produce("t", records, topic_id=topic_id)
            request.topic_data[0].partition_data = [
                PartitionProduceData(index=index, records=records) for index in range(3)
            ]
            answers = (await client.call(request, version)).responses[0].partition_responses
            assert [one.error_code for one in answers] == [0, ErrorCode.UNKNOWN_SERVER_ERROR, 0]
            metrics = broker.metrics.topics.of("t")
            assert (metrics.total_produce_requests, metrics.failed_produce_requests) == (3, 1)
            assert metrics.bytes_rejected == 0
            assert metrics.bytes_in == 2 * len(records)
            # With acks=0 all that can be said is that the connection is closed.
            request.acks = 0
            client.send(request, version)
            assert await client.closed()

    run(main)


def test_a_disk_that_fails_on_the_way_is_told_of_the_partition(tmp_path: Path) -> None:
    async def main() -> None:
        files = WatchedFiles()
        async with running(tmp_path, files=files) as broker:
            await create_topic(broker, "t", 2)
            client = await connect(broker)
            broken = broker.replicas.get("t", 1).log.segments.active

            def fail(*_: Any) -> int:
                raise OSError(28, "No space left on device")

            files.instead[broken.path] = {"pwrite_batch": fail}
            request = produce("t", batch())
            request.topic_data[0].partition_data.append(PartitionProduceData(index=1, records=batch()))
            answers = (await client.call(request, 9)).responses[0].partition_responses
            assert [one.error_code for one in answers] == [0, ErrorCode.KAFKA_STORAGE_ERROR]
            assert [len(values(broker, index)) for index in (0, 1)] == [1, 0]

    run(main)


# --- the frame is used again as soon as the handler has returned


def lent(broker: Broker, request: ProduceRequest, version: int) -> Any:
    """What the handler returns for records in memory that is overwritten as soon as it has returned."""
    memory = []
    for topic in request.topic_data:
        for data in topic.partition_data:
            frame = bytearray(b"before" + data.records + b"behind")
            data.records = memoryview(frame)[6:-6]
            memory.append(frame)
    answer = handle(context_of(broker, version), request)
    for frame in memory:
        frame[:] = b"\xee" * len(frame)
    return answer


def answers_of(response: ProduceResponse) -> list[PartitionProduceResponse]:
    return [one for topic in response.responses for one in topic.partition_responses]


def batches_written(broker: Broker, files: WatchedFiles) -> list[Any]:
    """What is given to the file of `t`'s first partition from now on."""
    written: list[Any] = []

    def look(write: Callable[..., Any], records: Any, position: int, *place: int) -> Any:
        written.append(records)
        return write(records, position, *place)

    files.instead[broker.replicas.get("t", 0).log.segments.active.path] = {"pwrite_batch": look}
    return written


def test_what_is_answered_at_once_is_not_copied(tmp_path: Path) -> None:
    async def main() -> None:
        files = WatchedFiles()
        async with running(tmp_path, files=files) as broker:
            await create_topic(broker, "t")
            written = batches_written(broker, files)
            (answer,) = answers_of(lent(broker, produce("t", batch([b"a"])), 9))
            assert answer.error_code == 0
            # The frame's own memory, as somebody writes over it.
            assert written[0] == b"\xee" * len(written[0])
            assert values(broker) == [b"a"]

    run(main)


def test_a_frame_that_is_used_again_while_the_coordinator_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t")
            asked: Promise[Any] = Promise(broker.loop)
            monkeypatch.setattr(broker.transactions, "verify", lambda *_: asked)
            records = batch([b"a"], producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
            request = produce("t", records)
            request.transactional_id = "id"
            waiting = lent(broker, request, 9)
            assert not waiting.done()
            asked.set_result({("t", 0): ErrorCode.NONE})
            (answer,) = answers_of(await waiting)
            assert answer.error_code == 0
            assert values(broker) == [b"a"]

    run(main)


def test_a_frame_that_is_used_again_during_a_conversion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t")
            held = held_back(broker, monkeypatch)
            waiting = [
                Slicer().run(lent(broker, produce("t", message_set(2, Codec.NONE, LARGE)), 2)),
                lent(broker, produce("t", batch([b"behind"])), 9),
            ]
            await settle(lambda: len(held) == 1)
            held.pop()()
            for number, one in enumerate(waiting):
                (answer,) = answers_of(await one)
                assert (answer.error_code, answer.base_offset) == (0, number)
            assert values(broker) == [*LARGE, b"behind"]

    run(main)


@pytest.mark.parametrize("version", [2, 9])
def test_a_frame_that_is_used_again_between_the_slices_of_a_request(tmp_path: Path, version: int) -> None:
    async def main() -> None:
        async with running(tmp_path, **(OLD_BROKER if version == 2 else {})) as broker:
            await create_topic(broker, "t", AT_ONCE)
            sent = [
                batch([b"%d" % index]) if version == 9 else message_set(2, Codec.NONE, [b"%d" % index])
                for index in range(AT_ONCE)
            ]
            request = ProduceRequest(
                acks=1,
                timeout_ms=0,
                topic_data=[
                    TopicProduceData(
                        name="t",
                        partition_data=[
                            PartitionProduceData(index=index, records=records)
                            for index, records in enumerate(sent)
                        ],
                    )
                ],
            )
            steps = lent(broker, request, version)
            assert is_in_steps(steps)
            ticking = ManualClock(0)

            def clock() -> float:
                ticking.advance(1000)
                return ticking.monotonic_ms()

            response = await Slicer(clock).run(steps)
            assert {one.error_code for one in answers_of(response)} == {0}
            assert [values(broker, index) for index in range(AT_ONCE)] == [
                [b"%d" % index] for index in range(AT_ONCE)
            ]

    run(main)


def test_a_frame_that_is_used_again_while_replicas_are_waited_for(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t")
            partition = broker.replicas.get("t", 0)
            follow(broker, partition)
            request = produce("t", batch([b"a"]))
            waiting = lent(broker, request, 9)
            assert not waiting.done()
            assert request.topic_data[0].partition_data[0].records is None
            caught_up(broker, partition)
            (answer,) = answers_of(await waiting)
            assert answer.error_code == 0
            assert values(broker) == [b"a"]

    run(main)


# --- what fails while it is waited for


@pytest.mark.parametrize("partitions", [1, AT_ONCE + 1, 300])
@pytest.mark.parametrize(
    "failure", [ZeroDivisionError(), CoordinatorNotAvailableError(), asyncio.CancelledError()], ids=repr
)
@pytest.mark.parametrize("acks", [0, 1])
def test_a_failure_that_is_waited_for_is_told_or_closes_the_connection(
    tmp_path: Path, acks: int, failure: BaseException, partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t")
            client = await connect(broker)
            asked: Promise[Any] = Promise(broker.loop)
            calls: list[Any] = []

            def verify(*arguments: Any) -> Any:
                calls.append(arguments)
                return asked

            monkeypatch.setattr(broker.transactions, "verify", verify)
            records = batch([b"a"], producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
            request = produce("t", records, acks=acks)
            request.transactional_id = "id"
            request.topic_data[0].partition_data += [
                PartitionProduceData(index=index, records=batch()) for index in range(1, partitions)
            ]
            client.send(request, 9)
            await settle(lambda: bool(calls))
            if isinstance(failure, asyncio.CancelledError):
                asked.cancel()
            else:
                asked.set_exception(failure)
            if acks == 0 or asked.cancelled():
                assert await client.closed()
            else:
                code = getattr(failure, "code", ErrorCode.UNKNOWN_SERVER_ERROR)
                told = answers_of(await client.receive())
                assert [one.error_code for one in told] == [code] * partitions
            assert values(broker) == []

    run(main)


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("version", [9, 10, 13])
def test_a_leadership_that_is_lost_while_replicas_are_waited_for_is_told_with_the_new_leader(
    tmp_path: Path, version: int, partitions: int
) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            topic_id = await create_topic(broker, "t")
            partition = broker.replicas.get("t", 0)
            follow(broker, partition)
            client = await connect(broker)
            request = produce("t", batch([b"a"]), topic_id=topic_id)
            request.topic_data[0].partition_data += [
                PartitionProduceData(index=index, records=batch()) for index in range(1, partitions)
            ]
            client.send(request, version)
            await settle(lambda: values(broker) == [b"a"])
            both = (broker.broker_id, OTHER)
            partition.make_follower(OTHER, 2, replicas=both, isr=both, partition_epoch=2)
            response = await client.receive()
            first, *others = answers_of(response)
            assert first.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            # What there is no such partition of is told as well.
            assert [one.error_code for one in others] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * (
                partitions - 1
            )
            image = broker.image.partition("t", 0)
            hint = (first.current_leader.leader_id, first.current_leader.leader_epoch)
            assert hint == ((image.leader, image.leader_epoch) if version >= 10 else (-1, -1))
            assert [one.node_id for one in response.node_endpoints] == (
                [image.leader] if version >= 10 else []
            )

    run(main)


@pytest.mark.parametrize("version", [0, 8, 13])
@pytest.mark.parametrize("waits", [False, True])
def test_an_error_after_the_append_leaves_the_offset_in_the_answer(
    tmp_path: Path, waits: bool, version: int
) -> None:
    """As Kafka does: the records are in the log, at that offset."""

    async def main() -> None:
        async with running(tmp_path, **(OLD_BROKER if version == 0 else {})) as broker:
            topic_id = await create_topic(broker, "t", configs={"min.insync.replicas": "2"})
            partition = broker.replicas.get("t", 0)
            sent = [
                message_set(0, Codec.NONE, [value]) if version == 0 else batch([value])
                for value in (b"a", b"b")
            ]
            client = await connect(broker)
            assert (await append(client, "t", sent[0], version=version, topic_id=topic_id)).base_offset == 0
            follow(broker, partition)

            def shrink(*_: object) -> None:
                partition.log.commit_all()
                partition.isr = (broker.broker_id,)

            if not waits:

                def shrink_at_once(key: object) -> bool:
                    shrink()
                    return True

                # Between the append and the look at the replicas.
                broker.purgatory.watch([partition.key], shrink_at_once, shrink, 60_000, by_key=True)
            client.send(produce("t", sent[1], topic_id=topic_id), version)
            await settle(lambda: values(broker) == [b"a", b"b"])
            shrink()
            broker.purgatory.check(partition.key)
            (answer,) = answers_of(await client.receive())
            assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            assert answer.base_offset == 1
            assert answer.log_start_offset == (0 if version >= 5 else -1)

    run(main)


@pytest.mark.parametrize("partitions", [1, 600])
def test_a_frame_that_is_kept_whole_is_not_copied_again(tmp_path: Path, partitions: int) -> None:
    async def main() -> None:
        files = WatchedFiles()
        async with running(tmp_path, files=files) as broker:
            await create_topic(broker, "t")
            written = batches_written(broker, files)
            client = await connect(broker)
            request = produce("t", batch([b"x" * 100_000]))
            request.topic_data[0].partition_data += [
                PartitionProduceData(index=index, records=batch()) for index in range(1, partitions)
            ]
            answers = answers_of(await client.call(request, 9))
            assert [one.error_code for one in answers[:1]] == [0]
            records = written[0]
            assert isinstance(records, memoryview)
            assert records.readonly == (partitions > 1)
            assert len(records.obj) > 100_000 + 60 * partitions  # the whole frame
            client.close()

    run(main)
