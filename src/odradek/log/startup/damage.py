"""A look behind a damaged place in a segment: the difference between a torn tail and lost records."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from zlib import crc32 as crc32_of_message

from fastcrc import crc32

from odradek.log.segments.batch_walk import SMALLEST_ENTRY
from odradek.log.segments.offset_index import MAX_RELATIVE_OFFSET
from odradek.log.segments.segment_scan import SCAN_BLOCK
from odradek.log.storage.files import File, FileSystem
from odradek.records.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    HEADER_BYTES,
    HEADER_STRUCT,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    BatchHeader,
)
from odradek.records.message_sets.message_set import HEAD, MIN_LENGTH

_PREFIX = Struct(">qiib")


def find_batch_after(
    files: FileSystem, path: Path, position: int, next_offset: int, *, to_the_end: bool = False
) -> int | None:
    """The position of a valid batch or message at a damaged place or behind it; None if there is none.

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
        while at + SMALLEST_ENTRY <= size:
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
    """The positions in a block that could be those of a batch or a message, by its prefix."""
    magic_at = block.find(MAGIC_V2, MAGIC_AT)
    while magic_at >= 0 and magic_at - MAGIC_AT + HEADER_BYTES <= len(block):
        start = magic_at - MAGIC_AT
        offset, length, epoch, _ = _PREFIX.unpack_from(block, start)
        fits = HEADER_BYTES <= length + LOG_OVERHEAD <= size - at - start
        if fits and next_offset <= offset <= next_offset + MAX_RELATIVE_OFFSET and epoch >= -1:
            yield at + start
        magic_at = block.find(MAGIC_V2, magic_at + 1)
    if block.count(0) != len(block):
        for start in _message_candidates(block, next_offset):
            offset, length, _, magic, _ = HEAD.unpack_from(block, start)
            fits = MIN_LENGTH[magic] + LOG_OVERHEAD <= length + LOG_OVERHEAD <= size - at - start
            if fits and next_offset <= offset <= next_offset + MAX_RELATIVE_OFFSET:
                yield at + start


_LENGTH = rb"(?:[\x01-\x7f].{3}|\x00[\x01-\xff]..|\x00\x00[\x01-\xff].|\x00\x00\x00[\x0e-\xff])"


def _message_candidates(block: bytes, next_offset: int) -> Iterator[int]:
    """Return where magic 0 or 1 and a length stand behind the upper half of an offset that may come.

    Zero is the most frequent byte of all, so that the magic alone says little.
    """
    highs = {next_offset >> 32, (next_offset + MAX_RELATIVE_OFFSET) >> 32}
    for high in sorted(highs):
        prefix = re.escape(high.to_bytes(4, "big"))
        pattern = re.compile(prefix + rb".{4}" + _LENGTH + rb".{4}[\x00\x01].{9}", re.DOTALL)
        match = pattern.search(block)
        while match is not None:
            yield match.start()
            match = pattern.search(block, match.start() + 1)


def _valid_batch_at(file: File, position: int, size: int) -> tuple[int, int] | None:
    """(end position, next offset) of a batch or message with the right CRC; None if there is none."""
    head = file.pread(HEADER_BYTES, position)
    if len(head) >= SMALLEST_ENTRY and head[MAGIC_AT] < MAGIC_V2:
        return _valid_message_at(file, head, position, size)
    if len(head) < HEADER_BYTES:
        return None
    header = BatchHeader._make(HEADER_STRUCT.unpack(head))
    batch_size = header.length + LOG_OVERHEAD
    if header.magic != MAGIC_V2 or header.last_offset_delta < 0:
        return None
    if not HEADER_BYTES <= batch_size <= size - position:
        return None
    batch = memoryview(file.pread(batch_size, position))
    if crc32.iscsi(batch[ATTRIBUTES_AT:]) != header.crc:
        return None
    return position + batch_size, header.next_offset


def _valid_message_at(file: File, head: bytes, position: int, size: int) -> tuple[int, int] | None:
    offset, length, crc, magic, _ = HEAD.unpack_from(head)
    if length < MIN_LENGTH[magic] or length + LOG_OVERHEAD > size - position or offset < 0:
        return None
    message = memoryview(file.pread(length + LOG_OVERHEAD, position))
    if crc32_of_message(message[MAGIC_AT:]) != crc:
        return None
    return position + length + LOG_OVERHEAD, offset + 1


def _goes_on_to_the_end(file: File, position: int, next_offset: int, size: int) -> bool:
    """Return whether nothing but valid batches follows, the last of them perhaps torn."""
    while size - position >= SMALLEST_ENTRY:
        after = _valid_batch_at(file, position, size)
        if after is None:
            head = file.pread(HEAD.size, position)
            offset, length, _, magic, attributes = HEAD.unpack(head)
            torn = length + LOG_OVERHEAD > size - position
            # A wrapper has the offset of its last message.
            wrapper = magic < MAGIC_V2 and bool(attributes & CODEC_MASK)
            return bool(
                torn
                and 0 <= magic <= MAGIC_V2
                and (offset == next_offset or (wrapper and offset > next_offset))
            )
        position, next_offset = after
    return True
