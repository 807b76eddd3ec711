"""Partitions that cannot be used because their files are damaged, while all others are served.

What is known of such a partition is kept until somebody has repaired it: what the checkpoints say of it, and
whether it still has to be read through as after a kill. Its files are not touched.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from odradek.errors import KafkaStorageError
from odradek.log.partition import partition_metadata
from odradek.log.startup.clean_stop import Known, LastStop, write_damaged
from odradek.log.storage.file_names import PARTITION_METADATA, delete_dir
from odradek.util.topic_partition import TopicPartition

if TYPE_CHECKING:
    from odradek.log.storage.files import FileSystem

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class DamagedLog:
    """One partition: its folder, the reason, and what is known of it.

    Attributes: `was_clean`: whether it was closed at its last stop; `known_sizes`: what that stop has written
    down; `elsewhere`: the same partition in other data folders, of which nobody knows which folder counts.
    """

    topic: str
    partition: int
    directory: Path
    reason: str
    recovery_point: int
    log_start_offset: int
    high_watermark: int
    was_clean: bool
    known_sizes: Known | None = None
    elsewhere: tuple[DamagedLog, ...] = ()

    def parts(self) -> Iterator[DamagedLog]:
        """This log, and the same partition in other data folders."""
        yield self
        yield from self.elsewhere

    @property
    def key(self) -> TopicPartition:
        """The partition."""
        return self.topic, self.partition

    @property
    def known_end(self) -> int:
        """The log went on to this offset at least; not all of it need have been synced."""
        return max(self.recovery_point, self.log_start_offset, self.high_watermark)


class DamagedLogs(dict[TopicPartition, DamagedLog]):
    """The damaged logs of a broker, by partition. That a folder is gone shows when its log is asked for.

    Args: `on_write_error`: told of a data folder in which it cannot be noted what is known of them.
    """

    def __init__(self, files: FileSystem, on_write_error: Callable[[Path, OSError], None]) -> None:
        super().__init__()
        self._files = files
        self._on_write_error = on_write_error
        self._not_there: dict[TopicPartition, DamagedLog] = {}
        """The checkpoints' words on partitions that a start has not found on the disk. From `settle` on
        none of them is a key of this dict."""
        self._gone: set[TopicPartition] = set()
        """Those of them that were asked for since: there are no files that could be repaired."""

    def note(self, damaged: Iterable[DamagedLog], spoken_of: Mapping[TopicPartition, DamagedLog]) -> None:
        """Take note of what a start has found in a data folder, and of whom its checkpoints speak."""
        self.update((damaged_log.key, damaged_log) for damaged_log in damaged)
        self._not_there.update(spoken_of)

    def settle(self, usable: Iterable[TopicPartition]) -> None:
        """End the start: log what is damaged, and forget what the checkpoints say of logs that are there.

        Args:
            usable: the logs that can be used.
        """
        for key in (*usable, *self):
            self._not_there.pop(key, None)
        for damaged_log in self.values():
            logger.error("%s-%d is damaged and offline: %s", *damaged_log.key, damaged_log.reason)

    def in_folder(self, path: Path) -> list[DamagedLog]:
        """Return the damaged logs in a data folder."""
        return [
            part
            for damaged_log in self.values()
            for part in damaged_log.parts()
            if part.directory.parent == path
        ]

    def known_in(self, path: Path) -> LastStop:
        """Return the damaged logs of a folder as their last stop left them.

        Nothing has touched them since, so the next start has the same work with them.
        """
        here = self.in_folder(path)
        segments = {part.key: part.known_sizes for part in here if part.known_sizes is not None}
        return LastStop(segments, frozenset(part.key for part in here if not part.was_clean), {})

    def write(self, path: Path) -> None:
        """Note in a data folder what is known of those in it."""
        try:
            write_damaged(self._files, path, self.known_in(path))
        except OSError as error:
            logger.warning("what is known of damaged logs is not written: %s", error)
            self._on_write_error(path, error)

    def is_missed(self, key: TopicPartition) -> bool:
        """Return whether the checkpoints speak of records of a partition whose folder is gone."""
        missing = self._not_there.get(key)
        return missing is not None and missing.known_end > 0

    def require_none(self, key: TopicPartition, *, is_new: bool) -> None:
        """Check that a log may be made.

        Raises:
            KafkaStorageError: it may not, as there is one, or was.
        """
        missing = self._not_there.get(key)
        # A topic of that name that was just made: what the checkpoints say is of a deleted one.
        if is_new:
            self._not_there.pop(key, None)
            if key in self._gone:
                self._gone.discard(key)
                self.pop(key, None)
        elif missing is not None and missing.known_end:
            del self._not_there[key]
            reason = (
                f"the folder {missing.directory} is gone; the log went on to offset {missing.known_end}. "
                "Restore it, or delete the topic"
            )
            self[key] = replace(missing, reason=reason)
            self._gone.add(key)
        if key in self:
            raise KafkaStorageError(self[key].reason)

    def retire(self, key: TopicPartition) -> list[Path]:
        """Take a log out as its topic is deleted; the names under which its folders go.

        Raises:
            KafkaStorageError: the log cannot be taken out.
        """
        targets: list[Path] = []
        for part in self[key].parts():
            target = part.directory.parent / delete_dir(*key, uuid4())
            try:
                if self._files.is_dir(part.directory):
                    self._files.rename(part.directory, target)
                    targets.append(target)
            except OSError as error:
                # What has gone already the next start removes.
                raise KafkaStorageError(f"{part.directory} cannot be deleted: {error}") from error
        del self[key]
        return targets

    def topic_id(self, key: TopicPartition) -> bytes | None:
        """Return the topic id in the partition's folders; None where none has one, or they differ."""
        topic_ids = self._topic_ids(key)
        return topic_ids.pop() if len(topic_ids) == 1 else None

    def may_be_of(self, key: TopicPartition, topic_id: bytes) -> bool:
        """Return whether none of its folders says that it belongs to another topic."""
        return self._topic_ids(key) <= {topic_id}

    def _topic_ids(self, key: TopicPartition) -> set[bytes]:
        topic_ids = set()
        for part in self[key].parts():
            try:
                topic_id = partition_metadata.read(self._files, part.directory / PARTITION_METADATA)
            except OSError:
                continue
            if topic_id is not None:
                topic_ids.add(topic_id)
        return topic_ids
