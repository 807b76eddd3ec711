"""What a broker refuses, with which error, and that nothing else is refused."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from odradek.errors import ErrorCode, KafkaError
from odradek.records.batch import HEADER_BYTES, BatchHeader, TimestampType, compute_crc, iter_batches
from odradek.records.builder import BatchBuilder, build_batch
from odradek.records.compression import Codec, compress, decompress
from odradek.records.control import ControlType, end_marker_batch
from odradek.records.validate import record_errors
from odradek.records.varint import encode_varint
from records.validating import validate_batches

from .golden import wire_record_sets

NOW = 1_700_000_000_000
RECORDS = [(NOW - 1000 + i, b"key-%d" % i, b"value-%d" % i, [("h", b"x")]) for i in range(5)]


def check(buffer: bytes | bytearray, **options: object) -> list[BatchHeader]:
    options = {"max_message_bytes": 1 << 20, "now_ms": NOW} | options
    return validate_batches(buffer, **options)  # type: ignore[arg-type]


def refusal(buffer: bytes | bytearray, **options: object) -> KafkaError:
    before = bytes(buffer)
    with pytest.raises(KafkaError) as caught:
        check(buffer, **options)
    assert bytes(buffer) == before
    return caught.value


def with_crc(batch: bytearray) -> bytes:
    batch[17:21] = compute_crc(batch).to_bytes(4, "big")
    return bytes(batch)


def with_header(position: int, layout: str, value: int, batch: bytes | None = None) -> bytes:
    changed = bytearray(batch or build_batch(RECORDS))
    struct.pack_into(layout, changed, position, value)
    return with_crc(changed)


def with_section(section: bytes, count: int, codec: Codec = Codec.NONE) -> bytes:
    """A batch with a right header around whatever records."""
    batch = bytearray(build_batch(RECORDS)[:HEADER_BYTES])
    batch += compress(codec, section)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">h", batch, 21, codec)
    struct.pack_into(">i", batch, 23, count - 1)
    struct.pack_into(">i", batch, 57, count)
    return with_crc(batch)


@pytest.mark.parametrize("codec", list(Codec))
def test_a_good_batch(codec: Codec) -> None:
    batch = build_batch(RECORDS, codec=codec)
    (header,) = check(batch, produce_version=9, compacted=True)
    assert header == BatchHeader.parse(batch)


def test_batches_that_kafkas_clients_sent() -> None:
    accepted = 0
    for record_set in wire_record_sets():
        for header, raw in iter_batches(record_set):
            if header.is_control or header.timestamp_type is TimestampType.LOG_APPEND_TIME:
                continue
            sent = bytearray(raw)
            struct.pack_into(">q", sent, 0, 0)
            if header.last_offset_delta + 1 == header.record_count:
                check(sent, produce_version=7)
                accepted += 1
    assert accepted > 10


# --- the shape of what was sent ---


def test_nothing_at_all() -> None:
    assert refusal(b"").code is ErrorCode.INVALID_RECORD


def test_two_batches_in_one_request() -> None:
    assert refusal(build_batch(RECORDS) * 2, produce_version=9).code is ErrorCode.INVALID_RECORD
    assert len(check(build_batch(RECORDS) * 2, from_client=False)) == 2


@pytest.mark.parametrize("tail", [b"x", b"\x00" * 30, b"\x00" * 60])
def test_bytes_after_the_batch(tail: bytes) -> None:
    assert refusal(build_batch(RECORDS) + tail).code is ErrorCode.CORRUPT_MESSAGE


def test_every_truncation() -> None:
    batch = build_batch(RECORDS)
    for size in range(1, len(batch)):
        assert refusal(batch[:size]).code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("magic", [0, 1])
def test_message_sets(magic: int) -> None:
    for record_set in wire_record_sets(magic):
        assert refusal(record_set).code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
        assert refusal(record_set, produce_version=3).code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("magic", [3, 100, -1])
def test_unknown_magic(magic: int) -> None:
    assert refusal(with_header(16, ">b", magic)).code is ErrorCode.CORRUPT_MESSAGE


def test_zstd_before_its_time() -> None:
    batch = build_batch(RECORDS, codec=Codec.ZSTD)
    for version in (3, 6):
        assert refusal(batch, produce_version=version).code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    check(batch, produce_version=7)


@pytest.mark.parametrize("number", [5, 6, 7])
def test_unknown_codec(number: int) -> None:
    assert refusal(with_header(21, ">h", number)).code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_size() -> None:
    batch = build_batch(RECORDS)
    check(batch, max_message_bytes=len(batch))
    assert refusal(batch, max_message_bytes=len(batch) - 1).code is ErrorCode.MESSAGE_TOO_LARGE


def test_what_unpacks_to_too_much() -> None:
    batch = build_batch([(NOW, None, bytes(100_000), [])], codec=Codec.ZSTD)
    assert refusal(batch, max_decompressed_bytes=50_000).code is ErrorCode.MESSAGE_TOO_LARGE


def test_every_flipped_bit_under_the_crc_is_seen() -> None:
    batch = build_batch(RECORDS)
    for position in range(17, len(batch)):
        damaged = bytearray(batch)
        damaged[position] ^= 0x10
        assert refusal(damaged).code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


# --- the header ---


@pytest.mark.parametrize(
    ("position", "layout", "value"),
    [
        pytest.param(0, ">q", 1, id="base offset"),
        pytest.param(57, ">i", 0, id="no records"),
        pytest.param(57, ">i", -1, id="negative count"),
        pytest.param(57, ">i", 4, id="fewer records than offsets"),
        pytest.param(57, ">i", 6, id="more records than offsets"),
        pytest.param(23, ">i", -1, id="negative last offset delta"),
        pytest.param(23, ">i", 2**31 - 1, id="huge last offset delta"),
        pytest.param(21, ">h", 0x20, id="control"),
        pytest.param(21, ">h", 0x40, id="delete horizon"),
        pytest.param(43, ">q", 5, id="producer id without sequence"),
    ],
)
def test_headers_that_clients_may_not_send(position: int, layout: str, value: int) -> None:
    assert refusal(with_header(position, layout, value)).code is ErrorCode.INVALID_RECORD


def test_count_and_last_offset_delta_that_agree_with_each_other_only() -> None:
    both = with_header(57, ">i", 2**31 - 1, with_header(23, ">i", 2**31 - 2))
    assert refusal(both).code is ErrorCode.INVALID_RECORD


def test_log_append_time_from_a_producer() -> None:
    for timestamp_type in (TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME):
        error = refusal(with_header(21, ">h", 8), timestamp_type=timestamp_type)
        assert error.code is ErrorCode.INVALID_TIMESTAMP
        assert record_errors(error)[0].batch_index == 0


def test_markers_are_for_coordinators() -> None:
    marker = end_marker_batch(
        ControlType.ABORT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=NOW
    )
    assert refusal(marker).code is ErrorCode.INVALID_RECORD
    check(marker, from_client=False, compacted=True)


def test_idempotent_batches() -> None:
    builder = BatchBuilder(producer_id=3, producer_epoch=0, base_sequence=0)
    builder.append(NOW, None, b"v")
    (header,) = check(builder.build())
    assert header.has_producer_id


# --- the records ---

GOOD_BODY = b"\x00\x00\x00\x01\x01\x00"  # attributes, timestamp, offset, null key, null value, no headers


def record(body: bytes, length: int | None = None) -> bytes:
    return encode_varint(len(body) if length is None else length) + body


def test_the_smallest_record() -> None:
    check(with_section(record(GOOD_BODY), 1))


BAD_SECTIONS: dict[str, tuple[bytes, int]] = {
    "no bytes": (b"", 1),
    "record missing": (record(GOOD_BODY), 2),
    "bytes left": (record(GOOD_BODY) + b"\x00", 1),
    "negative length": (encode_varint(-1), 1),
    "length of zero": (encode_varint(0), 1),
    "length past the end": (record(GOOD_BODY, 7), 1),
    "length too short": (record(GOOD_BODY, 5) + b"", 1),
    "length unfinished": (b"\x80", 1),
    "length of six bytes": (b"\x80\x80\x80\x80\x80\x01", 1),
    "offset delta 1": (record(b"\x00\x00\x02\x01\x01\x00"), 1),
    "offset delta -1": (record(b"\x00\x00\x01\x01\x01\x00"), 1),
    "offset deltas twice 0": (record(GOOD_BODY) * 2, 2),
    "timestamp of eleven bytes": (record(b"\x00" + b"\x80" * 10 + b"\x01\x00\x01\x01\x00"), 1),
    "timestamp unfinished": (record(b"\x00\x80"), 1),
    "key longer than the record": (record(b"\x00\x00\x00\x7e\x01\x00"), 1),
    "key length -2": (record(b"\x00\x00\x00\x03\x01\x00"), 1),
    "value longer than the record": (record(b"\x00\x00\x00\x01\x04a\x00"), 1),
    "value length -3": (record(b"\x00\x00\x00\x01\x05\x00"), 1),
    "no header count": (record(b"\x00\x00\x00\x01\x01"), 1),
    "header count -1": (record(b"\x00\x00\x00\x01\x01\x01"), 1),
    "too many headers": (record(b"\x00\x00\x00\x01\x01\x10"), 1),
    "2^31-1 headers": (record(b"\x00\x00\x00\x01\x01" + encode_varint(2**31 - 1)), 1),
    "null header name": (record(b"\x00\x00\x00\x01\x01\x02\x01\x01"), 1),
    "header name too long": (record(b"\x00\x00\x00\x01\x01\x02\x04h\x01"), 1),
    "header value too long": (record(b"\x00\x00\x00\x01\x01\x02\x02h\x7e"), 1),
    "header value length -2": (record(b"\x00\x00\x00\x01\x01\x02\x02h\x03"), 1),
    "bytes after the headers": (record(GOOD_BODY + b"\x00"), 1),
}


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("name", BAD_SECTIONS)
def test_records_that_do_not_parse(name: str, codec: Codec) -> None:
    section, count = BAD_SECTIONS[name]
    assert refusal(with_section(section, count, codec)).code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_data_that_does_not_unpack(codec: Codec) -> None:
    batch = bytearray(with_section(record(GOOD_BODY) * 1, 1, codec))
    del batch[-4:]
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    code = refusal(with_crc(batch)).code
    assert code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)


def test_keys_in_compacted_topics() -> None:
    records = [(NOW, None if i in (1, 3) else b"k", b"v", []) for i in range(5)]
    check(build_batch(records))
    error = refusal(build_batch(records), compacted=True)
    assert error.code is ErrorCode.INVALID_RECORD
    assert [found.batch_index for found in record_errors(error)] == [1, 3]
    check(build_batch([(NOW, b"", None, [])]), compacted=True)


@pytest.mark.parametrize(
    ("offset_ms", "refused"), [(-101, True), (-100, False), (0, False), (50, False), (51, True)]
)
def test_timestamps_far_from_now(offset_ms: int, refused: bool) -> None:
    batch = build_batch([(NOW, b"k", b"v", []), (NOW + offset_ms, b"k", b"v", [])])
    limits = {"timestamp_before_max_ms": 100, "timestamp_after_max_ms": 50}
    if not refused:
        check(batch, **limits)
        return
    error = refusal(batch, **limits)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    ((index, message),) = record_errors(error)
    assert index == 1
    assert str(NOW + offset_ms) in message
    # With LogAppendTime the broker's own time counts.
    check(batch, timestamp_type=TimestampType.LOG_APPEND_TIME, **limits)


def test_records_without_a_timestamp_are_taken() -> None:
    check(build_batch([(-1, b"k", b"v", [])]), timestamp_before_max_ms=1, timestamp_after_max_ms=1)


def test_a_missing_key_outranks_a_bad_timestamp() -> None:
    batch = build_batch([(5, None, b"v", []), (NOW, b"k", b"v", [])])
    error = refusal(batch, compacted=True, timestamp_before_max_ms=100)
    assert error.code is ErrorCode.INVALID_RECORD
    batch = build_batch([(5, None, b"v", []), (5, b"k", b"v", [])])
    error = refusal(batch, compacted=True, timestamp_before_max_ms=100)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert [found.batch_index for found in record_errors(error)] == [0, 1]


def test_the_list_of_refused_records_is_bounded() -> None:
    error = refusal(build_batch([(5, None, None, [])] * 5000), compacted=True)
    assert len(record_errors(error)) == 1000
    assert record_errors(KafkaError()) == ()


def test_a_wrong_max_timestamp_is_corrected_not_refused() -> None:
    wrong = with_header(35, ">q", NOW + 10_000_000)
    (header,) = check(wrong)
    assert header.max_timestamp == RECORDS[-1][0]


def test_unpacked_and_packed_agree() -> None:
    # The same records, packed or not, are the same to the checks.
    for codec in Codec:
        batch = build_batch(RECORDS, codec=codec)
        (header,) = check(batch)
        section = decompress(header.codec, batch[HEADER_BYTES:])
        assert section == build_batch(RECORDS)[HEADER_BYTES:]


def test_limits_beyond_64_bits() -> None:
    huge = 2**63 - 1
    make: Callable[[int], bytes] = lambda ts: build_batch([(ts, b"k", b"v", [])])  # noqa: E731
    check(make(0), timestamp_before_max_ms=huge, timestamp_after_max_ms=huge)
    check(make(2**62), timestamp_before_max_ms=huge, timestamp_after_max_ms=huge)
