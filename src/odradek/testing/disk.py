"""A disk that a test can fill: the operating system's files, and no room for more while it says so."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odradek.log.storage.real_files import RealFileSystem

if TYPE_CHECKING:
    from odradek.log.storage.files import Buffer, File


class Disk(RealFileSystem):
    """The file system of a broker in a test; see `odradek.log.storage.files.FileSystem`.

    Attributes:
        is_full: whether there is no room: what is written fails with ENOSPC, what is read or removed does
            not.
        syncs: whether `fsync` waits for the device. For data that goes with the test it need not: what the
            operating system has been given survives a broker that is killed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_full = False
        self.syncs = True

    def require_room(self, path: Path) -> None:
        """Check that something may be written.

        Raises:
            OSError: the disk is full.
        """
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))

    def open(self, path: Path, *, create: bool = False) -> Any:
        """See `FileSystem.open`. A file without content needs no room."""
        return _DiskFile(self, super().open(path, create=create))

    def write_atomically(self, path: Path, content: bytes, *, sync: bool = True) -> None:
        """See `FileSystem.write_atomically`."""
        self.require_room(path)
        super().write_atomically(path, content, sync=sync and self.syncs)

    def fsync(self, path: Path) -> None:
        """See `FileSystem.fsync`."""
        if self.syncs:
            super().fsync(path)

    def fsync_dir(self, directory: Path) -> None:
        """See `FileSystem.fsync_dir`."""
        if self.syncs:
            super().fsync_dir(directory)

    def copy(self, source: Path, target: Path, position: int = 0, size: int | None = None) -> int:
        """See `FileSystem.copy`."""
        self.require_room(target)
        return super().copy(source, target, position, size)

    def space(self, path: Path) -> tuple[int, int]:
        """See `FileSystem.space`."""
        total, free = super().space(path)
        return total, 0 if self.is_full else free


def _nothing() -> None:
    """Wait for no device."""


class _DiskFile:
    """See `odradek.log.storage.files.File`."""

    __slots__ = ("_disk", "_file", "close", "fsync", "path", "pread", "range", "size", "truncate")

    def __init__(self, disk: Disk, file: File) -> None:
        self._disk = disk
        self._file = file
        self.path = file.path
        # What needs no room is the file's own: a read costs nothing more.
        self.pread, self.range, self.size = file.pread, file.range, file.size
        self.truncate, self.close = file.truncate, file.close
        self.fsync = file.fsync if disk.syncs else _nothing

    def pwrite(self, parts: Sequence[Buffer], position: int) -> int:
        self._disk.require_room(self.path)
        return self._file.pwrite(parts, position)

    def pwrite_batch(self, batch: Buffer, position: int, base_offset: int, leader_epoch: int) -> int:
        self._disk.require_room(self.path)
        return self._file.pwrite_batch(batch, position, base_offset, leader_epoch)
