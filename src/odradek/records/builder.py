"""Record batch v2, written: one batch, record by record."""

from __future__ import annotations

from collections.abc import Iterable

from fastcrc import crc32

from odradek.records.batch import (
    ATTRIBUTES_AT,
    CONTROL_BIT,
    CRC_AT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    HEADER_STRUCT,
    LOG_OVERHEAD,
    MAGIC_V2,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    Header,
    TimestampType,
)
from odradek.records.compression import Buffer, Codec, compress
from odradek.records.kernel import kernel
from odradek.wire.epochs import NO_EPOCH

_MAX_TIMESTAMP = 0x7FFF_FFFF_FFFF_FFFE
"""So that a delta from -1 is still a 64-bit number."""

MAX_RECORD_OVERHEAD = 21
"""Bytes of a record beside its key, value and headers, at most: Kafka's own estimate."""


def compress_records(batch: bytearray, codec: Codec, level: int | None) -> bytearray:
    """The records behind the room for a header, compressed, behind room for a header again."""
    with memoryview(batch) as view, view[HEADER_BYTES:] as section:
        packed = compress(codec, section, level)
    out = bytearray(HEADER_BYTES)
    out += packed
    return out


def finish_batch(
    batch: bytearray,
    *,
    base_offset: int,
    partition_leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    record_count: int,
) -> None:
    """Write the header, CRC included, into the first `HEADER_BYTES` of a batch whose records are in place."""
    HEADER_STRUCT.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LOG_OVERHEAD,
        partition_leader_epoch,
        MAGIC_V2,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    # Not of the base offset and the leader epoch, which the broker sets in each batch that it appends: it
    # would have to read all of it once more. Kafka: `DefaultRecordBatch`.
    with memoryview(batch) as view:
        crc = crc32.iscsi(view[ATTRIBUTES_AT:])
    batch[CRC_AT : CRC_AT + 4] = crc.to_bytes(4, "big")


def record_size_upper_bound(key: Buffer | None, value: Buffer | None, headers: Iterable[Header] = ()) -> int:
    """At most how many bytes a record takes in a batch, before compression."""
    # And three varints of five bytes at most: the lengths of key and value, the number of headers.
    size = MAX_RECORD_OVERHEAD + 15
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    for name, payload in headers:
        size += 10 + len(name.encode()) + (0 if payload is None else len(payload))
    return size


class BatchBuilder:
    """Writes one record batch, byte for byte as Kafka's own writer does.

    Args:
        codec: How the records are compressed in `build`.
        timestamp_type: With LOG_APPEND_TIME, `append_time` is the timestamp of all records.
        producer_id, producer_epoch, base_sequence: Of an idempotent producer, or -1.
        transactional: Whether the batch is part of a transaction.
        control: Whether it holds markers.
        partition_leader_epoch: -1 where the broker will set it.
        base_offset: Offset of the first record; 0 where the broker will set it.
        level: The codec's level; None is Kafka's default.
        append_time: Milliseconds; only with LOG_APPEND_TIME.
        delete_horizon_ms: From when on the cleaner may drop tombstones (KIP-534); stands in the place of
            the base timestamp.
    """

    def __init__(
        self,
        codec: Codec = Codec.NONE,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = -1,
        base_sequence: int = NO_SEQUENCE,
        transactional: bool = False,
        control: bool = False,
        partition_leader_epoch: int = NO_EPOCH,
        base_offset: int = 0,
        *,
        level: int | None = None,
        append_time: int = NO_TIMESTAMP,
        delete_horizon_ms: int | None = None,
    ) -> None:
        self.codec = codec
        self.timestamp_type = timestamp_type
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.transactional = transactional
        self.control = control
        self.partition_leader_epoch = partition_leader_epoch
        self.base_offset = base_offset
        self.level = level
        self.append_time = append_time
        self.delete_horizon_ms = delete_horizon_ms
        # Room for the header, and the records behind it, uncompressed: `build` may come again after more.
        self._batch = bytearray(HEADER_BYTES)
        self._count = 0
        # At least `_count` - 1; more where the cleaner leaves gaps.
        self._last_delta = -1
        self._max_timestamp = NO_TIMESTAMP
        # The first record's, from which the deltas of all count; None before the first. A delete horizon
        # stands in its place in the header, so the deltas count from that.
        self._base_timestamp = delete_horizon_ms

    @property
    def count(self) -> int:
        """Return how many records have been appended."""
        return self._count

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp appended, -1 before the first."""
        return self._max_timestamp

    def append(
        self,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Iterable[Header] = (),
        *,
        offset_delta: int | None = None,
    ) -> int:
        """Add a record.

        Args:
            timestamp: Milliseconds since the epoch, or -1.
            key, value: None is null.
            headers: (name, value) pairs, in order; a value of None is null.
            offset_delta: Relative offset, larger than the last one, for a writer that leaves gaps (the
                cleaner); without it the next.

        Returns:
            The record's relative offset.

        Raises:
            ValueError: a negative timestamp other than -1, or an offset delta that does not grow.
        """
        delta = self._last_delta + 1
        if offset_delta is not None:
            if offset_delta < delta:
                raise ValueError(f"offset delta {offset_delta} after {self._last_delta}")
            delta = offset_delta
        if not NO_TIMESTAMP <= timestamp <= _MAX_TIMESTAMP:
            raise ValueError(f"invalid timestamp {timestamp}")
        # Not the smallest: the deltas are varints with a sign, and the first is known when it is written.
        base = self._base_timestamp
        if base is None:
            base = self._base_timestamp = timestamp
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp

        kernel.append_record(self._batch, delta, timestamp - base, key, value, headers)
        self._count += 1
        self._last_delta = delta
        return delta

    def size_estimate(self) -> int:
        """The batch's size so far in bytes, header included, before compression."""
        return len(self._batch)

    def size_with(self, key: Buffer | None, value: Buffer | None, headers: Iterable[Header] = ()) -> int:
        """At most `size_estimate()` after one more such record."""
        return len(self._batch) + record_size_upper_bound(key, value, headers)

    def build(self, *, last_offset_delta: int | None = None) -> bytes:
        """The whole batch. May be called again, after more records or with other producer fields.

        Args:
            last_offset_delta: Larger than the last record's where the cleaner has dropped the records at
                the end of the batch.

        Raises:
            ValueError: the batch is empty and no `last_offset_delta` is given, or it claims a transaction
                or a sequence without a producer id.
        """
        # As Kafka's `MemoryRecordsBuilder.writeDefaultBatchHeader`: a broker would refuse the batch, or could
        # not tell it from another.
        if self.producer_id == NO_PRODUCER_ID:
            if self.transactional:
                raise ValueError("a transactional batch needs a producer id")
        elif self.producer_epoch < 0 or (self.base_sequence < 0 and not self.control):
            raise ValueError("a batch with a producer id needs its epoch and sequence")
        if last_offset_delta is None:
            if not self._count:
                raise ValueError("an empty batch")
            last_offset_delta = self._last_delta
        attributes = int(self.codec)
        max_timestamp = self._max_timestamp
        if self.timestamp_type is TimestampType.LOG_APPEND_TIME:
            attributes |= TIMESTAMP_TYPE_BIT
            max_timestamp = self.append_time
        if self.transactional:
            attributes |= TRANSACTIONAL_BIT
        if self.control:
            attributes |= CONTROL_BIT
        if self.delete_horizon_ms is not None:
            attributes |= DELETE_HORIZON_BIT
        batch = self._batch
        # Nothing is nothing in every codec, and readers know it (`records_section`).
        if self.codec is not Codec.NONE and self._count:
            batch = compress_records(batch, self.codec, self.level)
        finish_batch(
            batch,
            base_offset=self.base_offset,
            partition_leader_epoch=self.partition_leader_epoch,
            attributes=attributes,
            last_offset_delta=last_offset_delta,
            base_timestamp=NO_TIMESTAMP if self._base_timestamp is None else self._base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            record_count=self._count,
        )
        return bytes(batch)


def build_batch(
    records: Iterable[tuple[int, Buffer | None, Buffer | None, Iterable[Header]]], **fields: object
) -> bytes:
    """One batch of (timestamp, key, value, headers) tuples; `fields` are `BatchBuilder`'s arguments."""
    builder = BatchBuilder(**fields)  # type: ignore[arg-type]
    for timestamp, key, value, headers in records:
        builder.append(timestamp, key, value, headers)
    return builder.build()
