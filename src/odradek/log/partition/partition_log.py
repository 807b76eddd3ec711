# compiled: mypyc
"""The log of one partition (UnifiedLog): its topic id, its high watermark; closing, moving, deleting it.

It is a `ReadableLog` (reads, finds), a `SyncedLog` (gets to the disk), a `TruncatableLog` (begins segments;
loses records at its end, segments at its start) and an `AppendableLog` (writes).

Invariants: `log_start_offset` <= `high_watermark` <= `log_end_offset`, and `recovery_point` <=
`log_end_offset`: everything below the recovery point has been synced. What `append` returned is in the page
cache, so it survives the death of the process at any later instruction; with `flush.messages=1` it is on the
disk.

Not for several threads at once. Times are milliseconds since the epoch and are handed in.
"""

from __future__ import annotations

from pathlib import Path

from odradek.errors import KafkaStorageError, OffsetOutOfRangeError
from odradek.log.config import LogConfig
from odradek.log.partition import partition_metadata, retention
from odradek.log.partition.appending import AppendableLog
from odradek.log.partition.readable_log import NO_OFFSET
from odradek.log.storage.file_names import LEADER_EPOCHS, PARTITION_METADATA
from odradek.log.storage.files import FileSystem
from odradek.util.clock import Clock


class PartitionLog(AppendableLog):
    """See the module's docstring. Storage failures are `KafkaError` KAFKA_STORAGE_ERROR.

    Attributes: `log_start_offset`, `log_end_offset`, `high_watermark`, `recovery_point`: offsets;
    `producers`: the `ProducerState`; `epochs`: the `LeaderEpochs`; `segments`; `config`: may be replaced.
    `topic_id`: as `partition.metadata` has it, None for a log of before Kafka 2.8; never another once it is
    set.
    """

    def __init__(
        self, directory: Path, topic: str, partition: int, config: LogConfig, files: FileSystem, clock: Clock
    ) -> None:
        super().__init__(directory, topic, partition, config, files, clock)
        self.topic_id: bytes | None = None

    # What it is.

    def set_topic_id(self, topic_id: bytes) -> None:
        """Write down whose log this is.

        Raises:
            KafkaStorageError: it is another topic's, or the file cannot be written.
        """
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
        # The next sync takes the new name in, before the recovery point moves over what relies on it.
        self.syncing.names_made += 1

    def commit_all(self) -> None:
        """Set the high watermark to the log's end, where nobody has to follow."""
        self.high_watermark = end = self.log_end_offset
        if self.producers.has_unreplicated:
            self.producers.on_high_watermark(end)

    # Closing.

    def close(self) -> None:
        """Stop in good order: a snapshot of the producers, trimmed indexes, everything synced.

        Raises:
            KafkaStorageError: the files could not be written or synced; the stop is then not a clean one.
        """
        try:
            # After a failed sync nothing may tell the next start that this log is whole
            # (docs/decisions/a-failed-sync-is-the-last.md).
            self.syncing.check()
            # After a clean stop no segment is read through: the snapshot is all that is known of producers.
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
        """Go on with the log's files in another folder; see `odradek.log.folders.moving`."""
        self.directory = self.snapshots.directory = directory
        self.epochs.move_to(directory / LEADER_EPOCHS)
        for segment in self.segments:
            segment.move_to(directory)
        # What was marked stays behind, and what a sync under way has done is not for these files.
        self._removals.clear()
        self.syncing.cuts += 1
        self.syncing.names_made += 1

    def delete(self) -> None:
        """Remove the log's folder at once.

        Raises:
            OSError: a file cannot be removed.
        """
        self.release()
        self.files.remove_tree(self.directory)

    # Deleting.

    def delete_records_before(self, offset: int) -> int:
        """Let the log start at the offset, -1 meaning the high watermark; returns the log's start.

        The records' files go with the next `apply_retention`.

        Raises:
            OffsetOutOfRangeError: the offset is above the high watermark.
        """
        if offset == NO_OFFSET:
            offset = self.high_watermark
        # Above it records may yet be cut by another leader: a start there would be beyond the log's end.
        if offset < 0 or offset > self.high_watermark:
            raise OffsetOutOfRangeError(
                f"cannot delete up to offset {offset}, the high watermark is {self.high_watermark}"
            )
        if offset > self.log_start_offset:
            self.move_log_start(offset)
        return self.log_start_offset

    def apply_retention(self, now_ms: int) -> int:
        """Drop the segments that are too old, too many, or before the log's start; returns how many.

        Their files are marked, and due after `file.delete.delay.ms` (`take_due_files`).

        Raises:
            KafkaStorageError: the files could not be renamed.
        """
        try:
            return retention.apply(self, now_ms)
        except OSError as error:
            raise self.storage_error("dropping segments", error) from error

    def expire_producers(self, now_ms: int) -> int:
        """Forget producers that were silent for `producer.id.expiration.ms`; returns how many."""
        return self.producers.remove_expired(now_ms, self.config.producer_id_expiration_ms)
