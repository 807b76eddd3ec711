"""Batches that Kafka wrote, read: every header field, every record; and what is not a batch."""

from __future__ import annotations

import pytest

from odradek.errors import (
    CorruptRecordError,
    InvalidRecordError,
    UnsupportedCompressionTypeError,
    UnsupportedForMessageFormatError,
)
from odradek.records.batch import (
    BATCH_OF_PRODUCER_STRUCT,
    HEADER_BYTES,
    PRODUCER_ID_AT,
    PRODUCER_STRUCT,
    BatchHeader,
    TimestampType,
    batch_records,
    check_crc,
    compute_crc,
    increment_sequence,
    iter_batches,
    iter_records,
)
from odradek.records.builder import build_batch
from odradek.records.compression import Codec
from odradek.records.control import ControlType, parse_control_type, parse_end_marker

from .golden import RELEASES, log_batches, log_files, wire_record_sets

HEADER_FIELDS = {
    "base_offset": "base_offset",
    "last_offset": "last_offset",
    "crc": "crc",
    "size": "size",
    "count": "record_count",
    "producer_id": "producer_id",
    "producer_epoch": "producer_epoch",
    "base_sequence": "base_sequence",
    "last_sequence": "last_sequence",
    "transactional": "is_transactional",
    "control": "is_control",
    "partition_leader_epoch": "partition_leader_epoch",
    "attributes": "attributes",
    "last_offset_delta": "last_offset_delta",
    "base_timestamp": "base_timestamp",
    "max_timestamp": "max_timestamp",
}


def hex_of(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


@pytest.mark.parametrize("release", RELEASES)
def test_headers_of_kafkas_own_logs(release: str) -> None:
    for where, raw, expected in log_batches(release):
        header = BatchHeader.parse(raw)
        for theirs, ours in HEADER_FIELDS.items():
            assert getattr(header, ours) == expected[theirs], (where, theirs)
        assert header.codec.name.lower() == expected["codec"], where
        append_time = expected["timestamp_type"] == "LogAppendTime"
        assert (header.timestamp_type is TimestampType.LOG_APPEND_TIME) == append_time, where
        horizon = expected.get("delete_horizon_ms")
        assert header.delete_horizon_ms == (horizon if horizon not in (None, -1) else None), where
        check_crc(header, raw)
        assert BATCH_OF_PRODUCER_STRUCT.unpack_from(raw) == (
            header.length,
            header.magic,
            header.attributes,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
        )
        assert PRODUCER_STRUCT.unpack_from(raw, PRODUCER_ID_AT) == header[9:12]


@pytest.mark.parametrize("release", RELEASES)
def test_records_of_kafkas_own_logs(release: str) -> None:
    seen = 0
    for where, raw, expected in log_batches(release):
        header = BatchHeader.parse(raw)
        records = batch_records(header, raw)
        assert len(records) == len(expected["records"]) == header.record_count, where
        for record, theirs in zip(records, expected["records"], strict=True):
            assert record.offset == theirs["offset"], where
            assert record.timestamp == theirs["timestamp"], where
            assert hex_of(record.key) == theirs["key"], where
            assert hex_of(record.value) == theirs["value"], where
            headers = [[name, hex_of(value)] for name, value in record.headers]
            assert headers == theirs.get("headers", []), where
            if header.is_control:
                kind = parse_control_type(record.key)
                assert kind.name == theirs["control_type"], where
                assert kind in (ControlType.ABORT, ControlType.COMMIT)
                marker = parse_end_marker(record.key, record.value)
                assert marker.coordinator_epoch == theirs["coordinator_epoch"], where
            seen += 1
    assert seen > 1000


@pytest.mark.parametrize("release", RELEASES)
def test_a_whole_log_file_without_its_control_batches(release: str) -> None:
    control = 0
    for name, data in log_files(release).items():
        if any(header.magic != 2 for header, _ in _safely(data)):
            continue
        everything = list(iter_records(data, include_control=True))
        visible = list(iter_records(data))
        control += len(everything) - len(visible)
        assert len(visible) == sum(
            header.record_count for header, _ in iter_batches(data) if not header.is_control
        ), name
    assert control > 0


def _safely(data: bytes) -> list[tuple[BatchHeader, memoryview]]:
    try:
        return list(iter_batches(data))
    except UnsupportedForMessageFormatError:  # the log of mixed formats
        return [(BatchHeader(*([0] * 13)), memoryview(b""))]


def test_all_codecs_and_both_timestamp_types_are_in_the_golden_data() -> None:
    headers = [BatchHeader.parse(raw) for release in RELEASES for _, raw, _ in log_batches(release)]
    assert {header.codec for header in headers} == set(Codec)
    assert {header.timestamp_type for header in headers} == {
        TimestampType.CREATE_TIME,
        TimestampType.LOG_APPEND_TIME,
    }
    assert any(header.is_transactional for header in headers)
    assert any(header.delete_horizon_ms is not None for header in headers)
    assert any(header.record_count == 0 for header in headers)


def test_record_sets_of_requests_and_responses() -> None:
    for raw in wire_record_sets():
        assert sum(1 for _ in iter_records(raw, include_control=True)) >= 1


@pytest.mark.parametrize("magic", [0, 1])
def test_message_sets_are_told_from_batches(magic: int) -> None:
    for raw in wire_record_sets(magic):
        with pytest.raises(UnsupportedForMessageFormatError):
            list(iter_batches(raw))


BATCH = build_batch([(1000, b"k", b"v", [("h", None), ("h", b"x")]), (1001, None, None, [])])


def test_a_cut_off_last_batch_ends_the_iteration() -> None:
    whole = BATCH + BATCH
    for size in range(len(BATCH), len(whole)):
        assert len(list(iter_batches(whole[:size]))) == 1
    assert len(list(iter_batches(whole))) == 2
    assert list(iter_batches(b"")) == []


def test_batches_from_an_offset_on() -> None:
    assert [len(raw) for _, raw in iter_batches(BATCH * 3, offset=len(BATCH))] == [len(BATCH)] * 2


def test_a_header_alone_can_be_parsed() -> None:
    assert BatchHeader.parse(BATCH[:HEADER_BYTES]).record_count == 2
    with pytest.raises(CorruptRecordError):
        BatchHeader.parse(BATCH[: HEADER_BYTES - 1])


@pytest.mark.parametrize("magic", [3, 127, 255])
def test_an_unknown_magic_is_corrupt(magic: int) -> None:
    with pytest.raises(CorruptRecordError, match="magic"):
        BatchHeader.parse(BATCH[:16] + bytes([magic]) + BATCH[17:])


@pytest.mark.parametrize("length", [-1, -(2**31), 0, 48])
def test_a_length_too_small_for_a_header_is_corrupt(length: int) -> None:
    with pytest.raises(CorruptRecordError, match="smaller"):
        BatchHeader.parse(BATCH[:8] + length.to_bytes(4, "big", signed=True) + BATCH[12:])


def test_a_wrong_crc_is_corrupt_unless_it_is_not_looked_at() -> None:
    damaged = bytearray(BATCH)
    damaged[30] ^= 1  # in the base timestamp
    with pytest.raises(CorruptRecordError, match="CRC"):
        list(iter_records(damaged))
    assert len(list(iter_records(damaged, check_crcs=False))) == 2


def test_an_unknown_codec_is_refused() -> None:
    odd = bytearray(BATCH)
    odd[22] |= 5
    with pytest.raises(UnsupportedCompressionTypeError):
        list(iter_records(odd, check_crcs=False))


def test_more_records_declared_than_there_are() -> None:
    odd = bytearray(BATCH)
    odd[57:61] = (3).to_bytes(4, "big")
    with pytest.raises(InvalidRecordError, match="record 2"):
        list(iter_records(odd, check_crcs=False))
    odd[57:61] = (1).to_bytes(4, "big")
    with pytest.raises(InvalidRecordError, match="bytes remain"):
        list(iter_records(odd, check_crcs=False))


def test_log_append_time_stands_for_all_records() -> None:
    from odradek.records.builder import BatchBuilder

    builder = BatchBuilder(timestamp_type=TimestampType.LOG_APPEND_TIME, append_time=77)
    builder.append(1, b"k", b"v")
    builder.append(2, b"k", b"v")
    records = list(iter_records(builder.build()))
    assert [r.timestamp for r in records] == [77, 77]
    assert [r.timestamp_type for r in records] == [TimestampType.LOG_APPEND_TIME] * 2


def test_header_names_that_are_not_utf8_are_read_with_replacements() -> None:
    raw = bytearray(BATCH).replace(b"\x02h\x01", b"\x02\xff\x01", 1)
    raw[17:21] = compute_crc(raw).to_bytes(4, "big")
    assert next(iter_records(raw)).headers == (("\ufffd", None), ("h", b"x"))


def test_sequences_wrap() -> None:
    assert increment_sequence(5, 3) == 8
    assert increment_sequence(2**31 - 1, 1) == 0
    assert increment_sequence(2**31 - 2, 5) == 3
