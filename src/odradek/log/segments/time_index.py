"""From which offset on a time is reached: `.timeindex` (docs/log_format.md, "Time index").

An entry is the largest timestamp of the segment so far (int64, ms) and the last offset of the batch that
holds it, relative to the segment's base offset (int32). All appends before it have smaller timestamps.
"""

from __future__ import annotations

from pathlib import Path
from struct import Struct

from odradek.log.segments.index_file import CorruptIndexError, IndexFile
from odradek.log.segments.timestamp_offset import NO_TIMESTAMP, TimestampOffset
from odradek.log.storage.files import FileSystem


class TimeIndex(IndexFile):
    """The time index of one segment. `last` is (-1, base offset) while it is empty."""

    layout = Struct(">qi")
    last: TimestampOffset
    _loaded = ("entries", "last")

    def __init__(self, files: FileSystem, path: Path, base_offset: int, max_bytes: int) -> None:
        super().__init__(files, path, max_bytes)
        self.base_offset = base_offset
        self.last = TimestampOffset(NO_TIMESTAMP, base_offset)

    @property
    def is_full(self) -> bool:
        """Return whether no further entry fits, but for the one that is added when the segment is rolled."""
        return self.entries >= self.max_entries - 1

    def load(self) -> None:
        """See `IndexFile.load`."""
        super().load()
        self._load_last()
        if self.entries and (self.last.offset < self.base_offset or self.last.timestamp < self.entry(0)[0]):
            raise CorruptIndexError(f"the last entry of {self.path} is {self.last}")

    def _load_last(self) -> None:
        empty = TimestampOffset(NO_TIMESTAMP, self.base_offset)
        self.last = self.at(self.entries - 1) if self.entries else empty

    def maybe_append(self, newest: TimestampOffset) -> None:
        """Add an entry if the timestamp is above the last one's."""
        last = self.last
        if newest.timestamp > last.timestamp and newest.offset >= last.offset:
            self.add(newest.timestamp, newest.offset - self.base_offset)
            self.last = newest

    def lookup(self, timestamp: int) -> TimestampOffset:
        """The last entry at or below the timestamp; (-1, base offset) if there is none."""
        slot = self.last_not_above(0, timestamp)
        return self.at(slot) if slot >= 0 else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def at(self, slot: int) -> TimestampOffset:
        """The entry of that number."""
        timestamp, relative = self.entry(slot)
        return TimestampOffset(timestamp, self.base_offset + relative)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above the offset."""
        self.truncate_entries(self.last_not_above(1, offset - self.base_offset - 1) + 1)
        self._load_last()

    def replace_all(self, content: bytes) -> None:
        """See `IndexFile.replace_all`."""
        super().replace_all(content)
        self._load_last()
