"""The loops over single messages and records of a conversion, in pure Python; the twin of `_messages.pyx`."""

from __future__ import annotations

import zlib

from odradek.records import _pyscan
from odradek.records.batch import CODEC_MASK, TIMESTAMP_TYPE_BIT
from odradek.records.compression import Buffer
from odradek.records.kernel import kernel
from odradek.records.message_sets.message_problems import (
    APPEND_TIME,
    COMPRESSED,
    CRC,
    CUT_OFF,
    FIELDS,
    MAGIC,
    MISSING_KEY,
    OK,
    TIMESTAMP_RANGE,
    TOO_LARGE,
    TOO_SHORT,
)
from odradek.records.message_sets.message_set import FIELDS_AT, HEAD, INT32, INT64, MIN_LENGTH
from odradek.records.message_sets.message_writer import MESSAGE_OVERHEAD, append_message

NATIVE = False

OUTPUT_FULL = -1
"""Not a problem of the input: what is written would be larger than allowed."""

# An offset delta of a record has 32 bits.
_MAX_DELTA = 0x7FFF_FFFF

Walked = tuple[int, int, int, int, int, bool, list[tuple[int, int, int]]]


def walk_messages(
    messages: Buffer,
    magic: int,
    nested: bool,
    largest: int,
    earliest: int,
    latest: int,
    require_key: bool,
    max_refused: int,
) -> Walked:
    """Check every message of a set that a producer sent, and measure it.

    Args:
        messages: Uncompressed messages to the last byte.
        magic: That each must have.
        nested: The messages of a wrapper, whose timestamp type overrules their own.
        largest: How large a message may be, with its offset and length, bytes.
        earliest, latest: Which timestamps are taken, milliseconds; -1 always is, anything below never.
        require_key: Whether a null key is refused.
        max_refused: How many refused messages to name; with more the rest are checked, but not named.

    Returns:
        (problem, its index, messages, largest timestamp or -1, index of the first message that has it, or
        -1, whether the offsets count from 0, refused messages as (index, why, timestamp)). With a problem
        the rest is without meaning.
    """
    view = memoryview(messages)
    end = len(view)
    position = index = 0
    max_timestamp = max_index = -1
    # Whether a wrapper may stay packed: then its own offset places all of its messages.
    consecutive = True
    refused: list[tuple[int, int, int]] = []
    fields_at = FIELDS_AT[magic]
    while position < end:
        left = end - position
        problem = OK
        if left < HEAD.size:
            problem = CUT_OFF
        else:
            offset, length, crc, magic_there, attributes = HEAD.unpack_from(view, position)
            # The order decides which error a producer is told, and is that of the compiled twin. The CRC goes
            # before the magic: where it is wrong the magic may be anything.
            if length < MIN_LENGTH[0]:
                problem = TOO_SHORT
            elif length + 12 > left:
                problem = CUT_OFF
            elif length + 12 > largest:
                problem = TOO_LARGE
            elif zlib.crc32(view[position + 16 : position + 12 + length]) != crc:
                problem = CRC
            elif magic_there != magic:
                problem = MAGIC
            elif length < MIN_LENGTH[magic]:
                problem = TOO_SHORT
            elif attributes & CODEC_MASK:
                problem = COMPRESSED
        if problem:
            return problem, index, 0, -1, -1, False, []
        message_end = position + 12 + length
        # -1 alone is null here, and nothing may follow the value: stricter than a reader (`message_set`).
        (key_length,) = INT32.unpack_from(view, position + fields_at)
        at = position + fields_at + 4 + max(key_length, 0)
        if key_length < -1 or at + 4 > message_end:
            return FIELDS, index, 0, -1, -1, False, []
        (value_length,) = INT32.unpack_from(view, at)
        if value_length < -1 or at + 4 + max(value_length, 0) != message_end:
            return FIELDS, index, 0, -1, -1, False, []
        if offset != index:
            consecutive = False
        timestamp = -1
        if magic:
            (timestamp,) = INT64.unpack_from(view, position + 18)
            # Of equal timestamps the first: a search by time wants the earliest offset.
            if timestamp > max_timestamp:
                max_timestamp, max_index = timestamp, index
        # Refused by itself and named, where a problem above condemns the whole set.
        why = 0
        if require_key and key_length < 0:
            why = MISSING_KEY
        elif timestamp != -1 and not max(earliest, 0) <= timestamp <= latest:
            why = TIMESTAMP_RANGE
        # Only the broker may set LogAppendTime. Within a wrapper the bit is not looked at by anybody.
        elif magic and not nested and attributes & TIMESTAMP_TYPE_BIT:
            why = APPEND_TIME
        if why and len(refused) < max_refused:
            refused.append((index, why, timestamp))
        position = message_end
        index += 1
    return OK, 0, index, max_timestamp, max_index, consecutive, refused


def messages_to_records(messages: Buffer, magic: int, out: bytearray) -> tuple[int, int, int]:
    """Write the messages that `walk_messages` has accepted as the records of a batch behind `out`.

    Returns:
        (records, timestamp of the first, the largest), -1 for no timestamp.
    """
    # No check: `walk_messages` has seen every length that is used here.
    view = memoryview(messages)
    end = len(view)
    position = index = 0
    base = max_timestamp = timestamp = -1
    while position < end:
        (length,) = INT32.unpack_from(view, position + 8)
        message_end = position + 12 + length
        if magic:
            (timestamp,) = INT64.unpack_from(view, position + 18)
            if index == 0:
                base = timestamp
            max_timestamp = max(max_timestamp, timestamp)
        at = position + FIELDS_AT[magic]
        (key_length,) = INT32.unpack_from(view, at)
        at += 4
        key = None
        if key_length >= 0:
            key = view[at : at + key_length]
            at += key_length
        (value_length,) = INT32.unpack_from(view, at)
        value = view[at + 4 : message_end] if value_length >= 0 else None
        # Wraps around as in Java, and back when it is read.
        kernel.append_record(out, index, _pyscan.wrap64(timestamp - base), key, value, ())
        position = message_end
        index += 1
    return index, base, max_timestamp


Taken = tuple[int, int, int, int, int, int]


def take_messages(
    messages: Buffer,
    position: int,
    magic: int,
    nested: bool,
    append_time: bool,
    fixed_time: int | None,
    check_crcs: bool,
    max_bytes: int,
    out: bytearray,
) -> Taken:
    """Write messages that a reader got as the records of a batch behind `out`, as far as they go together.

    It ends in front of the first message that is cut off, compressed, damaged, of another magic, or that
    no batch can go on with: which of these it was is for whoever looks at it next to find out.

    Args:
        messages, position: Where to begin.
        magic: That each must have.
        nested: The messages of a wrapper, whose timestamp type overrules their own.
        append_time: Whether their timestamp type is LogAppendTime; then all must have the same timestamp.
        fixed_time: The timestamp of all of them, in place of their own.
        check_crcs: Whether each must have the CRC that it says it has.
        max_bytes: No further record is written once there are this many bytes.
        out: Appended to.

    Returns:
        (where it ended, records, offset of the first, offset of the last, timestamp of the first, the
        largest); without a record -1 for all but the first two.
    """
    view = memoryview(messages)
    size = len(view)
    start = len(out)
    count = 0
    first = last = base = largest = timestamp = -1
    fields_at = FIELDS_AT[magic]
    # One record at least, however large: otherwise its reader would never get on.
    while count == 0 or len(out) - start < max_bytes:
        if size - position < fields_at:
            break
        offset, length, crc, magic_there, attributes = HEAD.unpack_from(view, position)
        if length < MIN_LENGTH[magic] or length + 12 > size - position:
            break
        if magic_there != magic or attributes & CODEC_MASK:
            break
        # A batch has one timestamp type. Inside of a wrapper the wrapper's is the only one (KIP-32).
        if magic and not nested and bool(attributes & TIMESTAMP_TYPE_BIT) != append_time:
            break
        end = position + 12 + length
        if check_crcs and zlib.crc32(view[position + 16 : end]) != crc:
            break
        at = position + fields_at
        (key_length,) = INT32.unpack_from(view, at)
        at += 4
        # As readers: any negative length is null, and bytes behind the value are passed over.
        key = value = None
        if key_length >= 0:
            key = view[at : at + key_length]
            at += key_length
        if end - at < 4:
            break
        (value_length,) = INT32.unpack_from(view, at)
        at += 4
        if value_length >= 0:
            if value_length > end - at:
                break
            value = view[at : at + value_length]
        if fixed_time is not None:
            timestamp = fixed_time
        elif magic:
            (timestamp,) = INT64.unpack_from(view, position + 18)
        if count == 0:
            first = offset
            base = largest = timestamp
        else:
            # Where the broker set the time, a batch has a single timestamp for all; and its offsets grow.
            if not last < offset <= first + _MAX_DELTA or (append_time and timestamp != base):
                break
            largest = max(largest, timestamp)
        kernel.append_record(out, offset - first, _pyscan.wrap64(timestamp - base), key, value, ())
        last = offset
        count += 1
        position = end
    return position, count, first, last, base, largest


def skim_messages(messages: Buffer, position: int) -> tuple[int, int]:
    """Walk over whole messages of magic 0 and 1, compressed or not, looking at nothing but their lengths.

    Returns:
        (position of the first bytes that are no such message: of a batch, of nonsense, of a message that is
        cut off; the largest offset on the way, -1 for none).
    """
    view = memoryview(messages)
    end = len(view)
    largest = -1
    while end - position >= MESSAGE_OVERHEAD[0]:
        offset, length, _, magic, _ = HEAD.unpack_from(view, position)
        if not 0 <= magic <= 1 or length < MIN_LENGTH[magic] or length + 12 > end - position:
            break
        largest = max(largest, offset)
        position += 12 + length
    return position, largest


Written = tuple[int, int, int, int, int, int, int]


def records_to_messages(
    section: Buffer,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int,
    magic: int,
    attributes: int,
    relative: bool,
    from_offset: int,
    max_bytes: int,
    out: bytearray,
) -> Written:
    """Write the records of a batch as messages behind `out`; their headers are lost.

    Args:
        section: The records, uncompressed.
        count: How many there are.
        base_offset, base_timestamp: The batch's.
        append_time: The timestamp of all of them where the broker set it, else -1.
        magic: 0 or 1.
        attributes: Of each message.
        relative: Whether to count offsets from the first that is written.
        from_offset: Records before it are left out.
        max_bytes: How long `out` may become.
        out: Appended to; with a problem its end is without meaning.

    Returns:
        (problem as in `problems`, or OUTPUT_FULL; its index; messages written; offset of the first; offset
        of the last; largest timestamp, -1 at magic 0; records with headers).
    """
    data = bytes(section)
    size = len(data)
    position = written = with_headers = 0
    first = last = max_timestamp = -1
    overhead = MESSAGE_OVERHEAD[magic]
    for index in range(count):
        problem, position, delta, offset_delta, key_at, key_length, value_at, value_length, _, headers = (
            _pyscan.scan(data, position, size)
        )
        if problem:
            return problem, index, 0, -1, -1, -1, 0
        offset = _pyscan.wrap64(base_offset + offset_delta)
        # Some old clients count on the first message having the offset they asked for
        # (docs/record_format.md).
        if offset < from_offset:
            continue
        # Counted, not refused: on a fetch headers are lost, on an append the caller refuses them.
        with_headers += headers > 0
        if len(out) + overhead + max(key_length, 0) + max(value_length, 0) > max_bytes:
            return OUTPUT_FULL, index, 0, -1, -1, -1, 0
        # Kafka's writer knows no time before 1970 but -1, nor one that has run over.
        timestamp = append_time if append_time >= 0 else max(_pyscan.wrap64(base_timestamp + delta), -1)
        if first < 0:
            first = offset
        append_message(
            out,
            magic,
            _pyscan.wrap64(offset - first) if relative else offset,
            timestamp,
            attributes,
            None if key_length < 0 else data[key_at : key_at + key_length],
            None if value_length < 0 else data[value_at : value_at + value_length],
        )
        last = offset
        if magic and timestamp > max_timestamp:
            max_timestamp = timestamp
        written += 1
    return OK, 0, written, first, last, max_timestamp, with_headers
