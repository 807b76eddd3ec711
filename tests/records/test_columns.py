"""Records to and from Arrow: the same rows as the record API gives, in batches of the asked size."""

from __future__ import annotations

import datetime
import random
import struct
from typing import Any

import pyarrow as pa
import pytest

from odradek.errors import CorruptRecordError, InvalidRecordError
from odradek.records.batch import BatchHeader, TimestampType, compute_crc, iter_batches, iter_records
from odradek.records.builder import BatchBuilder, build_batch
from odradek.records.columns import (
    ColumnDecoder,
    decode_columns,
    encode_columns,
    iter_columns,
    partition_ids,
    schema,
    split_by_partition,
)
from odradek.records.compression import Codec
from odradek.records.control import ControlType, end_marker_batch
from odradek.records.message_sets.message_batches import iter_fetched
from odradek.records.partitioner import partition_for_key
from odradek.records.problems import TimestampRangeError
from seeds import seed

from .golden import RELEASES, log_files, wire_record_sets


def rows_of(record_batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """A RecordBatch as the tuples that `record_rows` makes."""
    record_batch.validate(full=True)
    rows = []
    for row in record_batch.to_pylist():
        headers = tuple((h["key"], h["value"]) for h in row.get("headers") or ())
        rows.append(
            (row["offset"], row["timestamp"], row["timestampType"], row["key"], row["value"], headers)
        )
    return rows


def record_rows(buffer: Any, **options: Any) -> list[tuple[Any, ...]]:
    return [tuple(record) for record in iter_records(buffer, **options)]


def log_of(count: int, *, per_batch: int = 10, codecs: tuple[Codec, ...] = tuple(Codec)) -> bytes:
    """A partition's bytes: `count` records, offsets from 100 on, all codecs, nulls, headers, markers."""
    rng = random.Random(seed(count))
    out = bytearray()
    offset = 100
    left = count
    while left:
        size = min(per_batch, left)
        builder = BatchBuilder(
            codec=rng.choice(codecs),
            base_offset=offset,
            timestamp_type=rng.choice([TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME]),
            append_time=5_000_000,
        )
        for i in range(size):
            headers = [(f"h{j}ü", rng.choice([None, b"x"])) for j in range(rng.choice([0, 0, 2]))]
            builder.append(
                1_600_000_000_000 + i, rng.choice([None, b"key"]), rng.choice([None, b"v" * i]), headers
            )
        out += builder.build()
        offset += size
        left -= size
        if rng.random() < 0.2:
            out += end_marker_batch(
                ControlType.COMMIT,
                producer_id=1,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp=1,
                base_offset=offset,
            )
            offset += 1
    return bytes(out)


@pytest.mark.parametrize("release", RELEASES)
def test_kafkas_own_logs(release: str) -> None:
    for name, data in log_files(release).items():
        if name.startswith("mixed"):
            continue
        assert rows_of(decode_columns(data, with_headers=True)) == record_rows(data), name
    for record_set in wire_record_sets():
        for _, raw in iter_batches(record_set):  # their offsets go back from set to set
            assert rows_of(decode_columns(raw, with_headers=True, from_offset=-1)) == record_rows(raw)


@pytest.mark.parametrize("batch_rows", [1, 7, 10, 1000])
@pytest.mark.fuzz
def test_row_batches(batch_rows: int) -> None:
    data = log_of(95)
    found = list(iter_columns(data, with_headers=True, batch_rows=batch_rows))
    assert [row for batch in found for row in rows_of(batch)] == record_rows(data)
    assert [batch.num_rows for batch in found[:-1]] == [batch_rows] * (len(found) - 1)
    assert found[0].schema == schema(with_headers=True)


@pytest.mark.fuzz
def test_several_buffers() -> None:
    data = log_of(60)
    cuts = [0, *(len(data[: -len(rest)]) for rest in (data[100:], data[200:])), len(data)]
    whole = [bytes(raw) for _, raw in iter_batches(data)]
    assert cuts
    found = list(iter_columns(whole, with_headers=True))
    assert [row for batch in found for row in rows_of(batch)] == record_rows(data)


@pytest.mark.parametrize("from_offset", [0, 99, 100, 101, 109, 110, 145, 10_000])
@pytest.mark.parametrize("limit", [None, 0, 1, 10, 25])
@pytest.mark.fuzz
def test_from_offset_and_limit(from_offset: int, limit: int | None) -> None:
    data = log_of(60)
    expected = [row for row in record_rows(data) if row[0] >= from_offset][:limit]
    assert rows_of(decode_columns(data, from_offset=from_offset, limit=limit, with_headers=True)) == expected


@pytest.mark.parametrize("until_offset", [0, 100, 101, 115, 120, 10_000])
@pytest.mark.fuzz
def test_until_offset(until_offset: int) -> None:
    data = log_of(60)
    decoder = ColumnDecoder(with_headers=True, until_offset=until_offset)
    assert list(decoder.feed(data)) == []
    rest = decoder.flush()
    expected = [row for row in record_rows(data) if row[0] < until_offset]
    assert (rows_of(rest) if rest else []) == expected
    assert decoder.finished == (until_offset < 10_000)


@pytest.mark.fuzz
def test_going_on_where_the_last_one_ended() -> None:
    data = log_of(300)
    rows: list[Any] = []
    decoder = ColumnDecoder(limit=7, with_headers=True)
    while True:
        for batch in decoder.feed(data):
            rows += rows_of(batch)
        rest = decoder.flush()
        rows += rows_of(rest) if rest else []
        if not decoder.finished:
            break
        decoder = ColumnDecoder(limit=7, with_headers=True, from_offset=decoder.next_offset)
    assert rows == record_rows(data)
    last, _ = list(iter_batches(data))[-1]
    assert decoder.next_offset == last.next_offset


def test_column_bytes_are_bounded() -> None:
    data = build_batch([(0, b"k", b"v" * 100, [])] * 50)
    found = list(iter_columns(data, batch_bytes=1000))
    assert [batch.num_rows for batch in found] == [10] * 5
    single = build_batch([(0, None, b"v" * 5000, [])] * 3)
    assert [batch.num_rows for batch in iter_columns(single, batch_bytes=1000)] == [1, 1, 1]


def test_control_batches_and_deselected_ones_move_the_offset_on() -> None:
    data = bytearray(build_batch([(0, None, b"a", [])] * 3))
    data += end_marker_batch(
        ControlType.ABORT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=0, base_offset=3
    )
    data += build_batch([(0, None, b"b", [])] * 2, base_offset=4)
    seen = []

    def select(header: BatchHeader, batch: memoryview) -> bool:
        seen.append((header.base_offset, header.is_control, len(batch)))
        return header.base_offset != 0

    decoder = ColumnDecoder(select=select)
    list(decoder.feed(data))
    rest = decoder.flush()
    assert rest is not None
    assert rest.column("offset").to_pylist() == [4, 5]
    assert decoder.next_offset == 6
    assert [(offset, control) for offset, control, _ in seen] == [(0, False), (3, True), (4, False)]


def test_timestamps_as_spark_wants_them() -> None:
    data = build_batch([(1_600_000_000_123, None, b"v", []), (-1, None, b"v", [])])
    micros = decode_columns(data, timestamp_unit="us", as_timestamp=True)
    assert micros.schema.field("timestamp").type == pa.timestamp("us", tz="UTC")
    first, second = micros.column("timestamp").to_pylist()
    assert first == datetime.datetime(2020, 9, 13, 12, 26, 40, 123000, datetime.UTC)
    assert second == datetime.datetime(1969, 12, 31, 23, 59, 59, 999000, datetime.UTC)
    assert decode_columns(data, timestamp_unit="us").column("timestamp")[0].as_py() == 1_600_000_000_123_000
    millis = decode_columns(data, as_timestamp=True)
    assert millis.schema.field("timestamp").type == pa.timestamp("ms", tz="UTC")


NANOSECONDS = 1_600_000_000_123_456_789
FARTHEST = (2**63 - 1) // 1000


@pytest.mark.parametrize("bad", [NANOSECONDS, FARTHEST + 1])
@pytest.mark.parametrize("stamped", [False, True])
def test_a_time_that_microseconds_cannot_hold_is_told_and_not_wrapped(bad: int, stamped: bool) -> None:
    kind = TimestampType.LOG_APPEND_TIME if stamped else TimestampType.CREATE_TIME
    times = [bad] if stamped else [1, FARTHEST, bad, 2]
    builder = BatchBuilder(Codec.NONE, base_offset=40)
    for number, time in enumerate(times):
        builder.append(time, None, b"%d" % number, ())
    data = bytearray(builder.build())
    if stamped:
        data[22] |= 8
        struct.pack_into(">I", data, 17, compute_crc(data))
    assert [kind_ for _, _, kind_ in iter_fetched(bytes(data), check_crcs=True)] == [kind]
    decoder = ColumnDecoder(timestamp_unit="us", as_timestamp=True)
    with pytest.raises(TimestampRangeError, match=f"the timestamp {bad} of the record at offset") as caught:
        list(decoder.feed(bytes(data)))
    assert (caught.value.offset, caught.value.timestamp) == (40 if stamped else 42, bad)
    before = decoder.flush()
    assert (before.column("offset").to_pylist() if before else []) == ([] if stamped else [40, 41])
    # In its own unit each time is kept whole.
    assert decode_columns(bytes(data)).column("timestamp").to_pylist() == times
    # A record that is not wanted does no harm.
    if not stamped:
        assert decode_columns(bytes(data), from_offset=43, timestamp_unit="us").num_rows == 1


def test_a_timestamp_to_write_that_milliseconds_cannot_hold_is_refused() -> None:
    far = pa.array([2**62], pa.timestamp("s"))
    with pytest.raises(pa.ArrowInvalid, match=r"out of bounds|overflow"):
        encode_columns(None, pa.array([b"v"]), None, far)


def test_no_headers_are_an_empty_list_or_null() -> None:
    data = build_batch([(0, None, b"v", []), (0, None, b"v", [("a", None)])])
    plain = decode_columns(data, with_headers=True).column("headers")
    assert plain.null_count == 0
    assert plain.to_pylist() == [[], [{"key": "a", "value": None}]]
    nullable = decode_columns(data, with_headers=True, nullable_headers=True).column("headers")
    assert nullable.null_count == 1
    assert nullable.to_pylist() == [None, [{"key": "a", "value": None}]]


def test_header_names_that_are_not_utf8() -> None:
    raw = bytearray(build_batch([(0, None, b"v", [("abc", b"x")])]).replace(b"abc", b"a\xff\xfe"))
    raw[17:21] = compute_crc(raw).to_bytes(4, "big")
    found = decode_columns(raw, with_headers=True)
    found.validate(full=True)
    assert found.column("headers").to_pylist() == [[{"key": "a\ufffd\ufffd", "value": b"x"}]]


def test_nothing() -> None:
    assert decode_columns(b"").num_rows == 0
    assert decode_columns([], with_headers=True).schema == schema(with_headers=True)
    assert list(iter_columns(b"")) == []


def test_rows_before_a_bad_batch_come_first() -> None:
    good = build_batch([(0, None, b"v", [])] * 3)
    bad = bytearray(build_batch([(0, None, b"v", [])] * 3, base_offset=3))
    bad[-1] ^= 1
    rows = []
    with pytest.raises(CorruptRecordError):
        for batch in iter_columns(good + bad):
            rows += batch.column("offset").to_pylist()
    assert rows == [0, 1, 2]
    assert decode_columns(good + bad).num_rows == 3
    with pytest.raises(CorruptRecordError):
        decode_columns(good + bad, from_offset=3)
    assert decode_columns(good + bad, check_crcs=False).num_rows in (3, 5, 6)


def test_a_bad_record_with_a_right_crc() -> None:
    bad = bytearray(build_batch([(0, None, b"v", [])] * 3))
    struct.pack_into(">i", bad, 57, 4)
    bad[17:21] = compute_crc(bad).to_bytes(4, "big")
    decoder = ColumnDecoder()
    with pytest.raises(InvalidRecordError, match="record 3"):
        list(decoder.feed(bad))
    rest = decoder.flush()
    assert rest is not None
    assert rest.num_rows == 3
    assert decoder.next_offset == 3


# --- encoding --------------------------------------------------------------------------------------------

KEYS = [b"a", None, b"", b"ccc"] * 25
VALUES = [None, b"v" * 50, b"", b"xyz"] * 25
HEADERS = [None, [], [("h", None)], [("é", b"1"), ("h", b"")]] * 25
TIMES = [1_600_000_000_000 + i * (-1) ** i for i in range(100)]


def headers_array(kind: Any = None) -> pa.Array:
    lists = [None if h is None else [{"key": k, "value": v} for k, v in h] for h in HEADERS]
    return pa.array(lists, kind or pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))


def expected_batch(codec: Codec = Codec.NONE, **fields: Any) -> bytes:
    return build_batch(
        [(t, k, v, h or []) for t, k, v, h in zip(TIMES, KEYS, VALUES, HEADERS, strict=True)],
        codec=codec,
        **fields,
    )


@pytest.mark.parametrize("codec", list(Codec))
def test_columns_are_written_as_the_builder_writes_records(codec: Codec) -> None:
    fields = {"producer_id": 5, "producer_epoch": 1, "base_sequence": 2**31 - 50, "transactional": True}
    (batch,) = encode_columns(
        pa.array(KEYS), pa.array(VALUES), headers_array(), pa.array(TIMES), codec=codec, **fields
    )
    assert batch == expected_batch(codec, **fields)


def test_batches_of_the_asked_size() -> None:
    found = encode_columns(
        pa.array(KEYS),
        pa.array(VALUES),
        headers_array(),
        pa.array(TIMES),
        max_batch_bytes=300,
        producer_id=1,
        producer_epoch=0,
        base_sequence=2**31 - 10,
    )
    assert len(found) > 5
    assert all(len(batch) <= 300 for batch in found)
    sequence = 2**31 - 10
    rows = []
    for batch in found:
        header = BatchHeader.parse(batch)
        assert header.base_sequence == sequence
        sequence = (sequence + header.record_count) % 2**31
        rows += [(r.timestamp, r.key, r.value, list(r.headers)) for r in iter_records(batch)]
    assert rows == [(t, k, v, h or []) for t, k, v, h in zip(TIMES, KEYS, VALUES, HEADERS, strict=True)]


def test_a_record_larger_than_a_batch_has_one_of_its_own() -> None:
    found = encode_columns(None, pa.array([b"a", b"b" * 500, b"c"]), timestamp=1, max_batch_bytes=100)
    assert [BatchHeader.parse(batch).record_count for batch in found] == [1, 1, 1]


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_binary(),
        pa.large_string(),
        pa.binary_view(),
        pa.dictionary(pa.int32(), pa.binary()),
    ],
    ids=str,
)
def test_other_types_of_keys_and_values(kind: Any) -> None:
    column = pa.array(VALUES, pa.binary()).cast(kind)
    (batch,) = encode_columns(column, column, timestamp=7)
    assert [(r.key, r.value, r.timestamp) for r in iter_records(batch)] == [(v, v, 7) for v in VALUES]


def test_slices_chunks_and_nothing() -> None:
    keys, values, times = pa.array(KEYS), pa.array(VALUES), pa.array(TIMES)
    (sliced,) = encode_columns(
        keys.slice(3, 50), values.slice(3, 50), headers_array().slice(3, 50), times.slice(3, 50)
    )
    chunked = pa.chunked_array([keys.slice(3, 10), keys.slice(13, 40)])
    (joined,) = encode_columns(
        chunked,
        pa.chunked_array([values.slice(3, 50)]),
        headers_array().slice(3, 50),
        pa.chunked_array([times.slice(3, 1), times.slice(4, 49)]),
    )
    assert sliced == joined
    found = [(r.timestamp, r.key, r.value, list(r.headers)) for r in iter_records(sliced)]
    rows = list(zip(TIMES, KEYS, VALUES, HEADERS, strict=True))[3:53]
    assert found == [(t, k, v, h or []) for t, k, v, h in rows]
    assert encode_columns(keys.slice(0, 0), values.slice(0, 0)) == []
    (nulls,) = encode_columns(pa.nulls(2), pa.array([None, None], pa.binary()), pa.nulls(2), pa.nulls(2))
    assert [(r.key, r.value, r.timestamp) for r in iter_records(nulls)] == [(None, None, -1)] * 2


def test_headers_as_a_map_or_with_nulls() -> None:
    kind = pa.map_(pa.string(), pa.binary())
    column = pa.array([[("a", b"1"), ("b", None)], None, []], kind)
    (batch,) = encode_columns(None, pa.array([b"v"] * 3), column)
    assert [r.headers for r in iter_records(batch)] == [(("a", b"1"), ("b", None)), (), ()]
    large = headers_array(pa.large_list(pa.struct([("key", pa.string()), ("value", pa.binary())])))
    (batch,) = encode_columns(pa.array(KEYS), pa.array(VALUES), large, pa.array(TIMES))
    assert batch == expected_batch()
    struct_type = pa.struct([("key", pa.string()), ("value", pa.binary())])
    with pytest.raises(ValueError, match="row 1: a header without a key"):
        encode_columns(None, pa.array([b"v"] * 2), pa.array([[], [None]], pa.list_(struct_type)))
    with pytest.raises(pa.ArrowInvalid, match="headers"):
        encode_columns(None, pa.array([b"v"]), pa.array([["x"]]))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Prague"])
def test_timestamps_of_any_unit(unit: str, zone: str | None) -> None:
    seconds = [1_600_000_000, None, 5]
    column = pa.array(seconds, pa.timestamp("s")).cast(pa.timestamp(unit)).cast(pa.timestamp(unit, tz=zone))
    (batch,) = encode_columns(None, pa.array([b"v"] * 3), None, column, timestamp=99)
    # A time without a zone that is given one stays the same instant: Arrow's cast reads it as UTC.
    assert [r.timestamp for r in iter_records(batch)] == [1_600_000_000_000, 99, 5000]


def test_negative_timestamps_are_refused_by_row() -> None:
    with pytest.raises(ValueError, match="row 1: a negative timestamp"):
        encode_columns(None, pa.array([b"v"] * 2), None, pa.array([5, -2]))


def test_columns_that_do_not_belong_together() -> None:
    with pytest.raises(pa.ArrowInvalid, match="unequal"):
        encode_columns(pa.array([b"a"]), pa.array([b"a", b"b"]))
    with pytest.raises(pa.ArrowInvalid, match="neither"):
        encode_columns(None, None)


@pytest.mark.fuzz
def test_decoding_what_was_encoded() -> None:
    decoded = decode_columns(log_of(200), with_headers=True)
    batches = encode_columns(*(decoded.column(name) for name in ("key", "value", "headers", "timestamp")))
    again = decode_columns([bytes(batch) for batch in batches], with_headers=True)
    for name in ("key", "value", "headers", "timestamp"):
        assert again.column(name).equals(decoded.column(name))


# --- partitions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [1, 3, 50])
def test_rows_by_partition(partitions: int) -> None:
    keys = [None if i % 10 == 0 else b"key-%d" % (i % 37) for i in range(1000)]
    table = pa.record_batch({"key": pa.array(keys, pa.binary()), "n": pa.array(range(1000))})
    ids = partition_ids(table.column("key"), partitions, partitions - 1)
    expected = [partitions - 1 if k is None else partition_for_key(k, partitions) for k in keys]
    assert ids.to_pylist() == expected
    found = split_by_partition(table, ids, partitions)
    assert [p for p, _ in found] == sorted(set(expected))
    for partition, rows in found:
        assert rows.column("n").to_pylist() == [i for i in range(1000) if expected[i] == partition]
    sliced = split_by_partition(table.slice(500), ids.slice(500), partitions)
    assert sum(rows.num_rows for _, rows in sliced) == 500
    as_table = split_by_partition(pa.Table.from_batches([table]), ids, partitions)
    assert [(p, rows.num_rows) for p, rows in as_table] == [(p, rows.num_rows) for p, rows in found]


def test_partition_ids_that_do_not_fit() -> None:
    table = pa.record_batch({"n": pa.array([1, 2])})
    for ids in ([0, 3], [0, -1], [0], [0, None]):
        with pytest.raises(ValueError, match="partition"):
            split_by_partition(table, pa.array(ids, pa.int32()), 3)
    assert split_by_partition(table.slice(0, 0), pa.array([], pa.int32()), 3) == []
    assert partition_ids(pa.nulls(3), 4, 2).to_pylist() == [2, 2, 2]
