"""Reading a segment through: which batches are whole, and what its indexes must say.

A scan checks every batch's header and CRC and builds the entries of both indexes as appends do, one batch at
a time (LogSegment.recover). It changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct

from fastcrc import crc32

from odradek.log.files import File, FileSystem
from odradek.log.leader_epochs import EpochEntry
from odradek.log.offset_index import MAX_RELATIVE_OFFSET, OffsetIndex
from odradek.log.segment import Step
from odradek.log.time_index import NO_TIMESTAMP, TimeIndex, TimestampOffset
from odradek.records.batch import ATTRIBUTES_AT, HEADER_BYTES, HEADER_STRUCT, LOG_OVERHEAD, MAGIC_V2

SCAN_BLOCK = 1024 * 1024
"""Bytes read at once; more where one batch is larger."""

TAIL_KEPT = 64
"""Of how many of the last batches a scan tells the places; many scans wait for each other at a start."""

_PREFIX = Struct(">qiib")
_MAGIC_AT = 16
_MIN_MESSAGE_LENGTH = 14
_NO_TIMESTAMP = TimestampOffset(NO_TIMESTAMP, 0)


@dataclass
class SegmentScan:
    """What a segment holds. Up to `valid_bytes` it is whole batches; `problem` says what comes then.

    `torn` tells that what comes then can be the beginning of a batch that a stop cut off, as against bytes
    that no append has written there.
    """

    path: Path
    base_offset: int
    size: int
    valid_bytes: int = 0
    next_offset: int = 0
    problem: str | None = None
    torn: bool = False
    batches: int = 0
    offset_entries: bytearray = field(default_factory=bytearray)
    time_entries: bytearray = field(default_factory=bytearray)
    max_timestamp: TimestampOffset = _NO_TIMESTAMP
    epochs: list[EpochEntry] = field(default_factory=list)
    has_producers: bool = False
    tail: list[Step] = field(default_factory=list)


def scan_segment(files: FileSystem, path: Path, base_offset: int, index_interval: int) -> SegmentScan:
    """Read a segment through. Raises `OSError`."""
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
        if position + HEADER_BYTES > block_end:
            if size - position < HEADER_BYTES:
                scan.problem = f"{size - position} bytes are too few for a batch"
                scan.torn = True
                break
            block_at, block = position, memoryview(file.pread(SCAN_BLOCK, position))
            block_end = block_at + len(block)
        start = position - block_at
        header = unpack(block, start)
        offset, length, epoch, _, crc, _, delta, _, max_timestamp, producer_id, _, _, _ = header
        end = position + length + LOG_OVERHEAD
        scan.problem = _header_problem(header, next_offset, base_offset)
        if scan.problem is not None:
            break
        if end > size:
            scan.problem = f"the batch there has {end - position} bytes, of which {size - position} are there"
            # The end of a log has no gaps: any other offset makes the length doubtful as well.
            scan.torn = offset == next_offset
            break
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
        if position - last_index_entry > index_interval:
            scan.offset_entries += OffsetIndex.layout.pack(last_offset - base_offset, position)
            if largest > last_time_entry:
                last_time_entry = _add_time_entry(scan)
            last_index_entry = position
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
    scan.tail = [Step(*step) for step in tail]
    if largest > last_time_entry:
        _add_time_entry(scan)


def _add_time_entry(scan: SegmentScan) -> int:
    timestamp, offset = scan.max_timestamp
    scan.time_entries += TimeIndex.layout.pack(timestamp, offset - scan.base_offset)
    return timestamp


def _header_problem(header: tuple[int, ...], next_offset: int, base_offset: int) -> str | None:
    """What is wrong with a batch header, the batch's length and CRC aside."""
    if header[3] != MAGIC_V2:
        return f"no batch begins there (magic {header[3]})"
    if header[1] + LOG_OVERHEAD < HEADER_BYTES:
        return f"the batch there has length {header[1]}"
    if header[0] < next_offset:
        return f"the batch there begins with offset {header[0]}, not at or above {next_offset}"
    if header[6] < 0 or header[0] + header[6] - base_offset > MAX_RELATIVE_OFFSET:
        return f"the batch there ends {header[6]} after offset {header[0]}"
    return None


def find_batch_after(
    files: FileSystem, path: Path, position: int, next_offset: int, *, to_the_end: bool = False
) -> int | None:
    """The position of a valid batch at a damaged place or behind it; None if there is none.

    Behind it, it must continue the offsets, so that remains of what was cut off earlier are not taken for
    data; at the very place it is one whose offset is out of order. With
    `to_the_end` valid batches must follow it up to the end of the file, as after a batch whose length was
    damaged, but not after a torn batch with another batch in one of its values. Time is linear in the file's
    size for zeros and for noise.
    """
    size = files.size(path)
    file = files.open(path)
    try:
        if position >= 0 and _valid_batch_at(file, position, size) is not None:
            return position
        at = position + 1
        while at + HEADER_BYTES <= size:
            block = file.pread(SCAN_BLOCK, at)
            for start in _candidates(block, at, size, next_offset):
                after = _valid_batch_at(file, start, size)
                if after is not None and (not to_the_end or _goes_on_to_the_end(file, *after, size)):
                    return start
            at += max(1, len(block) - HEADER_BYTES + 1)
    finally:
        file.close()
    return None


def _candidates(block: bytes, at: int, size: int, next_offset: int) -> Iterator[int]:
    """The positions in a block that could be those of a batch, by its prefix."""
    magic_at = block.find(MAGIC_V2, _MAGIC_AT)
    while magic_at >= 0 and magic_at - _MAGIC_AT + HEADER_BYTES <= len(block):
        start = magic_at - _MAGIC_AT
        offset, length, epoch, _ = _PREFIX.unpack_from(block, start)
        fits = HEADER_BYTES <= length + LOG_OVERHEAD <= size - at - start
        if fits and next_offset <= offset <= next_offset + MAX_RELATIVE_OFFSET and epoch >= -1:
            yield at + start
        magic_at = block.find(MAGIC_V2, magic_at + 1)


def _valid_batch_at(file: File, position: int, size: int) -> tuple[int, int] | None:
    """(end position, next offset) of a batch with the right CRC; None if there is none."""
    head = file.pread(HEADER_BYTES, position)
    if len(head) < HEADER_BYTES:
        return None
    header = HEADER_STRUCT.unpack(head)
    batch_size = header[1] + LOG_OVERHEAD
    if header[3] != MAGIC_V2 or not HEADER_BYTES <= batch_size <= size - position or header[6] < 0:
        return None
    batch = memoryview(file.pread(batch_size, position))
    if crc32.iscsi(batch[ATTRIBUTES_AT:]) != header[4]:
        return None
    return position + batch_size, header[0] + header[6] + 1


def _goes_on_to_the_end(file: File, position: int, next_offset: int, size: int) -> bool:
    """Whether nothing but valid batches follows, the last of them perhaps torn."""
    while size - position >= HEADER_BYTES:
        after = _valid_batch_at(file, position, size)
        if after is None:
            offset, length, _, magic = _PREFIX.unpack(file.pread(_PREFIX.size, position))
            torn = length + LOG_OVERHEAD > size - position
            return bool(torn and magic == MAGIC_V2 and offset == next_offset)
        position, next_offset = after
    return True


def first_magic(files: FileSystem, path: Path) -> int | None:
    """The magic of a segment's first batch; None where there is none, nor a message of an older format."""
    file = files.open(path)
    try:
        head = file.pread(_PREFIX.size, 0)
    finally:
        file.close()
    if len(head) < _PREFIX.size:
        return None
    _, length, _, magic = _PREFIX.unpack(head)
    return int(magic) if length >= _MIN_MESSAGE_LENGTH else None
