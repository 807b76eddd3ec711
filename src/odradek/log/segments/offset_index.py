"""The positions of offsets in a segment: `.index` (docs/log_format.md, "Offset index").

An entry is the offset of the last record of an append, relative to the segment's base offset (int32), and the
position at which that append begins (int32). Not every append has one: about one per `index.interval.bytes`.
"""

from __future__ import annotations

from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from odradek.log.segments.index_file import CorruptIndexError, IndexFile
from odradek.log.storage.files import FileSystem

MAX_RELATIVE_OFFSET: Final = 0x7FFF_FFFF


class OffsetPosition(NamedTuple):
    """An offset and the position of the append that ends with it."""

    offset: int
    position: int


class OffsetIndex(IndexFile):
    """The offset index of one segment. `last_offset` is the base offset while it is empty."""

    layout = Struct(">ii")
    last_offset: int
    _loaded = ("entries", "last_offset")

    def __init__(self, files: FileSystem, path: Path, base_offset: int, max_bytes: int) -> None:
        super().__init__(files, path, max_bytes)
        self.base_offset = base_offset
        self.last_offset = base_offset

    def load(self, log_size: int | None = None) -> None:
        """See `IndexFile.load`; entries that point past `log_size` are an error as well."""
        super().load()
        self.last_offset = self.base_offset
        if not self.entries:
            return
        relative, position = self.entry(self.entries - 1)
        if relative < 0 or position < 0 or (log_size is not None and position >= max(log_size, 1)):
            raise CorruptIndexError(f"the last entry of {self.path} is offset +{relative} at {position}")
        self.last_offset = self.base_offset + relative

    def append(self, offset: int, position: int) -> None:
        """Add an entry; offsets only rise."""
        if self.entries and offset <= self.last_offset:
            raise ValueError(f"offset {offset} is not above {self.last_offset}, the last in {self.path}")
        self.add(offset - self.base_offset, position)
        self.last_offset = offset

    def lookup(self, offset: int) -> OffsetPosition:
        """The last entry at or below the offset; the segment's start if there is none."""
        return self._found(self.search(0, offset - self.base_offset)[1])

    def lookup_position(self, position: int) -> OffsetPosition:
        """The last entry whose append begins at or below the position; the segment's start if none does."""
        return self._found(self.search(1, position)[1])

    def _found(self, entry: tuple[int, ...] | None) -> OffsetPosition:
        if entry is None:
            return OffsetPosition(self.base_offset, 0)
        relative_offset, position = entry
        return OffsetPosition(self.base_offset + relative_offset, position)

    def at(self, slot: int) -> OffsetPosition:
        """The entry of that number."""
        relative, position = self.entry(slot)
        return OffsetPosition(self.base_offset + relative, position)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above the offset."""
        self.truncate_entries(self.last_not_above(0, offset - self.base_offset - 1) + 1)
        self.last_offset = self.at(self.entries - 1).offset if self.entries else self.base_offset

    def replace_all(self, content: bytes) -> None:
        """See `IndexFile.replace_all`."""
        super().replace_all(content)
        self.last_offset = self.at(self.entries - 1).offset if self.entries else self.base_offset
