"""Record batches to and from Arrow, column by column: the fast road for whole fetches.

Decoding: fetched bytes → CRC → unpacked → the kernel fills Arrow's buffers directly → `RecordBatch`.
Encoding: Arrow's buffers → the kernel writes record sections → compressed, headed → record batches.
No Python object per record is ever made. pyarrow is needed by this module and `scalars` alone.

The columns are those of Spark's Kafka source: key and value (binary), offset (int64), timestamp (int64
milliseconds, or what `timestamp_unit` and `as_timestamp` say), timestampType (int32: 0 CreateTime,
1 LogAppendTime, -1 none: messages of magic 0), and with headers: list<struct<key: string, value: binary>>.
A record without headers has an empty list, not null, unless asked for: Spark reads nulls in array columns a
hundred times slower.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import pyarrow as pa

from odradek.errors import KafkaError
from odradek.records import scalars
from odradek.records._pyscan import scan
from odradek.records.batch import (
    HEADER_BYTES,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    TimestampType,
    check_crc,
    increment_sequence,
    records_section,
)
from odradek.records.builder import compress_records, finish_batch
from odradek.records.compression import MAX_DECOMPRESSED_BYTES, Buffer, Codec
from odradek.records.kernel import kernel
from odradek.records.message_sets.message_batches import iter_fetched
from odradek.records.problems import LIMIT_REACHED, TIMESTAMP_TOO_FAR, TimestampRangeError, raise_for_problem

MAX_OFFSET = 0x7FFF_FFFF_FFFF_FFFF
MAX_COLUMN_BYTES = 0x7FFF_FFFF
"""The end of 32-bit Arrow offsets. A column that would outgrow it begins a new RecordBatch."""

HEADER_TYPE = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS_TYPE = pa.list_(HEADER_TYPE)

_INT64 = struct.Struct("<q")

Select = Callable[[BatchHeader, memoryview], bool]


def schema(
    *, with_headers: bool = False, timestamp_unit: Literal["ms", "us"] = "ms", as_timestamp: bool = False
) -> pa.Schema:
    """The schema of what `ColumnDecoder` makes."""
    fields = [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp(timestamp_unit, tz="UTC") if as_timestamp else pa.int64()),
        pa.field("timestampType", pa.int32()),
    ]
    if with_headers:
        fields.append(pa.field("headers", HEADERS_TYPE))
    return pa.schema(fields)


class ColumnDecoder:
    """Turns fetched bytes of one partition into `RecordBatch`es.

    Args:
        from_offset: Records before it are left out (a fetch returns whole batches).
        until_offset: Records from it on are left out.
        with_headers: Whether there is a headers column.
        nullable_headers: Whether a record without headers has null there, not an empty list.
        timestamp_unit: "ms" or "us".
        as_timestamp: Whether the timestamp column is of type timestamp[unit, UTC], not int64. -1 (no
            timestamp) then is a millisecond before the epoch, as in Spark's own source.
        batch_rows: Rows of a `RecordBatch` (10,000 to 50,000 suit Spark).
        batch_bytes: Bytes of its largest column, at most, one record aside.
        limit: Rows in all; None: no limit.
        check_crcs: Whether each batch's CRC is checked.
        max_size: How far one batch may unpack, bytes.
        select: Called with each batch's header and bytes, control batches too; False leaves the batch out
            (an aborted transaction's, under read_committed). Control batches are always left out.

    Attributes:
        next_offset: Where to fetch on: after everything that has been read, the rows not yet yielded
            included.
    """

    def __init__(
        self,
        *,
        from_offset: int = 0,
        until_offset: int = MAX_OFFSET,
        with_headers: bool = False,
        nullable_headers: bool = False,
        timestamp_unit: Literal["ms", "us"] = "ms",
        as_timestamp: bool = False,
        batch_rows: int = 50_000,
        batch_bytes: int = 256 * 1024 * 1024,
        limit: int | None = None,
        check_crcs: bool = True,
        max_size: int = MAX_DECOMPRESSED_BYTES,
        select: Select | None = None,
    ) -> None:
        if batch_rows < 1:
            raise ValueError("a RecordBatch has at least one row")
        self.next_offset = from_offset
        self.schema = schema(
            with_headers=with_headers, timestamp_unit=timestamp_unit, as_timestamp=as_timestamp
        )
        self._until_offset = until_offset
        self._batch_rows = batch_rows
        self._batch_bytes = min(batch_bytes, MAX_COLUMN_BYTES)
        self._left = MAX_OFFSET if limit is None else limit
        """Rows that may still be yielded. Rows that wait in `_builder` are taken off when they leave it."""
        self._check_crcs = check_crcs
        self._max_size = max_size
        self._select = select
        self._builder = kernel.ColumnBuilder(
            with_headers, nullable_headers, 1000 if timestamp_unit == "us" else 1
        )

    @property
    def pending_rows(self) -> int:
        """Rows that have been decoded but not yet returned."""
        return int(self._builder.rows)

    @property
    def finished(self) -> bool:
        """Return whether the limit or `until_offset` is reached."""
        return self._left <= self._builder.rows or self.next_offset >= self._until_offset

    def feed(self, buffer: Buffer) -> Iterator[pa.RecordBatch]:
        """Decode all whole batches in `buffer`; yields each `RecordBatch` that has become full.

        The other rows wait for the next `feed` or for `flush`. When it raises, the rows before the bad batch
        (where its CRC is right: before the bad record) have then been yielded or are there for `flush`, and
        `next_offset` is after them.

        Raises:
            KafkaError: as `iter_records`.
            TimestampRangeError: a time that microseconds, if they are asked for, cannot hold.
        """
        for header, batch, kind in iter_fetched(buffer, check_crcs=self._check_crcs):
            if self.finished:
                return
            # A fetch returns the whole batch that its offset is in. Where that is over, its CRC is not worth
            # the time.
            if header.next_offset <= self.next_offset:
                continue
            if self._check_crcs:
                check_crc(header, batch)
            # Asked of control batches too: by the markers it learns where an aborted transaction ends.
            is_selected = self._select is None or self._select(header, batch)
            if is_selected and not header.is_control and header.record_count:
                yield from self._decode(header, batch, kind)
                if self._left <= self._builder.rows:
                    # Inside of the batch: `_take` moves `next_offset` behind the last row, and no further.
                    return
            # A range may end inside of a batch.
            self.next_offset = max(self.next_offset, min(header.next_offset, self._until_offset))

    def _decode(
        self, header: BatchHeader, batch: memoryview, kind: TimestampType
    ) -> Iterator[pa.RecordBatch]:
        section = records_section(header, batch, self._max_size)
        append_time = kind is TimestampType.LOG_APPEND_TIME
        index = position = 0
        # Once per RecordBatch that the records of this batch fill: the builder says where it has stopped.
        while True:
            status, index, position = self._builder.append(
                section,
                header.record_count,
                index,
                position,
                header.base_offset,
                header.max_timestamp if append_time else header.base_timestamp,
                int(kind),
                self.next_offset,
                self._until_offset,
                min(self._batch_rows, self._left),
                self._batch_bytes,
            )
            if status == TIMESTAMP_TOO_FAR:
                # The record is read once more, for its offset and its time as it stands in the log.
                _, _, delta, offset_delta, *_ = scan(bytes(section), position, len(section))
                base = header.max_timestamp if append_time else header.base_timestamp + delta
                raise TimestampRangeError(header.base_offset + offset_delta, base)
            if status > 0:
                raise_for_problem(status, index, header.base_offset)
            if status == LIMIT_REACHED or self._builder.rows >= self._batch_rows:
                yield self._take()
            if status != LIMIT_REACHED or self._left <= 0:
                return

    def flush(self) -> pa.RecordBatch | None:
        """Return the rows that wait, if any."""
        return self._take() if self._builder.rows else None

    def _take(self) -> pa.RecordBatch:
        rows, keys, values, offsets, timestamps, types, headers = self._builder.finish()
        self._left -= rows
        # `max`: batches without rows may have moved it further already.
        self.next_offset = max(self.next_offset, _INT64.unpack_from(offsets, 8 * (rows - 1))[0] + 1)
        columns = [
            _binary_array(pa.binary(), rows, keys),
            _binary_array(pa.binary(), rows, values),
            _fixed_array(pa.int64(), rows, offsets),
            _fixed_array(self.schema.field("timestamp").type, rows, timestamps),
            _fixed_array(pa.int32(), rows, types),
        ]
        if headers is not None:
            columns.append(_headers_array(rows, headers))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _binary_array(kind: Any, rows: int, parts: tuple[Any, int, Any, Any]) -> Any:
    validity, nulls, offsets, data = parts
    buffers = [
        None if validity is None else pa.py_buffer(validity),
        pa.py_buffer(offsets),
        pa.py_buffer(data),
    ]
    return pa.Array.from_buffers(kind, rows, buffers, null_count=nulls)


def _fixed_array(kind: Any, rows: int, data: Any) -> Any:
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(data)], null_count=0)


def _headers_array(rows: int, headers: Any) -> Any:
    (validity, nulls, offsets), count, names, payloads = headers
    pairs = pa.Array.from_buffers(
        HEADER_TYPE,
        count,
        [None],
        null_count=0,
        children=[_binary_array(pa.string(), count, names), _binary_array(pa.binary(), count, payloads)],
    )
    buffers = [None if validity is None else pa.py_buffer(validity), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(HEADERS_TYPE, rows, buffers, null_count=nulls, children=[pairs])


def iter_columns(buffers: Buffer | Iterable[Buffer], **options: Any) -> Iterator[pa.RecordBatch]:
    """Every record of the batches in `buffers` (one partition's, in order) as `RecordBatch`es.

    `options` are `ColumnDecoder`'s.

    Raises:
        KafkaError: as `ColumnDecoder.feed`, after the rows before the bad batch.
    """
    decoder = ColumnDecoder(**options)
    try:
        for buffer in _as_buffers(buffers):
            yield from decoder.feed(buffer)
    except Exception:
        # The rows in front of the fault are good, and where to go on is known by the last of them.
        rest = decoder.flush()
        if rest is not None:
            yield rest
        raise
    rest = decoder.flush()
    if rest is not None:
        yield rest


def decode_columns(
    buffers: Buffer | Iterable[Buffer],
    *,
    from_offset: int = 0,
    with_headers: bool = False,
    limit: int | None = None,
    **options: Any,
) -> pa.RecordBatch:
    """The records of the batches in `buffers` as one `RecordBatch`, perhaps of no rows.

    It ends early where a column would outgrow 2^31-1 bytes: go on from its last offset + 1. The arguments are
    `ColumnDecoder`'s.

    Raises:
        KafkaError: as `ColumnDecoder.feed`, unless there are rows before the bad batch.
    """
    options.setdefault("batch_rows", MAX_COLUMN_BYTES)
    options.setdefault("batch_bytes", MAX_COLUMN_BYTES)
    decoder = ColumnDecoder(from_offset=from_offset, with_headers=with_headers, limit=limit, **options)
    try:
        for buffer in _as_buffers(buffers):
            for record_batch in decoder.feed(buffer):
                # A column is full; what follows is fetched again, so that it need not be kept.
                return record_batch
    except KafkaError:
        # The rows before the bad batch come first; the next call begins with it, and raises.
        if not decoder.pending_rows:
            raise
    return decoder.flush() or _no_rows(decoder.schema)


def _no_rows(of: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in of], schema=of)


def _as_buffers(buffers: Buffer | Iterable[Buffer]) -> Iterable[Buffer]:
    return [buffers] if isinstance(buffers, (bytes, bytearray, memoryview)) else buffers


# --- from Arrow ------------------------------------------------------------------------------------------


def encode_columns(
    keys: Any,
    values: Any,
    headers: Any = None,
    timestamps: Any = None,
    *,
    timestamp: int = -1,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    max_batch_bytes: int = 1024 * 1024,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
) -> list[bytearray]:
    """The rows of Arrow columns, all of one partition, as record batches.

    Args:
        keys, values: Binary or string arrays (chunked or not), or None where all are null.
        headers: list<struct<key: string, value: binary>>, or None; a null list counts as an empty list.
        timestamps: int64 milliseconds, or timestamps of any unit, or None.
        timestamp: For rows that have none in `timestamps`, milliseconds; -1 for none.
        codec, level: See `compress`.
        max_batch_bytes: A batch, header included, before compression; a single larger record still makes
            a batch, for the broker to refuse.
        producer_id, producer_epoch, base_sequence, transactional: Of an idempotent producer; the
            sequence goes on from batch to batch.

    Returns:
        The batches, each for one produce request; `BatchHeader.parse` tells the number of records.

    Raises:
        ValueError: a timestamp below -1, or a header without a key; names the row.
        pyarrow.ArrowInvalid: a column of a type that is none of those above, or columns of unequal length.
    """
    columns = [None if c is None else _one_chunk(c) for c in (keys, values, headers, timestamps)]
    present = [column for column in columns if column is not None]
    batches: list[bytearray] = []
    for start, stop in _portions(present, _row_count(present)):
        parts = [None if column is None else column.slice(start, stop - start) for column in columns]
        sections = kernel.encode_records(
            _binary_parts(parts[0]),
            _binary_parts(parts[1]),
            _header_parts(parts[2]),
            _timestamp_buffer(parts[3], timestamp),
            timestamp,
            stop - start,
            max_batch_bytes - HEADER_BYTES,
            HEADER_BYTES,
        )
        for batch, count, base_timestamp, max_timestamp in sections:
            if codec is not Codec.NONE:
                batch = compress_records(batch, codec, level)
            finish_batch(
                batch,
                base_offset=0,
                partition_leader_epoch=-1,
                attributes=int(codec) | (TRANSACTIONAL_BIT if transactional else 0),
                last_offset_delta=count - 1,
                base_timestamp=base_timestamp,
                max_timestamp=max_timestamp,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=base_sequence,
                record_count=count,
            )
            batches.append(batch)
            # A sequence counts records, not batches (KIP-98).
            if base_sequence != NO_SEQUENCE:
                base_sequence = increment_sequence(base_sequence, count)
    return batches


_PORTION_BYTES = 1 << 30
"""Rows are encoded in portions of at most about this many bytes, so that 32-bit offsets always suffice."""


def _row_count(columns: list[Any]) -> int:
    if not columns:
        raise pa.ArrowInvalid("neither keys nor values")
    rows = len(columns[0])
    if any(len(column) != rows for column in columns):
        raise pa.ArrowInvalid("the columns have unequal numbers of rows")
    return rows


def _portions(columns: list[Any], rows: int) -> Iterator[tuple[int, int]]:
    size = sum(column.nbytes for column in columns)
    if size <= _PORTION_BYTES or rows <= 1:
        if rows:
            yield 0, rows
        return
    # Halves are measured again, as rows differ in size: equal numbers of rows may be unequal in bytes.
    half = rows // 2
    for first, count in ((0, half), (half, rows - half)):
        parts = [column.slice(first, count) for column in columns]
        for start, stop in _portions(parts, count):
            yield first + start, first + stop


def _one_chunk(column: Any) -> Any:
    if isinstance(column, pa.ChunkedArray):
        # combine_chunks gives several chunks only where 32-bit offsets overflow.
        if column.num_chunks == 1:
            return column.chunk(0)
        kind = _LARGE.get(column.type)
        if kind is not None and column.nbytes > _PORTION_BYTES:
            column = column.cast(kind)
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
    return column


_LARGE = {pa.binary(): pa.large_binary(), pa.string(): pa.large_string()}
"""The types with 64-bit offsets, as which many chunks become one whatever their size."""


def _binary_parts(column: Any) -> Any:
    if column is None or pa.types.is_null(column.type):
        return None
    # Large, fixed-size and dictionary types: the kernel knows 32-bit offsets alone.
    if column.type not in (pa.binary(), pa.string()):
        column = column.cast(pa.binary())
    # Buffers are those of the whole array, also for a slice: its offset goes with them. An array without rows
    # may have no buffer of offsets.
    validity, offsets, data = column.buffers()
    return (validity if column.null_count else None, offsets or bytes(4), data, column.offset)


def _header_parts(column: Any) -> Any:
    if column is None or pa.types.is_null(column.type):
        return None
    if pa.types.is_large_list(column.type) or pa.types.is_fixed_size_list(column.type):
        column = column.cast(pa.list_(column.type.value_type))
    if not (pa.types.is_list(column.type) or pa.types.is_map(column.type)):
        raise pa.ArrowInvalid(f"headers are list<struct<key, value>>, not {column.type}")
    pairs = (
        pa.StructArray.from_arrays([column.keys, column.items], ["key", "value"])
        if pa.types.is_map(column.type)
        else column.values
    )
    if not pa.types.is_struct(pairs.type) or pairs.type.num_fields != 2:
        raise pa.ArrowInvalid(f"headers are list<struct<key, value>>, not {column.type}")
    # Not `pairs.field`, which does not say of its values that their pair is null.
    names, payloads = pairs.flatten()
    validity, offsets = column.buffers()[:2]
    return (
        validity if column.null_count else None,
        offsets or bytes(4),
        column.offset,
        len(pairs),
        _binary_parts(names) or _all_null(len(pairs)),
        _binary_parts(payloads) or _all_null(len(pairs)),
    )


def _all_null(rows: int) -> Any:
    return bytes((rows + 7) // 8), bytes(4 * (rows + 1)), None, 0


def _timestamp_buffer(column: Any, default: int) -> Any:
    if column is None or pa.types.is_null(column.type):
        return None
    if pa.types.is_timestamp(column.type):
        # Where needed: a process that reads would wait 40 ms for its first batch.
        import pyarrow.compute as pc

        # Truncated to milliseconds, but never wrapped.
        cast_options = pc.CastOptions(pa.timestamp("ms", tz=column.type.tz), allow_time_truncate=True)
        column = pc.cast(column, options=cast_options).view(pa.int64())
    elif column.type != pa.int64():
        column = column.cast(pa.int64())
    # Under a null Arrow's buffer may hold anything.
    if column.null_count:
        column = column.fill_null(default)
    return column.buffers()[1].slice(8 * column.offset)


# --- partitions ------------------------------------------------------------------------------------------


def partition_ids(keys: Any, partitions: int, null_partition: int) -> pa.Array:
    """The partition of each key (int32), as Kafka's default partitioner has it.

    Args:
        keys: A binary or string array.
        partitions: How many the topic has.
        null_partition: What a row without a key gets: a sticky partition, or -1 to be filled in later.
    """
    keys = _one_chunk(keys)
    parts = _binary_parts(keys)
    if parts is None:
        return pa.repeat(scalars.int32(null_partition), len(keys))
    ids = kernel.murmur2_partitions(parts, len(keys), partitions, null_partition)
    return pa.Array.from_buffers(pa.int32(), len(keys), [None, pa.py_buffer(ids)], null_count=0)


def split_by_partition(table: Any, ids: pa.Array, partitions: int) -> list[tuple[int, Any]]:
    """The rows of a `RecordBatch` or `Table` by partition, each partition's in their order.

    Args:
        table: The rows.
        ids: Their partitions: int32, no nulls, all in `range(partitions)`; `ValueError` otherwise.
        partitions: How many the topic has.

    Returns:
        (partition, its rows) for each partition that has any.
    """
    if len(ids) != table.num_rows or ids.null_count:
        raise ValueError("one partition id per row, and no nulls")
    if not table.num_rows:
        return []
    order, starts = kernel.split(ids.buffers()[1].slice(4 * ids.offset), table.num_rows, partitions)
    firsts = struct.unpack(f"<{partitions + 1}q", starts)
    occupied = [p for p in range(partitions) if firsts[p] < firsts[p + 1]]
    # All rows without keys go to one partition (the sticky one, KIP-480): nothing has to be copied.
    if len(occupied) == 1:
        return [(occupied[0], table)]
    indices = pa.Array.from_buffers(pa.int64(), table.num_rows, [None, pa.py_buffer(order)], null_count=0)
    by_partition = table.take(indices)
    return [(p, by_partition.slice(firsts[p], firsts[p + 1] - firsts[p])) for p in occupied]
