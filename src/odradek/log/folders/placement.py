"""The place of new logs: the usable data folder that has the fewest, or the one that was asked for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.errors import InvalidTopicError, KafkaStorageError
from odradek.log.partition import partition_metadata
from odradek.log.storage.file_names import PARTITION_METADATA, partition_dir
from odradek.util.topic_partition import TopicPartition

if TYPE_CHECKING:
    from odradek.log.folders.data_directories import DataDirectories
    from odradek.log.partition.partition_log import PartitionLog
    from odradek.log.storage.files import FileSystem

logger = logging.getLogger(__name__)


class Placement:
    """The folders of new logs, beside those there are.

    Args: `preferred`: says which one was asked for (`Moves.preferred`).
    """

    def __init__(
        self,
        logs: Mapping[TopicPartition, PartitionLog],
        directories: DataDirectories,
        files: FileSystem,
        preferred: Callable[[TopicPartition], Path | None],
    ) -> None:
        self._logs = logs
        self._directories = directories
        self._preferred = preferred
        self._files = files
        self._prepared: dict[TopicPartition, Path] = {}
        """Folders that were made for logs which are about to be created."""

    def prepare(self, fresh: Sequence[tuple[str, int, bytes | None]]) -> None:
        """Make folders, and wait until they are on the disk; see `LogManager.prepare`."""
        counts = self._counts()
        touched = set()
        for topic, partition, topic_id in fresh:
            if not counts:
                return
            parent = self._preferred((topic, partition)) or min(counts, key=counts.__getitem__)
            try:
                directory = parent / partition_dir(topic, partition)
                self._files.make_dirs(directory)
                if topic_id is not None:
                    partition_metadata.write(self._files, directory / PARTITION_METADATA, topic_id)
            except (OSError, InvalidTopicError) as error:
                logger.warning("no folder could be made for %s-%d in %s: %s", topic, partition, parent, error)
                continue
            self._prepared[topic, partition] = directory
            counts[parent] += 1
            touched.add(parent)
        for path in touched:
            try:
                self._files.fsync_dir(path)
            except OSError as error:
                logger.warning("%s could not be synced: %s", path, error)

    def take(self, key: TopicPartition) -> Path:
        """The folder for a log that is created now, made before if it was prepared.

        Raises:
            KafkaStorageError: no data folder can be used.
            InvalidTopicError: the name cannot be a folder's.
        """
        directory = self._prepared.pop(key, None)
        if directory is None or self._directories.failure_of(directory.parent) is not None:
            parent = self._preferred(key) or self._emptiest()
            directory = parent / partition_dir(*key)
        return directory

    def _emptiest(self) -> Path:
        counts = self._counts()
        if not counts:
            raise KafkaStorageError("all data folders have failed")
        return min(counts, key=counts.__getitem__)

    def _counts(self) -> dict[Path, int]:
        """Return how many logs each usable folder has."""
        counts = dict.fromkeys(self._directories.online, 0)
        for path in [*(log.directory for log in list(self._logs.values())), *list(self._prepared.values())]:
            if path.parent in counts:
                counts[path.parent] += 1
        return counts
