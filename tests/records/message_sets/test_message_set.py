"""Message sets of magic 0 and 1, read and written, beside what old brokers left."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.errors import (
    CorruptRecordError,
    InvalidRecordError,
    KafkaError,
    RecordTooLargeError,
    UnsupportedCompressionTypeError,
    UnsupportedForMessageFormatError,
)
from odradek.records.batch import BatchHeader, TimestampType
from odradek.records.builder import build_batch
from odradek.records.compression import Codec
from odradek.records.message_sets.message_compression import compress_messages, decompress_messages, xxhash32
from odradek.records.message_sets.message_set import (
    Entry,
    MessageHeader,
    check_entry,
    is_message_set,
    iter_all_records,
    iter_entries,
    iter_messages,
    key_and_value,
    message_records,
    parse_entry,
)
from odradek.records.message_sets.message_writer import append_message, wrapper
from records.message_set_builder import MessageSetBuilder

from ..golden import wire_record_sets
from ..old_golden import OLD_RELEASES, OldSegment, old_segments

OLD_CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
SEGMENTS = [segment for release in OLD_RELEASES for segment in old_segments(release)]
KINDS = {
    "NO_TIMESTAMP_TYPE": TimestampType.NO_TIMESTAMP_TYPE,
    "CREATE_TIME": TimestampType.CREATE_TIME,
    "LOG_APPEND_TIME": TimestampType.LOG_APPEND_TIME,
}


def kind_of(name: str) -> TimestampType:
    return KINDS.get(name) or next(
        kind for word, kind in KINDS.items() if word.replace("_", "") == name.upper()
    )


def first_offset(header: Entry, entry: memoryview) -> int:
    if isinstance(header, MessageHeader):
        return next(iter(message_records(header, entry))).offset
    return header.base_offset


@pytest.mark.parametrize("segment", SEGMENTS, ids=lambda segment: segment.where)
def test_old_logs_read_as_kafka_reads_them(segment: OldSegment) -> None:
    position = 0
    for (header, entry), expected in zip(iter_entries(segment.data), segment.batches, strict=True):
        assert (position, len(entry)) == (expected["position"], expected["size"])
        position += len(entry)
        check_entry(header, entry)
        assert header.crc == expected["crc"]
        assert header.magic == expected["magic"]
        assert header.last_offset == expected["last_offset"]
        assert header.max_timestamp == expected["max_timestamp"]
        assert first_offset(header, entry) == expected["base_offset"]
        assert header.codec.name.lower() == expected["codec"].lower()
        if isinstance(header, MessageHeader):
            found = [(r.offset, r.timestamp, r.key, r.value) for r in message_records(header, entry)]
            assert found == [
                (
                    r["offset"],
                    r["timestamp"],
                    None if r["key"] is None else bytes.fromhex(r["key"]),
                    None if r["value"] is None else bytes.fromhex(r["value"]),
                )
                for r in expected["records"]
            ]


def test_golden_folders_have_every_old_format() -> None:
    seen = {
        (header.magic, header.codec)
        for segment in SEGMENTS
        for header, _ in iter_entries(segment.data)
        if header.magic < 2
    }
    assert seen == {(magic, codec) for magic in (0, 1) for codec in OLD_CODECS}


@pytest.mark.parametrize("segment", SEGMENTS, ids=lambda segment: segment.where)
def test_kafkas_messages_are_written_alike(segment: OldSegment) -> None:
    """The wrapper and what is in it, from the records that were read; compression aside."""
    for header, entry in iter_entries(segment.data):
        if not isinstance(header, MessageHeader):
            continue
        if not header.is_wrapper:
            out = bytearray()
            key, value = key_and_value(header, entry)
            append_message(out, header.magic, header.offset, header.timestamp, header.attributes, key, value)
            assert out == entry
            continue
        records = list(message_records(header, entry))
        append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
        builder = MessageSetBuilder(
            header.magic,
            header.codec,
            TimestampType.LOG_APPEND_TIME if append_time else TimestampType.CREATE_TIME,
            records[0].offset,
            append_time=header.timestamp,
        )
        for record in records:
            builder.append(record.timestamp, record.key, record.value, offset=record.offset)
        mine = MessageHeader.parse(builder.build())
        assert (mine.offset, mine.attributes) == (header.offset, header.attributes)
        assert mine.timestamp == header.timestamp
        assert [r[:2] + r[3:] for r in iter_all_records(builder.build())] == [r[:2] + r[3:] for r in records]


@pytest.mark.parametrize("magic", [0, 1])
def test_wire_sets_are_read_up_to_a_message_that_is_cut_off(magic: int) -> None:
    counts = []
    for records in wire_record_sets(magic):
        assert is_message_set(records)
        whole = list(iter_messages(records[: _end_of_whole(records)]))
        counts.append(len(whole))
        for cut in range(_end_of_whole(records), min(len(records), _end_of_whole(records) + 12)):
            assert [h for h, _ in iter_messages(records[:cut])] == [h for h, _ in whole]
    assert sum(counts) > 5


def _end_of_whole(records: bytes) -> int:
    end = 0
    while end + 12 <= len(records):
        length = int.from_bytes(records[end + 8 : end + 12], "big")
        if length < 14 or end + 12 + length > len(records):
            break
        end += 12 + length
    return end


def test_the_bytes_of_one_message() -> None:
    """By the protocol guide: offset, length, CRC, magic, attributes, timestamp, key, value."""
    builder = MessageSetBuilder(1, base_offset=5)
    builder.append(258, b"k", None)
    body = bytes.fromhex("01 00 0000000000000102 00000001 6b ffffffff")
    assert builder.build() == (
        (5).to_bytes(8, "big") + (23).to_bytes(4, "big") + zlib.crc32(body).to_bytes(4, "big") + body
    )
    old = MessageSetBuilder(0)
    old.append(258, None, b"")
    body = bytes.fromhex("00 00 ffffffff 00000000")
    assert old.build() == bytes(8) + (14).to_bytes(4, "big") + zlib.crc32(body).to_bytes(4, "big") + body


FIELD = st.none() | st.binary(max_size=60)
ROWS = st.lists(st.tuples(st.integers(-1, 2**62), FIELD, FIELD, st.integers(1, 4)), min_size=1, max_size=20)


@given(
    ROWS, st.sampled_from([0, 1]), st.sampled_from(OLD_CODECS), st.sampled_from([0, 3, 2**40]), st.booleans()
)
def test_what_is_written_is_read(
    rows: list[tuple[int, bytes | None, bytes | None, int]],
    magic: int,
    codec: Codec,
    base: int,
    append_time: bool,
) -> None:
    kind = TimestampType.LOG_APPEND_TIME if append_time else TimestampType.CREATE_TIME
    builder = MessageSetBuilder(magic, codec, kind, base, append_time=77)
    expected = []
    # With the wrapper's offset at 0, its messages count from 0 whatever they say.
    for index, (timestamp, key, value, step) in enumerate(rows):
        offset = base if index == 0 else builder.last_offset + step
        room = builder.size_with(key, value)
        assert builder.append(timestamp, key, value, offset=offset) == offset
        assert builder.size_estimate() == room
        time = -1 if magic == 0 else 77 if append_time else timestamp
        expected.append(
            (offset, time, TimestampType.NO_TIMESTAMP_TYPE if magic == 0 else kind, key, value, ())
        )
    data = builder.build()
    assert list(iter_all_records(data)) == expected
    assert list(iter_all_records(data + data[:25])) == expected
    assert builder.count == len(rows)
    assert builder.max_timestamp == max(row[1] for row in expected)
    if codec is not Codec.NONE:
        ((header, entry),) = iter_entries(data)
        assert header.last_offset == builder.last_offset and header.next_offset == builder.last_offset + 1
        assert first_offset(header, entry) == base
        assert header.max_timestamp == builder.max_timestamp


def test_an_empty_set_is_no_bytes() -> None:
    assert MessageSetBuilder(1, Codec.GZIP).build() == b""
    assert list(iter_all_records(b"")) == []


def test_builder_refuses_what_messages_cannot_say() -> None:
    with pytest.raises(ValueError, match="magic"):
        MessageSetBuilder(2)
    with pytest.raises(UnsupportedCompressionTypeError):
        MessageSetBuilder(1, Codec.ZSTD)
    builder = MessageSetBuilder(1, base_offset=4)
    with pytest.raises(ValueError, match="timestamp"):
        builder.append(-2, None, None)
    with pytest.raises(ValueError, match="offset"):
        builder.append(0, None, None, offset=3)
    with pytest.raises(UnsupportedCompressionTypeError):
        compress_messages(Codec.ZSTD, b"", 1)


def test_batches_and_messages_side_by_side() -> None:
    one = MessageSetBuilder(0)
    one.append(1, b"a", b"0")
    two = MessageSetBuilder(1, Codec.GZIP, base_offset=1)
    two.append(2, b"b", b"1")
    three = bytearray(build_batch([(3, b"c", b"2", [("h", None)])], codec=Codec.ZSTD, base_offset=2))
    log = one.build() + two.build() + three
    assert [(r.offset, r.key, r.headers) for r in iter_all_records(log)] == [
        (0, b"a", ()),
        (1, b"b", ()),
        (2, b"c", (("h", None),)),
    ]
    assert [type(h) for h, _ in iter_entries(log)] == [MessageHeader, MessageHeader, BatchHeader]
    assert isinstance(parse_entry(three), BatchHeader) and not is_message_set(bytes(three))


# --- lz4 of magic 0 --------------------------------------------------------------------------------------


def test_xxhash32() -> None:
    assert xxhash32(b"") == 0x02CC5D05
    assert xxhash32(b"abc") == 0x32D153FF
    assert xxhash32(b"Nobody inspects the spammish repetition") == 0xE2293B2F


def test_the_wrong_checksum_of_magic_0_is_written_and_looked_past() -> None:
    data = b"some messages " * 20
    right, wrong = compress_messages(Codec.LZ4, data, 1), compress_messages(Codec.LZ4, data, 0)
    assert [i for i in range(len(right)) if right[i] != wrong[i]] == [6]
    assert wrong[6] == xxhash32(bytes(wrong[:6])) >> 8 & 0xFF
    for frame in (right, wrong):
        assert decompress_messages(Codec.LZ4, frame, 0, 1000) == data
    assert decompress_messages(Codec.LZ4, right, 1, 1000) == data
    with pytest.raises(CorruptRecordError):
        decompress_messages(Codec.LZ4, wrong, 1, 1000)


def test_kafkas_own_lz4_of_magic_0_has_that_checksum() -> None:
    frames = [
        bytes(value)
        for segment in SEGMENTS
        for header, entry in iter_entries(segment.data)
        if isinstance(header, MessageHeader) and header.magic == 0 and header.codec is Codec.LZ4
        for value in key_and_value(header, entry)[1:]
        if value is not None
    ]
    assert frames
    for frame in frames:
        assert frame[6] == xxhash32(frame[:6]) >> 8 & 0xFF


# --- what is wrong ---------------------------------------------------------------------------------------


def message(magic: int = 1, offset: int = 0, attributes: int = 0, value: bytes | None = b"v") -> bytes:
    out = bytearray()
    append_message(out, magic, offset, 1, attributes, b"k", value)
    return bytes(out)


def with_crc(data: bytes) -> bytes:
    return data[:12] + zlib.crc32(data[16:]).to_bytes(4, "big") + data[16:]


def with_bytes(data: bytes, at: int, new: bytes) -> bytes:
    return with_crc(data[:at] + new + data[at + len(new) :])


def wrapped(inner: bytes, offset: int = 0, codec: Codec = Codec.GZIP) -> bytes:
    return bytes(
        wrapper(inner, 1, codec, last_offset=offset, timestamp=1, timestamp_type=TimestampType.CREATE_TIME)
    )


BAD: list[tuple[str, Callable[[], bytes], type[KafkaError]]] = [
    ("crc", lambda: message()[:-1] + b"w", CorruptRecordError),
    ("no such magic", lambda: with_bytes(message(), 16, b"\x03"), CorruptRecordError),
    ("length 13", lambda: with_bytes(message(), 8, (13).to_bytes(4, "big")), CorruptRecordError),
    ("length -1", lambda: with_bytes(message(), 8, b"\xff" * 4), CorruptRecordError),
    ("length of magic 0", lambda: with_bytes(message(), 8, (21).to_bytes(4, "big")), CorruptRecordError),
    ("key runs out", lambda: with_bytes(message(), 26, (100).to_bytes(4, "big")), InvalidRecordError),
    ("key eats the value", lambda: with_bytes(message(), 26, (5).to_bytes(4, "big")), InvalidRecordError),
    ("value runs out", lambda: with_bytes(message(), 31, (2).to_bytes(4, "big")), InvalidRecordError),
    ("wrapper of null", lambda: message(attributes=1, value=None), InvalidRecordError),
    ("wrapper of nothing", lambda: wrapped(b""), InvalidRecordError),
    ("wrapper of half a message", lambda: wrapped(message()[:-1]), InvalidRecordError),
    ("wrapper in a wrapper", lambda: wrapped(wrapped(message())), InvalidRecordError),
    ("wrapper of zstd", lambda: message(attributes=4), InvalidRecordError),
    ("wrapper of codec 6", lambda: message(attributes=6), UnsupportedCompressionTypeError),
    ("wrapper of noise", lambda: message(attributes=1), CorruptRecordError),
    ("wrapper's offset too small", lambda: wrapped(message(offset=5), offset=3), InvalidRecordError),
    ("inner crc", lambda: wrapped(message()[:-1] + b"w"), CorruptRecordError),
    ("inner batch", lambda: wrapped(build_batch([(0, None, None, [])])), UnsupportedForMessageFormatError),
]


@pytest.mark.parametrize(("make", "error"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_bad_messages_are_refused(make: Callable[[], bytes], error: type[KafkaError]) -> None:
    with pytest.raises(error):
        list(iter_all_records(make()))
    # The good message in front still comes out.
    records = iter_all_records(message(offset=9) + make())
    assert next(records).offset == 9
    with pytest.raises(error):
        list(records)


def test_what_kafkas_reader_takes_is_taken() -> None:
    null = with_bytes(message(), 31, (-7 & 0xFFFF_FFFF).to_bytes(4, "big"))
    assert [r.value for r in iter_all_records(null)] == [None]
    cut = wrapped(message() + message(offset=1)[:-1])
    assert [r.offset for r in iter_all_records(cut)] == [0]
    assert [r.value for r in iter_all_records(message()[:-1] + b"w", check_crcs=False)] == [b"w"]
    # A wrapper of magic 1 with messages of magic 0 in it, as upgraded producers once made them.
    mixed = wrapped(message(0) + message(0, offset=1), offset=31)
    assert [(r.offset, r.timestamp, r.timestamp_type) for r in iter_all_records(mixed)] == [
        (30, -1, TimestampType.NO_TIMESTAMP_TYPE),
        (31, -1, TimestampType.NO_TIMESTAMP_TYPE),
    ]


def test_an_offset_of_0_on_the_wrapper_means_that_the_messages_count_from_0() -> None:
    assert [r.offset for r in iter_all_records(wrapped(message() + message(offset=1)))] == [0, 1]


def test_unpacking_is_bounded() -> None:
    bomb = wrapped(message(value=bytes(1 << 20)))
    assert len(bomb) < 5000
    with pytest.raises(RecordTooLargeError):
        list(iter_all_records(bomb, max_size=100_000))
    assert len(list(iter_all_records(bomb, max_size=1 << 21))) == 1


def test_headers_need_their_bytes() -> None:
    with pytest.raises(CorruptRecordError):
        MessageHeader.parse(message()[:17])
    with pytest.raises(CorruptRecordError):
        MessageHeader.parse(message()[:20])
    with pytest.raises(UnsupportedForMessageFormatError):
        MessageHeader.parse(build_batch([(0, None, None, [])]))
    with pytest.raises(UnsupportedCompressionTypeError):
        _ = MessageHeader.parse(message(attributes=7)).codec
