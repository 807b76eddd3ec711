"""The transactions of a segment that were aborted: `.txnindex` (docs/log_format.md, "Transaction index").

The file exists only once there is something to say. Entries are few, so they are kept in memory.
"""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from odradek.log.segments.index_file import CorruptIndexError
from odradek.log.storage.files import FileSystem

_last_offset = attrgetter("last_offset")

LAYOUT = Struct(">hqqqq")
CURRENT_VERSION = 0


class AbortedTxn(NamedTuple):
    """An aborted transaction: the offsets of its first record and of its marker, and the last stable offset
    at the time the marker was written."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    def encode(self) -> bytes:
        """The 34 bytes of the entry."""
        return LAYOUT.pack(CURRENT_VERSION, *self)


def decode_entries(content: bytes) -> list[AbortedTxn]:
    """The entries of a file.

    Raises:
        CorruptIndexError: it is cut off, or of a newer version.
    """
    if len(content) % LAYOUT.size:
        raise CorruptIndexError(f"{len(content)} bytes are no multiple of {LAYOUT.size}")
    entries = []
    for version, *fields in LAYOUT.iter_unpack(content):
        if version > CURRENT_VERSION:
            raise CorruptIndexError(f"an entry of version {version}, the newest known is {CURRENT_VERSION}")
        entries.append(AbortedTxn(*fields))
    return entries


class TxnIndex:
    """The transaction index of one segment.

    Raises:
        OSError: by every method that touches the disk.
    """

    def __init__(self, files: FileSystem, path: Path, base_offset: int) -> None:
        self._files = files
        self.path = path
        self.base_offset = base_offset
        # By rising `last_offset`, in the order in which their markers were written.
        self.entries: list[AbortedTxn] = []
        # How many of them are in the file; fewer than all after a failed write, until the next one.
        self._written = 0

    def load(self) -> None:
        """Read the file, if there is one.

        Raises:
            CorruptIndexError: it does not parse, or has an entry from before the segment.
        """
        self.entries = decode_entries(self._files.read(self.path)) if self._files.exists(self.path) else []
        self.entries.sort(key=_last_offset)
        self._written = len(self.entries)
        for entry in self.entries:
            if entry.last_offset < self.base_offset:
                raise CorruptIndexError(f"{self.path} has {entry}, before offset {self.base_offset}")

    def append(self, entry: AbortedTxn) -> None:
        """Add an entry; it counts from now on, also if `OSError` says that it is not yet in the file."""
        self.entries.append(entry)
        self.write_pending()

    def write_pending(self) -> None:
        """Write what is not in the file yet."""
        if self._written == len(self.entries):
            return
        file = self._files.open(self.path, create=True)
        try:
            content = b"".join(entry.encode() for entry in self.entries[self._written :])
            file.pwrite([content], self._written * LAYOUT.size)
            self._written = len(self.entries)
        finally:
            file.close()

    def collect(self, fetch_offset: int, upper_bound: int) -> tuple[list[AbortedTxn], bool]:
        """The aborted transactions that overlap the offsets from `fetch_offset` up to `upper_bound`.

        The flag is true when later segments need not be asked.
        """
        overlapping = []
        entries = self.entries
        # In the order of their markers: who reads the end need not look at what ended long before.
        for index in range(bisect_left(entries, fetch_offset, key=_last_offset), len(entries)):
            entry = entries[index]
            if entry.first_offset < upper_bound:
                overlapping.append(entry)
            if entry.last_stable_offset >= upper_bound:
                return overlapping, True
        return overlapping, False

    def truncate_to(self, offset: int) -> None:
        """Drop the transactions whose marker is at or above the offset."""
        self.replace_all([entry for entry in self.entries if entry.last_offset < offset])

    def replace_all(self, entries: list[AbortedTxn]) -> None:
        """Replace all entries. An empty file is left where there was a file, as by Kafka."""
        if entries == self.entries and self._written == len(entries):
            return
        self.entries = list(entries)
        self._written = 0
        if not entries and not self._files.exists(self.path):
            return
        file = self._files.open(self.path, create=True)
        try:
            file.truncate(0)
        finally:
            file.close()
        self.write_pending()
