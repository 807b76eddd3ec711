"""When a segment is full: the answer at once and the whole one agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.log.segments.segment import Segment
from odradek.log.storage.memory_files import MemoryFileSystem

from .batches import batch


@pytest.mark.parametrize("index_bytes", [24, 60, 96, 4096])
@pytest.mark.parametrize(("max_size", "max_ms"), [(10**9, 10**9), (700, 10**9), (10**9, 5)])
def test_what_is_taken_at_once_never_belongs_into_a_new_segment(
    index_bytes: int, max_size: int, max_ms: int
) -> None:
    segment = Segment(MemoryFileSystem(), Path("/log"), 0, index_interval=1, index_bytes=index_bytes)
    segment._files.make_dirs(Path("/log"))
    segment.create(now_ms=1000)
    data = batch([b"a"])
    taken = 0
    for number in range(1, 40):
        asked = (len(data), number, 1000 + number)
        at_once = segment.takes_one(*asked, max_size, max_ms)
        rolls = segment.should_roll(*asked, 1000 + number, max_size, max_ms)
        assert not (at_once and rolls), f"at batch {number}"
        if rolls:
            break
        taken += at_once
        segment.append_one([data], *asked)
    assert rolls == (index_bytes < 4096 or max_size < 10**9 or max_ms < 10**9)
    assert taken
