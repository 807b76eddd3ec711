"""The checks of a broker before it appends a message set of magic 0 or 1 (Produce 0 to 2).

The order of the checks is Kafka's (UnifiedLog, LogValidator). Nothing is changed here: what was accepted
goes through `up_conversion` into the log's own format.

As in `validate`, some of what Kafka takes is refused: bytes that are cut off at the end of a set, bytes
behind a value, lengths and timestamps below -1. Each is a client's bug that would lose or change records.
"""

from __future__ import annotations

from typing import NamedTuple, NoReturn

from odradek.errors import InvalidRecordError, RecordTooLargeError
from odradek.records._pyscan import INT64_MAX
from odradek.records.batch import CODEC_MASK, NO_TIMESTAMP, TIMESTAMP_TYPE_BIT, TimestampType
from odradek.records.compression import MAX_DECOMPRESSED_BYTES, Buffer, Codec
from odradek.records.message_sets.message_kernel import message_kernel
from odradek.records.message_sets.message_problems import (
    APPEND_TIME,
    COMPRESSED,
    MISSING_KEY,
    raise_for_message,
)
from odradek.records.message_sets.message_set import (
    MessageHeader,
    check_message_crc,
    inner_base_offset,
    inner_messages,
    iter_messages,
)
from odradek.records.validate import (
    MAX_RECORD_ERRORS,
    UNLIMITED_MS,
    RecordError,
    raise_refused,
)

_INT32_MAX = 0x7FFF_FFFF


class ValidMessages(NamedTuple):
    """A message set that a broker may append, and what the checks found out.

    `raw` is what was sent, `flat` its messages without a wrapper; both are views, not copies, where that
    can be. `max_timestamp` and the index of the first message that has it are -1 at magic 0.
    """

    magic: int
    codec: Codec
    raw: memoryview
    flat: memoryview
    message_count: int
    max_timestamp: int
    max_timestamp_index: int
    consecutive: bool
    """Whether the offsets count from 0, so that a wrapper of magic 1 can be appended as it is."""


def validate_message_set(
    buffer: Buffer,
    *,
    max_message_bytes: int,
    now_ms: int,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    timestamp_before_max_ms: int = UNLIMITED_MS,
    timestamp_after_max_ms: int = UNLIMITED_MS,
    compacted: bool = False,
    produce_version: int | None = None,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> ValidMessages:
    """Check everything in `buffer` for an append by a leader; the arguments are those of `validate_batches`.

    A set is any number of uncompressed messages, or one wrapper. An empty one is no error: Produce 0 to 2
    answer it as done, with the offset -1 (`message_count` is 0).

    Raises:
        KafkaError: CORRUPT_MESSAGE, INVALID_RECORD (also for a Produce from version 3 on, which takes record
            batches only), INVALID_TIMESTAMP, MESSAGE_TOO_LARGE, UNSUPPORTED_COMPRESSION_TYPE,
            UNSUPPORTED_FOR_MESSAGE_FORMAT for a record batch. `record_errors` tells which messages are
            meant, where single ones are.
    """
    view = memoryview(buffer)
    if produce_version is not None and produce_version >= 3:
        raise InvalidRecordError(
            f"produce requests of version {produce_version} hold record batches of magic 2 only"
        )
    if not view:
        return ValidMessages(0, Codec.NONE, view, view, 0, NO_TIMESTAMP, -1, True)
    # All must have the magic of the first (`LogValidator.validateBatch`).
    first = MessageHeader.parse(view)
    # With LogAppendTime the sender's timestamps are replaced, so none is too old or too new (KIP-32).
    earliest, latest = 0, INT64_MAX
    if timestamp_type is TimestampType.CREATE_TIME:
        earliest = max(now_ms - timestamp_before_max_ms, 0)
        latest = min(now_ms + timestamp_after_max_ms, INT64_MAX)
    flat = view
    codec = Codec.NONE
    if first.attributes & CODEC_MASK:
        codec = _check_wrapper(first, view, max_message_bytes)
        flat = inner_messages(first, view, max_decompressed_bytes)
    problem, index, count, max_timestamp, max_index, consecutive, refused = message_kernel.walk_messages(
        flat,
        first.magic,
        bool(codec),
        # The wrapper's size counts. What is in it is bounded by `max_decompressed_bytes`.
        _INT32_MAX if codec else max_message_bytes,
        earliest,
        latest,
        compacted,
        # Uncompressed messages are batches of one to Kafka, which stops at the first that it refuses.
        MAX_RECORD_ERRORS if codec else 1,
    )
    if problem:
        if problem == COMPRESSED and not codec:
            raise InvalidRecordError("a compressed message stands beside others in its message set")
        raise_for_message(problem, index)
    if codec:
        consecutive = _check_inner_offsets(first, flat, count, consecutive)
        # The wrapper's bit decides for all of its messages.
        if first.magic and first.attributes & TIMESTAMP_TYPE_BIT:
            _raise_refused([(0, APPEND_TIME, max_timestamp)], earliest, latest)
    if refused:
        _raise_refused(refused, earliest, latest)
    return ValidMessages(first.magic, codec, view, flat, count, max_timestamp, max_index, consecutive)


def _check_inner_offsets(wrapper: MessageHeader, flat: memoryview, count: int, consecutive: bool) -> bool:
    """Return whether the offsets in a wrapper count from 0, and fit it.

    Offsets that contradict the wrapper's are a client's bug that Kafka refuses, too. Nearly always they count
    from 0, and need no second look.
    """
    if count and consecutive and not (wrapper.magic and wrapper.offset not in (0, count - 1)):
        return True
    inner_base_offset(wrapper, flat)
    return False


def _check_wrapper(header: MessageHeader, view: memoryview, max_message_bytes: int) -> Codec:
    codec = header.codec
    messages = 0
    # All of the set, though one message is right: what is behind the wrapper decides which error it is.
    for each, raw in iter_messages(view):
        if each.size > max_message_bytes:
            raise RecordTooLargeError(
                f"the message has {each.size} bytes, which exceeds the maximum of {max_message_bytes}"
            )
        check_message_crc(each, raw)
        messages += 1
    if messages > 1:
        raise InvalidRecordError("a compressed message stands beside others in its message set")
    if header.size != len(view):
        raise_for_message(1, messages)
    return codec


def _raise_refused(refused: list[tuple[int, int, int]], earliest: int, latest: int) -> NoReturn:
    errors = []
    timestamps = False
    for index, why, timestamp in refused:
        if why == MISSING_KEY:
            message = "a compacted topic does not take a record without a key"
        elif why == APPEND_TIME:
            timestamps = True
            message = "producers may not set the timestamp type LogAppendTime"
        else:
            timestamps = True
            message = f"timestamp {timestamp} is not within [{earliest}, {latest}]"
        errors.append(RecordError(index, message))
    raise_refused(errors, timestamps=timestamps)
