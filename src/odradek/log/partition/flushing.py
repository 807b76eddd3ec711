"""Syncing a log to the disk in three steps, so that the slow one can be done elsewhere.

`PartitionLog.begin_flush` notes what is to be synced, `FlushJob.run` syncs it, `FlushJob.finish` moves the
recovery point. Only `run` waits for the disk; it opens the files for itself, so it may run in another thread
while the log is read and appended to.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.log.storage.file_names import LEADER_EPOCHS, PARTITION_METADATA

if TYPE_CHECKING:
    from odradek.log.partition.partition_log import PartitionLog

logger = logging.getLogger(__name__)

NamesVersion = tuple[int, int]
"""How often files were made, and how often the leader epochs were written: what a folder's sync covers."""


@dataclass
class SyncState:
    """What a log's syncs need to know of each other.

    Attributes: `names`: see `NamesVersion`; `names_synced`: what the last sync has covered. `cuts` counts
    truncations: what a sync that was begun before one has done is not what the log is now. `failed`: the
    kernel may have dropped what it could not write, so nothing can be relied on until the log is opened anew.
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
        """Let no swap be under way any more. Raises `OSError`."""
        if self.swap is not None:
            self.swap()


class FlushJob:
    """What is to be synced, and up to which offset the log is on the disk then.

    Attributes: `error`: why `run` failed.
    """

    def __init__(
        self, log: PartitionLog, up_to: int, names: NamesVersion, paths: list[Path], directories: list[Path]
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
        """Take note in the log, in the thread that works on it. Raises `KafkaError` KAFKA_STORAGE_ERROR."""
        log, state = self.log, self.log.syncing
        if self.error is not None:
            state.failed = True
            raise log.storage_error("syncing", self.error) from self.error
        if self.cuts == state.cuts:
            log.recovery_point = max(log.recovery_point, self.up_to)
        state.names_synced = max(state.names_synced, self.names)


def begin(log: PartitionLog, *, whole_segments_only: bool) -> FlushJob | None:
    """See `PartitionLog.begin_flush`. Raises `OSError`."""
    active, state = log.segments.active, log.syncing
    up_to = active.base_offset if whole_segments_only else log.log_end_offset
    if up_to <= log.recovery_point and not _end_is_in_a_name(log):
        return None
    paths: list[Path] = []
    for segment in log.segments.from_offset(log.recovery_point):
        if segment is active and whole_segments_only:
            break
        segment.txn_index.write_pending()
        paths += segment.paths()
    directories = []
    names = (state.names_made, log.epochs.writes)
    if names != state.names_synced:
        paths += [log.directory / LEADER_EPOCHS, log.directory / PARTITION_METADATA]
        directories = [log.directory, log.directory.parent]
    if log.snapshots.latest is not None:
        paths.append(log.snapshots.path(log.snapshots.latest))
    return FlushJob(log, up_to, names, paths, directories)


def _end_is_in_a_name(log: PartitionLog) -> bool:
    """Whether the log's end hangs on the name of an empty segment which has been made since the last sync.

    Retention has dropped all others.
    """
    state = log.syncing
    has_new_names = state.names_made > 1 and state.names_made != state.names_synced[0]
    return has_new_names and log.log_end_offset > 0 and log.segments.active.size == 0
