"""Removing what was marked as deleted: large files take the file system its time, so that is done elsewhere.

What is to be removed is renamed first (`.deleted`, `-delete`), so nothing depends on when it goes: it is due
after `file.delete.delay.ms`, and whatever a stop has left is due when the broker is started again.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.log.partition.partition_log import PartitionLog
    from odradek.log.storage.files import FileSystem
    from odradek.util.clock import Clock
    from odradek.util.topic_partition import TopicPartition

logger = logging.getLogger(__name__)


class RemovalJob:
    """Files and folders whose time has come. `run` may be called in another thread.

    Attributes: `left`: the folders that could not be removed.
    """

    def __init__(self, files: FileSystem, paths: list[Path], folders: list[Path]) -> None:
        self._files = files
        self.paths = paths
        self.folders = folders
        self.left: list[Path] = []

    def __len__(self) -> int:
        """Return how many files and folders."""
        return len(self.paths) + len(self.folders)

    def run(self) -> int:
        """Remove them; how many could be. Never raises `OSError`: what is left the next start removes."""
        removed = 0
        for path in self.paths:
            try:
                self._files.remove(path)
                removed += 1
            except OSError as error:
                logger.error("removing %s failed: %s", path, error)
        for folder in self.folders:
            try:
                self._files.remove_tree(folder)
                removed += 1
            except OSError as error:
                logger.error("removing %s failed, it is tried again: %s", folder, error)
                self.left.append(folder)
        return removed


class Removals:
    """The things that wait to be removed: folders of deleted partitions with their times, and files that are
    due.

    Args: `logs`: those that drop segments; `delay_ms`: `file.delete.delay.ms` where no topic says otherwise.
    """

    def __init__(
        self, logs: Mapping[TopicPartition, PartitionLog], files: FileSystem, clock: Clock, delay_ms: int
    ) -> None:
        self._logs = logs
        self._files = files
        self._clock = clock
        self._delay_ms = delay_ms
        self._folders: list[tuple[int, Path]] = []
        """A heap: the one that is due first comes first."""
        self._paths: deque[Path] = deque()

    def add(self, at_ms: int, folder: Path) -> None:
        """Remove a folder that has a `-delete` name at a time."""
        heappush(self._folders, (at_ms, folder))

    def add_later(self, folder: Path, delay_ms: int | None = None) -> None:
        """Remove a folder that has a `-delete` name after `file.delete.delay.ms`."""
        self.add(self._clock.now_ms() + (self._delay_ms if delay_ms is None else delay_ms), folder)

    def forget(self, parent: Path) -> None:
        """A data folder has failed: nothing is removed from it."""
        self._folders = [(at_ms, folder) for at_ms, folder in self._folders if folder.parent != parent]
        heapify(self._folders)

    def begin(self, now_ms: int, most: int | None = None) -> RemovalJob:
        """Return what is due, the most files and folders at once; the others stay due."""
        for log in self._logs.values():
            self._paths.extend(log.take_due_files(now_ms))
        room = len(self._paths) + len(self._folders) if most is None else most
        job = RemovalJob(self._files, [], [])
        while self._paths and len(job) < room:
            job.paths.append(self._paths.popleft())
        while self._folders and self._folders[0][0] <= now_ms and len(job) < room:
            job.folders.append(heappop(self._folders)[1])
        return job

    def finish(self, job: RemovalJob, again_ms: int) -> None:
        """Take note of what could not be removed: it is due again at that time."""
        for folder in job.left:
            self.add(again_ms, folder)
