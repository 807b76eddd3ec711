"""The data folders of a broker, which fail one by one.

A folder whose disk fails goes offline, alone and until the next start, and `on_failed` is told.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from odradek.log.errors import DataDirectoryError
from odradek.log.storage.data_directory import FULL, DataDirectory, DirectoryState, is_disk_failure
from odradek.log.storage.files import FileSystem

logger = logging.getLogger(__name__)


class DataDirectories:
    """Those of `log.dirs`, in their order.

    Making it creates the folders that are missing and locks them: `DataDirectoryInUseError` where another
    broker is at work, `DataDirectoryError` for a folder given twice, or when none can be used.

    Attributes: `paths`; `unread`: folders that had failed before it was known what is in them; `on_failed`:
    told which folder goes offline and why, in the middle of what found it out; `gives_up_full_disks`: whether
    a full disk fails its folder. Without it what was asked for fails, and nothing else, until there is room
    again; `gives_up_failed_syncs`: whether a sync that finds no room fails the folder, too. Without it its
    log alone takes nothing more.
    """

    def __init__(self, paths: Sequence[Path], files: FileSystem) -> None:
        self.paths = [Path(path) for path in paths]
        self.unread: set[Path] = set()
        self.on_failed: Callable[[Path, str], None] | None = None
        self.gives_up_full_disks = False
        self.gives_up_failed_syncs = False
        self._files = files
        if len(set(self.paths)) != len(self.paths):
            raise DataDirectoryError(f"log.dirs names a folder twice: {', '.join(map(str, self.paths))}")
        self._all = [DataDirectory(path) for path in self.paths]
        try:
            self.in_each("the data folder {} cannot be used", lambda directory: directory.take(files))
        except BaseException:
            self.unlock()
            raise

    def __iter__(self) -> Iterator[DataDirectory]:
        """Go through all, also those offline."""
        return iter(self._all)

    @property
    def online(self) -> list[Path]:
        """The folders that can be used."""
        return [directory.path for directory in self._all if directory.is_online]

    @property
    def offline(self) -> list[Path]:
        """The folders that have failed."""
        return [directory.path for directory in self._all if not directory.is_online]

    def failure_of(self, path: Path) -> str | None:
        """Return why a folder is offline; None while it is not."""
        directory = self._at(path)
        return None if directory is None else directory.failure

    def _at(self, path: Path) -> DataDirectory | None:
        return next((directory for directory in self._all if directory.path == path), None)

    def unlock(self) -> None:
        """Let go of the folders. Harmless twice."""
        for directory in self._all:
            directory.unlock()

    def note_boot(self) -> None:
        """Note in each folder by which boot of the machine it is in use: a start within the same boot knows
        that nothing which was written is lost.

        To be called when others know by the in-sync sets what may have been lost so far.
        """
        for directory in self._all:
            directory.note_boot()

    def of_this_boot(self) -> set[Path]:
        """Return those of which the last user noted the boot that still lasts."""
        return {
            directory.path
            for directory in self._all
            if directory.lock is not None and directory.lock.same_boot
        }

    def describe(self) -> dict[Path, DirectoryState]:
        """All, as DescribeLogDirs tells of them, without the logs in them."""
        states = {}
        for directory in self._all:
            path, total, usable = directory.path, -1, -1
            if directory.is_online:
                try:
                    total, usable = self._files.space(path)
                except OSError as error:
                    logger.warning("the size of %s cannot be told: %s", path, error)
            states[path] = DirectoryState(path, directory.failure, total, usable, [])
        return states

    # At a start.

    def in_each(self, failure: str, work: Callable[[DataDirectory], None]) -> None:
        """Do something in each folder that has not failed, and give up those in which that fails.

        Args: `failure`: says of the folder, at `{}`, what has failed.

        Raises:
            DataDirectoryError: none is left.
            Exception: what the work raises, but for `OSError`.
        """
        for directory in self._all:
            if directory.is_online:
                try:
                    work(directory)
                except OSError as error:
                    self._fail_at_start(directory, failure.format(directory.path), error)

    def _fail_at_start(self, directory: DataDirectory, failure: str, error: OSError) -> None:
        """Go on without a folder, while there is another.

        Raises:
            DataDirectoryError: none is left.
        """
        directory.fail(str(error))
        self.unread.add(directory.path)
        directory.unlock()
        self._tell(directory.path, str(error))
        if not self.online:
            raise DataDirectoryError(f"{failure}: {error}") from error
        logger.error("%s: %s. It is offline until the next start", failure, error)

    # Later.

    def note_error(self, path: Path, error: OSError, *, sync_failed: bool = False) -> None:
        """Something went wrong in a folder: give it up if that is what the error means.

        Args: `sync_failed`: whether a log's sync did, so that pages it wrote may be gone.
        """
        directory = self._at(path)
        if sync_failed and directory is not None:
            directory.note_loss()
        gives_up_full = self.gives_up_full_disks or (sync_failed and self.gives_up_failed_syncs)
        is_full = error.errno in FULL and gives_up_full
        if is_full or is_disk_failure(self._files, path, error):
            self.fail(path, str(error))

    def fail(self, path: Path, reason: str) -> None:
        """Give a folder up until the next start. Harmless twice."""
        directory = self._at(path)
        if directory is not None and directory.is_online:
            directory.fail(reason)
            logger.error(
                "the data folder %s has failed and is offline until the next start: %s", path, reason
            )
            self._tell(path, reason)

    def _tell(self, path: Path, reason: str) -> None:
        if self.on_failed is not None:
            self.on_failed(path, reason)
