"""Records to and from Arrow buffers, in pure Python: the column half of the kernel's twin.

An Arrow binary column is three buffers: one bit per row that says whether it is there (absent where nothing
is null), rows + 1 int32 offsets, and the bytes. All integers are little-endian, as Arrow has them.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Sequence
from typing import Any

from odradek.records._pymurmur import murmur2
from odradek.records._pyscan import INT64_MAX, INT64_MIN, Scan, read_varint, scan, wrap64
from odradek.records.problems import LIMIT_REACHED, OK, TIMESTAMP_TOO_FAR, TRAILING
from odradek.records.varint import encode_varint

if sys.byteorder != "little":  # pragma: no cover - no such machine has Arrow's Python build
    raise ImportError("Arrow buffers are little-endian here")

Buffer = bytes | bytearray | memoryview
BinaryParts = tuple[Any, Any, Any, int]
"""An Arrow binary or string array: (validity or None, offsets, data or None, its offset)."""
HeaderParts = tuple[Any, Any, int, int, BinaryParts, BinaryParts]
"""An Arrow list<struct<key, value>> array: (validity or None, offsets, its offset, the children's length,
key, value)."""

_INT32_MAX = 0x7FFF_FFFF
_MAX_BODY = _INT32_MAX - 128


class _Column:
    """A binary, string or list column that grows; `pieces` are its rows, joined in the end."""

    __slots__ = ("nulls", "offsets", "pieces", "rows", "size", "valid")

    def __init__(self) -> None:
        # `rows` + 1 numbers: where each row begins, and where the last ends.
        self.offsets = array("i", [0])
        self.pieces: list[bytes] = []
        # Bytes in `pieces`. The caller keeps it below 2^31 (`_is_full`).
        self.size = 0
        # An entry for each row; `nulls` counts those that are false.
        self.valid: list[bool] = []
        self.nulls = 0
        self.rows = 0

    def push(self, data: bytes | None) -> None:
        if data is None:
            self.nulls += 1
            self.valid.append(False)
        else:
            self.pieces.append(data)
            self.size += len(data)
            self.valid.append(True)
        self.rows += 1
        self.offsets.append(self.size)

    def push_list(self, end: int, valid: bool) -> None:
        self.nulls += not valid
        self.valid.append(valid)
        self.rows += 1
        self.offsets.append(end)

    def parts(self) -> tuple[bytes | None, int, bytes, bytes]:
        validity = None
        # Without a null there is no bitmap: Arrow takes None for "all there".
        if self.nulls:
            # Arrow: one bit per row, the least significant first, 1 for a value.
            bits = bytearray((self.rows + 7) // 8)
            for row, valid in enumerate(self.valid):
                if valid:
                    bits[row >> 3] |= 1 << (row & 7)
            validity = bytes(bits)
        return validity, self.nulls, self.offsets.tobytes(), b"".join(self.pieces)


class ColumnBuilder:
    """Collects the records of many batches as Arrow buffers.

    Args:
        with_headers: Whether headers are collected.
        nullable_headers: Whether a record without headers has null instead of an empty list.
        timestamp_factor: 1 for milliseconds, 1000 for microseconds.
    """

    def __init__(self, with_headers: bool, nullable_headers: bool, timestamp_factor: int) -> None:
        self._with_headers = with_headers
        self._nullable_headers = nullable_headers
        self._factor = timestamp_factor
        # A factor of 1 changes nothing, and there all 64 bits are kept.
        self._most_timestamp = INT64_MAX // timestamp_factor if timestamp_factor > 1 else 1 << 63
        self._reset()

    def _reset(self) -> None:
        self._keys, self._values, self._names, self._payloads, self._lists = (_Column() for _ in range(5))
        self._offsets = array("q")
        self._timestamps = array("q")
        self._types = array("i")

    @property
    def rows(self) -> int:
        """Return how many rows have been appended since the last `finish`."""
        return len(self._offsets)

    @property
    def data_bytes(self) -> int:
        """Bytes in the largest of the columns' data."""
        return max(c.size for c in (self._keys, self._values, self._names, self._payloads))

    def append(
        self,
        section: Buffer,
        count: int,
        index: int,
        position: int,
        base_offset: int,
        timestamp: int,
        timestamp_type: int,
        from_offset: int,
        until_offset: int,
        max_rows: int,
        max_bytes: int,
    ) -> tuple[int, int, int]:
        """Add the records of one batch, or as many as fit.

        Args:
            section: The batch's uncompressed records, and nothing else.
            count: How many there must be.
            index, position: Where to go on: 0, 0, or what the last call returned.
            base_offset: The batch's.
            timestamp: The batch's base timestamp; for LogAppendTime the timestamp of all, milliseconds.
            timestamp_type: 0 CreateTime, 1 LogAppendTime.
            from_offset, until_offset: Records before the first and from the second on are left out.
            max_rows: Stop before there are more rows than this.
            max_bytes: Stop before a column's data could grow larger than this; one row always fits.

        Returns:
            OK when the section is used up, LIMIT_REACHED when the builder is full, or the problem; and the
            index and position of the next, or the bad, record.
        """
        data = bytes(section)
        size = len(data)
        # Mistakes of a caller, not of a peer: the compiled twin would read outside of the section.
        if index < 0 or position < 0:
            raise ValueError("negative index or position")
        if position > size:
            raise ValueError("position after the end of the section")
        keys, values, rows = self._keys, self._values, self.rows
        while index < count:
            record = scan(data, position, size)
            problem, end, delta, offset_delta, key_at, key_length, value_at, value_length, *headers = record
            if problem:
                return problem, index, position
            # As Java's `long`, the sum wraps around: a hostile base offset is as it is for Kafka's readers.
            offset = base_offset + offset_delta
            if not INT64_MIN <= offset <= INT64_MAX:
                offset = wrap64(offset)
            if from_offset <= offset < until_offset:
                record_timestamp = timestamp if timestamp_type else wrap64(timestamp + delta)
                if abs(record_timestamp) > self._most_timestamp:
                    return TIMESTAMP_TOO_FAR, index, position
                # Before anything of the record is added: it is the first of the next RecordBatch.
                if rows >= max_rows or (rows and self._is_full(record, max_bytes)):
                    return LIMIT_REACHED, index, position
                keys.push(None if key_length < 0 else data[key_at : key_at + key_length])
                values.push(None if value_length < 0 else data[value_at : value_at + value_length])
                if self._with_headers:
                    self._push_headers(data, *headers)
                self._offsets.append(offset)
                self._timestamps.append(record_timestamp * self._factor)
                self._types.append(timestamp_type)
                rows += 1
            position = end
            index += 1
        return (OK if position == size else TRAILING), index, position

    def _is_full(self, record: Scan, max_bytes: int) -> bool:
        _, end, _, _, _, key_length, _, value_length, headers_at, header_count = record
        if self._keys.size + key_length > max_bytes or self._values.size + value_length > max_bytes:
            return True
        if not self._with_headers or not header_count:
            return False
        # A header name of n bytes that is not UTF-8 becomes at most 3n.
        header_bytes = end - headers_at
        return (
            self._names.size + 3 * header_bytes > max_bytes
            or self._payloads.size + header_bytes > max_bytes
            or self._names.rows + header_count > _INT32_MAX
        )

    def _push_headers(self, data: bytes, position: int, count: int) -> None:
        end = len(data)
        for _ in range(count):
            length, position = read_varint(data, position, end)
            name = data[position : position + length]
            # Arrow strings must be UTF-8; Kafka's reader has U+FFFD there as well.
            self._names.push(name if name.isascii() else name.decode("utf-8", "replace").encode())
            position += length
            length, position = read_varint(data, position, end)
            self._payloads.push(None if length < 0 else data[position : position + length])
            position += max(length, 0)
        self._lists.push_list(self._names.rows, bool(count) or not self._nullable_headers)

    def finish(self) -> tuple[Any, ...]:
        """Return what was collected; the builder is empty afterwards.

        Returns:
            (rows, keys, values, offsets, timestamps, timestamp types, headers). Keys and values are
            (validity or None, number of nulls, offsets, data). Headers are None, or ((validity or None,
            number of nulls, offsets), number of headers, names, header values).
        """
        headers = None
        if self._with_headers:
            headers = (
                self._lists.parts()[:3],
                self._names.rows,
                self._names.parts(),
                self._payloads.parts(),
            )
        result = (
            self.rows,
            self._keys.parts(),
            self._values.parts(),
            self._offsets.tobytes(),
            self._timestamps.tobytes(),
            self._types.tobytes(),
            headers,
        )
        self._reset()
        return result


# --- from Arrow ------------------------------------------------------------------------------------------


def _read_offsets(offsets: Any, first: int, rows: int) -> Sequence[int]:
    if memoryview(offsets).nbytes < 4 * (first + rows + 1):
        raise ValueError("the offsets are too short")
    return struct.unpack_from(f"<{rows + 1}i", offsets, 4 * first)


def _read_validity(validity: Any, first: int, rows: int) -> list[bool] | None:
    if validity is None:
        return None
    bits = bytes(validity)
    if len(bits) * 8 < first + rows:
        raise ValueError("the validity bits are too short")
    return [bool(bits[at >> 3] >> (at & 7) & 1) for at in range(first, first + rows)]


def _read_binary(parts: BinaryParts, rows: int) -> list[bytes | None]:
    """The rows of an Arrow binary or string array."""
    # Whatever Arrow says of an array is checked here: the compiled twin reads memory by these numbers.
    validity, offsets_buffer, data_buffer, first = parts
    if first < 0 or rows < 0:
        raise ValueError("negative offset or length")
    valid = _read_validity(validity, first, rows)
    if not rows:
        return []
    offsets = _read_offsets(offsets_buffer, first, rows)
    data = b"" if data_buffer is None else bytes(data_buffer)
    if offsets[0] < 0 or any(offsets[i] > offsets[i + 1] for i in range(rows)) or offsets[rows] > len(data):
        raise ValueError("the offsets do not fit the data")
    return [
        data[offsets[row] : offsets[row + 1]] if valid is None or valid[row] else None for row in range(rows)
    ]


def _read_headers(parts: HeaderParts, rows: int) -> list[list[tuple[bytes | None, bytes | None]]]:
    validity, offsets_buffer, first, child_length, names_parts, payloads_parts = parts
    if first < 0 or rows < 0:
        raise ValueError("negative offset or length")
    valid = _read_validity(validity, first, rows)
    offsets = _read_offsets(offsets_buffer, first, rows) if rows else (0,)
    for row in range(rows):
        if offsets[row] < 0 or offsets[row] > offsets[row + 1]:
            raise ValueError("the offsets do not fit the data")
    if offsets[rows] > child_length:
        raise ValueError("the offsets do not fit the data")
    pairs = list(
        zip(_read_binary(names_parts, child_length), _read_binary(payloads_parts, child_length), strict=True)
    )
    return [
        pairs[offsets[row] : offsets[row + 1]] if valid is None or valid[row] else [] for row in range(rows)
    ]


def murmur2_partitions(keys: BinaryParts, rows: int, partitions: int, null_partition: int) -> Buffer:
    """The partition of each key of a column.

    Args:
        keys: The column.
        rows: Its length.
        partitions: How many the topic has.
        null_partition: What stands for a null key.

    Returns:
        One int32 per row.
    """
    if partitions < 1:
        raise ValueError("a topic has at least one partition")
    return array(
        "i",
        (
            # Kafka's `Utils.toPositive`: the sign bit goes, which is not what `abs` does.
            null_partition if key is None else (murmur2(key) & _INT32_MAX) % partitions
            for key in _read_binary(keys, rows)
        ),
    ).tobytes()


def split(partition_ids: Any, rows: int, partitions: int) -> tuple[Buffer, Buffer]:
    """Sort rows by partition, each partition's in their order.

    Args:
        partition_ids: One int32 per row.
        rows: How many.
        partitions: Ids are below this.

    Returns:
        The rows' indices in the new order, and where in it each partition starts (partitions + 1 numbers);
        both int64. `ValueError` for an id out of range.
    """
    if rows < 0 or partitions < 0 or memoryview(partition_ids).nbytes < 4 * rows:
        raise ValueError("fewer partition ids than rows")
    # Stable: a producer's records of one key stay in their order.
    by_partition: list[list[int]] = [[] for _ in range(partitions)]
    for row, partition in enumerate(struct.unpack_from(f"<{rows}i", partition_ids)):
        if not 0 <= partition < partitions:
            raise ValueError(f"row {row}: partition {partition} of {partitions}")
        by_partition[partition].append(row)
    order = array("q")
    starts = array("q", [0])
    for members in by_partition:
        order.extend(members)
        starts.append(len(order))
    return order.tobytes(), starts.tobytes()


def encode_records(
    keys: BinaryParts | None,
    values: BinaryParts | None,
    headers: HeaderParts | None,
    timestamps: Any,
    timestamp: int,
    rows: int,
    max_bytes: int,
    room: int,
) -> list[tuple[bytearray, int, int, int]]:
    """The rows of Arrow columns as the records of as many batches as they need.

    Args:
        keys, values: The columns; None: all null.
        headers: The column; None: no row has headers. A null list counts as an empty list.
        timestamps: One int64 per row, milliseconds; None: `timestamp` for all.
        timestamp: See `timestamps`.
        rows: How many.
        max_bytes: A batch's records stop before they take more than this; one record always fits.
        room: Zero bytes in front of each batch's records, for its header.

    Returns:
        Per batch: its bytes, the number of records, the base and the largest timestamp.

    Raises:
        ValueError: a timestamp below -1, a header without a key, a record of 2 GiB; names the row.
    """
    if rows < 0 or room < 0:
        raise ValueError("negative number of rows or bytes")
    key_rows = [None] * rows if keys is None else _read_binary(keys, rows)
    value_rows = [None] * rows if values is None else _read_binary(values, rows)
    header_rows = None if headers is None else _read_headers(headers, rows)
    if timestamps is None:
        times: Sequence[int] = [timestamp] * rows
    else:
        if memoryview(timestamps).nbytes < 8 * rows:
            raise ValueError("fewer timestamps than rows")
        times = struct.unpack_from(f"<{rows}q", timestamps)

    # `start` is the first row of the batch that is being filled: both deltas of a record count from it.
    sections = []
    start = 0
    section = bytearray(room)
    max_timestamp = -1
    for row in range(rows):
        body = _body(row, row - start, times, start, key_rows, value_rows, header_rows)
        record_size = len(body) + len(encode_varint(len(body)))
        if row > start and len(section) - room + record_size > max_bytes:
            sections.append((section, row - start, times[start], max_timestamp))
            section = bytearray(room)
            start = row
            max_timestamp = -1
            # Once more, as the deltas are other numbers, perhaps of other lengths, in the new batch.
            body = _body(row, 0, times, start, key_rows, value_rows, header_rows)
        max_timestamp = max(max_timestamp, times[row])
        section += encode_varint(len(body))
        section += body
    if rows:
        sections.append((section, rows - start, times[start], max_timestamp))
    return sections


def _body(
    row: int,
    delta: int,
    times: Sequence[int],
    start: int,
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    headers: Sequence[Sequence[tuple[bytes | None, bytes | None]]] | None,
) -> bytearray:
    if times[row] < -1:
        raise ValueError(f"row {row}: a negative timestamp")
    body = bytearray(b"\x00")
    body += encode_varint(wrap64(times[row] - times[start]))
    body += encode_varint(delta)
    for data in (keys[row], values[row]):
        _append(body, data)
    pairs = headers[row] if headers is not None else ()
    body += encode_varint(len(pairs))
    for name, payload in pairs:
        if name is None:
            raise ValueError(f"row {row}: a header without a key")
        _append(body, name)
        _append(body, payload)
    if len(body) > _MAX_BODY:
        raise ValueError(f"row {row}: a record of more than 2^31-1 bytes")
    return body


def _append(body: bytearray, data: bytes | None) -> None:
    if data is None:
        body += b"\x01"
    else:
        body += encode_varint(len(data))
        body += data
