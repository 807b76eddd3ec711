"""Syncing a log to the disk in three steps, so that the slow one can be done elsewhere.

`PartitionLog.begin_flush` notes what is to be synced, `FlushJob.run` syncs it, `FlushJob.finish` moves the
recovery point. Only `run` waits for the disk; it opens the files for itself, so it may run in another thread
while the log is read and appended to.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.log.files import FileSystem

if TYPE_CHECKING:
    from odradek.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)

NamesVersion = tuple[int, int]
"""How often files were made, and how often the leader epochs were written: what a folder's sync covers."""


class FlushJob:
    """What is to be synced, and up to which offset the log is on the disk then.

    Attributes: `error`: why `run` failed.
    """

    def __init__(
        self,
        log: PartitionLog,
        files: FileSystem,
        up_to: int,
        generation: int,
        names: NamesVersion,
        paths: list[Path],
        directories: list[Path],
    ) -> None:
        self.log = log
        self.up_to = up_to
        self.generation = generation
        self.names = names
        self.error: OSError | None = None
        self._files = files
        self._paths = paths
        self._directories = directories

    def run(self) -> None:
        """Wait for the disk. Never raises `OSError`: `finish` does something about it."""
        try:
            for path in self._paths:
                # A segment may have been dropped meanwhile; then there is nothing to sync.
                self._files.fsync(path)
            for directory in self._directories:
                self._files.fsync_dir(directory)
        except FileNotFoundError:
            logger.info("%r was deleted while it was synced", self.log)
        except OSError as error:
            self.error = error

    def finish(self) -> None:
        """Take note in the log, in the thread that works on it. Raises `KafkaError` KAFKA_STORAGE_ERROR."""
        self.log.finish_flush(self)
