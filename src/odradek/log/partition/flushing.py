# compiled: mypyc
"""Syncing a log to the disk in three steps, so that the slow one can be done elsewhere.

`SyncedLog.begin_flush` notes what is to be synced, `FlushJob.run` syncs it, `FlushJob.finish` moves the
recovery point. Only `run` waits for the disk; it opens the files for itself, so it may run in another thread
while the log is read and appended to.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from odradek.errors import KafkaStorageError
from odradek.log.partition.readable_log import ReadableLog
from odradek.log.producers.producer_snapshots import ProducerSnapshots
from odradek.log.storage.file_names import LEADER_EPOCHS, PARTITION_METADATA
from odradek.log.storage.files import FileSystem
from odradek.util.clock import Clock

logger = logging.getLogger(__name__)

NOT_WRITTEN_TO = (
    "an earlier write or sync to the disk failed, or the broker stops; the broker must be started again"
)
"""Why a log whose `SyncState.failed` is set refuses appends."""

NamesVersion = tuple[int, int]
"""How often files were made, and how often the leader epochs were written: what a folder's sync covers."""


@dataclass
class SyncState:
    """The things that a log's syncs need to know of each other.

    Attributes: `names`: see `NamesVersion`; `names_synced`: what the last sync has covered. `cuts` counts
    truncations: what a sync that was begun before one has done is not what the log is now. `failed`: the
    kernel may have dropped what it could not write, or a write is noted in part, so nothing can be relied on
    until the log is opened anew; or the log manager has closed it for good.
    `swap`: finishes the swap of a cleaned segment, or of the log's folder, that is under way. `moving`: its
    segments are being copied to another data folder, so none may be swapped.
    """

    last_ms: int
    names_made: int = 1
    names_synced: NamesVersion = (0, 0)
    cuts: int = 0
    failed: bool = False
    swap: Callable[[], None] | None = None
    moving: bool = False

    def finish_swap(self) -> None:
        """Finish the swap that is under way, if one is.

        Raises:
            OSError: the files cannot be renamed or synced.
        """
        if self.swap is not None:
            self.swap()

    def check(self) -> None:
        """Check that the disk can be relied on.

        Raises:
            KafkaStorageError: a sync has failed.
        """
        if self.failed:
            raise KafkaStorageError(NOT_WRITTEN_TO)


class FlushJob:
    """The files to sync, and the offset up to which the log is on the disk then.

    Attributes: `error`: why `run` failed.
    """

    def __init__(
        self, log: SyncedLog, up_to: int, names: NamesVersion, paths: list[Path], directories: list[Path]
    ) -> None:
        self.log = log
        self.up_to = up_to
        self.names = names
        self.cuts = log.syncing.cuts
        self.error: OSError | None = None
        self._files = log.files
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
        """Take note in the log, in the thread that works on it.

        Raises:
            KafkaStorageError: the disk failed.
        """
        log, state = self.log, self.log.syncing
        if self.error is not None:
            state.failed = True
            raise log.storage_error("syncing", self.error) from self.error
        if state.failed:
            # By a sync that failed meanwhile; this one has not synced what that one has lost.
            return
        if self.cuts == state.cuts:
            log.recovery_point = max(log.recovery_point, self.up_to)
        state.names_synced = max(state.names_synced, self.names)


class SyncedLog(ReadableLog):
    """The part of a `PartitionLog` that gets it to the disk.

    Attributes:
        snapshots: of the producers' state.
        recovery_point: everything below this offset has been synced.
        syncing: what the syncs need to know of each other.
    """

    def __init__(self, directory: Path, topic: str, partition: int, files: FileSystem, clock: Clock) -> None:
        super().__init__(directory, topic, partition, files)
        self._clock = clock
        self.snapshots = ProducerSnapshots(files, directory)
        self.recovery_point = 0
        self.syncing = SyncState(last_ms=clock.now_ms())

    def flush(self) -> None:
        """Get everything to the disk; the recovery point is then the log's end.

        Raises:
            KafkaStorageError: the disk failed. The kernel may have dropped what it could not write, so
                appends, cuts and further syncs are refused until the log is opened again.
        """
        job = self.begin_flush()
        if job is not None:
            job.run()
            job.finish()

    def begin_flush(self, *, whole_segments_only: bool = False) -> FlushJob | None:
        """Return what is to be done to sync the log, or only its complete segments; None for nothing.

        Raises:
            KafkaStorageError: a sync has failed.
        """
        self.syncing.check()
        try:
            job = self._next_flush(whole_segments_only=whole_segments_only)
        except OSError as error:
            raise self.storage_error("syncing", error) from error
        if not whole_segments_only:
            self.syncing.last_ms = self._clock.now_ms()
        return job

    def sync_file(self, path: Path) -> None:
        """Wait until a file is on the disk.

        Raises:
            OSError: it could not be synced; this is the last sync then.
        """
        try:
            self.files.fsync(path)
        except OSError:
            self.syncing.failed = True
            raise

    def sync_directory(self) -> None:
        """As `sync_file`, of the names of the log's files."""
        try:
            self.files.fsync_dir(self.directory)
        except OSError:
            self.syncing.failed = True
            raise

    def is_flush_overdue(self, now_ms: int) -> bool:
        """Return whether `flush.ms` is up."""
        return now_ms - self.syncing.last_ms >= self._config.flush_ms

    def _next_flush(self, *, whole_segments_only: bool) -> FlushJob | None:
        active, state = self.segments.active, self.syncing
        up_to = active.base_offset if whole_segments_only else self.log_end_offset
        if up_to <= self.recovery_point and not self._end_is_in_a_name():
            return None
        paths: list[Path] = []
        for segment in self.segments.from_offset(self.recovery_point):
            if segment is active and whole_segments_only:
                break
            segment.txn_index.write_pending()
            paths += segment.paths()
        directories = []
        names = (state.names_made, self.epochs.writes)
        if names != state.names_synced:
            paths += [self.directory / LEADER_EPOCHS, self.directory / PARTITION_METADATA]
            directories = [self.directory, self.directory.parent]
        if self.snapshots.latest is not None:
            paths.append(self.snapshots.path(self.snapshots.latest))
        return FlushJob(self, up_to, names, paths, directories)

    def _end_is_in_a_name(self) -> bool:
        """Return whether the log's end hangs on the name of an empty segment.

        It has been made since the last sync, and retention has dropped all others.
        """
        state = self.syncing
        has_new_names = state.names_made > 1 and state.names_made != state.names_synced[0]
        return has_new_names and self.log_end_offset > 0 and self.segments.active.size == 0
