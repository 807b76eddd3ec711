"""A file of fixed-size entries in rising order, reserved at its full size while it is written to.

It has what the offset index and the time index share (docs/log_format.md, "Index files"). The index of the
active segment has `segment.index.bytes` reserved (a sparse file of zeros) and is trimmed to its entries when
its segment is no longer written to. Nothing is kept in memory: a search reads about as many small pieces of
the page cache as it has steps.

An index may be taken up without being looked at (`defer`): a start with many segments opens no index; that is
left to the first use.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from struct import Struct
from typing import Any

from odradek.log.storage.files import File, FileSystem

SEARCH_BLOCK = 256
"""Entries that a search reads at once when it has come this close."""


class CorruptIndexError(Exception):
    """An index that cannot be right; its segment's indexes are built again from its log."""


class IndexFile:
    """One index file. `entries` is how many it holds; `max_bytes` how much is reserved for it.

    `layout` is the entry's struct, big-endian integers.

    Raises:
        OSError: by every method that touches the disk.
    """

    layout: Struct
    entries: int
    _deferred: Callable[[], None] | None = None

    def __init__(self, files: FileSystem, path: Path, max_bytes: int) -> None:
        self._files = files
        self.path = path
        self.entry_bytes = self.layout.size
        self.max_entries = max_bytes // self.entry_bytes
        self.entries = 0
        self._handle: File | None = None

    def defer(self, load: Callable[[], None]) -> None:
        """Put the loading off until the index is first used.

        Args:
            load: called then; it calls `load` or `replace_all` of this index.
        """
        self._deferred = load
        for name in self._loaded:
            self.__dict__.pop(name, None)

    _loaded: tuple[str, ...] = ("entries",)
    """The attributes that `load` sets. Until then they are absent, which is what calls `__getattr__`."""

    def __getattr__(self, name: str) -> Any:
        # Only for what is not there: nothing is slower for it once the index is loaded.
        load = self._deferred
        if load is None or name not in self._loaded:
            raise AttributeError(name)
        self._deferred = None
        try:
            load()
        except BaseException:
            # A disk that fails now may not the next time.
            self.defer(load)
            raise
        return getattr(self, name)

    def _file(self) -> File:
        handle = self._handle
        if handle is None:
            self._handle = handle = self._files.open(self.path, create=True)
        return handle

    def create(self) -> None:
        """Start empty, with the full size reserved."""
        file = self._file()
        file.truncate(0)
        file.truncate(self.max_entries * self.entry_bytes)
        self.entries = 0

    def load(self) -> None:
        """Count the entries of the file; zeros at its end are none.

        Raises:
            CorruptIndexError: its size is no whole number of entries.
        """
        size = self._files.size(self.path)
        if size % self.entry_bytes:
            raise CorruptIndexError(f"{self.path} has {size} bytes, no multiple of {self.entry_bytes}")
        high = size // self.entry_bytes
        if high and not any(self.entry(high - 1)):
            # Not trimmed: zeros were reserved behind the entries, whose end is found by halving.
            low = 0
            while low < high:
                middle = (low + high) // 2
                if any(self.entry(middle)):
                    low = middle + 1
                else:
                    high = middle
        self.entries = high

    @property
    def is_full(self) -> bool:
        """Return whether no further entry fits."""
        return self.entries >= self.max_entries

    def entry(self, number: int) -> tuple[int, ...]:
        """The entry at that place, as it stands in the file."""
        data = self._file().pread(self.entry_bytes, number * self.entry_bytes)
        if len(data) != self.entry_bytes:
            raise CorruptIndexError(f"{self.path} is shorter than its {self.entries} entries")
        return self.layout.unpack(data)

    @property
    def size_bytes(self) -> int:
        """Bytes of the entries, without what is reserved."""
        return self.entries * self.entry_bytes

    def iter_entries(self) -> list[tuple[int, ...]]:
        """All entries."""
        data = self._file().pread(self.entries * self.entry_bytes, 0)
        return list(self.layout.iter_unpack(data))

    def add(self, *values: int) -> None:
        """Write an entry behind the last one; nothing is changed if that fails."""
        self._file().pwrite([self.layout.pack(*values)], self.entries * self.entry_bytes)
        self.entries += 1

    def replace_all(self, content: bytes) -> None:
        """Write these entries in place of all there are, and trim."""
        file = self._file()
        # First, so that a write that fails leaves an index without entries, not one with wrong entries.
        self.entries = 0
        file.truncate(0)
        if content:
            file.pwrite([content], 0)
        self.entries = len(content) // self.entry_bytes

    def last_not_above(self, field: int, value: int) -> int:
        """The number of the last entry whose `field` is at most `value`; -1 if there is none."""
        return self.search(field, value)[0]

    def search(self, field: int, value: int) -> tuple[int, tuple[int, ...] | None]:
        """The last entry whose `field` is at most `value`: number and content; -1 and None without one."""
        low, high = 0, self.entries
        while high - low > SEARCH_BLOCK:
            middle = (low + high) // 2
            if self.entry(middle)[field] <= value:
                low = middle + 1
            else:
                high = middle
        if low == high:
            return low - 1, self.entry(low - 1) if low else None
        # The answer may be the entry before those that are left.
        first = max(0, low - 1)
        unpack, width = self.layout.unpack_from, self.entry_bytes
        data = self._file().pread((high - first) * width, first * width)
        if len(data) != (high - first) * width:
            raise CorruptIndexError(f"{self.path} is shorter than its {self.entries} entries")
        while low < high:
            middle = (low + high) // 2
            if unpack(data, (middle - first) * width)[field] <= value:
                low = middle + 1
            else:
                high = middle
        return low - 1, unpack(data, (low - 1 - first) * width) if low else None

    def truncate_entries(self, count: int) -> None:
        """Keep the first `count` entries; the rest becomes zeros, of the size reserved."""
        file = self._file()
        self.entries = min(self.entries, count)
        # Shorter and longer again, which fills it with zeros: where it is not trimmed, they end the entries.
        file.truncate(self.entries * self.entry_bytes)
        file.truncate(self.max_entries * self.entry_bytes)

    def reserve(self) -> None:
        """Take up the full size, to be written to."""
        self._file().truncate(max(self.max_entries, self.entries) * self.entry_bytes)

    def trim(self) -> None:
        """Cut the file to its entries."""
        self._file().truncate(self.entries * self.entry_bytes)

    def close(self) -> None:
        """Let go of the descriptor; further use opens the file again."""
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.close()
