# compiled: mypyc
"""The segments of a log in the order of their base offsets; there is always at least one, once loaded."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path

from odradek.log.config import LogConfig
from odradek.log.segments.segment import Segment
from odradek.log.storage.files import FileSystem


class SegmentList:
    """Segments by base offset. `active` is the last one, the one that is written to."""

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._segments: list[Segment] = []
        self.active: Segment = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(list(self._segments))

    def __getitem__(self, slot: int) -> Segment:
        return self._segments[slot]

    @property
    def bases(self) -> list[int]:
        """All base offsets."""
        return list(self._bases)

    def add(self, segment: Segment) -> None:
        """Put a segment behind the others."""
        if self._bases and segment.base_offset <= self._bases[-1]:
            raise ValueError(f"segment {segment.base_offset} does not come after {self._bases[-1]}")
        self._bases.append(segment.base_offset)
        self._segments.append(segment)
        self.active = segment

    def remove(self, segment: Segment) -> None:
        """Take a segment out."""
        slot = self._segments.index(segment)
        del self._bases[slot], self._segments[slot]
        if self._segments:
            self.active = self._segments[-1]

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Put a segment in the place of neighbours, none of which is the active one."""
        slot = self._segments.index(old[0])
        if self._segments[slot : slot + len(old)] != list(old):
            raise ValueError("only neighbouring segments can be replaced")
        self._segments[slot : slot + len(old)] = [new]
        self._bases[slot : slot + len(old)] = [new.base_offset]

    def floor(self, offset: int) -> int:
        """The number of the last segment that begins at or below the offset; -1 if none does."""
        return bisect_right(self._bases, offset) - 1

    def from_offset(self, offset: int) -> list[Segment]:
        """The segment that an offset is in, and those after it; all if it is below the first."""
        return self._segments[max(0, self.floor(offset)) :]


def open_segment(files: FileSystem, directory: Path, base: int, config: LogConfig) -> Segment:
    """A segment with the sizes that the config says, its files not looked at yet."""
    return Segment(files, directory, base, config.index_interval_bytes, config.segment_index_bytes)
