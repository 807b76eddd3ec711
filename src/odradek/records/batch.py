"""Record batch v2, read: the header, the batches in a buffer, the records in a batch.

docs/record_format.md has the layout. Bytes here come from files and from peers: every length is checked
before it is used, and what does not fit raises `KafkaError`, never anything else.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from fastcrc import crc32

from odradek.errors import (
    CorruptRecordError,
    UnsupportedForMessageFormatError,
)
from odradek.records.compression import MAX_DECOMPRESSED_BYTES, Buffer, Codec, decompress
from odradek.records.kernel import kernel
from odradek.records.problems import raise_for_problem

MAGIC_V2: Final = 2

HEADER_BYTES: Final = 61
"""The header of a v2 batch, up to the first record."""
LOG_OVERHEAD: Final = 12
"""Base offset and length: what stands before the bytes that the length counts."""

LENGTH_AT: Final = 8
LEADER_EPOCH_AT: Final = 12
MAGIC_AT: Final = 16
CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21
"""The first byte under the CRC."""
FLAGS_AT: Final = ATTRIBUTES_AT + 1
"""The low byte of the attributes, which has all that is used of them."""
LAST_OFFSET_DELTA_AT: Final = 23
BASE_TIMESTAMP_AT: Final = 27
MAX_TIMESTAMP_AT: Final = 35
PRODUCER_ID_AT: Final = 43

CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_SEQUENCE: Final = -1

MIN_LENGTH: Final = HEADER_BYTES - LOG_OVERHEAD
"""The least length that a header has."""
# Of a message of magic 0 without key and value. Not from `message_set`, which stands above this module.
_V0_MIN_LENGTH = 14

HEADER_STRUCT = struct.Struct(">qiibIhiqqqhii")
PRODUCER_STRUCT: Final = struct.Struct(">qhi")
"""Producer id, epoch and base sequence, at `PRODUCER_ID_AT`."""
BATCH_OF_PRODUCER_STRUCT: Final = struct.Struct(">8xi4xb4xh20xqhi")
"""Of a whole header what tells whether a batch is one, and whose: length, magic, attributes, and the three of
`PRODUCER_STRUCT`."""
_PREFIX = struct.Struct(">qiib")


class TimestampType(IntEnum):
    """The origin of a record's timestamp; the value is that of Spark's `timestampType` column too."""

    NO_TIMESTAMP_TYPE = -1
    """Only of messages of magic 0, which have no timestamp; no batch and no topic has this type."""
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


Header = tuple[str, bytes | None]


class Record(NamedTuple):
    """One record. `timestamp` in milliseconds since the epoch, -1 for none."""

    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


class BatchHeader(NamedTuple):
    """Every field of a v2 batch's header, in its order, and what follows from them."""

    base_offset: int
    length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @classmethod
    def parse(cls, buffer: Buffer, offset: int = 0) -> BatchHeader:
        """The header at `offset`; the records behind it need not be there yet.

        Raises:
            KafkaError: UNSUPPORTED_FOR_MESSAGE_FORMAT for a message set of magic 0 or 1, CORRUPT_MESSAGE for
                any other magic, a length that cannot hold a header, or too few bytes.
        """
        if len(buffer) - offset < HEADER_BYTES:
            # First what is wrong with the bytes that are there, which says more than that some are missing.
            _check_prefix(buffer, offset)
            raise CorruptRecordError(
                f"{len(buffer) - offset} bytes cannot hold the header of a record batch",
            )
        header = cls._make(HEADER_STRUCT.unpack_from(buffer, offset))
        if header.magic != MAGIC_V2 or header.length < MIN_LENGTH:
            check_magic_and_length(header.magic, header.length)
        return header

    def placed(self, base_offset: int, leader_epoch: int) -> BatchHeader:
        """The header of the same batch at another place of a log; its CRC, which does not cover it, stays."""
        return BatchHeader._make((base_offset, self.length, leader_epoch, *self[3:]))

    @property
    def size(self) -> int:
        """The whole batch, header included, in bytes."""
        return LOG_OVERHEAD + self.length

    @property
    def last_offset(self) -> int:
        """The offset of the batch's last record (as it was before any compaction)."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec_id(self) -> int:
        """The codec's number, also a number that no codec has (5 to 7)."""
        return self.attributes & CODEC_MASK

    @property
    def codec(self) -> Codec:
        """The codec; `KafkaError` UNSUPPORTED_COMPRESSION_TYPE for a number that no codec has."""
        return Codec.of(self.attributes & CODEC_MASK)

    @property
    def timestamp_type(self) -> TimestampType:
        """Return whether the records' own timestamps count, or the batch's max timestamp for all of them."""
        if self.attributes & TIMESTAMP_TYPE_BIT:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """Part of a transaction."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Holds markers that no application sees."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_producer_id(self) -> bool:
        """Written by an idempotent or transactional producer."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def delete_horizon_ms(self) -> int | None:
        """From when on the cleaner may drop the batch's tombstones and markers (KIP-534), if it is set."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; wraps from 2^31-1 to 0. -1 without a sequence."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)


def increment_sequence(sequence: int, increment: int) -> int:
    """`sequence` + `increment` as producers count: 0 follows 2^31-1."""
    # Kafka: `DefaultRecordBatch.incrementSequence`.
    return (sequence + increment) & 0x7FFF_FFFF


def check_magic_and_length(magic: int, length: int) -> None:
    """Check that a v2 batch can have this magic and length.

    Raises:
        KafkaError: it cannot; as `BatchHeader.parse`.
    """
    if magic in (0, 1):
        if length < _V0_MIN_LENGTH:
            raise CorruptRecordError(f"a message of {length} bytes is too short for any")
        raise UnsupportedForMessageFormatError(f"message sets of magic {magic} are not supported")
    if magic != MAGIC_V2:
        raise CorruptRecordError(f"no record batch has magic {magic}")
    if length < MIN_LENGTH:
        raise CorruptRecordError(
            f"a record batch of {length + LOG_OVERHEAD} bytes is smaller than its header of {HEADER_BYTES}",
        )


def _check_prefix(buffer: Buffer, offset: int) -> None:
    if len(buffer) - offset >= MAGIC_AT + 1:
        _, length, _, magic = _PREFIX.unpack_from(buffer, offset)
        check_magic_and_length(magic, length)


def iter_batches(buffer: Buffer, offset: int = 0) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Each whole batch from `offset` on: its header and its bytes, nothing copied.

    Stops at a last batch that is cut off, as the end of a fetch response may be. CRCs are not looked at
    (`check_crc` does).

    Raises:
        KafkaError: as `BatchHeader.parse`.
    """
    view = memoryview(buffer)
    end = len(view)
    while end - offset >= HEADER_BYTES:
        header = BatchHeader.parse(view, offset)
        batch_end = offset + header.length + LOG_OVERHEAD
        if batch_end > end:
            return
        yield header, view[offset:batch_end]
        offset = batch_end
    # The rest is cut off, but may show already that it is no batch.
    _check_prefix(view, offset)


def compute_crc(batch: Buffer) -> int:
    """CRC-32C of a whole batch, from the attributes to its end."""
    crc: int = crc32.iscsi(memoryview(batch)[ATTRIBUTES_AT:])
    return crc


def check_crc(header: BatchHeader, batch: Buffer) -> None:
    """Check that the batch's bytes have the CRC that its header says.

    Raises:
        CorruptRecordError: they have another.
    """
    computed = compute_crc(batch)
    if computed != header.crc:
        raise CorruptRecordError(
            f"the record batch at offset {header.base_offset} is corrupt: its CRC is {computed:#010x}, "
            f"its header says {header.crc:#010x}",
        )


def records_section(header: BatchHeader, batch: Buffer, max_size: int = MAX_DECOMPRESSED_BYTES) -> memoryview:
    """The records of a whole batch, unpacked to at most `max_size` bytes.

    Raises:
        KafkaError: as `decompress`.
    """
    section = memoryview(batch)[HEADER_BYTES:]
    if header.attributes & CODEC_MASK == 0:
        return section
    # Empty batches that compaction leaves behind keep their codec but have nothing to unpack.
    if header.record_count == 0 and not section:
        return section
    return decompress(header.codec, section, max_size)


def iter_records(
    buffer: Buffer,
    *,
    check_crcs: bool = True,
    include_control: bool = False,
    max_size: int = MAX_DECOMPRESSED_BYTES,
) -> Iterator[Record]:
    """Every record of every whole batch in `buffer`, in order.

    Control batches (transaction markers) are left out unless `include_control`. `max_size` bounds what one
    batch may unpack to. The records of earlier batches come before an error.

    Raises:
        KafkaError: CORRUPT_MESSAGE for a wrong CRC, INVALID_RECORD for records that do not parse; else as
            `BatchHeader.parse` and `decompress`.
    """
    for header, batch in iter_batches(buffer):
        if check_crcs:
            check_crc(header, batch)
        if header.is_control and not include_control:
            continue
        yield from batch_records(header, batch, max_size)


def batch_records(header: BatchHeader, batch: Buffer, max_size: int = MAX_DECOMPRESSED_BYTES) -> list[Record]:
    """The records of one whole batch.

    Raises:
        KafkaError: as `iter_records`, the CRC aside.
    """
    # An empty batch of the cleaner's says nothing of a codec that could unpack it.
    if header.record_count == 0:
        return []
    append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    records: list[Record]
    problem, index, records = kernel.parse_records(
        records_section(header, batch, max_size),
        header.record_count,
        header.base_offset,
        header.max_timestamp if append_time else header.base_timestamp,
        header.timestamp_type,
        Record,
    )
    if problem:
        raise_for_problem(problem, index, header.base_offset)
    return records
