"""Reading a segment through: which batches are whole, and what its indexes must say.

A scan checks every batch's header and CRC and builds the entries of both indexes as appends do, one batch at
a time (LogSegment.recover). It changes nothing. Messages of magic 0 and 1 count as batches of one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32 as crc32_of_message

from fastcrc import crc32

from odradek.log.segments.batch_walk import SMALLEST_ENTRY
from odradek.log.segments.offset_index import MAX_RELATIVE_OFFSET, OffsetIndex
from odradek.log.segments.segment_entry import SegmentEntry
from odradek.log.segments.time_index import TimeIndex
from odradek.log.segments.timestamp_offset import NO_TIMESTAMP, TimestampOffset
from odradek.log.storage.checkpoint_file import EpochEntry
from odradek.log.storage.files import File, FileSystem
from odradek.records.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    HEADER_BYTES,
    HEADER_STRUCT,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
)
from odradek.records.message_sets.message_set import HEAD, INT64, MIN_LENGTH

SCAN_BLOCK = 1024 * 1024
"""Bytes read at once; more where one batch is larger."""

TAIL_KEPT = 64
"""Of how many of the last batches a scan tells the places; many scans wait for each other at a start."""

_NO_TIMESTAMP = TimestampOffset(NO_TIMESTAMP, 0)


@dataclass
class SegmentScan:
    """The contents of a segment. Up to `valid_bytes` it is whole batches; `problem` says what comes then.

    `torn` tells that what comes then can be the beginning of a batch that a stop cut off, as against bytes
    that no append has written there. `messages` is how many of the batches are messages of magic 0 and 1.
    """

    path: Path
    base_offset: int
    size: int
    # At most `size`, and equal to it exactly where there is no problem.
    valid_bytes: int = 0
    # Behind the last batch that is valid; the base offset without any.
    next_offset: int = 0
    problem: str | None = None
    torn: bool = False
    batches: int = 0
    messages: int = 0
    offset_entries: bytearray = field(default_factory=bytearray)
    time_entries: bytearray = field(default_factory=bytearray)
    max_timestamp: TimestampOffset = _NO_TIMESTAMP
    epochs: list[EpochEntry] = field(default_factory=list)
    has_producers: bool = False
    tail: list[SegmentEntry] = field(default_factory=list)


def scan_segment(files: FileSystem, path: Path, base_offset: int, index_interval: int) -> SegmentScan:
    """Read a segment through.

    Raises:
        OSError: it cannot be read.
    """
    size = files.size(path)
    scan = SegmentScan(path, base_offset, size, next_offset=base_offset)
    scan.max_timestamp = TimestampOffset(NO_TIMESTAMP, base_offset)
    file = files.open(path)
    try:
        _scan(scan, file, index_interval)
    finally:
        file.close()
    return scan


def _scan(scan: SegmentScan, file: File, index_interval: int) -> None:
    """The loop over all batches: its cost is that of a start after a kill, so it calls little."""
    position = 0
    last_index_entry = 0
    last_time_entry = NO_TIMESTAMP
    size, base_offset, next_offset = scan.size, scan.base_offset, scan.next_offset
    largest = NO_TIMESTAMP
    latest_epoch = -1
    block_at, block_end, block = 0, 0, memoryview(b"")
    unpack, crc_of = HEADER_STRUCT.unpack_from, crc32.iscsi
    tail: list[tuple[int, int, int, int, int]] = []
    while position < size:
        start = position - block_at
        magic = MAGIC_V2
        if position + HEADER_BYTES > block_end:
            # From the batch on, so that its header is in one piece.
            if block_end < size:
                block_at, start, block = position, 0, memoryview(file.pread(SCAN_BLOCK, position))
                block_end = block_at + len(block)
            left = block_end - position
            if left < HEADER_BYTES:
                magic = block[start + MAGIC_AT] if left > MAGIC_AT else MAGIC_V2
                # A message of magic 0 or 1 may be shorter than the header of a batch.
                if magic >= MAGIC_V2:
                    scan.problem = f"{size - position} bytes are too few for a batch"
                    scan.torn = True
                    break
        if magic == MAGIC_V2:
            offset, length, epoch, magic, crc, _, delta, _, max_timestamp, producer_id, _, _, _ = unpack(
                block, start
            )
        if 0 <= magic < MAGIC_V2:
            message = _message_at(scan, file, block, start, position, next_offset)
            if message is None:
                break
            end, offset, last_offset, max_timestamp = message
            epoch = producer_id = -1
        else:
            end = position + length + LOG_OVERHEAD
            scan.problem = _header_problem(offset, length, magic, delta, next_offset, base_offset)
            if scan.problem is not None:
                break
            if end > size:
                scan.problem = _beyond_the_end(end - position, size - position)
                # The end of a log has no gaps: any other offset makes the length doubtful as well.
                scan.torn = offset == next_offset
                break
            # Read again from the batch on, so that it is in one piece for its CRC.
            if end > block_end:
                block_at = position
                block = memoryview(file.pread(max(SCAN_BLOCK, end - position), position))
                block_end = block_at + len(block)
                start = 0
            computed = crc_of(block[start + ATTRIBUTES_AT : end - block_at])
            if computed != crc:
                scan.problem = f"the batch there has CRC {computed:#010x}, its header says {crc:#010x}"
                break
            last_offset = offset + delta
        if max_timestamp > largest:
            largest = max_timestamp
            scan.max_timestamp = TimestampOffset(max_timestamp, last_offset)
        # As appends do it, a batch at a time: the index comes out as it was, or with more entries.
        if position - last_index_entry > index_interval:
            scan.offset_entries += OffsetIndex.layout.pack(last_offset - base_offset, position)
            if largest > last_time_entry:
                last_time_entry = _add_time_entry(scan)
            last_index_entry = position
        # By these a lost checkpoint of epochs is made anew (`LogSegment.recover`).
        if epoch > latest_epoch:
            latest_epoch = epoch
            scan.epochs.append(EpochEntry(epoch, offset))
        if producer_id >= 0:
            scan.has_producers = True
        tail.append((position, end - position, offset, last_offset, max_timestamp))
        if len(tail) > 2 * TAIL_KEPT:
            del tail[:TAIL_KEPT]
        scan.batches += 1
        next_offset = last_offset + 1
        position = end
    scan.valid_bytes = position
    scan.next_offset = next_offset
    scan.tail = [SegmentEntry(*step) for step in tail]
    if largest > last_time_entry:
        _add_time_entry(scan)


def _message_at(
    scan: SegmentScan, file: File, block: memoryview, start: int, position: int, next_offset: int
) -> tuple[int, int, int, int] | None:
    """The end, offset, last offset and timestamp of a message; None, and the scan's problem, for a bad one.

    `block[start:]` is what has been read of it.
    """
    left = scan.size - position
    if left < SMALLEST_ENTRY:
        scan.problem = f"{left} bytes are too few for a message"
        scan.torn = True
        return None
    offset, length, crc, magic, attributes = HEAD.unpack_from(block, start)
    size = length + LOG_OVERHEAD
    # The offset is not under the CRC, and neither is the length: both are held to what can be.
    if length < MIN_LENGTH[magic]:
        scan.problem = f"no batch begins there (magic {magic}, length {length})"
    elif not max(next_offset, scan.base_offset) <= offset <= scan.base_offset + MAX_RELATIVE_OFFSET:
        scan.problem = f"the message there has offset {offset}, not at or above {next_offset}"
    elif size > left:
        scan.problem = _beyond_the_end(size, left)
        # A wrapper has the offset of its last message.
        scan.torn = offset == next_offset or bool(attributes & CODEC_MASK)
    if scan.problem is not None:
        return None
    message = block[start : start + size]
    if len(message) < size:
        message = memoryview(file.pread(size, position))
    computed = crc32_of_message(message[MAGIC_AT:])
    if computed != crc:
        scan.problem = f"the message there has CRC {computed:#010x}, its header says {crc:#010x}"
        return None
    timestamp = INT64.unpack_from(message, HEAD.size)[0] if magic else NO_TIMESTAMP
    scan.messages += 1
    return position + size, offset, offset, timestamp


def _beyond_the_end(size: int, left: int) -> str:
    return f"the batch there has {size} bytes, of which {left} are there"


def _add_time_entry(scan: SegmentScan) -> int:
    newest = scan.max_timestamp
    scan.time_entries += TimeIndex.layout.pack(newest.timestamp, newest.offset - scan.base_offset)
    return newest.timestamp


def _header_problem(
    offset: int, length: int, magic: int, last_offset_delta: int, next_offset: int, base_offset: int
) -> str | None:
    """Return what is wrong with a batch header, the batch's length and CRC aside."""
    if magic != MAGIC_V2:
        return f"no batch begins there (magic {magic})"
    if length + LOG_OVERHEAD < HEADER_BYTES:
        return f"the batch there has length {length}"
    # A gap is no problem here: `missing_segments` knows whether this log may have any.
    if offset < next_offset:
        return f"the batch there begins with offset {offset}, not at or above {next_offset}"
    if last_offset_delta < 0 or offset + last_offset_delta - base_offset > MAX_RELATIVE_OFFSET:
        return f"the batch there ends {last_offset_delta} after offset {offset}"
    return None
