"""One of a broker's data folders: its lock, and whether it can still be used.

A folder whose disk fails is given up for as long as the process lives, and it alone: what could not be
written there may be on the disk in part, so only a start, which looks at everything, can trust it again.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from odradek.log.errors import DataDirectoryInUseError
from odradek.log.storage.file_names import LOCK
from odradek.log.storage.files import DirectoryLock, FileSystem, LockHeldError

_OF_THE_DISK = frozenset(
    number
    for name in ("EIO", "EROFS", "ENXIO", "ENODEV", "ESTALE", "ENOTCONN", "ESHUTDOWN", "EREMOTEIO", "EUCLEAN")
    if (number := getattr(errno, name, None)) is not None
)

FULL = frozenset(
    number for name in ("ENOSPC", "EDQUOT") if (number := getattr(errno, name, None)) is not None
)

_OF_ONE_FILE = frozenset(
    (errno.EISDIR, errno.ENOTDIR, errno.ENOENT, errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENAMETOOLONG)
)
"""Errors by which one log is damaged; by all others, EIO first, the folder cannot be relied on."""


@dataclass
class DataDirectory:
    """One data folder.

    Attributes: `was_clean`: whether the last stop was; `failure`: why it is not used any more, None while it
    is; `may_have_lost`: whether a sync in it has failed, so that what was written may be lost without a boot.
    """

    path: Path
    lock: DirectoryLock | None = None
    was_clean: bool = False
    failure: str | None = None
    may_have_lost: bool = False

    @property
    def is_online(self) -> bool:
        """Return whether it can be used."""
        return self.failure is None

    def take(self, files: FileSystem) -> None:
        """Make the folder if need be, and lock it.

        Raises:
            DataDirectoryInUseError: another process has the lock.
            OSError: the folder cannot be made or locked.
        """
        try:
            files.make_dirs(self.path)
            self.lock = files.lock(self.path / LOCK)
        except LockHeldError as error:
            raise DataDirectoryInUseError(self.path / LOCK, error.holder_pid) from None

    def fail(self, reason: str) -> None:
        """Give the folder up until the next start."""
        self.failure = reason
        self.note_loss()

    def note_loss(self) -> None:
        """Note that the kernel may have dropped what it could not write: the next start, even under the same
        boot, does not rely on the page cache.
        """
        self.may_have_lost = True
        if self.lock is not None:
            self.lock.forget_boot()

    def note_boot(self) -> None:
        """See `DataDirectories.note_boot`."""
        if self.lock is not None and not self.may_have_lost:
            self.lock.note_boot()

    def unlock(self) -> None:
        """Let go of the lock. Harmless twice."""
        lock, self.lock = self.lock, None
        if lock is not None:
            lock.release()


class ReplicaState(NamedTuple):
    """A log in a folder: `size_bytes` of its segments; `offset_lag`: how far a copy that is being made
    (`is_future`) is behind, or how far the high watermark is behind the log's end."""

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    is_future: bool = False


class DirectoryState(NamedTuple):
    """A folder as DescribeLogDirs tells of it: its failure, None for none; the size of its file system and
    what is free of it, in bytes, -1 where that cannot be told; the logs in it.
    """

    path: Path
    failure: str | None
    total_bytes: int
    usable_bytes: int
    replicas: list[ReplicaState]


def is_disk_failure(files: FileSystem, directory: Path, error: OSError) -> bool:
    """Return whether an error means that the whole folder cannot be relied on.

    A full disk, or a name that is too long, fails what was asked for and nothing else.
    """
    if error.errno in _OF_THE_DISK:
        return True
    # A file that is gone is one file's trouble, unless the folder went with it, as by an unmount.
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        try:
            return not files.is_dir(directory)
        except OSError:
            return True
    return False


def is_of_one_file(files: FileSystem, directory: Path, error: OSError) -> bool:
    """Return whether an error concerns a file or a partition's folder alone: it is no file, or may not be
    used.
    """
    return error.errno in _OF_ONE_FILE and not is_disk_failure(files, directory, error)
