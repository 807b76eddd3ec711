"""The log of one partition: whose it is, committed, closed, moved, truncated, deleted.

It is a `ReadableLog` (reads, finds), a `SyncedLog` (gets to the disk) and an `AppendableLog` (writes).

Invariants: `log_start_offset` <= `high_watermark` <= `log_end_offset`, and `recovery_point` <=
`log_end_offset`: everything below the recovery point has been synced. What `append` returned is in the page
cache, so it survives the death of the process at any later instruction; with `flush.messages=1` it is on the
disk.

Not for several threads at once. Times are milliseconds since the epoch and are handed in.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from odradek.errors import KafkaStorageError, OffsetOutOfRangeError
from odradek.log.config import LogConfig
from odradek.log.partition import partition_metadata, retention, truncation
from odradek.log.partition.appending import AppendableLog
from odradek.log.partition.readable_log import NO_OFFSET
from odradek.log.segments.segment import Segment
from odradek.log.storage.file_names import LEADER_EPOCHS, PARTITION_METADATA
from odradek.log.storage.files import FileSystem
from odradek.util.clock import Clock

logger = logging.getLogger(__name__)


class PartitionLog(AppendableLog):
    """See the module's docstring. Storage failures are `KafkaError` KAFKA_STORAGE_ERROR.

    Attributes: `log_start_offset`, `log_end_offset`, `high_watermark`, `recovery_point`: offsets;
    `producers`: the `ProducerState`; `epochs`: the `LeaderEpochs`; `segments`; `config`: may be replaced.
    """

    def __init__(
        self, directory: Path, topic: str, partition: int, config: LogConfig, files: FileSystem, clock: Clock
    ) -> None:
        super().__init__(directory, topic, partition, config, files, clock)
        self.topic_id: bytes | None = None
        self.on_recovery_point_lowered: Callable[[], None] | None = None
        """Gets it to the disk before the log is cut. Raises `OSError`."""
        self._removals: list[tuple[int, list[Path]]] = []
        """Files marked as deleted, and when they are to be removed."""

    # What it is.

    def set_topic_id(self, topic_id: bytes) -> None:
        """Write down whose log this is. Raises `KafkaError` if it is another topic's."""
        if self.topic_id == topic_id:
            return
        if self.topic_id is not None:
            raise KafkaStorageError(
                f"{self.directory} belongs to topic id {partition_metadata.topic_id_text(self.topic_id)}, "
                f"not {partition_metadata.topic_id_text(topic_id)}"
            )
        try:
            partition_metadata.write(self.files, self.directory / PARTITION_METADATA, topic_id)
        except OSError as error:
            raise self.storage_error("writing partition.metadata", error) from error
        self.topic_id = topic_id
        self.syncing.names_made += 1

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark, within the log's bounds; returns what it is now."""
        self.high_watermark = min(max(offset, self.log_start_offset), self.log_end_offset)
        self.producers.on_high_watermark(self.high_watermark)
        return self.high_watermark

    def commit_all(self) -> None:
        """Set the high watermark to the log's end, where nobody has to follow."""
        self.high_watermark = end = self.log_end_offset
        if self.producers.has_unreplicated:
            self.producers.on_high_watermark(end)

    # Closing.

    def close(self) -> None:
        """Stop in good order: a snapshot of the producers, trimmed indexes, everything synced.

        Raises `KafkaError` KAFKA_STORAGE_ERROR; the stop is then not a clean one.
        """
        try:
            self.snapshots.take(self.producers, sync=True)
            self.segments.active.close()
        except OSError as error:
            raise self.storage_error("closing", error) from error
        finally:
            self.release()
        self.flush()
        self.release()

    def release(self) -> None:
        """Let go of all descriptors; further use opens the files again."""
        for segment in self.segments:
            segment.release()

    def move_to(self, directory: Path) -> None:
        """Its files are in another folder from now on; see `odradek.log.folders.moving`."""
        self.directory = self.snapshots.directory = directory
        self.epochs.move_to(directory / LEADER_EPOCHS)
        for segment in self.segments:
            segment.move_to(directory)
        # What was marked stays behind, and what a sync under way has done is not for these files.
        self._removals.clear()
        self.syncing.cuts += 1
        self.syncing.names_made += 1

    def delete(self) -> None:
        """Remove the log's folder at once. Raises `OSError`."""
        self.release()
        self.files.remove_tree(self.directory)

    # Truncating and deleting.

    def truncate_to(self, offset: int) -> bool:
        """Drop the records from the offset on; whether there were any. Raises `KafkaError`."""
        try:
            return truncation.truncate_to(self, offset)
        except OSError as error:
            raise self.storage_error(f"truncating to {offset}", error) from error

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything and go on at the offset. Raises `KafkaError`."""
        try:
            truncation.restart_at(self, offset, self._clock.now_ms())
        except OSError as error:
            raise self.storage_error(f"truncating to nothing at {offset}", error) from error

    def reload_producers(self, end_offset: int) -> None:
        """Build the producer state again as it was at the offset. Raises `OSError`."""
        truncation.reload_producers(self, end_offset, self._clock.now_ms())

    def drop_segment(self, segment: Segment) -> None:
        """Take a segment out of the log; its files go after `file.delete.delay.ms`. Raises `OSError`."""
        marked = truncation.mark_deleted(self, segment)
        self.segments.remove(segment)
        self.remove_later(marked)

    def remove_later(self, marked: list[Path]) -> None:
        """Remove files that are marked as deleted after `file.delete.delay.ms`."""
        self._removals.append((self._clock.now_ms() + self._config.file_delete_delay_ms, marked))

    def take_due_files(self, now_ms: int) -> list[Path]:
        """The files that are to be removed now; they are the caller's to remove."""
        if not self._removals:
            return []
        due = [path for at_ms, paths in self._removals if at_ms <= now_ms for path in paths]
        self._removals = [entry for entry in self._removals if entry[0] > now_ms]
        return due

    def remove_deleted_files(self, now_ms: int) -> int:
        """Remove the files whose time has come; how many. Raises `OSError`."""
        due = self.take_due_files(now_ms)
        for path in due:
            self.files.remove(path)
        return len(due)

    def delete_records_before(self, offset: int) -> int:
        """Let the log start at the offset, -1 meaning the high watermark; returns the log's start.

        Raises `KafkaError` OFFSET_OUT_OF_RANGE above the high watermark. The records' files go with the next
        `apply_retention`.
        """
        if offset == NO_OFFSET:
            offset = self.high_watermark
        if offset < 0 or offset > self.high_watermark:
            raise OffsetOutOfRangeError(
                f"cannot delete up to offset {offset}, the high watermark is {self.high_watermark}"
            )
        if offset > self.log_start_offset:
            self.move_log_start(offset)
        return self.log_start_offset

    def move_log_start(self, offset: int) -> None:
        """The log starts at a later offset now."""
        self.log_start_offset = offset
        self.producers.on_log_start(offset)
        try:
            self.epochs.truncate_from_start(offset)
            self.epochs.save()
        except OSError as error:
            # Loading the log does it again.
            logger.warning("the leader epochs of %s are not yet truncated: %s", self.directory, error)

    def apply_retention(self, now_ms: int) -> int:
        """Drop the segments that are too old, too many, or before the log's start; how many.

        Their files are marked, and due after `file.delete.delay.ms` (`take_due_files`). Raises `KafkaError`
        KAFKA_STORAGE_ERROR.
        """
        try:
            return retention.apply(self, now_ms)
        except OSError as error:
            raise self.storage_error("dropping segments", error) from error

    def expire_producers(self, now_ms: int) -> int:
        """Forget producers that were silent for `producer.id.expiration.ms`; how many."""
        return self.producers.remove_expired(now_ms, self.config.producer_id_expiration_ms)
