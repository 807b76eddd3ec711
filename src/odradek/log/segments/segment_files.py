# compiled: mypyc
"""The files of a segment: `<base offset>.log` and its indexes, made, opened, moved, marked as deleted.

Paths and indexes are made when they are first asked for: a start has many segments and needs few of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from odradek.log.segments.index_file import CorruptIndexError
from odradek.log.segments.offset_index import OffsetIndex
from odradek.log.segments.time_index import TimeIndex
from odradek.log.segments.txn_index import TxnIndex
from odradek.log.storage.file_names import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    numbered,
    with_marker,
)
from odradek.log.storage.files import File, FileRange, FileSystem

logger = logging.getLogger(__name__)


def check_index_sizes(sizes: Mapping[str, int], base_offset: int) -> None:
    """Check that the indexes are there, and have sizes that they can have.

    Raises:
        CorruptIndexError: one is missing, or has another size.
    """
    stem = numbered(base_offset, "")
    size, time_size = sizes.get(stem + INDEX_SUFFIX), sizes.get(stem + TIME_INDEX_SUFFIX)
    # The usual case first: a start asks this of each segment of each log.
    if (
        size is not None
        and time_size is not None
        and not size % OffsetIndex.layout.size
        and not time_size % TimeIndex.layout.size
    ):
        return
    for suffix, layout in ((INDEX_SUFFIX, OffsetIndex.layout), (TIME_INDEX_SUFFIX, TimeIndex.layout)):
        name = numbered(base_offset, suffix)
        size = sizes.get(name)
        if size is None:
            raise CorruptIndexError(f"{name} is missing")
        if size % layout.size:
            raise CorruptIndexError(f"{name} has {size} bytes, no multiple of {layout.size}")


class SegmentFiles:
    """A `Segment` on the disk.

    Attributes: `size`: the bytes that count; the file may be longer where a failed write could not be undone.
    `created_ms`: when it was made, or taken up.

    Raises:
        OSError: by every method that touches the disk.
    """

    def __init__(
        self, files: FileSystem, directory: Path, base_offset: int, index_interval: int, index_bytes: int
    ) -> None:
        self._files = files
        self._directory = directory
        self.base_offset = base_offset
        self.index_interval = index_interval
        self._index_bytes = index_bytes
        self._deferred = False
        """Whether the indexes are loaded when they are first used."""
        self.size = 0
        self.created_ms = 0
        self._handle: File | None = None
        self._unclean_end = False
        """Whether a failed write may have left bytes behind `size`."""
        self._unclean_offset = base_offset
        """With an `_unclean_end`: nothing that counts reaches this offset, whatever the indexes say."""
        self._path: Path | None = None
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._txn_index: TxnIndex | None = None

    @property
    def path(self) -> Path:
        """The file."""
        path = self._path
        if path is None:
            self._path = path = self._directory / numbered(self.base_offset, LOG_SUFFIX)
        return path

    @path.setter
    def path(self, path: Path) -> None:
        """Set the name of a file that is not called, or not yet, after its base offset."""
        self._path = path

    @property
    def offset_index(self) -> OffsetIndex:
        """The index by offset."""
        index = self._offset_index
        if index is None:
            self._offset_index = index = self._new_offset_index()
        return index

    @property
    def time_index(self) -> TimeIndex:
        """The index by time."""
        index = self._time_index
        if index is None:
            self._time_index = index = self._new_time_index()
        return index

    @property
    def txn_index(self) -> TxnIndex:
        """The index of aborted transactions."""
        index = self._txn_index
        if index is None:
            path = self._directory / numbered(self.base_offset, TXN_INDEX_SUFFIX)
            self._txn_index = index = TxnIndex(self._files, path, self.base_offset)
        return index

    def _new_offset_index(self) -> OffsetIndex:
        path = self._directory / numbered(self.base_offset, INDEX_SUFFIX)
        index = OffsetIndex(self._files, path, self.base_offset, self._index_bytes)
        if self._deferred:
            index.defer(lambda: self._load_index(lambda: index.load(self.size)))
        return index

    def _new_time_index(self) -> TimeIndex:
        path = self._directory / numbered(self.base_offset, TIME_INDEX_SUFFIX)
        index = TimeIndex(self._files, path, self.base_offset, self._index_bytes)
        if self._deferred:
            index.defer(lambda: self._load_index(index.load))
        return index

    def _load_index(self, load: Callable[[], None]) -> None:
        try:
            load()
        except CorruptIndexError as error:
            logger.warning("building the indexes of %s again: %s", self.path, error)
            self.rebuild_indexes()

    def rebuild_indexes(self) -> None:
        """Give the segment new indexes, from what can be read of it."""
        from odradek.log.segments.segment_scan import scan_segment

        scan = scan_segment(self._files, self.path, self.base_offset, self.index_interval)
        if scan.problem is not None:
            logger.error("%s is damaged at position %d: %s", self.path, scan.valid_bytes, scan.problem)
        self.offset_index.replace_all(bytes(scan.offset_entries))
        self.time_index.replace_all(bytes(scan.time_entries))

    def _file(self) -> File:
        handle = self._handle
        if handle is None:
            self._handle = handle = self._files.open(self.path)
        return handle

    def create(self, now_ms: int, preallocate_bytes: int = 0) -> None:
        """Make the files of a new segment, taking the place of any that were left over."""
        self._handle = self._files.open(self.path, create=True)
        # A file of that name is what a roll that failed has left.
        self._handle.truncate(0)
        if preallocate_bytes:
            self._handle.truncate(preallocate_bytes)
        self._files.remove(self.txn_index.path)
        self.offset_index.create()
        self.time_index.create()
        self.created_ms = now_ms

    def take_up(self, sizes: Mapping[str, int], now_ms: int) -> None:
        """As `load`, but for the indexes' content, which is looked at when it is needed.

        An index that is bad then is built again. `sizes` are those of the folder's files.
        """
        self.size = sizes[numbered(self.base_offset, LOG_SUFFIX)]
        self.created_ms = now_ms
        check_index_sizes(sizes, self.base_offset)
        if numbered(self.base_offset, TXN_INDEX_SUFFIX) in sizes:
            self.txn_index.load()
        self._deferred = True

    def load(self, size: int, now_ms: int) -> None:
        """Take the segment as it is.

        Raises:
            CorruptIndexError: an index is missing or bad.
        """
        self.size = size
        self.created_ms = now_ms
        for index in (self.offset_index, self.time_index):
            if not self._files.exists(index.path):
                raise CorruptIndexError(f"{index.path} is missing")
        self.offset_index.load(size)
        self.time_index.load()
        self.txn_index.load()

    def release(self) -> None:
        """Let go of the descriptors; further use opens the files again."""
        for index in (self._offset_index, self._time_index):
            if index is not None:
                index.close()
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.close()

    def move_to(self, directory: Path) -> None:
        """Go on with the files in another folder, with the same content as far as it counts."""
        self.release()
        self._directory = directory
        self._path = None
        for index in (self._offset_index, self._time_index, self._txn_index):
            if index is not None:
                index.path = directory / index.path.name
        # Only `size` bytes were copied.
        self._unclean_end = False

    def _trim(self) -> None:
        self.offset_index.trim()
        self.time_index.trim()
        # Preallocated zeros, and what a failed write has left: a start would take both for a torn tail.
        if self._file().size() != self.size:
            self._file().truncate(self.size)
        self._unclean_end = False

    def _cut_unclean_end(self) -> None:
        """Drop what a failed write has left behind the segment's end, in the file and in the indexes."""
        self._file().truncate(self.size)
        # Also what they know of their last entries may be what has failed.
        self.offset_index.truncate_to(self._unclean_offset)
        self.time_index.truncate_to(self._unclean_offset)
        self._unclean_end = False

    def become_active(self) -> None:
        """Get ready to be written to."""
        self.offset_index.reserve()
        self.time_index.reserve()

    def paths(self) -> list[Path]:
        """All files of the segment, whether they exist or not."""
        return [self.path, self.offset_index.path, self.time_index.path, self.txn_index.path]

    def mark_deleted(self) -> list[Path]:
        """Rename the files, to be removed later; their new names. A start removes them as well."""
        self.release()
        marked = []
        for path in self.paths():
            if self._files.exists(path):
                self._files.rename(path, with_marker(path, DELETED_SUFFIX))
                marked.append(with_marker(path, DELETED_SUFFIX))
        return marked

    def modified_ms(self) -> int:
        """Return when the segment was last written to."""
        return self._files.modified_ms(self.path)

    def pread(self, size: int, position: int) -> bytes:
        """Bytes of the segment."""
        return (self._handle or self._file()).pread(size, position)

    def range(self, size: int, position: int) -> FileRange | None:
        """Bytes of the segment, not read; None where the file system can only read."""
        return (self._handle or self._file()).range(size, position)
