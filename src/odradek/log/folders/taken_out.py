"""Partitions that were taken out of data folders, until that is on the disk.

Before, a loss of power brings them back: one that was made anew in another folder would be there twice.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path

from odradek.errors import KafkaStorageError
from odradek.log.folders.data_directories import DataDirectories
from odradek.log.storage.files import FileSystem
from odradek.util.topic_partition import TopicPartition


class TakenOut:
    """Their folders have other names already. One thread takes out, others may sync and look."""

    def __init__(self, files: FileSystem, directories: DataDirectories) -> None:
        self._files = files
        self._directories = directories
        self._numbers = count()
        self._changes: dict[Path, dict[TopicPartition, int]] = {}
        """The number of the last change of each partition. Only who takes out writes here."""
        self._last: dict[Path, int] = {}
        """The last change of each data folder, made when its number stands here."""
        self._synced: dict[Path, int] = {}
        """Up to which change each data folder is synced, at least. Only who syncs writes here."""

    def add(self, parent: Path, key: TopicPartition) -> None:
        """Take note that a partition's folder has another name now, in a data folder."""
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
        """Raise `KafkaError` KAFKA_STORAGE_ERROR where a log of this partition may come back."""
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
