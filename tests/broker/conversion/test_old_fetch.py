"""Fetch 0 to 3, and messages of old formats in any version, against a whole broker."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.conversion import fetch as fetch_conversions
from odradek.broker.conversion import lazy_records
from odradek.broker.metrics.metrics import FETCH_CONSUMER
from odradek.errors.codes import ErrorCode
from odradek.records.batch import Record, TimestampType
from odradek.records.builder import BatchBuilder, build_batch
from odradek.records.compression import Codec
from odradek.records.message_sets.message_set import iter_all_records, iter_entries
from records.message_set_builder import MessageSetBuilder

from ..live import append, connect, create_topic, fetch, running
from ..net import run

TIME = 1_700_000_000_000
CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]
OLD_BROKER = {"inter_broker_protocol_version": "2.8"}
MAGIC = {0: 0, 1: 0, 2: 1, 3: 1}


async def fetched(client: Any, version: int, offset: int = 0, **how: Any) -> Any:
    response = await client.call(fetch("t", offset, **how), version)
    return response.responses[0].partitions[0]


def whole(records: Any) -> list[tuple[Any, bytes]]:
    return [(header, bytes(entry)) for header, entry in iter_entries(records)]


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("codec", CODECS)
def test_batches_come_as_messages(version: int, codec: Codec, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t")
            client = await connect(broker)
            for start in (0, 3):
                records = [(TIME + start + n, b"k%d" % n, b"v" * n, [("h", b"1")]) for n in range(3)]
                await append(client, "t", build_batch(records, codec=codec))
            answer = await fetched(client, version, offset=1)
            assert (answer.error_code, answer.high_watermark) == (0, 6)
            found = list(iter_all_records(answer.records))
            if found[-1].offset < 5:
                # Wrappers may be larger than their batches: what does not fit comes with the next answer.
                answer = await fetched(client, version, offset=3)
                found += iter_all_records(answer.records)
            kind = TimestampType.CREATE_TIME if version >= 2 else TimestampType.NO_TIMESTAMP_TYPE
            expected = [
                Record(offset, TIME + offset if version >= 2 else -1, kind, b"k%d" % n, b"v" * n, ())
                for offset in range(6)
                for n in (offset % 3,)
            ]
            # The first message of an uncompressed answer is the one that was asked for.
            assert found == (expected[1:] if codec is Codec.NONE else expected)
            assert {entry[16] for _, entry in whole(answer.records)} == {MAGIC[version]}
            assert broker.metrics.topics.of("t").fetch_message_conversions >= len(found)
            client.close()

    run(main)


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("stored_as", ["0.9.0", "0.10.2", "2.8"])
def test_old_messages_come_as_they_are_where_they_may(version: int, stored_as: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, **OLD_BROKER) as broker:
            await create_topic(broker, "t", configs={"message.format.version": stored_as})
            client = await connect(broker)
            builder = MessageSetBuilder(1, Codec.GZIP)
            for number in range(5):
                builder.append(TIME + number, b"k", b"v%d" % number)
            await append(client, "t", builder.build(), version=2)
            answer = await fetched(client, version)
            magic = min(MAGIC.get(version, 2), {"0.9.0": 0, "0.10.2": 1, "2.8": 2}[stored_as])
            assert {entry[16] for _, entry in whole(answer.records)} == {magic}
            assert [record.value for record in iter_all_records(answer.records)] == [
                b"v%d" % number for number in range(5)
            ]
            segment = broker.replicas.get("t", 0).log.segments.active
            if magic == {"0.9.0": 0, "0.10.2": 1, "2.8": 2}[stored_as]:
                assert bytes(answer.records) == segment.pread(segment.size, 0)
            client.close()

    run(main)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("file_ranges", [False, True])
def test_large_answers_are_converted_while_they_are_sent(
    codec: Codec, file_ranges: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several connections at once, requests behind one another, a consumer that goes away."""
    made = []
    real = lazy_records.LazyRecords.take

    def counting(self: Any, on_ready: Any) -> Any:
        piece = real(self, on_ready)
        if piece is not None:
            made.append(len(piece))
        return piece

    monkeypatch.setattr(lazy_records.LazyRecords, "take", counting)

    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t")
            client = await connect(broker)
            chance = random.Random(7)
            values = [chance.randbytes(chance.randrange(1, 900)) for _ in range(4000)]
            for start in range(0, 4000, 500):
                builder = BatchBuilder(codec=codec)
                for number in range(start, start + 500):
                    builder.append(TIME + number, b"%d" % number, values[number], ())
                await append(client, "t", bytes(builder.build()))
            most = 4 * 2**20 if file_ranges else 250_000

            async def consume(version: int) -> None:
                consumer = await connect(broker)
                offset = 0
                while offset < 4000:
                    for _ in range(2):
                        consumer.send(fetch("t", offset, partition_max_bytes=most, max_bytes=most), version)
                    one, two = [(await consumer.receive()).responses[0].partitions[0] for _ in range(2)]
                    assert one == two
                    records = list(iter_all_records(one.records))
                    assert records
                    for record in records:
                        if record.offset >= offset:
                            assert record.offset == offset
                            assert (record.key, record.value) == (b"%d" % offset, values[offset])
                            offset += 1
                consumer.close()

            gone = await connect(broker)
            gone.send(fetch("t", 0, partition_max_bytes=most), 3)
            await asyncio.gather(consume(3), consume(1))
            gone.abort()
            client.close()
            assert made
            assert max(made) < 4 * fetch_conversions.PIECE_BYTES

    run(main)


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("converting", [False, True])
def test_a_first_message_that_is_too_large(version: int, converting: bool, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, **OLD_BROKER) as broker:
            stored_as = "2.8" if converting else "0.9.0"
            await create_topic(broker, "t", configs={"message.format.version": stored_as})
            client = await connect(broker)
            builder = MessageSetBuilder(0)
            builder.append(-1, b"k", b"v" * 3000)
            await append(client, "t", builder.build(), version=0)
            answer = await fetched(client, version, partition_max_bytes=1000)
            assert answer.error_code == 0
            if version == 3:
                assert [len(record.value) for record in iter_all_records(answer.records)] == [3000]
            else:
                assert len(answer.records) == (12 if converting else 1000)
                assert whole(answer.records) == []
                if not converting:
                    assert int.from_bytes(answer.records[8:12], "big") == 14 + 1 + 3000
                assert len(whole((await fetched(client, version, partition_max_bytes=4000)).records)) == 1
            client.close()

    run(main)


def test_conversion_can_be_switched_off(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t", configs={"message.downconversion.enable": "false"})
            client = await connect(broker)
            await append(client, "t", build_batch([(TIME, b"k", b"v", [])]))
            for version in range(4):
                answer = await fetched(client, version)
                assert ErrorCode(answer.error_code) == ErrorCode.UNSUPPORTED_VERSION
            assert (await fetched(client, 4)).error_code == 0
            client.close()

    run(main)


def test_zstd_cannot_be_converted(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t")
            client = await connect(broker)
            await append(client, "t", build_batch([(TIME, b"k", b"v", [])]))
            for size in (10, 90_000):
                values = random.Random(3).randbytes(size)
                await append(client, "t", build_batch([(TIME, b"k", values, [])], codec=Codec.ZSTD))
            for version in range(4):
                answer = await fetched(client, version)
                assert [record.offset for record in iter_all_records(answer.records)] == [0]
                for offset in (1, 2):
                    answer = await fetched(client, version, offset=offset)
                    assert ErrorCode(answer.error_code) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
            errors = broker.metrics.requests.of(FETCH_CONSUMER).errors
            assert errors == {int(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE): 8}
            client.close()

    run(main)


def test_a_long_poll_is_answered_converted(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t")
            waiting, client = await connect(broker), await connect(broker)
            for size in (10, 300_000):
                end = broker.replicas.get("t", 0).log.log_end_offset
                waiting.send(fetch("t", end, max_wait_ms=10_000), 2)
                assert await waiting.silent()
                await append(client, "t", build_batch([(TIME, b"k", b"v" * size, [])]))
                partition = (await waiting.receive()).responses[0].partitions[0]
                [record] = iter_all_records(partition.records)
                assert (record.offset, len(record.value)) == (end, size)
            waiting.close()
            client.close()

    run(main)
