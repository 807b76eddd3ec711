"""Batches that we write: byte for byte those of Kafka's, kafka-python's and aiokafka's writers."""

from __future__ import annotations

import random

import pytest

from odradek.records.batch import BatchHeader, TimestampType, batch_records, iter_batches, iter_records
from odradek.records.builder import BatchBuilder, build_batch, record_size_upper_bound
from odradek.records.compression import Codec, decompress
from odradek.records.control import ControlType, end_marker_batch, parse_end_marker
from seeds import each_seed

from .golden import RELEASES, log_batches, wire_record_sets
from .peers import WRITERS, writer_module


def rebuild(header: BatchHeader, raw: bytes | memoryview) -> bytes:
    """The same batch, written by our builder from what our reader read."""
    builder = BatchBuilder(
        codec=header.codec,
        timestamp_type=header.timestamp_type,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        control=header.is_control,
        partition_leader_epoch=header.partition_leader_epoch,
        base_offset=header.base_offset,
        append_time=header.max_timestamp,
        delete_horizon_ms=header.delete_horizon_ms,
    )
    for record in batch_records(header, raw):
        builder.append(
            record.timestamp,
            record.key,
            record.value,
            record.headers,
            offset_delta=record.offset - header.base_offset,
        )
    return builder.build(last_offset_delta=header.last_offset_delta)


def same_batch(raw: bytes | memoryview) -> bool:
    """Whether `rebuild` gives the same bytes (packed records: the same once unpacked)."""
    header = BatchHeader.parse(raw)
    ours = rebuild(header, raw)
    if header.codec is Codec.NONE:
        return ours == bytes(raw)
    again = BatchHeader.parse(ours)
    return again._replace(length=0, crc=0) == header._replace(length=0, crc=0) and decompress(
        again.codec, ours[61:]
    ) == decompress(header.codec, raw[61:])


@pytest.mark.parametrize("release", RELEASES)
def test_kafkas_own_logs_are_written_the_same(release: str) -> None:
    compared = 0
    for where, raw, expected in log_batches(release):
        if expected["timestamp_type"] == "LogAppendTime" or expected["count"] == 0:
            continue  # the records' own times, or the max timestamp, cannot be read back
        if max(r["timestamp"] for r in expected["records"]) != expected["max_timestamp"]:
            continue  # the cleaner keeps the max timestamp of records that it has dropped
        if expected["base_timestamp"] != expected["records"][0]["timestamp"] and not (
            expected["attributes"] & 0x40
        ):
            continue  # likewise the base timestamp
        assert same_batch(raw), where
        compared += 1
    assert compared > 200


def test_kafkas_own_requests_are_written_the_same() -> None:
    for record_set in wire_record_sets():
        for header, raw in iter_batches(record_set):
            if header.timestamp_type is TimestampType.CREATE_TIME:
                assert same_batch(raw)


def random_records(seed: int, count: int) -> list[tuple[int, bytes | None, bytes | None, list]]:
    rng = random.Random(seed)
    records = []
    for _ in range(count):
        size = rng.choice([0, 1, 50, 63, 64, 65, 8191, 8192, 20000])
        records.append(
            (
                1_600_000_000_000 + rng.randrange(-100_000, 100_000),
                rng.choice([None, b"", rng.randbytes(rng.randrange(100))]),
                rng.choice([None, rng.randbytes(size)]),
                [(f"h{i}é", rng.choice([None, b"", b"x" * i])) for i in range(rng.choice([0, 0, 1, 5]))],
            )
        )
    return records


@pytest.mark.parametrize("peer", WRITERS)
@each_seed(5)
def test_other_python_writers_write_the_same(peer: str, seed: int) -> None:
    other = writer_module(peer).DefaultRecordBatchBuilder
    records = random_records(seed, 1 + 40 * (seed % 5))
    transactional = seed % 2 == 0
    theirs = other(
        magic=2,
        compression_type=0,
        is_transactional=transactional,
        producer_id=4711,
        producer_epoch=3,
        base_sequence=17,
        batch_size=1 << 30,
    )
    ours = BatchBuilder(producer_id=4711, producer_epoch=3, base_sequence=17, transactional=transactional)
    for index, (timestamp, key, value, headers) in enumerate(records):
        assert theirs.append(index, timestamp, key, value, headers) is not None
        assert ours.append(timestamp, key, value, headers) == index
    expected = bytearray(theirs.build())
    # Both libraries stamp leader epoch 0 or -1 as they like; it stands outside of the CRC.
    expected[12:16] = b"\xff\xff\xff\xff"
    assert ours.build() == bytes(expected)


@pytest.mark.parametrize("codec", list(Codec))
def test_what_is_written_is_read_back(codec: Codec) -> None:
    records = random_records(99, 120)
    batch = build_batch(records, codec=codec, base_offset=10_000_000_000)
    found = list(iter_records(batch))
    assert [(r.timestamp, r.key, r.value, list(r.headers)) for r in found] == records
    assert [r.offset for r in found] == list(range(10_000_000_000, 10_000_000_000 + len(records)))


def test_offsets_with_gaps_and_a_dropped_tail() -> None:
    builder = BatchBuilder(base_offset=100)
    builder.append(5, b"a", b"1", offset_delta=3)
    builder.append(6, b"b", b"2", offset_delta=7)
    batch = builder.build(last_offset_delta=9)
    assert [r.offset for r in iter_records(batch)] == [103, 107]
    assert BatchHeader.parse(batch).last_offset == 109
    with pytest.raises(ValueError, match="offset delta"):
        builder.append(7, b"c", b"3", offset_delta=7)


def test_a_batch_can_be_built_again_for_a_new_producer() -> None:
    builder = BatchBuilder(codec=Codec.GZIP, producer_id=1, producer_epoch=0, base_sequence=5)
    builder.append(1, None, b"v")
    first = builder.build()
    builder.producer_epoch = 1
    builder.base_sequence = 0
    second = BatchHeader.parse(builder.build())
    assert BatchHeader.parse(first).base_sequence == 5
    assert (second.producer_epoch, second.base_sequence) == (1, 0)


def test_an_empty_batch_needs_its_range() -> None:
    with pytest.raises(ValueError, match="empty"):
        BatchBuilder().build()
    kept = BatchBuilder(producer_id=1, producer_epoch=0, base_sequence=4, base_offset=8)
    header = BatchHeader.parse(kept.build(last_offset_delta=2))
    assert (header.record_count, header.last_offset, header.last_sequence) == (0, 10, 6)


@pytest.mark.parametrize("timestamp", [-2, -(2**63), 2**63 - 1])
def test_timestamps_out_of_range(timestamp: int) -> None:
    with pytest.raises(ValueError, match="timestamp"):
        BatchBuilder().append(timestamp, None, None)


def test_producer_fields_must_fit_together() -> None:
    for fields in (
        {"transactional": True},
        {"producer_id": 1},
        {"producer_id": 1, "producer_epoch": 0},
    ):
        builder = BatchBuilder(**fields)
        builder.append(0, None, None)
        with pytest.raises(ValueError, match="producer id"):
            builder.build()


def test_size_estimates_are_upper_bounds() -> None:
    builder = BatchBuilder()
    for timestamp, key, value, headers in random_records(5, 50):
        bound = builder.size_with(key, value, headers)
        before = builder.size_estimate()
        builder.append(timestamp, key, value, headers)
        assert before < builder.size_estimate() <= bound
    assert builder.size_estimate() == len(builder.build())
    assert record_size_upper_bound(None, None) < 64


def test_transaction_markers() -> None:
    batch = end_marker_batch(
        ControlType.COMMIT, producer_id=7, producer_epoch=2, coordinator_epoch=5, timestamp=123
    )
    header = BatchHeader.parse(batch)
    assert header.is_control
    assert header.is_transactional
    assert header.base_sequence == -1
    (record,) = batch_records(header, batch)
    assert parse_end_marker(record.key, record.value) == (ControlType.COMMIT, 5)
    assert list(iter_records(batch)) == []


def test_markers_are_kafkas_to_the_byte() -> None:
    compared = 0
    for where, raw, expected in log_batches("3.9.1"):
        if not expected["control"] or expected["attributes"] & 0x40:
            continue
        (record,) = expected["records"]
        ours = end_marker_batch(
            ControlType[record["control_type"]],
            producer_id=expected["producer_id"],
            producer_epoch=expected["producer_epoch"],
            coordinator_epoch=record["coordinator_epoch"],
            timestamp=record["timestamp"],
            partition_leader_epoch=expected["partition_leader_epoch"],
            base_offset=expected["base_offset"],
        )
        assert ours == raw, where
        compared += 1
    assert compared > 3
