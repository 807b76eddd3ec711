"""Reading message sets of magic 0 and 1: the messages in a buffer, the records in a message.

docs/record_format.md has the layout. A message is a record; or, compressed, it is a wrapper: its value is
a message set, which is compressed once and never again. `iter_entries` and `iter_all_records` read logs and
fetch responses in which messages and record batches stand side by side.

This reader takes what Kafka's reader takes (`AbstractLegacyRecordBatch`): a wrapper's last message may be cut
off, and lengths below -1 mean null, too. A broker takes less from a producer (`message_validation`).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from odradek.errors import (
    CorruptRecordError,
    InvalidRecordError,
    UnsupportedForMessageFormatError,
)
from odradek.records._pyscan import wrap64
from odradek.records.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    Record,
    TimestampType,
    batch_records,
    check_crc,
)
from odradek.records.compression import MAX_DECOMPRESSED_BYTES, Buffer, Codec
from odradek.records.message_sets.message_compression import decompress_messages

MESSAGE_CRC_AT = 12
"""The place of a message's CRC, counted from its offset; the CRC covers all that follows it."""
MESSAGE_ATTRIBUTES_AT = 17
MESSAGE_TIMESTAMP_AT = 18
"""From magic 1 on."""
FIELDS_AT = (18, 26)
"""The place of the key's length, by magic: magic 1 has a timestamp in front of it."""
MIN_LENGTH = (14, 22)
"""The smallest length of a message, by magic: no key, no value."""

HEAD = struct.Struct(">qiIbb")
INT32 = struct.Struct(">i")
INT64 = struct.Struct(">q")


class MessageHeader(NamedTuple):
    """The fields in front of a message's key. `timestamp` in milliseconds, -1 at magic 0."""

    offset: int
    length: int
    crc: int
    magic: int
    attributes: int
    timestamp: int

    @classmethod
    def parse(cls, buffer: Buffer, offset: int = 0) -> MessageHeader:
        """The header at `offset`; the key and value need not be there yet.

        Raises:
            KafkaError: UNSUPPORTED_FOR_MESSAGE_FORMAT for a record batch of magic 2, CORRUPT_MESSAGE for any
                other magic, a length that cannot hold a message, or too few bytes.
        """
        left = len(buffer) - offset
        if left < HEAD.size:
            # First what is wrong with the bytes that are there, which says more than that some are missing.
            check_message_prefix(buffer, offset)
            raise CorruptRecordError(f"{left} bytes cannot hold the header of a message")
        place, length, crc, magic, attributes = HEAD.unpack_from(buffer, offset)
        if not 0 <= magic <= 1 or length < MIN_LENGTH[magic]:
            check_message_prefix(buffer, offset)
        timestamp = NO_TIMESTAMP
        if magic:
            if left < FIELDS_AT[1]:
                raise CorruptRecordError(f"{left} bytes cannot hold the header of a message")
            (timestamp,) = INT64.unpack_from(buffer, offset + HEAD.size)
        return cls(place, length, crc, magic, attributes, timestamp)

    @property
    def size(self) -> int:
        """The whole message with its offset and length, in bytes."""
        return LOG_OVERHEAD + self.length

    @property
    def last_offset(self) -> int:
        """The offset of the message, or of the last message inside it."""
        return self.offset

    @property
    def next_offset(self) -> int:
        """The offset after the message."""
        return self.offset + 1

    @property
    def codec_id(self) -> int:
        """The codec's number, also a number that no codec has (5 to 7)."""
        return self.attributes & CODEC_MASK

    @property
    def codec(self) -> Codec:
        """The codec; `KafkaError` UNSUPPORTED_COMPRESSION_TYPE for a number that no codec has."""
        return Codec.of(self.attributes & CODEC_MASK)

    @property
    def is_wrapper(self) -> bool:
        """Return whether the value is a compressed message set."""
        return bool(self.attributes & CODEC_MASK)

    @property
    def max_timestamp(self) -> int:
        """The message's timestamp, or the largest timestamp inside it; -1 for none."""
        # A wrapper's own timestamp is the largest of its messages (KIP-32).
        return self.timestamp

    @property
    def timestamp_type(self) -> TimestampType:
        """Return whether the sender or the broker set the timestamp; neither, at magic 0."""
        if self.magic == 0:
            return TimestampType.NO_TIMESTAMP_TYPE
        return (
            TimestampType.LOG_APPEND_TIME
            if self.attributes & TIMESTAMP_TYPE_BIT
            else TimestampType.CREATE_TIME
        )


def check_message_prefix(buffer: Buffer, offset: int) -> None:
    """Check that a message can have this length and magic, as far as they are there.

    Raises:
        KafkaError: it cannot; as `MessageHeader.parse`.
    """
    left = len(buffer) - offset
    # Cut off before its length: nothing can be said of it, so nothing is wrong with it.
    if left < LOG_OVERHEAD:
        return
    (length,) = INT32.unpack_from(buffer, offset + 8)
    if length < MIN_LENGTH[0]:
        raise CorruptRecordError(f"a message of {length} bytes is too short for any")
    if left <= MAGIC_AT:
        return
    magic = buffer[offset + MAGIC_AT]
    if magic == MAGIC_V2:
        raise UnsupportedForMessageFormatError("a record batch of magic 2, where messages are expected")
    if magic > MAGIC_V2:
        raise CorruptRecordError(f"no message has magic {magic}")
    if length < MIN_LENGTH[magic]:
        raise CorruptRecordError(f"a message of {length} bytes is too short for magic {magic}")


def is_message_set(buffer: Buffer) -> bool:
    """Return whether the first entry of `buffer` is of magic 0 or 1, not a record batch."""
    return len(buffer) > MAGIC_AT and buffer[MAGIC_AT] < MAGIC_V2


def iter_messages(buffer: Buffer, offset: int = 0) -> Iterator[tuple[MessageHeader, memoryview]]:
    """Each whole message from `offset` on, wrappers unopened: its header and its bytes, nothing copied.

    Stops at a last message that is cut off. CRCs are not looked at.

    Raises:
        KafkaError: as `MessageHeader.parse`.
    """
    view = memoryview(buffer)
    end = len(view)
    while end - offset >= LOG_OVERHEAD + MIN_LENGTH[0]:
        check_message_prefix(view, offset)
        (length,) = INT32.unpack_from(view, offset + 8)
        message_end = offset + length + LOG_OVERHEAD
        if message_end > end:
            return
        yield MessageHeader.parse(view, offset), view[offset:message_end]
        offset = message_end
    # The rest is cut off, but may show already that it is no message.
    check_message_prefix(view, offset)


Entry = MessageHeader | BatchHeader
"""An entry of a log: a batch, in old parts a message."""


def parse_entry(buffer: Buffer, offset: int = 0) -> Entry:
    """The header of the message or batch at `offset`.

    Raises:
        KafkaError: as the two `parse`, for their own reasons.
    """
    if len(buffer) - offset > MAGIC_AT and buffer[offset + MAGIC_AT] < MAGIC_V2:
        return MessageHeader.parse(buffer, offset)
    return BatchHeader.parse(buffer, offset)


def iter_entries(buffer: Buffer, offset: int = 0) -> Iterator[tuple[Entry, memoryview]]:
    """Each whole message or batch from `offset` on, with its bytes; stops at the first that is cut off.

    CRCs are not looked at.

    Raises:
        CorruptRecordError: a length or magic that neither has.
    """
    view = memoryview(buffer)
    end = len(view)
    while end - offset > MAGIC_AT:
        header: Entry | None = None
        if view[offset + MAGIC_AT] < MAGIC_V2:
            check_message_prefix(view, offset)
        elif end - offset >= HEADER_BYTES:
            header = BatchHeader.parse(view, offset)
        (length,) = INT32.unpack_from(view, offset + 8)
        entry_end = offset + length + LOG_OVERHEAD
        if entry_end > end:
            # It is not cut off but damaged: to wait for its end would be to wait for ever.
            if view[offset + MAGIC_AT] > MAGIC_V2:
                BatchHeader.parse(view, offset)
            return
        yield header or parse_entry(view, offset), view[offset:entry_end]
        offset = entry_end
    check_message_prefix(view, offset)


def compute_message_crc(message: Buffer) -> int:
    """CRC-32 of a whole message, from the magic to its end."""
    return zlib.crc32(memoryview(message)[MAGIC_AT:])


def check_message_crc(header: MessageHeader, message: Buffer) -> None:
    """Check that the message's bytes have the CRC-32 that its header says.

    Raises:
        CorruptRecordError: they have another.
    """
    # Of a wrapper too, and then of each message inside: the inner CRCs are of the unpacked bytes.
    computed = compute_message_crc(message)
    if computed != header.crc:
        raise CorruptRecordError(
            f"the message at offset {header.offset} is corrupt: its CRC is {computed:#010x}, its header says "
            f"{header.crc:#010x}"
        )


def key_and_value(header: MessageHeader, message: memoryview) -> tuple[memoryview | None, memoryview | None]:
    """The key and the value of a whole message, nothing copied.

    A length below -1 is taken for null, and bytes behind the value are left alone, as Kafka's reader does.

    Raises:
        InvalidRecordError: one of the two runs past the message's end.
    """
    key, position = _field(header, message, FIELDS_AT[header.magic])
    value, _ = _field(header, message, position)
    return key, value


def _field(header: MessageHeader, message: memoryview, position: int) -> tuple[memoryview | None, int]:
    if len(message) - position < INT32.size:
        raise InvalidRecordError(f"the message at offset {header.offset} ends before its key and value do")
    (length,) = INT32.unpack_from(message, position)
    position += INT32.size
    if length < 0:
        return None, position
    end = position + length
    if end > len(message):
        raise InvalidRecordError(
            f"the key or value of the message at offset {header.offset} runs past its end"
        )
    return message[position:end], end


def inner_messages(
    header: MessageHeader, message: memoryview, max_size: int = MAX_DECOMPRESSED_BYTES
) -> memoryview:
    """The message set in a wrapper, unpacked to at most `max_size` bytes.

    Raises:
        KafkaError: INVALID_RECORD where there is none, or it is compressed with zstd; else as
            `compression.decompress`.
    """
    _, value = key_and_value(header, message)
    if value is None:
        raise InvalidRecordError(f"the compressed message at offset {header.offset} holds nothing")
    return decompress_messages(header.codec_id, value, header.magic, max_size)


def inner_base_offset(header: MessageHeader, inner: memoryview) -> int:
    """Return what to add to the offsets in the wrapper's set to have the offsets of the log.

    At magic 0 the messages inside have the log's offsets. At magic 1 they count from 0, and the wrapper has
    the offset of the last; some clients send 0 there, which is the offset of the first then.

    Raises:
        KafkaError: INVALID_RECORD for a set without a message, or offsets that contradict the wrapper's;
            CORRUPT_MESSAGE as `iter_messages`.
    """
    last = None
    # To the last message: it alone tells, by the offset that the wrapper gives it. Kafka:
    # `DeepRecordsIterator`.
    for last_header, _ in iter_messages(inner):
        last = last_header.offset
    if last is None:
        raise InvalidRecordError(f"the compressed message at offset {header.offset} holds no message")
    if header.magic == 0 or header.offset == 0:
        return 0
    # The first message would get a negative offset.
    if header.offset < last:
        raise InvalidRecordError(
            f"the compressed message at offset {header.offset} holds one at relative offset {last}"
        )
    return header.offset - last


def message_records(
    header: MessageHeader,
    message: memoryview,
    *,
    check_crcs: bool = True,
    max_size: int = MAX_DECOMPRESSED_BYTES,
) -> Iterator[Record]:
    """The record that a message is, or the records that a wrapper holds.

    Raises:
        KafkaError: CORRUPT_MESSAGE for a wrong CRC or a length that cannot be, INVALID_RECORD for a
            message that is compressed twice or not well-formed; else as `inner_messages`.
    """
    if check_crcs:
        check_message_crc(header, message)
    for each, raw, record in inner_records(header, message, max_size):
        # Without a wrapper the message is its only record, and was checked above.
        if check_crcs and header.is_wrapper:
            check_message_crc(each, raw)
        yield record


def inner_records(
    header: MessageHeader, message: memoryview, max_size: int = MAX_DECOMPRESSED_BYTES
) -> Iterator[tuple[MessageHeader, memoryview, Record]]:
    """Do what `message_records` does without a look at CRCs; each record comes with its own message."""
    kind = header.timestamp_type
    if not header.is_wrapper:
        yield header, message, _record(header, message, header.offset, header.timestamp, kind)
        return
    inner = inner_messages(header, message, max_size)
    base = inner_base_offset(header, inner)
    for each, raw in iter_messages(inner):
        # No producer makes any, and each level could unpack to a thousand times its size.
        if each.is_wrapper:
            raise InvalidRecordError(
                f"the compressed message at offset {header.offset} holds a compressed one"
            )
        # What the wrapper says of the time does not reach messages of magic 0 in it, which have none.
        timestamp = (
            header.timestamp if kind is TimestampType.LOG_APPEND_TIME and each.magic else each.timestamp
        )
        # As Java's `long`, the sum wraps around: whoever reads the same log there gets the same offset.
        record = _record(
            each, raw, wrap64(base + each.offset), timestamp, kind if each.magic else each.timestamp_type
        )
        yield each, raw, record


def _record(
    header: MessageHeader, message: memoryview, offset: int, timestamp: int, kind: TimestampType
) -> Record:
    key, value = key_and_value(header, message)
    return Record(
        offset,
        timestamp,
        kind,
        None if key is None else bytes(key),
        None if value is None else bytes(value),
        (),
    )


def check_entry(header: Entry, entry: Buffer) -> None:
    """Check that the batch or message has the CRC that its header says.

    Raises:
        CorruptRecordError: it has another.
    """
    if isinstance(header, BatchHeader):
        check_crc(header, entry)
    else:
        check_message_crc(header, entry)


def iter_all_records(
    buffer: Buffer,
    *,
    check_crcs: bool = True,
    include_control: bool = False,
    max_size: int = MAX_DECOMPRESSED_BYTES,
) -> Iterator[Record]:
    """Every record of every whole entry in `buffer`, messages of magic 0 and 1 and batches alike.

    For what a fetch of any version returns, and for logs that have lived through upgrades. As
    `batch.iter_records` in all else; `max_size` bounds what one batch or wrapper may unpack to.
    """
    for header, entry in iter_entries(buffer):
        if isinstance(header, MessageHeader):
            yield from message_records(header, entry, check_crcs=check_crcs, max_size=max_size)
            continue
        if check_crcs:
            check_crc(header, entry)
        if include_control or not header.is_control:
            yield from batch_records(header, entry, max_size)
