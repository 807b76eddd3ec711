"""Partitions that are taken out of data folders, and known until that is on the disk.

Before, a loss of power brings them back: one that was made anew in another folder would be there twice.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.errors import KafkaStorageError

if TYPE_CHECKING:
    from odradek.log.folders.checkpointing import Checkpoints
    from odradek.log.folders.data_directories import DataDirectories
    from odradek.log.folders.moves import Moves
    from odradek.log.folders.removing import Removals
    from odradek.log.partition.partition_log import PartitionLog
    from odradek.log.startup.damaged_logs import DamagedLogs
    from odradek.log.storage.files import FileSystem
    from odradek.util.topic_partition import TopicPartition


class TakenOut:
    """Their folders have other names already. One thread takes out, others may sync and look.

    Args: `logs`, `damaged`: lose those that are taken out, and so do `moves`.
    """

    def __init__(
        self,
        logs: dict[TopicPartition, PartitionLog],
        directories: DataDirectories,
        damaged: DamagedLogs,
        moves: Moves,
        removals: Removals,
        checkpoints: Checkpoints,
        files: FileSystem,
    ) -> None:
        self._logs = logs
        self._directories = directories
        self._damaged = damaged
        self._moves = moves
        self._removals = removals
        self._checkpoints = checkpoints
        self._files = files
        self._numbers = count()
        self._changes: dict[Path, dict[TopicPartition, int]] = {}
        """The number of the last change of each partition. Only who takes out writes here."""
        self._last: dict[Path, int] = {}
        """The last change of each data folder, made when its number stands here."""
        self._synced: dict[Path, int] = {}
        """Up to which change each data folder is synced, at least. Only who syncs writes here."""

    def take(self, log: PartitionLog, name: str, *, sync: bool) -> Path:
        """Rename a log's folder, and forget the log. Returns where the folder is.

        Without `sync` it may come back after a loss of power.

        Raises:
            KafkaStorageError: the folder cannot be renamed.
        """
        try:
            log.syncing.finish_swap()
        except OSError as error:
            raise log.storage_error("deleting", error) from error
        key = log.topic, log.partition
        self._moves.cancel(key)
        parent = log.directory.parent
        target = parent / name
        try:
            log.release()
            self._files.rename(log.directory, target)
        except OSError as error:
            raise log.storage_error("deleting", error) from error
        del self._logs[key]
        self._add(parent, key)
        failure = self.sync().get(parent) if sync else None
        if failure is not None:
            raise log.storage_error("deleting", failure) from failure
        return target

    def take_damaged(self, key: TopicPartition) -> bool:
        """Rename the folders of a damaged log, to be removed later: all or none. Returns whether they can.

        Raises:
            KafkaStorageError: a folder cannot be renamed.
        """
        damaged = self._damaged.get(key)
        if damaged is None:
            return False
        parents = [part.directory.parent for part in damaged.parts()]
        if any(self._directories.failure_of(parent) is not None for parent in parents):
            return False
        # Known to all before anything is written, by which a folder may fail.
        for target in self._damaged.retire(key):
            self._removals.add_later(target)
        for parent in parents:
            self._add(parent, key)
            self._damaged.write(parent)
        return True

    def _add(self, parent: Path, key: TopicPartition) -> None:
        """Take note that a partition's folder has another name now, in a data folder."""
        self._checkpoints.gone.add(key)
        if parent not in self._changes or self._is_synced(parent):
            self._changes[parent] = {}
        self._changes[parent][key] = number = next(self._numbers)
        self._last[parent] = number

    def where(self, key: TopicPartition) -> Path | None:
        """The data folder in which a partition may be again after a loss of power."""
        for parent, changes in list(self._changes.items()):
            if changes.get(key, -1) > self._synced.get(parent, -1):
                return parent
        return None

    def require_none(self, key: TopicPartition) -> None:
        """Check that no log of this partition may come back.

        Raises:
            KafkaStorageError: one may.
        """
        parent = self.where(key)
        if parent is None:
            return
        failed = self.sync()
        for path, error in failed.items():
            self._directories.note_error(path, error)
        if parent in failed:
            raise KafkaStorageError(
                f"one is being deleted in {parent}, and would be back after a loss of power: {failed[parent]}"
            )

    def forget(self, parent: Path) -> list[TopicPartition]:
        """A data folder has failed; what may be back with it."""
        up_to = self._synced.get(parent, -1)
        self._last.pop(parent, None)
        return [key for key, number in self._changes.pop(parent, {}).items() if number > up_to]

    def sync(self) -> dict[Path, OSError]:
        """Wait until what was taken out before now is on the disk. May be called in another thread.

        Returns what failed, which `DataDirectories.note_error` is to be told of in the thread of the logs.
        What was taken out there is not made anew before it could be synced.
        """
        failed: dict[Path, OSError] = {}
        for parent, last in list(self._last.items()):
            if self._is_synced(parent):
                continue
            try:
                self._files.fsync_dir(parent)
            except OSError as error:
                failed[parent] = error
            else:
                # Another one may have synced more meanwhile.
                self._synced[parent] = max(last, self._synced.get(parent, -1))
        return failed

    def _is_synced(self, parent: Path) -> bool:
        return self._last.get(parent, -1) <= self._synced.get(parent, -1)
