"""Messages of magic 0 and 1 as a consumer may wish to have them: as record batches.

Whatever reads batches (into records, into Arrow columns) then reads what an old broker answered, with the
same code and at the same speed. Offsets, timestamps and their type stay; messages of magic 0 have the
timestamp -1, and their type, none, is what the caller is told beside each batch.
"""

from __future__ import annotations

from collections.abc import Iterator

from odradek.errors import UnsupportedForMessageFormatError
from odradek.records._pyscan import wrap64
from odradek.records.batch import (
    HEADER_BYTES,
    MAGIC_AT,
    MAGIC_V2,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    Record,
    TimestampType,
    iter_batches,
)
from odradek.records.builder import finish_batch
from odradek.records.compression import MAX_DECOMPRESSED_BYTES, Buffer
from odradek.records.kernel import kernel
from odradek.records.message_sets.message_kernel import message_kernel
from odradek.records.message_sets.message_set import (
    FIELDS_AT,
    MESSAGE_ATTRIBUTES_AT,
    MessageHeader,
    compute_message_crc,
    inner_messages,
    iter_entries,
    message_records,
)
from odradek.wire.epochs import NO_EPOCH

BATCH_BYTES = 64 * 1024
"""About how large a batch becomes that is made of single messages."""

_RECORDS_BYTES = BATCH_BYTES - HEADER_BYTES
_MAX_DELTA = 0x7FFF_FFFF
"""A batch holds its last offset as a 32-bit distance from its first."""

Batch = tuple[BatchHeader, memoryview, TimestampType]


def iter_as_batches(
    buffer: Buffer, *, check_crcs: bool = True, max_size: int = MAX_DECOMPRESSED_BYTES
) -> Iterator[Batch]:
    """Every whole entry of a fetch of any version as record batches, in order.

    Args:
        buffer: What a broker answered, or a log: messages and batches, the last one perhaps cut off.
        check_crcs: Of messages. Those of batches that were there already are left to the reader.
        max_size: How far a wrapper may unpack.

    Yields:
        A batch's header, its bytes, and the timestamp type of its records, NO_TIMESTAMP_TYPE for those of
        magic 0. Batches that were there already are views into `buffer`, not copies; a wrapper becomes one
        uncompressed batch; single messages are gathered.

    Raises:
        KafkaError: as `iter_entries` and `message_records`, after the batches in front.
    """
    view = memoryview(buffer)
    position = 0
    while True:
        run = _plain_run(view, position, check_crcs)
        if run is not None:
            batch, position = run
            yield batch
            continue
        next_entry = next(iter_entries(view, position), None)
        if next_entry is None:
            return
        header, entry = next_entry
        position += len(entry)
        if isinstance(header, BatchHeader):
            yield header, entry, header.timestamp_type
            continue
        whole = _wrapper_at_once(header, entry, check_crcs, max_size) if header.is_wrapper else None
        if whole is not None:
            yield whole
            continue
        work = _Gathered()
        try:
            yield from _of_message(work, header, entry, check_crcs, max_size)
        except Exception:
            # The records in front of the damage are good: the reader gets them before the error.
            yield from work.take()
            raise
        yield from work.take()


def _plain_run(view: memoryview, position: int, check_crcs: bool) -> tuple[Batch, int] | None:
    """Messages that are not compressed as one batch, and where they end; None if there are none."""
    if len(view) - position < FIELDS_AT[0] or view[position + MAGIC_AT] >= MAGIC_V2:
        return None
    magic, attributes = view[position + MAGIC_AT], view[position + MESSAGE_ATTRIBUTES_AT]
    kind = TimestampType.NO_TIMESTAMP_TYPE
    if magic:
        kind = TimestampType.LOG_APPEND_TIME if attributes & TIMESTAMP_TYPE_BIT else TimestampType.CREATE_TIME
    out = bytearray(HEADER_BYTES)
    end, count, first, last, base, largest = message_kernel.take_messages(
        view,
        position,
        magic,
        False,
        kind is TimestampType.LOG_APPEND_TIME,
        None,
        check_crcs,
        _RECORDS_BYTES,
        out,
    )
    if not count:
        return None
    return _finished(out, kind, count, first, last, base, largest), end


def _wrapper_at_once(
    header: MessageHeader, message: memoryview, check_crcs: bool, max_size: int
) -> Batch | None:
    """A wrapper as one batch; None where anything about it or in it is not as usual."""
    # `message_records` comes upon the same, and raises the error that belongs to it.
    if check_crcs and compute_message_crc(message) != header.crc:
        return None
    inner = inner_messages(header, message, max_size)
    kind = header.timestamp_type
    append_time = kind is TimestampType.LOG_APPEND_TIME
    # However long: its messages are unpacked already, and bounded by `max_size`.
    out = bytearray(HEADER_BYTES)
    end, count, first, last, base, largest = message_kernel.take_messages(
        inner,
        0,
        header.magic,
        True,
        append_time,
        header.timestamp if append_time else None,
        check_crcs,
        _MAX_DELTA,
        out,
    )
    if not count or end != len(inner):
        return None
    # As `inner_base_offset` has it.
    shift = header.offset - last if header.magic and header.offset else 0
    if header.magic and header.offset and header.offset < last:
        return None
    # The one sum that would wrap around; the slow road has the offset that Kafka's reader gives.
    if first + shift < -(2**63):
        return None
    return _finished(out, kind, count, first + shift, last + shift, base, largest)


def iter_fetched(buffer: Buffer, *, check_crcs: bool = True) -> Iterator[Batch]:
    """As `iter_as_batches`, at the cost of `iter_batches` as long as there are no messages.

    What an application's fetch brings is nearly always batches alone; messages come from a broker before
    0.11, and from the old part of a log that has lived through upgrades.
    """
    view = memoryview(buffer)
    end = 0
    try:
        for header, batch in iter_batches(view):
            yield header, batch, header.timestamp_type
            end += len(batch)
    except UnsupportedForMessageFormatError:
        # A message: all batches in front of it have been yielded, up to `end`.
        pass
    else:
        return
    yield from iter_as_batches(view[end:], check_crcs=check_crcs)


def _of_message(
    work: _Gathered, header: MessageHeader, entry: memoryview, check_crcs: bool, max_size: int
) -> Iterator[Batch]:
    for record in message_records(header, entry, check_crcs=check_crcs, max_size=max_size):
        if not work.fits(record):
            yield from work.take()
        work.add(record)


class _Gathered:
    """Records that become one batch."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.bytes = bytearray(HEADER_BYTES)
        self.count = 0
        # Of the first and the last record, and without meaning while there is none.
        self.base = self.last = self.base_timestamp = self.max_timestamp = 0
        self.kind = TimestampType.NO_TIMESTAMP_TYPE

    def fits(self, record: Record) -> bool:
        """Return whether a batch can go on with a record: offsets grow, and a broker sets a single time."""
        return self.count == 0 or (
            self.last < record.offset <= self.base + _MAX_DELTA
            and record.timestamp_type is self.kind
            and (record.timestamp == self.max_timestamp or self.kind is not TimestampType.LOG_APPEND_TIME)
            and len(self.bytes) < BATCH_BYTES
        )

    def add(self, record: Record) -> None:
        """Write a record behind the others."""
        offset, timestamp, kind, key, value, _ = record
        if self.count == 0:
            self.base, self.kind = offset, kind
            self.base_timestamp = self.max_timestamp = timestamp
        # The distance of two 64-bit times may need 65 bits: it wraps around, and back when it is read.
        delta = wrap64(timestamp - self.base_timestamp)
        kernel.append_record(self.bytes, offset - self.base, delta, key, value, ())
        self.max_timestamp = max(self.max_timestamp, timestamp)
        self.last = offset
        self.count += 1

    def take(self) -> Iterator[Batch]:
        """The batch, if there is one; begins anew."""
        if self.count:
            batch = _finished(
                self.bytes,
                self.kind,
                self.count,
                self.base,
                self.last,
                self.base_timestamp,
                self.max_timestamp,
            )
            self._clear()
            yield batch


def _finished(
    batch: bytearray, kind: TimestampType, count: int, first: int, last: int, base: int, largest: int
) -> Batch:
    """Records behind room for a header, as a batch."""
    finish_batch(
        batch,
        base_offset=first,
        partition_leader_epoch=NO_EPOCH,
        attributes=TIMESTAMP_TYPE_BIT if kind is TimestampType.LOG_APPEND_TIME else 0,
        last_offset_delta=last - first,
        base_timestamp=base,
        max_timestamp=largest,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=-1,
        base_sequence=NO_SEQUENCE,
        record_count=count,
    )
    return BatchHeader.parse(batch), memoryview(batch), kind
