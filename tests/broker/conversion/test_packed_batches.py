"""Little that unpacks to much: beside the loop, within bounds, and appended in the order of its arrival."""

from __future__ import annotations

import asyncio
import gc
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastcrc
import pytest

from odradek.broker.app import Broker
from odradek.broker.conversion import preparation
from odradek.broker.conversion.fetch import MOST_UNPACKED_BYTES
from odradek.broker.conversion.packed import QUICK_UNPACKED_BYTES, UNCOUNTED_BYTES
from odradek.broker.conversion.unpacking import ROOM_BYTES
from odradek.broker.event_loop.slices import Slicer, is_in_steps
from odradek.broker.handlers.produce import handle
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.peer import Peer
from odradek.errors.codes import ErrorCode
from odradek.log.partition.format_conversion import Prepared
from odradek.records.compression import Codec
from odradek.replication.lookups import MAX_TIMESTAMP
from odradek.wire.api import ApiKey
from odradek.wire.headers import RequestHeader
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
from .unpacked import LARGE_BYTES, PACKED, TIME_MS, connected, counting_unpacked, large_batch, large_set


class HeldUnpacking:
    """Unpacks when it is told to."""

    room = ROOM_BYTES

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []

    def run(self, work: Callable[[], Any], cost: Callable[[Any], int], peer: Peer) -> asyncio.Future[Any]:
        future = asyncio.get_running_loop().create_future()
        self.jobs.append((work, future))
        return future

    def use_room(self, unpacked_bytes: int) -> None: ...

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
            await live.create_topic(broker, "t", 2)
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
            await live.create_topic(broker, "t", 3)
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
            await live.create_topic(broker, "t", partitions)
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


def charging(broker: Broker) -> list[int]:
    """What each piece of work costs from now on."""
    charged: list[int] = []
    run_in_thread = broker.unpacking.run

    def counted(work: Any, cost: Any, peer: Peer) -> Any:
        def charge(result: Any) -> int:
            charged.append(cost(result))
            return charged[-1]

        return run_in_thread(work, charge, peer)

    broker.unpacking.run = counted  # type: ignore[method-assign]
    return charged


OLD_CODECS = [codec for codec in PACKED if codec is not Codec.ZSTD]


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("stored_as", ["0.9.0", "0.10.2", "2.8"])
def test_message_sets_are_unpacked_beside_the_loop(
    version: int, stored_as: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many a request brings, into a topic of whichever format; and each is charged."""
    partitions = 3

    async def main() -> None:
        async with live.running(tmp_path, inter_broker_protocol_version="2.8") as broker:
            await live.create_topic(broker, "t", partitions, configs={"message.format.version": stored_as})
            client = await live.connect(broker)
            charged = charging(broker)
            for codec in OLD_CODECS:
                before = ends(broker, partitions)
                charged.clear()
                with counting_unpacked(monkeypatch) as unpacked:
                    records = large_set(1 if version == 2 else 0, codec)
                    answer = await client.call(produce(*[records] * partitions), version)
                assert codes(answer) == [0] * partitions
                assert ends(broker, partitions) == [end + 16 for end in before]
                assert unpacked.most == 0, codec
                assert unpacked.beside >= partitions * LARGE_BYTES
                assert len(charged) == partitions
                assert min(charged) >= LARGE_BYTES
            client.close()

    run(main, loop="asyncio")


def test_message_sets_that_become_large_are_converted_beside_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of them than are held at once."""
    partitions, size = 40, 900_000

    async def main() -> None:
        async with live.running(tmp_path) as broker:
            await live.create_topic(broker, "t", partitions, configs={"compression.type": "uncompressed"})
            client = await live.connect(broker)
            records = large_set(1, Codec.GZIP, size)
            with counting_unpacked(monkeypatch) as unpacked:
                answer = await client.call(produce(*[records] * partitions), 2)
            assert codes(answer) == [0] * partitions
            assert unpacked.most <= 2 * QUICK_UNPACKED_BYTES
            assert unpacked.beside >= 0.9 * partitions * size  # a few go quickly
            client.close()

    run(main, loop="asyncio")


@pytest.mark.parametrize("version", range(3))
def test_batches_of_today_in_an_old_request_are_unpacked_beside_the_loop(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partitions = 4

    async def main() -> None:
        async with live.running(tmp_path) as broker:
            await live.create_topic(broker, "t", partitions)
            client = await live.connect(broker)
            for codec in OLD_CODECS:
                with counting_unpacked(monkeypatch) as unpacked:
                    answer = await client.call(produce(*[large_batch(codec)] * partitions), version)
                assert codes(answer) == [0] * partitions
                assert unpacked.most <= 2 * QUICK_UNPACKED_BYTES, codec
            client.close()

    run(main, loop="asyncio")


def test_what_is_made_of_a_request_is_held_for_few_partitions_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Little that is stored unpacked, in many partitions: what is appended is let go of first."""
    partitions, size = 40, 200_000

    async def main() -> None:
        async with live.running(tmp_path) as broker:
            await live.create_topic(broker, "t", partitions, configs={"compression.type": "uncompressed"})
            monkeypatch.setattr(preparation, "MOST_PREPARED_BYTES", 3 * size)
            held: list[int] = []
            appended = preparation.Preparation.appended

            def seen(self: preparation.Preparation) -> None:
                held.append(
                    sum(
                        len(one.records)
                        for one in gc.get_objects()
                        if isinstance(one, Prepared) and len(one.records) > size
                    )
                )
                appended(self)

            monkeypatch.setattr(preparation.Preparation, "appended", seen)
            client = await live.connect(broker)
            records = live.batch([bytes(size)], codec=Codec.GZIP)
            assert codes(await client.call(produce(*[records] * partitions), 9)) == [0] * partitions
            assert ends(broker, partitions) == [1] * partitions
            assert len(held) > partitions / 5
            assert size < max(held) < 5 * size
            client.close()

    run(main, loop="asyncio")


@pytest.mark.parametrize("codec", PACKED)
def test_what_a_batch_in_another_codec_costs_is_what_it_unpacks_to(codec: Codec, tmp_path: Path) -> None:
    """Not the most that it might have: producers in another codec than their topic's would wait for that."""

    async def main() -> None:
        async with live.running(tmp_path) as broker:
            await live.create_topic(broker, "t", configs={"compression.type": "uncompressed"})
            charged = charging(broker)
            client = await live.connect(broker)
            records = live.batch([bytes(300_000)], codec=codec)
            assert codes(await client.call(produce(records), 9)) == [0]
            assert len(charged) == 1
            assert 300_000 <= charged[0] < 310_000
            client.close()

    run(main)


@pytest.mark.fuzz
def test_no_field_of_a_request_has_the_loop_unpack_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every API: in each field that takes bytes."""

    async def main() -> None:
        found = []
        async with live.running(tmp_path) as broker:
            await broker.controller.event_queue.run(broker.groups.ensure_topic)
            await live.create_topic(broker, many_items.TOPIC, many_items.PARTITIONS)
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
            await live.create_topic(broker, "t")
            client = await live.connect(broker)
            for size, code in ((100_000, 0), (300_000, ErrorCode.MESSAGE_TOO_LARGE)):
                records = live.batch([bytes(size)], codec=codec)
                assert codes(await client.call(produce(records), 9)) == [code]
            assert ends(broker) == [1]
            client.close()

    run(main)


def test_many_connections_together_have_the_loop_unpack_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each sends what alone would be unpacked at once."""
    size, count = 900_000, 12

    async def main() -> None:
        async with live.running(tmp_path) as broker:
            await live.create_topic(broker, "t", count)
            records = live.batch([bytes(size)], codec=Codec.GZIP)
            peers = [connected(str(number)) for number in range(count)]
            header = RequestHeader(
                api_key=int(ApiKey.PRODUCE), api_version=9, correlation_id=1, client_id="client"
            )
            answered: list[Any] = []

            def handle_all() -> None:  # in one round of the loop
                for peer in peers:
                    context = RequestContext(broker, header, peer, broker.clock.now_ms())
                    answered.append(handle(context, produce(records)))

            with counting_unpacked(monkeypatch) as unpacked:
                broker.loop.call_soon(handle_all)
                await settle(lambda: len(answered) == count)
                slicer = Slicer()
                late = [slicer.run(one) for one in answered if is_in_steps(one)]
                assert len(late) == count - 1
                await asyncio.gather(*filter(asyncio.isfuture, late))
            assert unpacked.most <= QUICK_UNPACKED_BYTES + count * UNCOUNTED_BYTES
            assert ends(broker) == [count]

    run(main, loop="asyncio")


def test_a_search_by_time_unpacks_beside_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with live.running(tmp_path) as broker:
            await live.create_topic(broker, "t", len(PACKED))
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
            await live.create_topic(broker, "t", partitions)
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


def test_all_of_a_fetch_that_is_converted_is_charged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what is converted while the answer is being sent."""

    async def main() -> None:
        async with live.running(tmp_path) as broker:
            await live.create_topic(broker, "t")
            client = await live.connect(broker)
            # The first is larger than a piece, so that the second is converted while it is sent.
            few = live.batch([random.Random(0).randbytes(300_000)], codec=Codec.GZIP)
            for records in (few, large_batch(Codec.GZIP)):
                assert codes(await client.call(produce(records), 9)) == [0]
            wanted = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=2**20)]
            request = FetchRequest(
                max_wait_ms=0, min_bytes=1, max_bytes=2**20, topics=[FetchTopic(topic="t", partitions=wanted)]
            )
            charged = charging(broker)
            with counting_unpacked(monkeypatch) as unpacked:
                answer = await client.call(request, 3)
            assert len(answer.responses[0].partitions[0].records) > 300_000
            assert unpacked.most == 0
            assert unpacked.beside >= LARGE_BYTES
            assert sum(charged) >= unpacked.beside
            client.close()

    run(main, loop="asyncio")
