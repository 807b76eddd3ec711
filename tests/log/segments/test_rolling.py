"""When a segment is full: of bytes, of time, of offsets, or one of its indexes is."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.log.segments.offset_index import MAX_RELATIVE_OFFSET
from odradek.log.segments.segment import Segment
from odradek.log.segments.timestamp_offset import TimestampOffset
from odradek.log.storage.memory_files import MemoryFileSystem

from ..batches import batch

LARGE = 10**9
DATA = batch([b"a"])


def new_segment(index_bytes: int = 4096) -> Segment:
    files = MemoryFileSystem()
    files.make_dirs(Path("/log"))
    segment = Segment(files, Path("/log"), 0, index_interval=1, index_bytes=index_bytes)
    segment.create(now_ms=1000)
    return segment


@pytest.mark.parametrize(
    ("index_bytes", "max_size", "max_ms", "taken"),
    [
        (4096, LARGE, LARGE, 39),
        (4096, 7 * len(DATA), LARGE, 7),
        (4096, 7 * len(DATA) - 1, LARGE, 6),
        # The first batch is at 1001 ms.
        (4096, LARGE, 5, 6),
        # Entries of 8 bytes by offset and of 12 by time, none for the first batch: of the latter the
        # last is kept free for the segment's end.
        (96, LARGE, LARGE, 8),
        (60, LARGE, LARGE, 5),
        (24, LARGE, LARGE, 2),
    ],
)
def test_how_many_batches_a_segment_takes(index_bytes: int, max_size: int, max_ms: int, taken: int) -> None:
    segment = new_segment(index_bytes)
    count = 0
    for number in range(1, 40):
        at_ms = 1000 + number
        if segment.should_roll(len(DATA), number, at_ms, at_ms, max_size, max_ms):
            break
        segment.append([DATA], len(DATA), [(len(DATA), number)], TimestampOffset(at_ms, number))
        count += 1
    assert count == taken


def test_an_empty_segment_takes_whatever_came_late() -> None:
    assert not new_segment().should_roll(len(DATA), 0, 10**12, 10**12, LARGE, 1)


def test_without_timestamps_the_segments_own_age_counts() -> None:
    segment = new_segment()
    segment.append([DATA], len(DATA), [(len(DATA), 0)], TimestampOffset(-1, 0))
    assert not segment.should_roll(len(DATA), 1, -1, 1005, LARGE, 5)
    assert segment.should_roll(len(DATA), 1, -1, 1006, LARGE, 5)


def test_offsets_are_told_relative_to_the_first_one() -> None:
    segment = new_segment()
    assert not segment.should_roll(len(DATA), MAX_RELATIVE_OFFSET, 1, 1, LARGE, LARGE)
    assert segment.should_roll(len(DATA), MAX_RELATIVE_OFFSET + 1, 1, 1, LARGE, LARGE)
