"""Fetches that wait: when they wake, what they say then, and what becomes of them when something breaks."""

from __future__ import annotations

import asyncio
import gc
import itertools
import random
from pathlib import Path
from typing import Any

import pytest

from broker.stand_ins import WatchedFiles, caught_up, follow
from odradek.broker.app import Broker
from odradek.broker.event_loop.slices import Slicer
from odradek.broker.handlers import fetch as fetch_handler
from odradek.broker.network import connection as connection_module
from odradek.broker.network.connection import Connection
from odradek.broker.network.dispatch import Dispatcher
from odradek.broker.requests.peer import Peer
from odradek.errors.codes import ErrorCode
from odradek.log.producers.producer_state import Origin
from odradek.replication.partition import Partition
from odradek.util.clock import ManualClock, SystemClock
from odradek.util.timers import ManualTimers
from odradek.wire.headers import encode_request
from odradek.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from seeds import each_seed
from waiting import until_async

from ..dispatching import Later, dispatch, dispatcher_of, plain
from ..fetch_frames import abort_transaction, fill
from ..live import batch, create_topic, delete_topics, produce, running
from ..net import receive, run, settle

VERSION = 10


def frame_of(message: FetchRequest, version: int = VERSION) -> bytes:
    return b"".join(encode_request(1, version, 1, "x", message))[4:]


def response_of(answer: Any, version: int = VERSION) -> FetchResponse:
    response, _ = FetchResponse.decode_from(plain(answer), version, 8 if version < 12 else 9)
    return response


def only(response: FetchResponse) -> PartitionData:
    ((partition,),) = [one.partitions for one in response.responses]
    return partition


def poll(offset: int = 0, **fields: Any) -> FetchRequest:
    partition = FetchPartition(fetch_offset=offset, partition_max_bytes=fields.pop("most", 1000))
    values = {"max_wait_ms": 10_000, "min_bytes": 1, **fields}
    return FetchRequest(topics=[FetchTopic(topic="a", partitions=[partition])], **values)


def waiting(broker: Broker, message: FetchRequest | None = None) -> Later:
    """A fetch of topic `a` that waits."""
    later = Later()
    assert dispatch(dispatcher_of(broker), frame_of(message or poll()), later) is None
    return later


def write(broker: Broker, partition: Partition, value: bytes = b"value", **fields: Any) -> None:
    now_ms = broker.clock.now_ms()
    partition.append(batch([value], **fields), required_acks=1, now_ms=now_ms, origin=Origin.COORDINATOR)


def bytes_at_once(dispatcher: Dispatcher, message: FetchRequest, version: int) -> int | None:
    """How many bytes the same fetch finds without waiting; None where there is an error to be told."""
    wait_ms, message.max_wait_ms = message.max_wait_ms, 0
    answer = dispatch(dispatcher, frame_of(message, version), Later())
    message.max_wait_ms = wait_ms
    partitions = [one for topic in response_of(answer, version).responses for one in topic.partitions]
    return None if any(one.error_code for one in partitions) else sum(len(one.records) for one in partitions)


@each_seed(4)
def test_a_fetch_wakes_when_one_that_does_not_wait_would_find_enough(seed: int, tmp_path: Path) -> None:
    async def main() -> None:
        chance = random.Random(seed)
        clock = ManualClock(SystemClock().now_ms())
        async with running(tmp_path, clock=clock, pauses=ManualTimers(clock)) as broker:
            ids = await fill(broker, chance)
            # What waits counts what producers send; a topic with a codec of its own stores other sizes.
            del ids["many"]
            dispatcher = dispatcher_of(broker)
            partitions = [one for one in broker.replicas if one.topic in ids]
            how = {"woken": 0, "timeout": 0}
            upkeep = broker.pauses.pending  # type: ignore[attr-defined]
            for _ in range(150):
                version = chance.randrange(10, 19)
                message = FetchRequest(
                    max_wait_ms=1000,
                    min_bytes=chance.choice((1, 300, 1500)),
                    max_bytes=2**20,
                    isolation_level=chance.choice((0, 1)),
                    topics=[
                        FetchTopic(
                            topic=name if version < 13 else "",
                            topic_id=ids[name] if version >= 13 else bytes(16),
                            partitions=[
                                FetchPartition(
                                    partition=one.index,
                                    fetch_offset=one.log.log_end_offset,
                                    partition_max_bytes=2**20,
                                )
                                for one in partitions
                                if one.topic == name
                            ],
                        )
                        for name in chance.sample(list(ids), chance.randint(1, 2))
                    ],
                )
                later = Later()
                assert dispatch(dispatcher, frame_of(message, version), later) is None
                what = 0.0
                for _ in range(chance.randrange(20)):
                    one = chance.choice(partitions)
                    what = chance.random()
                    if what < 0.9:
                        write(broker, one, chance.randbytes(50))
                    elif what < 0.95:
                        abort_transaction(broker, one.topic, one.index)
                    else:
                        one.delete_records_before(-1)
                    await asyncio.sleep(0)
                    found = bytes_at_once(dispatcher, message, version)
                    assert (later.answer is not None) == (found is None or found >= message.min_bytes)
                    if later.answer is not None:
                        how["woken"] += 1
                        break
                else:
                    how["timeout"] += 1
                    broker.pauses.advance(1000)  # type: ignore[attr-defined]
                    await asyncio.sleep(0)
                if not 0.9 <= what < 0.95:  # an aborted transaction is two appends, of which the first may do
                    message.max_wait_ms = 0
                    now = dispatch(dispatcher, frame_of(message, version), Later())
                    assert plain(later.answer) == plain(now)
                pending = broker.pauses.pending  # type: ignore[attr-defined]
                assert (len(broker.purgatory), pending) == (0, upkeep)
            assert min(how.values()) > 10, how

    run(main)


def test_a_reader_beyond_the_last_stable_offset_waits(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "a")
            partition = broker.replicas.get("a", 0)
            write(broker, partition, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
            write(broker, partition)
            assert (partition.log.last_stable_offset, partition.log.log_end_offset) == (0, 2)
            later = waiting(broker, poll(2, isolation_level=1))
            # Kafka answers an offset that is not stable yet neither at once nor when more unstable ones come.
            write(broker, partition)
            await asyncio.sleep(0)
            assert (later.answer, len(broker.purgatory)) == (None, 1)
            broker.purgatory.expire_all()
            await asyncio.sleep(0)
            assert only(response_of(later.answer)).records == b""

    run(main)


@pytest.mark.parametrize("min_bytes", [1, 50])
def test_a_reader_wakes_when_followers_have_what_was_there_already(min_bytes: int, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "a")
            partition = broker.replicas.get("a", 0)
            follow(broker, partition)
            write(broker, partition)
            assert (partition.log.high_watermark, partition.log.log_end_offset) == (0, 1)
            later = waiting(broker, poll(min_bytes=min_bytes))
            caught_up(broker, partition)
            await asyncio.sleep(0)
            assert len(only(response_of(later.answer)).records) == len(batch())

    run(main)


def test_what_is_appended_in_one_turn_of_the_loop_is_in_one_answer(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "a")
            partition = broker.replicas.get("a", 0)
            later = waiting(broker)
            for _ in range(3):
                write(broker, partition)
            await asyncio.sleep(0)
            assert len(only(response_of(later.answer)).records) == 3 * len(batch())

    run(main)


def test_a_new_leader_epoch_ends_the_wait_of_who_knows_the_old_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "a")
            partition = broker.replicas.get("a", 0)
            message = poll()
            message.topics[0].partitions[0].current_leader_epoch = partition.leader_epoch
            later = waiting(broker, message)
            here = (broker.broker_id,)
            epoch = partition.leader_epoch + 1
            partition.make_leader(
                epoch, replicas=here, isr=here, partition_epoch=1, now_ms=broker.clock.now_ms()
            )
            await asyncio.sleep(0)
            assert only(response_of(later.answer)).error_code == ErrorCode.FENCED_LEADER_EPOCH

    run(main)


@pytest.mark.parametrize("version", [4, 10, 12, 18])
def test_a_topic_that_goes_ends_the_wait(version: int, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            topic_id = await create_topic(broker, "a")
            message = poll()
            if version >= 13:
                message.topics[0].topic_id = topic_id
            later = Later()
            assert dispatch(dispatcher_of(broker), frame_of(message, version), later) is None
            await delete_topics(broker, ["a"])
            await asyncio.sleep(0)
            assert only(response_of(later.answer, version)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(main)


def test_what_waits_for_a_peer_that_has_gone_is_dropped(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "a")
            later = waiting(broker)
            assert len(broker.purgatory) == 1
            later.context.on_disconnect()
            assert len(broker.purgatory) == 0
            assert later.answer is None

    run(main)


def break_log(partition: Partition) -> None:
    """Put into a log what no reader of it foresees."""
    for _ in range(3):
        partition.append(batch(), required_acks=1, now_ms=SystemClock().now_ms())
    active = partition.log.segments.active
    active.forget_tail()
    active.path.write_bytes(bytes(active.size))


def test_a_failure_that_nobody_foresaw_is_that_of_its_partition(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "a", 2)
            partition = broker.replicas.get("a", 0)
            break_log(partition)
            write(broker, broker.replicas.get("a", 1))
            message = poll()
            message.topics[0].partitions.append(FetchPartition(partition=1, partition_max_bytes=1000))
            answer = dispatch(dispatcher_of(broker), frame_of(message), Later())
            first, second = response_of(answer).responses[0].partitions
            assert (first.error_code, first.records) == (ErrorCode.UNKNOWN_SERVER_ERROR, b"")
            assert (second.error_code, second.records != b"") == (ErrorCode.NONE, True)
            assert broker.metrics.topics.of("a").failed_fetch_requests == 1

    run(main)
    assert "fetch failed topic=a partition=0" in caplog.text


@pytest.mark.parametrize("how", ["check", "timeout"])
def test_a_failure_that_nobody_foresaw_is_told_after_waiting(
    how: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        files = WatchedFiles()
        async with running(tmp_path, files=files) as broker:
            await create_topic(broker, "a")
            later = waiting(broker)
            partition = broker.replicas.get("a", 0)

            def fail(*_: object) -> bytes:
                raise RuntimeError("broken")

            files.instead[partition.log.segments.active.path] = {"pread": fail}
            if how == "check":
                write(broker, partition)
            else:
                # Nobody who waits is told.
                partition.log.append(batch(), leader_epoch=0, now_ms=broker.clock.now_ms())
                partition.log.commit_all()
                broker.purgatory.expire_all()
            await asyncio.sleep(0)
            assert only(response_of(later.answer)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR

    run(main)
    assert "broken" in caplog.text


class SilentTransport(asyncio.Transport):
    """Takes everything and sends nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: Any) -> None:
        self.answers += 1

    def writelines(self, list_of_data: Any) -> None:
        self.answers += 1

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        raise AssertionError("closed")

    abort = close


def test_one_answer_that_leads_to_the_next_does_not_pile_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each connection has all its polls waiting, and behind them a request that wakes the next connection."""

    async def main() -> None:
        async with running(tmp_path) as broker:
            count, polls = 200, 3
            monkeypatch.setattr(connection_module, "MAX_UNANSWERED", polls)
            await create_topic(broker, "a", count)

            def poll(index: int) -> bytes:
                message = FetchRequest(
                    max_wait_ms=60_000,
                    min_bytes=1,
                    topics=[
                        FetchTopic(
                            topic="a", partitions=[FetchPartition(partition=index, partition_max_bytes=100)]
                        )
                    ],
                )
                return b"".join(encode_request(1, 10, 1, "x", message))

            connections = []
            for index in range(count):
                connection = Connection(
                    broker.listeners[0], Peer("127.0.0.1", index, str(index), "PLAINTEXT")
                )
                transport = SilentTransport()
                connection.connection_made(transport)
                request = produce("a", batch(), acks=1, index=(index + 1) % count)
                receive(connection, poll(index) * polls + b"".join(encode_request(0, 7, 1, "x", request)))
                connections.append((connection, transport))
            # Frames of one read are taken up with pauses.
            await settle(lambda: len(broker.purgatory) == count * polls)
            broker.replicas.get("a", 0).append(batch(), required_acks=1, now_ms=broker.clock.now_ms())
            await settle(lambda: all(one.answers == polls + 1 for _, one in connections))
            assert len(broker.purgatory) == 0
            for connection, _ in connections:
                connection.connection_lost(None)

    run(main)


def test_what_becomes_visible_while_other_partitions_are_read_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "a", 3)
            partition = broker.replicas.get("a", 0)
            follow(broker, partition)
            write(broker, partition)
            looks = itertools.count()

            def clock() -> float:
                # Every look at the clock ends a slice, the second one that of the first partition.
                look = next(looks)
                if look == 1:
                    broker.loop.call_soon(caught_up, broker, partition)
                return look

            monkeypatch.setattr(fetch_handler, "AT_ONCE", 1)
            partitions = [FetchPartition(partition=index, partition_max_bytes=1000) for index in range(3)]
            message = FetchRequest(
                max_wait_ms=100_000, min_bytes=1, topics=[FetchTopic(topic="a", partitions=partitions)]
            )
            broker.slicer = Slicer(clock)
            later = Later()
            dispatcher = Dispatcher(broker, broker.handlers, broker.slicer)
            assert dispatch(dispatcher, frame_of(message), later) is None
            for _ in range(100):
                await asyncio.sleep(0)
            assert later.answer is not None
            (topic,) = response_of(later.answer).responses
            assert [len(one.records) for one in topic.partitions] == [len(batch()), 0, 0]

    run(main)


def test_what_was_too_little_is_not_kept_while_more_is_waited_for(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "a")
            write(broker, broker.replicas.get("a", 0), b"x" * 5000)
            later = waiting(broker, poll(most=2**20, min_bytes=10_000, max_bytes=2**20))
            gc.collect()
            kept = [
                one
                for one in gc.get_objects()
                if isinstance(one, PartitionData) and len(one.records or b"") > 999
            ]
            assert kept == []
            write(broker, broker.replicas.get("a", 0), b"y" * 5000)
            await asyncio.sleep(0)
            assert len(only(response_of(later.answer)).records) > 10_000

    run(main)


def test_what_is_not_visible_does_not_count_as_arrived(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "a")
            partition = broker.replicas.get("a", 0)
            write(broker, partition)
            follow(broker, partition)
            write(broker, partition)
            assert (partition.log.high_watermark, partition.log.log_end_offset) == (1, 2)
            later = waiting(broker, poll(min_bytes=300))
            for _ in range(5):
                write(broker, partition)
                await asyncio.sleep(0)
            assert later.answer is None
            assert partition.log.log_end_offset == 7
            caught_up(broker, partition)
            await asyncio.sleep(0)
            assert len(only(response_of(later.answer)).records) == 7 * len(batch())

    run(main)


def test_a_peer_that_goes_before_its_fetch_waits_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "a", 3)
            monkeypatch.setattr(fetch_handler, "AT_ONCE", 1)
            # Every look at the clock ends a slice.
            monkeypatch.setattr(broker.slicer, "_clock", itertools.count().__next__)
            partitions = [FetchPartition(partition=index, partition_max_bytes=100) for index in range(3)]
            message = FetchRequest(
                max_wait_ms=100_000, min_bytes=1, topics=[FetchTopic(topic="a", partitions=partitions)]
            )
            for goes in (False, True):
                peer = Peer("127.0.0.1", 1, "c", "PLAINTEXT")
                connection = Connection(broker.listeners[0], peer)
                connection.connection_made(SilentTransport())
                receive(connection, b"".join(encode_request(1, VERSION, 1, "x", message)))
                assert (broker.slicer.is_busy, len(broker.purgatory)) == (True, 0)
                if goes:
                    connection.connection_lost(None)
                await until_async(lambda: not broker.slicer.is_busy, "the end of the slices", every_s=0)
                await asyncio.sleep(0)
                assert len(broker.purgatory) == (0 if goes else 1)
                if not goes:
                    connection.connection_lost(None)
                    assert len(broker.purgatory) == 0

    run(main)


async def among(broker: Broker, sizes: list[int], **fields: Any) -> FetchRequest:
    """A fetch of topic `a` whose partitions have a batch each; it wants at most 200 B of each."""
    await create_topic(broker, "a", len(sizes))
    for index, size in enumerate(sizes):
        write(broker, broker.replicas.get("a", index), b"x" * size)
    partitions = [FetchPartition(partition=index, partition_max_bytes=200) for index in range(len(sizes))]
    values = {"max_wait_ms": 10_000, "topics": [FetchTopic(topic="a", partitions=partitions)], **fields}
    return FetchRequest(**values)


@pytest.mark.parametrize("partitions", [2, 100])
def test_a_visible_batch_for_which_there_is_no_room_counts_up_to_the_partition_s_maximum(
    partitions: int, tmp_path: Path
) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            message = await among(broker, [10] + [5000] * (partitions - 1), min_bytes=250)
            answer = dispatch(dispatcher_of(broker), frame_of(message), Later())
            (topic,) = response_of(answer).responses
            assert [len(one.records) for one in topic.partitions] == [len(batch([b"x" * 10]))] + [0] * (
                partitions - 1
            )

    run(main)


def test_a_visible_batch_for_which_there_is_no_room_is_no_more_than_the_partition_s_maximum(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            message = await among(broker, [10, 5000, 0], min_bytes=400)
            message.topics[0].partitions[2].fetch_offset = 1
            later = waiting(broker, message)
            write(broker, broker.replicas.get("a", 2), b"")
            await asyncio.sleep(0)
            assert later.answer is None
            write(broker, broker.replicas.get("a", 2), b"x" * 300)
            await asyncio.sleep(0)
            assert later.answer is not None

    run(main)


def test_a_response_that_is_full_does_not_wait_for_what_it_has_no_room_for(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            message = await among(broker, [100, 100], min_bytes=300, max_bytes=300)
            one, other = message.topics[0].partitions
            one.partition_max_bytes = other.partition_max_bytes = 1000
            answer = dispatch(dispatcher_of(broker), frame_of(message), Later())
            (topic,) = response_of(answer).responses
            assert [len(one.records) > 0 for one in topic.partitions] == [True, False]

    run(main)


@pytest.mark.parametrize("isolation", [0, 1])
def test_the_rest_of_an_older_segment_is_answered_at_once(isolation: int, tmp_path: Path) -> None:
    """A read ends with its segment; there is more behind it."""

    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "a", configs={"segment.bytes": "300"})
            partition = broker.replicas.get("a", 0)
            for _ in range(3):
                write(broker, partition, b"x" * 150)
            assert [one.base_offset for one in partition.log.segments] == [0, 1, 2]
            message = poll(min_bytes=1000, isolation_level=isolation)
            answer = dispatch(dispatcher_of(broker), frame_of(message), Later())
            assert len(only(response_of(answer)).records) == len(batch([b"x" * 150]))
            # At the last segment it waits.
            waiting(broker, poll(2, min_bytes=1000, isolation_level=isolation))

    run(main)
