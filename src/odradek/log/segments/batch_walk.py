"""Walking over the entries of a segment by their headers, from one boundary to the next.

An entry is a record batch, or in old parts of a log a message of magic 0 or 1: alone, or a wrapper around
compressed ones (docs/record_format.md). Nothing is unpacked: of a wrapper only the last offset is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct

from odradek.log.segments.segment_entry import SegmentEntry
from odradek.log.segments.timestamp_offset import NO_TIMESTAMP
from odradek.records.batch import HEADER_BYTES, LOG_OVERHEAD, MAGIC_AT, MAGIC_V2
from odradek.records.message_sets.message_set import MESSAGE_TIMESTAMP_AT, MIN_LENGTH

WALK_BLOCK = 16 * 1024
"""Bytes read at once."""

SMALLEST_ENTRY = LOG_OVERHEAD + MIN_LENGTH[0]
"""Bytes of the smallest message of magic 0."""

PRead = Callable[[int, int], bytes]
"""`(size, position) -> bytes`, fewer only at the end of the file."""

_BATCH = Struct(">qi4xb6xi8xq")
"""Base offset, length, magic, last offset delta, max timestamp of a batch's header."""

SPAN = Struct(">qi4xb6xi")
"""Base offset, length, magic, last offset delta."""

MESSAGE = Struct(">qi4xb")
"""Offset, length, magic of a message."""

_TIMESTAMP = Struct(">q")


class BrokenBatchError(Exception):
    """A walk came to something that is no header, or one whose entry ends outside of the segment."""

    def __init__(self, path: Path, position: int) -> None:
        super().__init__(f"{path} has no whole batch at position {position}")
        self.position = position


def walk(pread: PRead, path: Path, position: int, end: int) -> Iterator[SegmentEntry]:
    """The entries from a boundary on, up to the last one that ends at `end` or before it.

    Raises:
        BrokenBatchError: the bytes at a position are neither a batch nor a message.
        OSError: the segment cannot be read.
    """
    block_at = position
    block = b""
    while end - position >= SMALLEST_ENTRY:
        start = position - block_at
        if start + HEADER_BYTES > len(block) and block_at + len(block) < end:
            block_at, start = position, 0
            block = pread(min(WALK_BLOCK, end - position), position)
        left = len(block) - start
        if left < min(HEADER_BYTES, end - position):
            raise BrokenBatchError(path, position)
        if block[start + MAGIC_AT] < MAGIC_V2:
            step = _message_at(block, start, position)
        elif left < HEADER_BYTES:
            return
        else:
            base_offset, length, magic, delta, max_timestamp = _BATCH.unpack_from(block, start)
            size = length + LOG_OVERHEAD
            step = None
            if size >= HEADER_BYTES and delta >= 0 and base_offset >= 0 and magic == MAGIC_V2:
                step = SegmentEntry(position, size, base_offset, base_offset + delta, max_timestamp)
        if step is None:
            raise BrokenBatchError(path, position)
        if position + step.size > end:
            return
        yield step
        position += step.size


def _message_at(block: bytes, start: int, position: int) -> SegmentEntry | None:
    offset, length, magic = MESSAGE.unpack_from(block, start)
    if length < MIN_LENGTH[magic] or offset < 0:
        return None
    timestamp = NO_TIMESTAMP
    if magic:
        (timestamp,) = _TIMESTAMP.unpack_from(block, start + MESSAGE_TIMESTAMP_AT)
    return SegmentEntry(position, length + LOG_OVERHEAD, offset, offset, timestamp)


def walk_to(
    pread: PRead, path: Path, position: int, end: int, offset: int, beyond: int
) -> SegmentEntry | None:
    """As `walk`, to the first entry that reaches `offset` or ends after `beyond`; None where the segment ends
    before it. Its max timestamp may be left out (-1).

    Raises:
        BrokenBatchError, OSError: as `walk`.
    """
    block_at = position
    block = b""
    limit = 0
    unpack = SPAN.unpack_from
    while position + HEADER_BYTES <= end:
        if position + HEADER_BYTES > limit:
            block_at = position
            block = pread(min(WALK_BLOCK, end - position), position)
            limit = position + len(block)
            if len(block) < HEADER_BYTES:
                raise BrokenBatchError(path, position)
        base_offset, length, magic, delta = unpack(block, position - block_at)
        if magic != MAGIC_V2:
            break
        after = position + length + LOG_OVERHEAD
        if after < position + HEADER_BYTES or delta < 0 or base_offset < 0:
            raise BrokenBatchError(path, position)
        if after > end:
            return None
        if base_offset + delta >= offset or after > beyond:
            return SegmentEntry(position, after - position, base_offset, base_offset + delta, NO_TIMESTAMP)
        position = after
    # Messages, which may be smaller than the header of a batch.
    for step in walk(pread, path, position, end):
        if step.last_offset >= offset or step.position + step.size > beyond:
            return step
    return None
