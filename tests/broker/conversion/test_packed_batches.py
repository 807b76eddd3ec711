"""Little that unpacks to much: beside the loop, within bounds, and appended in the order of its arrival."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastcrc
import pytest

from odradek.broker.app import Broker
from odradek.broker.conversion.fetch import MOST_UNPACKED_BYTES
from odradek.broker.conversion.packed import QUICK_UNPACKED_BYTES
from odradek.broker.conversion.unpacking import Unpacking
from odradek.errors.codes import ErrorCode
from odradek.records.compression import Codec
from odradek.replication.lookups import MAX_TIMESTAMP
from odradek.util.clock import ManualClock
from odradek.util.timers import ManualTimers
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

from .. import attacks, live, many_items
from ..net import run, settle
from .unpacked import LARGE_BYTES, PACKED, TIME_MS, counting_unpacked, large_batch


class HeldUnpacking:
    """Unpacks when it is told to."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []

    def run(self, work: Callable[[], Any], cost: Callable[[Any], int]) -> asyncio.Future[Any]:
        future = asyncio.get_running_loop().create_future()
        self.jobs.append((work, future))
        return future

    def go_on(self) -> None:
        work, future = self.jobs.pop(0)
        future.set_result(work())

    def stop(self) -> None: ...


def held(broker: Broker) -> HeldUnpacking:
    made = HeldUnpacking()
    broker.unpacking = made  # type: ignore[assignment]
    return made


def ends(broker: Broker, partitions: int = 1) -> list[int]:
    return [broker.replicas.get("t", index).log.log_end_offset for index in range(partitions)]


def produce(*records: bytes, acks: int = 1) -> ProduceRequest:
    """To partitions 0, 1, 2 …"""
    data = [PartitionProduceData(index=index, records=one) for index, one in enumerate(records)]
    return ProduceRequest(
        acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=data)]
    )


def codes(answer: Any) -> list[int]:
    return [one.error_code for topic in answer.responses for one in topic.partition_responses]


@pytest.mark.parametrize("codec", PACKED)
def test_requests_of_a_connection_are_appended_as_they_came(codec: Codec, tmp_path: Path) -> None:
    """The large one waits for its thread, and those behind it for their turn, to whichever partition."""

    async def main() -> None:
        async with live.running(tmp_path) as broker:
            live.create_topic(broker, "t", 2)
            unpacking = held(broker)
            client, neighbour = await live.connect(broker), await live.connect(broker)
            client.send(produce(large_batch(codec)), 9)
            client.send(produce(live.batch(), live.batch()), 9)
            client.send(produce(large_batch(codec)), 9)
            client.send(produce(live.batch([b"a", b"b"], codec=codec)), 9)
            await settle(lambda: len(unpacking.jobs) == 1)
            # Others are served meanwhile, also at the same partition.
            assert (await neighbour.call(ApiVersionsRequest(), 0)).error_code == 0
            assert codes(await neighbour.call(produce(live.batch()), 9)) == [0]
            assert ends(broker, 2) == [1, 0]
            unpacking.go_on()
            answers = [await client.receive(), await client.receive()]
            await settle(lambda: len(unpacking.jobs) == 1)
            assert ends(broker, 2) == [3, 1]
            unpacking.go_on()
            answers += [await client.receive(), await client.receive()]
            offsets = [
                [one.base_offset for one in answer.responses[0].partition_responses] for answer in answers
            ]
            assert offsets == [[1], [2, 0], [3], [4]]
            assert ends(broker, 2) == [6, 1]
            client.close()
            neighbour.close()

    run(main)


def test_what_a_peer_that_has_gone_sent_is_not_unpacked(tmp_path: Path) -> None:
    async def main() -> None:
        async with live.running(tmp_path) as broker:
            live.create_topic(broker, "t", 3)
            unpacking = held(broker)
            client = await live.connect(broker)
            large = large_batch(Codec.ZSTD)
            client.send(produce(large, large, large), 9)
            await settle(lambda: len(unpacking.jobs) == 1)
            client.abort()
            await settle(lambda: not broker.listeners[0].connections)
            unpacking.go_on()
            await settle(lambda: not broker.slicer.is_busy)
            assert not unpacking.jobs
            assert ends(broker, 3) == [0, 0, 0]

    run(main)


def append_time(records: bytes) -> bytes:
    """The same batch, which claims a broker's timestamps: refused, when its records have been seen."""
    changed = bytearray(records)
    changed[22] |= 0x08
    changed[17:21] = fastcrc.crc32.iscsi(bytes(changed[21:])).to_bytes(4, "big")
    return bytes(changed)


def miscounted(records: bytes) -> bytes:
    """The same batch, with a record too many."""
    changed = bytearray(records)
    struct.pack_into(">i", changed, 23, 1)
    struct.pack_into(">i", changed, 57, 2)
    changed[17:21] = fastcrc.crc32.iscsi(bytes(changed[21:])).to_bytes(4, "big")
    return bytes(changed)


@pytest.mark.fuzz
def test_the_loop_unpacks_little_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pipelined, many partitions in one request, in order and refused."""
    partitions = 12

    async def main() -> None:
        async with live.running(tmp_path) as broker:
            live.create_topic(broker, "t", partitions)
            client = await live.connect(broker)
            for codec in PACKED:
                large = large_batch(codec)
                kinds = [large, append_time(large), miscounted(large), large + large]
                good = [0, ErrorCode.INVALID_TIMESTAMP, ErrorCode.INVALID_RECORD, ErrorCode.INVALID_RECORD]
                few = live.batch([bytes(100_000)], codec=codec)
                with counting_unpacked(monkeypatch) as unpacked:
                    for kind in kinds:
                        client.send(produce(kind), 9)
                    client.send(produce(*[large] * partitions), 9)
                    client.send(produce(*[few] * partitions), 9)
                    assert [codes(await client.receive()) for _ in kinds] == [[code] for code in good]
                    assert codes(await client.receive()) == [0] * partitions
                    assert codes(await client.receive()) == [0] * partitions
                assert unpacked.most <= 2 * QUICK_UNPACKED_BYTES, codec
                assert unpacked.beside >= (partitions + 1) * LARGE_BYTES, codec
            client.close()

    run(main, loop="asyncio")


@pytest.mark.fuzz
def test_no_field_of_a_request_has_the_loop_unpack_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every API: in each field that takes bytes."""

    async def main() -> None:
        found = []
        async with live.running(tmp_path) as broker:
            broker.groups.ensure_topic()
            live.create_topic(broker, many_items.TOPIC, many_items.PARTITIONS)
            topic_id = broker.image.topic_id(many_items.TOPIC)
            for key in many_items.apis():
                for what, frame in attacks.packed(key, topic_id, large_batch):
                    with counting_unpacked(monkeypatch) as unpacked:
                        reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
                        writer.write(frame)
                        await reader.read(4)  # answered, or closed
                        writer.transport.abort()
                    if unpacked.most > 2 * QUICK_UNPACKED_BYTES:
                        found.append(f"{what}: {unpacked.most}")
        assert not found, found

    run(main, loop="asyncio")


@pytest.mark.parametrize("codec", PACKED)
def test_a_batch_may_unpack_to_so_much(codec: Codec, tmp_path: Path) -> None:
    async def main() -> None:
        bound = {"odradek_batch_unpacked_max_bytes": 200_000}
        async with live.running(tmp_path, **bound) as broker:
            live.create_topic(broker, "t")
            client = await live.connect(broker)
            for size, code in ((100_000, 0), (300_000, ErrorCode.MESSAGE_TOO_LARGE)):
                records = live.batch([bytes(size)], codec=codec)
                assert codes(await client.call(produce(records), 9)) == [code]
            assert ends(broker) == [1]
            client.close()

    run(main)


def test_what_is_unpacked_in_a_second_is_bounded() -> None:
    async def main() -> None:
        clock = ManualClock()
        timers = ManualTimers(clock)
        unpacking = Unpacking(clock, timers, 1_000)

        def work(name: str) -> Callable[[], str]:
            return lambda: name

        def of(size: int) -> Callable[[str | None], int]:
            return lambda result: size

        # A second's bytes ahead are given; then each waits until those before it are paid for.
        first = unpacking.run(work("a"), of(1_500))
        assert await first == "a"
        second, third = unpacking.run(work("b"), of(500)), unpacking.run(work("c"), of(500))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not second.done() and not third.done()
        timers.advance(499)
        await asyncio.sleep(0)
        assert not second.done()
        timers.advance(1)
        assert await second == "b"
        assert await third == "c"  # it began beside the second
        last = unpacking.run(work("d"), of(0))
        timers.advance(5_000)
        assert await last == "d"
        broken = unpacking.run(lambda: 1 / 0, of(7))
        with pytest.raises(ZeroDivisionError):
            await broken
        waiting = unpacking.run(work("e"), of(9_000))
        assert await waiting == "e"
        dropped = unpacking.run(work("f"), of(1))
        unpacking.stop()
        assert dropped.cancelled()

    run(main)


def test_a_search_by_time_unpacks_beside_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with live.running(tmp_path) as broker:
            live.create_topic(broker, "t", len(PACKED))
            client = await live.connect(broker)
            for _ in range(2):
                await client.call(produce(*map(large_batch, PACKED)), 9)
            last = [live.batch(timestamp=TIME_MS + 5) for _ in PACKED]
            assert set(codes(await client.call(produce(*last), 9))) == {0}
            wanted = [
                ListOffsetsPartition(partition_index=index, timestamp=timestamp)
                for timestamp in (TIME_MS, TIME_MS + 1, MAX_TIMESTAMP)
                for index in range(len(PACKED))
            ]
            found = []
            with counting_unpacked(monkeypatch) as unpacked:
                for one in wanted:
                    topics = [ListOffsetsTopic(name="t", partitions=[one])]
                    answer = await client.call(ListOffsetsRequest(replica_id=-1, topics=topics), 7)
                    found.append(answer.topics[0].partitions[0].offset)
            assert found == [0] * 4 + [2] * 8
            assert unpacked.most == 0
            assert unpacked.beside >= LARGE_BYTES * len(PACKED)
            client.close()

    run(main, loop="asyncio")


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_a_fetch_that_is_converted_unpacks_beside_the_loop(
    codec: Codec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no more than one batch beyond what the fetch may bring."""
    partitions = 6

    async def main() -> None:
        async with live.running(tmp_path) as broker:
            live.create_topic(broker, "t", partitions)
            client = await live.connect(broker)
            await client.call(produce(*[large_batch(codec)] * partitions), 9)
            wanted = [
                FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=2**20)
                for index in range(partitions)
            ]
            request = FetchRequest(
                max_wait_ms=0,
                min_bytes=1,
                max_bytes=LARGE_BYTES,
                topics=[FetchTopic(topic="t", partitions=wanted)],
            )
            with counting_unpacked(monkeypatch) as unpacked:
                answer = await client.call(request, 3)
            sizes = [len(one.records) for one in answer.responses[0].partitions]
            # Of which most are asked for next.
            assert 0 < sum(size > 0 for size in sizes) <= MOST_UNPACKED_BYTES // LARGE_BYTES
            assert unpacked.most == 0
            assert LARGE_BYTES <= unpacked.beside <= MOST_UNPACKED_BYTES + LARGE_BYTES
            seen = set()
            for _ in range(partitions):
                answer = await client.call(request, 3)
                seen |= {one.partition_index for one in answer.responses[0].partitions if len(one.records)}
            assert seen == set(range(partitions))
            client.close()

    run(main, loop="asyncio")
