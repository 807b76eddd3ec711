"""Conversion of produced records to the format of the log that takes them.

- `messages_to_batch`: a message set into a log of magic 2, the usual case today
- `place_messages`: a message set into a log of magic 0 or 1, in place where that can be
- `batch_to_messages`: a record batch into such a log (a new producer, a topic of an old message format)

Offsets follow each other without a gap from `base_offset` on, as an append wants them. Kafka:
`LogValidator.convertAndAssignOffsetsNonCompressed` and `validateMessagesAndAssignOffsetsCompressed`.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from odradek.errors import RecordTooLargeError, UnsupportedForMessageFormatError
from odradek.records.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC_AT,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    TimestampType,
    records_section,
)
from odradek.records.builder import finish_batch
from odradek.records.compression import MAX_DECOMPRESSED_BYTES, Buffer, Codec, compress
from odradek.records.message_sets.message_kernel import message_kernel
from odradek.records.message_sets.message_set import (
    INT32,
    INT64,
    MESSAGE_ATTRIBUTES_AT,
    MESSAGE_CRC_AT,
    MESSAGE_TIMESTAMP_AT,
    MessageHeader,
    iter_messages,
    key_and_value,
)
from odradek.records.message_sets.message_validation import ValidMessages
from odradek.records.message_sets.message_writer import append_message, message_attributes, wrapper
from odradek.records.problems import raise_for_problem
from odradek.wire.epochs import NO_EPOCH


class PlacedMessages(NamedTuple):
    """Messages as they go into a log of magic 0 or 1.

    `max_timestamp` and the offset for the time index are -1 where there is none; `converted` says whether
    the messages were written anew (a metric's matter).
    """

    records: bytearray
    first_offset: int
    last_offset: int
    max_timestamp: int
    offset_of_max_timestamp: int
    converted: bool


def messages_to_batch(
    messages: ValidMessages,
    *,
    codec: Codec | None = None,
    level: int | None = None,
    max_message_bytes: int | None = None,
) -> tuple[bytearray, list[BatchHeader]]:
    """Make a single record batch of all the messages, with the base offset 0.

    Hand both to `patch.assign_offsets`, as after `validate_batches`: offsets, leader epoch and, for a topic
    of LogAppendTime, the timestamp are set there.

    Args:
        messages: What `validate_message_set` accepted; not empty.
        codec: The topic's (`convert.target_codec`); None keeps the sender's.
        level: The codec's; None is Kafka's default.
        max_message_bytes: The largest batch that the topic takes; messages that fit singly may make a batch
            that does not.

    Raises:
        KafkaError: MESSAGE_TOO_LARGE.
    """
    codec = messages.codec if codec is None else codec
    batch = bytearray(HEADER_BYTES)
    records = batch if codec is Codec.NONE else bytearray()
    count, base_timestamp, max_timestamp = message_kernel.messages_to_records(
        messages.flat, messages.magic, records
    )
    if codec is not Codec.NONE:
        batch += compress(codec, records, level)
    finish_batch(
        batch,
        base_offset=0,
        partition_leader_epoch=NO_EPOCH,
        attributes=int(codec),
        last_offset_delta=count - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=-1,
        base_sequence=NO_SEQUENCE,
        record_count=count,
    )
    _check_size(len(batch), max_message_bytes)
    return batch, [BatchHeader.parse(batch)]


def place_messages(
    messages: ValidMessages,
    magic: int,
    *,
    base_offset: int,
    codec: Codec | None = None,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    now_ms: int = NO_TIMESTAMP,
    max_message_bytes: int | None = None,
) -> PlacedMessages:
    """Give messages their offsets, for a log of magic 0 or 1.

    Where the messages have the log's magic and codec already, they only get their offsets and, with
    LogAppendTime, their time: plain messages, and wrappers of magic 1 whose messages count from 0. All others
    are written anew.

    Args:
        messages: What `validate_message_set` accepted; not empty.
        magic: The log's, 0 or 1.
        base_offset: Of the first message.
        codec, level, max_message_bytes: As in `messages_to_batch`.
        timestamp_type: The topic's. With LOG_APPEND_TIME all get `now_ms`, at magic 1.
        now_ms: The broker's time, milliseconds.

    Raises:
        KafkaError: MESSAGE_TOO_LARGE; UNSUPPORTED_COMPRESSION_TYPE for zstd.
    """
    codec = messages.codec if codec is None else codec
    last_offset = base_offset + messages.message_count - 1
    same = messages.magic == magic and messages.codec is codec
    # In place where that can be: it spares the packing, and keeps the sender's bytes (LogValidator's
    # `inPlaceAssignment`).
    if same and codec is Codec.NONE:
        records = bytearray(messages.raw)
        _place_plain(records, magic, base_offset, timestamp_type, now_ms)
        converted = False
    elif same and magic == 1 and messages.consecutive:
        # The inner messages count from 0, so the wrapper's offset places them all. At magic 0 they have true
        # offsets, under the codec: such a wrapper is packed anew.
        records = bytearray(messages.raw)
        time = now_ms if timestamp_type is TimestampType.LOG_APPEND_TIME else messages.max_timestamp
        _place(records, 0, len(records), 1, last_offset, time, timestamp_type)
        converted = False
    else:
        records = _rewrite(messages, magic, base_offset, codec, level, timestamp_type, now_ms)
        converted = True
        # The topic's bound is on what is stored, which may be more than what was sent.
        for header, _ in iter_messages(records):
            _check_size(header.size, max_message_bytes)
    max_timestamp = messages.max_timestamp
    index = messages.max_timestamp_index
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        # All have this time, and a search by time wants the first of them.
        max_timestamp, index = now_ms, 0
    if magic == 0 or max_timestamp == NO_TIMESTAMP:
        return PlacedMessages(records, base_offset, last_offset, NO_TIMESTAMP, -1, converted)
    # A wrapper is found as a whole, under its last offset: the time index can name nothing inside of it.
    of_max = last_offset if codec is not Codec.NONE else base_offset + index
    return PlacedMessages(records, base_offset, last_offset, max_timestamp, of_max, converted)


def _place_plain(records: bytearray, magic: int, offset: int, kind: TimestampType, now_ms: int) -> None:
    position = 0
    end = len(records)
    append_time = magic == 1 and kind is TimestampType.LOG_APPEND_TIME
    while position < end:
        after = position + LOG_OVERHEAD + INT32.unpack_from(records, position + 8)[0]
        if append_time:
            _place(records, position, after, magic, offset, now_ms, kind)
        else:
            INT64.pack_into(records, position, offset)
        position = after
        offset += 1


def _place(
    records: bytearray, start: int, end: int, magic: int, offset: int, time: int, kind: TimestampType
) -> None:
    """Set a message's offset, and at magic 1 its time; a new CRC only where that changes something."""
    # The offset stands in front of the CRC, and magic 0 has nothing else to be set.
    INT64.pack_into(records, start, offset)
    if magic == 0:
        return
    attributes = message_attributes(magic, Codec(records[start + MESSAGE_ATTRIBUTES_AT] & CODEC_MASK), kind)
    (stored,) = INT64.unpack_from(records, start + MESSAGE_TIMESTAMP_AT)
    # The unused bits of the attributes are left as they were unless something must be written anyway.
    if stored == time and (records[start + MESSAGE_ATTRIBUTES_AT] ^ attributes) & TIMESTAMP_TYPE_BIT == 0:
        return
    records[start + MESSAGE_ATTRIBUTES_AT] = attributes
    INT64.pack_into(records, start + MESSAGE_TIMESTAMP_AT, time)
    with memoryview(records) as view:
        crc = zlib.crc32(view[start + MAGIC_AT : end])
    records[start + MESSAGE_CRC_AT : start + MAGIC_AT] = crc.to_bytes(4, "big")


def _rewrite(
    messages: ValidMessages,
    magic: int,
    base_offset: int,
    codec: Codec,
    level: int | None,
    kind: TimestampType,
    now_ms: int,
) -> bytearray:
    out = bytearray()
    attributes = message_attributes(magic, Codec.NONE, kind)
    # Only in a wrapper of magic 1 offsets are relative.
    first = 0 if magic and codec is not Codec.NONE else base_offset
    for index, (header, raw) in enumerate(iter_messages(messages.flat)):
        key, value = key_and_value(header, raw)
        # From magic 0 up there is no time: -1, as its header says.
        time = now_ms if kind is TimestampType.LOG_APPEND_TIME else header.timestamp
        append_message(out, magic, first + index, time, attributes, key, value)
    if codec is Codec.NONE:
        return out
    largest = now_ms if kind is TimestampType.LOG_APPEND_TIME else messages.max_timestamp
    return wrapper(
        out,
        magic,
        codec,
        last_offset=base_offset + messages.message_count - 1,
        timestamp=largest if magic else NO_TIMESTAMP,
        timestamp_type=kind,
        level=level,
    )


def batch_to_messages(
    buffer: Buffer,
    headers: Sequence[BatchHeader],
    magic: int,
    *,
    base_offset: int,
    codec: Codec | None = None,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    now_ms: int = NO_TIMESTAMP,
    max_message_bytes: int | None = None,
    max_size: int = MAX_DECOMPRESSED_BYTES,
) -> PlacedMessages:
    """Record batches that `validate_batches` accepted, as messages for a log of magic 0 or 1.

    Args:
        buffer, headers: The batch, and what `validate_batches` returned for it.
        magic, base_offset, codec, level, timestamp_type, now_ms, max_message_bytes: As in `place_messages`.
        max_size: What the batch may unpack to, and the messages may take.

    Raises:
        KafkaError: UNSUPPORTED_FOR_MESSAGE_FORMAT for what messages cannot say: transactions, the sequences
            of an idempotent producer, headers (for which Kafka has no answer but UNKNOWN_SERVER_ERROR);
            UNSUPPORTED_COMPRESSION_TYPE for zstd; MESSAGE_TOO_LARGE.
    """
    # Several batches come from a coordinator alone. `base_offset` moves on with each.
    view = memoryview(buffer)
    out = bytearray()
    position = 0
    first_offset = base_offset
    largest = of_largest = -1
    append_time = now_ms if timestamp_type is TimestampType.LOG_APPEND_TIME else NO_TIMESTAMP
    for header in headers:
        _check_producer(header, magic)
        packed = header.codec if codec is None else codec
        raw = view[position : position + header.size]
        position += header.size
        # Of a packed batch the messages go into a wrapper, of their own.
        target = out if packed is Codec.NONE else bytearray()
        start = len(target)
        problem, index, count, _, last, max_timestamp, with_headers = message_kernel.records_to_messages(
            records_section(header, raw, max_size),
            header.record_count,
            base_offset,
            header.base_timestamp,
            append_time,
            magic,
            message_attributes(magic, Codec.NONE, timestamp_type),
            magic == 1 and packed is not Codec.NONE,
            base_offset,
            max_size,
            target,
        )
        if problem or with_headers:
            _raise_problem(problem, index, header, magic, max_size)
        if packed is not Codec.NONE:
            out += wrapper(
                target,
                magic,
                packed,
                last_offset=last,
                timestamp=max_timestamp,
                timestamp_type=timestamp_type,
                level=level,
            )
        if max_timestamp > largest:
            # As in `place_messages`: a wrapper is found under its last offset.
            largest, of_largest = max_timestamp, last
            if packed is Codec.NONE:
                of_largest = _offset_of(target, start, max_timestamp)
        base_offset += count
    # Each by itself: the bound of these formats is for a message, or a wrapper.
    for message, _ in iter_messages(out):
        _check_size(message.size, max_message_bytes)
    return PlacedMessages(out, first_offset, base_offset - 1, largest, of_largest, True)


def _check_producer(header: BatchHeader, magic: int) -> None:
    # Without its sequence a batch that is sent again would be stored again, which an idempotent producer was
    # promised not to happen.
    if header.is_transactional or header.has_producer_id:
        raise UnsupportedForMessageFormatError(
            f"a log of magic {magic} takes neither transactions nor idempotent producers"
        )


def _raise_problem(problem: int, index: int, header: BatchHeader, magic: int, max_size: int) -> NoReturn:
    """Raise for the reason why the kernel stopped: a fault, too many bytes, or else headers."""
    if problem > 0:
        raise_for_problem(problem, index, header.base_offset)
    if problem:
        raise _too_large(max_size)
    raise UnsupportedForMessageFormatError(f"a log of magic {magic} takes no records with headers")


def _offset_of(messages: bytearray, start: int, timestamp: int) -> int:
    """The offset of the first message with this timestamp."""
    header: MessageHeader
    for header, _ in iter_messages(bytes(messages[start:])):
        if header.timestamp == timestamp:
            return header.offset
    return -1


def _check_size(size: int, max_message_bytes: int | None) -> None:
    if max_message_bytes is not None and size > max_message_bytes:
        raise RecordTooLargeError(
            f"the converted records have {size} bytes, which exceeds the maximum of {max_message_bytes}"
        )


def _too_large(max_size: int) -> RecordTooLargeError:
    return RecordTooLargeError(f"converted records would take more than {max_size} bytes")
