"""The kernel in pure Python: the twin of `_kernel`, function by function.

Used where no compiled kernel is installed. It says precisely what the compiled one must do: same results,
same problem numbers (`records.problems`), same index of the bad record.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Any

from odradek.records._pycolumns import ColumnBuilder, encode_records, murmur2_partitions, split
from odradek.records._pymurmur import murmur2
from odradek.records._pyscan import INT64_MAX, INT64_MIN, read_headers, scan, wrap64
from odradek.records.problems import MISSING_KEY, OFFSET_DELTA, OK, TIMESTAMP_RANGE, TRAILING
from odradek.records.varint import encode_varint

Buffer = bytes | bytearray | memoryview

__all__ = [
    "ColumnBuilder",
    "append_record",
    "encode_records",
    "murmur2",
    "murmur2_partitions",
    "parse_fetched",
    "parse_records",
    "split",
    "walk",
    "whole_entries",
]

# As `records.batch` and `records.message_set` have them, which cannot be imported from here.
_LOG_OVERHEAD = 12
_SMALLEST = (_LOG_OVERHEAD + 14, _LOG_OVERHEAD + 22, 61)
_MAGIC_V2 = 2
_ENTRY = Struct(">qi4xB")
_DELTA = Struct(">i")
_DELTA_AT = 23


def whole_entries(data: Buffer, most: int) -> tuple[int, int, int, int]:
    """Find out how many bytes of a log are whole entries: record batches, or messages of magic 0 and 1.

    Args:
        data: Bytes of a log from where an entry begins. They may go on behind `most`.
        most: How many bytes the entries may have together.

    Returns:
        The end of the last entry that is whole and within `most`, -1 where an entry is broken; then the size,
        the first and the last offset of the next entry, as its header says; a size of 0 where that is not
        there.
    """
    position, end = 0, len(data)
    limit = min(most, end)
    while end - position >= _ENTRY.size:
        base, length, magic = _ENTRY.unpack_from(data, position)
        size, last = length + _LOG_OVERHEAD, base
        if magic == _MAGIC_V2:
            if end - position < _DELTA_AT + _DELTA.size:
                break
            (delta,) = _DELTA.unpack_from(data, position + _DELTA_AT)
            last += delta
        if magic > _MAGIC_V2 or size < _SMALLEST[magic] or not 0 <= base <= last <= INT64_MAX:
            return -1, 0, 0, 0
        if size > limit - position:
            return position, size, base, last
        position += size
    return position, 0, 0, 0


def walk(
    section: Buffer,
    count: int,
    base_timestamp: int,
    earliest: int,
    latest: int,
    require_key: bool,
    max_refused: int,
) -> tuple[int, int, int, list[tuple[int, int, int]]]:
    """Check the structure of all records of a batch, copying none of them.

    Args:
        section: The uncompressed records, and nothing else.
        count: How many there must be, with offset deltas 0, 1, 2 …
        base_timestamp: The batch's, milliseconds.
        earliest, latest: The timestamps that are taken, both included, milliseconds; -1 always is.
        require_key: Whether a null key is refused.
        max_refused: How many refused records are listed at most.

    Returns:
        The problem and the index of the record that has it (0, count when all is well), the largest
        timestamp (at least -1), and the refused records: (index, why, timestamp).
    """
    data = bytes(section)
    size = len(data)
    position = 0
    max_timestamp = -1
    # `count` bounds the loop by what the header claims, and `scan` by the bytes: a record takes seven at
    # least.
    refused: list[tuple[int, int, int]] = []
    for index in range(count):
        problem, position, timestamp_delta, offset_delta, _, key_length, *_ = scan(data, position, size)
        if problem:
            return problem, index, max_timestamp, refused
        if offset_delta != index:
            return OFFSET_DELTA, index, max_timestamp, refused
        # Java's sums wrap around in 64 bits, and a record that was written so is read so here too.
        timestamp = base_timestamp + timestamp_delta
        if not INT64_MIN <= timestamp <= INT64_MAX:
            timestamp = wrap64(timestamp)
        if timestamp > max_timestamp:
            max_timestamp = timestamp
        if require_key and key_length < 0:
            if len(refused) < max_refused:
                refused.append((index, MISSING_KEY, timestamp))
        elif not earliest <= timestamp <= latest and timestamp != -1 and len(refused) < max_refused:
            refused.append((index, TIMESTAMP_RANGE, timestamp))
    if position != size:
        return TRAILING, max(count - 1, 0), max_timestamp, refused
    return OK, count, max_timestamp, refused


def parse_records(
    section: Buffer,
    count: int,
    base_offset: int,
    timestamp: int,
    timestamp_type: int,
    record_class: type[tuple[Any, ...]],
) -> tuple[int, int, list[Any]]:
    """The records of a batch as objects.

    Args:
        section: The uncompressed records, and nothing else.
        count: How many there must be.
        base_offset: The batch's.
        timestamp: The batch's base timestamp; for LogAppendTime the timestamp of all, milliseconds.
        timestamp_type: Falsy for CreateTime; stands in each record as it is.
        record_class: A named tuple of (offset, timestamp, timestamp_type, key, value, headers).

    Returns:
        The problem and the index of the record that has it (0, count when all is well), and the records
        before it.
    """
    data = bytes(section)
    size = len(data)
    position = 0
    records: list[Any] = []
    new = tuple.__new__
    for index in range(count):
        record = scan(data, position, size)
        problem, position, delta, offset_delta, key_at, key_length, value_at, value_length, *headers = record
        if problem:
            return problem, index, records
        offset = base_offset + offset_delta
        if not INT64_MIN <= offset <= INT64_MAX:
            offset = wrap64(offset)
        record_timestamp = timestamp
        if not timestamp_type:
            record_timestamp += delta
            if not INT64_MIN <= record_timestamp <= INT64_MAX:
                record_timestamp = wrap64(record_timestamp)
        fields = (
            offset,
            record_timestamp,
            timestamp_type,
            None if key_length < 0 else data[key_at : key_at + key_length],
            None if value_length < 0 else data[value_at : value_at + value_length],
            read_headers(data, *headers) if headers[1] else (),
        )
        records.append(new(record_class, fields))
    if position != size:
        return TRAILING, max(count - 1, 0), records
    return OK, count, records


def parse_fetched(
    section: Buffer,
    count: int,
    base_offset: int,
    timestamp: int,
    timestamp_type: int,
    record_class: type[tuple[Any, ...]],
    topic: str,
    partition: int,
    leader_epoch: int,
    from_offset: int,
) -> tuple[int, int, list[Any]]:
    """As `parse_records`, for a consumer.

    Args:
        record_class: A named tuple of (topic, partition, offset, timestamp, timestamp_type, key, value,
            headers, leader_epoch).
        from_offset: Records before it are left out (a fetch returns whole batches), though read.
    """
    problem, index, records = parse_records(section, count, base_offset, timestamp, timestamp_type, _Fetched)
    new = tuple.__new__
    return (
        problem,
        index,
        [new(record_class, (topic, partition, *r, leader_epoch)) for r in records if r[0] >= from_offset],
    )


class _Fetched(tuple[Any, ...]):
    __slots__ = ()


def append_record(
    batch: bytearray,
    offset_delta: int,
    timestamp_delta: int,
    key: Buffer | None,
    value: Buffer | None,
    headers: Iterable[tuple[str, bytes | None]],
) -> None:
    """Write one record at the end of `batch`; `headers` are (name, value) pairs."""
    body = bytearray(b"\x00")
    body += encode_varint(timestamp_delta)
    body += encode_varint(offset_delta)
    _append_nullable(body, key)
    _append_nullable(body, value)
    if headers:
        pairs = tuple(headers)
        body += encode_varint(len(pairs))
        for name, payload in pairs:
            _append_nullable(body, name.encode())
            _append_nullable(body, payload)
    else:
        body += b"\x00"
    # Its length is a varint of 32 bits: readers would take a larger length for a negative.
    if len(body) > 0x7FFF_FFFF:
        raise ValueError("a record of more than 2^31-1 bytes")
    batch += encode_varint(len(body))
    batch += body


def _append_nullable(body: bytearray, data: Buffer | None) -> None:
    if data is None:
        body += b"\x01"
    else:
        body += encode_varint(len(data))
        body += data
