"""Batches of a log, in the format that an old consumer reads (Fetch 0 to 3).

- `convert`: a few batches at once
- `down_convert`: piece by piece, so that only one piece is in memory
- `DownConversion`: the same with a size that is known before the pieces are (KIP-283), for a response
  whose length stands in front

What old formats cannot say is lost: headers, the producer's id and sequence, leader epochs. Markers of
transactions are left out, their records are not: old consumers read uncommitted. Offsets stay, gaps
included; a compressed batch becomes one wrapper, an uncompressed one a message per record.

Everything here is a pure function of bytes, for a thread or a process beside the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from odradek.errors import RecordTooLargeError, UnsupportedCompressionTypeError
from odradek.records._pyscan import wrap64
from odradek.records.batch import HEADER_BYTES, NO_TIMESTAMP, BatchHeader, TimestampType, records_section
from odradek.records.compression import MAX_DECOMPRESSED_BYTES, Buffer, Codec
from odradek.records.entry_reader import read_entries
from odradek.records.message_sets.message_kernel import message_kernel
from odradek.records.message_sets.message_set import (
    INT32,
    INT64,
    Entry,
    MessageHeader,
    inner_base_offset,
    inner_messages,
    iter_entries,
    iter_messages,
    key_and_value,
)
from odradek.records.message_sets.message_writer import (
    MESSAGE_OVERHEAD,
    append_message,
    message_attributes,
    wrapper,
)
from odradek.records.problems import raise_for_problem

PIECE_BYTES = 128 * 1024
"""How much of the log is converted at once, if no single batch is larger; Kafka's number."""

_OVERFLOW_MIN_BYTES = 12
"""An offset and a length: with fewer bytes a consumer would not see that a message follows. Kafka:
`LazyDownConversionRecordsSend.MIN_OVERFLOW_MESSAGE_LENGTH`."""


class Budget:
    """The bytes that the packed batches of a response may unpack to together; several conversions share one.

    Attributes:
        left: what is left, below 0 where the last batch took more.
    """

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left


def convert(
    buffer: Buffer, magic: int, *, first_offset: int = 0, max_size: int = MAX_DECOMPRESSED_BYTES
) -> bytes:
    """Every whole batch and message in `buffer`, as messages of at most `magic`.

    Args:
        buffer: What was read from a log; a last batch that is cut off is left out.
        magic: 0 or 1. Messages that are that old already stay as they are.
        first_offset: What the consumer asked for: records before it are left out of uncompressed batches,
            because some clients take the first message that they get for the one they wanted.
        max_size: How far one batch may unpack, and how large its messages may become, bytes.

    Raises:
        KafkaError: UNSUPPORTED_COMPRESSION_TYPE for a batch in zstd; MESSAGE_TOO_LARGE; as `iter_entries`
            and the readers of records. CRCs are not looked at, as in no fetch.
    """
    out = bytearray()
    for header, entry in iter_entries(buffer):
        _convert_entry(header, entry, magic, first_offset, max_size, out)
    return bytes(out)


def down_convert(
    entries: Iterable[tuple[Entry, memoryview]],
    magic: int,
    *,
    first_offset: int = 0,
    piece_bytes: int = PIECE_BYTES,
    max_size: int = MAX_DECOMPRESSED_BYTES,
    count: Callable[[int], None] = lambda records: None,
    budget: Budget | None = None,
) -> Iterator[bytes]:
    """As `convert`, in pieces of whole batches: up to `piece_bytes` of the log each, at least one batch.

    Pieces of which nothing is left (markers only) are skipped. A batch in zstd raises when its piece is
    due, after the pieces in front of it. `count` is told of how many records each batch had; where the
    `budget` is used up, no more are converted.
    """
    out = bytearray()
    consumed = 0
    for header, entry in entries:
        if budget is not None and budget.left <= 0:
            break
        if consumed and consumed + len(entry) > piece_bytes:
            if out:
                yield bytes(out)
            out = bytearray()
            consumed = 0
        # The conversion of this entry raises: what is in `out` would be lost with it.
        if header.codec_id == Codec.ZSTD and out:
            yield bytes(out)
            out = bytearray()
        consumed += len(entry)
        count(_convert_entry(header, entry, magic, first_offset, max_size, out, budget))
    if out:
        yield bytes(out)


class DownConversion:
    """A partition's part of a fetch response: its size is known at once, its bytes are made as they go out.

    The size is that of what was read from the log, or of the first converted batch where that is larger, so
    that a consumer gets on; converted records that do not fit are cut off, as the end of any fetch may be.
    Where they do not fill it, a message that claims to be longer than the response follows, which consumers
    take for one that is cut off. Where nothing is left of what was read (markers only), that message is
    all there is, and the consumer is told by it to ask for more bytes.

    Args:
        source: What was read from a log, or `(pread, size)` to read it as it is needed (`read_entries`).
        magic, first_offset, piece_bytes, max_size: As in `down_convert`.
        budget: What the batches may unpack to: beyond it the converted part ends.

    Attributes: `size`: of the converted part, bytes. `records`: how many have been converted so far.

    Raises:
        OSError: reading failed.
        KafkaError: as `convert`, for the first batch: UNSUPPORTED_COMPRESSION_TYPE is then the partition's
            error. A batch in zstd that comes later ends the converted part, so that the consumer asks for
            it next.
    """

    def __init__(
        self,
        source: Buffer | tuple[Callable[[int, int], bytes], int],
        magic: int,
        *,
        first_offset: int = 0,
        piece_bytes: int = PIECE_BYTES,
        max_size: int = MAX_DECOMPRESSED_BYTES,
        budget: Budget | None = None,
    ) -> None:
        if isinstance(source, tuple):
            size = source[1]
            self._entries = read_entries(*source)
        else:
            size = len(source)
            self._entries = iter_entries(source)
        self.records = 0
        self._magic = magic
        self._first_offset = first_offset
        self._piece_bytes = piece_bytes
        self._max_size = max_size
        self._budget = budget
        self._first = b""
        """The first batch of which something is left, until it goes out; `_entries` goes on behind it."""
        anything = False
        # A consumer gets on with a whole batch only: the size has room for the first. Kafka:
        # `LazyDownConversionRecords`.
        for header, entry in self._entries:
            anything = True
            out = bytearray()
            self.records += _convert_entry(header, entry, magic, first_offset, max_size, out, budget)
            if out:
                self._first = bytes(out)
                break
        if self._first:
            self.size = max(size, len(self._first))
        else:
            # An empty part would say that the log ends here; by an overflow message consumers ask for more.
            self.size = _OVERFLOW_MIN_BYTES if anything else 0

    def pieces(self) -> Iterator[bytes]:
        """`size` bytes in all; to be walked once.

        Raises:
            KafkaError: as `convert`, UNSUPPORTED_COMPRESSION_TYPE aside: the length is out already, so that
                all a caller can do is to close the connection.
        """
        left = self.size
        for piece in self._converted():
            yield piece[:left]
            left -= min(left, len(piece))
            if not left:
                return
        while left:
            piece = overflow_message(left)[:left]
            yield piece
            left -= len(piece)

    def _count(self, records: int) -> None:
        self.records += records

    def _converted(self) -> Iterator[bytes]:
        first, self._first = self._first, b""
        if not first:
            return
        yield first
        try:
            yield from down_convert(
                self._entries,
                self._magic,
                first_offset=self._first_offset,
                piece_bytes=self._piece_bytes,
                max_size=self._max_size,
                count=self._count,
                budget=self._budget,
            )
        except UnsupportedCompressionTypeError:
            # The size is out, so no error can be told any more. The consumer asks for this batch next, and it
            # is the first there (`LazyDownConversionRecordsSend.writeTo`).
            return


def overflow_message(remaining: int) -> bytes:
    """Return what fills the `remaining` bytes of a response: a message that claims to be longer than they
    are.
    """
    filler = bytearray(max(_OVERFLOW_MIN_BYTES, min(remaining + 1, PIECE_BYTES)))
    INT64.pack_into(filler, 0, -1)
    # Beyond the response's end, and no shorter than a batch: a smaller length is refused as damage
    # (`LazyDownConversionRecordsSend.buildOverflowBatch`).
    INT32.pack_into(filler, 8, max(remaining + 1, HEADER_BYTES))
    return bytes(filler)


def _convert_entry(
    header: Entry,
    entry: memoryview,
    magic: int,
    first_offset: int,
    max_size: int,
    out: bytearray,
    budget: Budget | None = None,
) -> int:
    """Write an entry behind `out`; how many records had to be converted for that."""
    if isinstance(header, MessageHeader):
        if header.codec_id == Codec.ZSTD:
            raise _zstd()
        if header.magic <= magic:
            out += entry
            return 0
        return _convert_message(header, entry, first_offset, max_size, out, budget)
    # An old consumer would take a marker for a record (`RecordsUtil.downConvert` skips them, too).
    if header.is_control:
        return 0
    if header.codec_id == Codec.ZSTD:
        raise _zstd()
    if header.record_count:
        return _convert_batch(header, entry, magic, first_offset, max_size, out, budget)
    return 0


def _convert_batch(
    header: BatchHeader,
    batch: memoryview,
    magic: int,
    first_offset: int,
    max_size: int,
    out: bytearray,
    budget: Budget | None,
) -> int:
    codec = header.codec
    kind = header.timestamp_type
    packed = codec is not Codec.NONE
    target = bytearray() if packed else out
    section = records_section(header, batch, max_size)
    # What is not packed takes no more than was read, which the fetch's own limits bound.
    if budget is not None and packed:
        budget.left -= len(section)
    problem, index, count, _, last, max_timestamp, _ = message_kernel.records_to_messages(
        section,
        header.record_count,
        header.base_offset,
        header.base_timestamp,
        header.max_timestamp if kind is TimestampType.LOG_APPEND_TIME else NO_TIMESTAMP,
        magic,
        message_attributes(magic, Codec.NONE, kind),
        magic == 1 and packed,
        # In a wrapper the consumer skips what it did not ask for; of messages by themselves some versions of
        # librdkafka take the first for the one they wanted (`RecordsUtil.downConvert`).
        header.base_offset if packed else max(first_offset, header.base_offset),
        # `target` may hold the batches before, which this one's bound does not count.
        max_size + len(target),
        target,
    )
    if problem > 0:
        raise_for_problem(problem, index, header.base_offset)
    if problem:
        raise RecordTooLargeError(f"converted records would take more than {max_size} bytes")
    if packed and count:
        out += wrapper(target, magic, codec, last_offset=last, timestamp=max_timestamp, timestamp_type=kind)
    return int(count)


def _convert_message(
    header: MessageHeader,
    message: memoryview,
    first_offset: int,
    max_size: int,
    out: bytearray,
    budget: Budget | None,
) -> int:
    """A message of magic 1 as one of magic 0."""
    if not header.is_wrapper:
        if header.offset >= first_offset:
            key, value = key_and_value(header, message)
            append_message(out, 0, header.offset, NO_TIMESTAMP, 0, key, value)
        return 1
    inner = inner_messages(header, message, max_size)
    if budget is not None:
        budget.left -= len(inner)
    base = inner_base_offset(header, inner)
    target = bytearray()
    last = header.offset
    count = 0
    for each, raw in iter_messages(inner):
        key, value = key_and_value(each, raw)
        if len(target) + MESSAGE_OVERHEAD[0] + len(raw) > max_size + MESSAGE_OVERHEAD[0]:
            raise RecordTooLargeError(f"converted records would take more than {max_size} bytes")
        last = wrap64(base + each.offset)
        append_message(target, 0, last, NO_TIMESTAMP, 0, key, value)
        count += 1
    out += wrapper(
        target,
        0,
        header.codec,
        last_offset=last,
        timestamp=NO_TIMESTAMP,
        timestamp_type=TimestampType.NO_TIMESTAMP_TYPE,
    )
    return count


def _zstd() -> UnsupportedCompressionTypeError:
    return UnsupportedCompressionTypeError("record batches in zstd cannot be converted for old consumers")
