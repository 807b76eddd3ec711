"""The log of one partition: append, flush, truncate, delete; reading and finding are `ReadableLog`'s.

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
from odradek.log.partition import appending, flushing, partition_metadata, retention, truncation
from odradek.log.partition.append_rules import PREFIX, AppendRules
from odradek.log.partition.appending import AppendInfo
from odradek.log.partition.flushing import FlushJob, SyncState
from odradek.log.partition.format_conversion import Prepared, prepare
from odradek.log.partition.readable_log import NO_OFFSET, ReadableLog
from odradek.log.producers.producer_snapshots import ProducerSnapshots
from odradek.log.producers.producer_state import Origin
from odradek.log.segments.segment import Segment
from odradek.log.storage.checkpoint_file import EpochEntry
from odradek.log.storage.file_names import LEADER_EPOCHS, PARTITION_METADATA
from odradek.log.storage.files import Buffer, FileSystem
from odradek.records.batch import LOG_OVERHEAD, MAGIC_V2, BatchHeader
from odradek.util.clock import Clock

logger = logging.getLogger(__name__)

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1


class PartitionLog(ReadableLog):
    """See the module's docstring. Storage failures are `KafkaError` KAFKA_STORAGE_ERROR.

    Attributes: `log_start_offset`, `log_end_offset`, `high_watermark`, `recovery_point`: offsets;
    `producers`: the `ProducerState`; `epochs`: the `LeaderEpochs`; `segments`; `config`: may be replaced.
    """

    def __init__(
        self, directory: Path, topic: str, partition: int, config: LogConfig, files: FileSystem, clock: Clock
    ) -> None:
        super().__init__(directory, topic, partition, files)
        self.config = config
        self.topic_id: bytes | None = None
        self._clock = clock
        self.snapshots = ProducerSnapshots(files, directory)
        self.recovery_point = 0
        self.on_recovery_point_lowered: Callable[[], None] | None = None
        """Gets it to the disk before the log is cut. Raises `OSError`."""
        self.syncing = SyncState(last_ms=clock.now_ms())
        self._removals: list[tuple[int, list[Path]]] = []
        """Files marked as deleted, and when they are to be removed."""

    @property
    def rules(self) -> AppendRules:
        """What the config means for appends."""
        return self._rules

    @property
    def config(self) -> LogConfig:
        """What the log is run with; may be replaced at any time."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self._rules = AppendRules(config)

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

    # Appending.

    def append(
        self,
        records: Buffer,
        *,
        leader_epoch: int,
        origin: Origin = Origin.CLIENT,
        now_ms: int,
        produce_version: int | None = None,
    ) -> AppendInfo:
        """Append as the partition's leader: validate, convert if need be, assign offsets, write.

        Raises `KafkaError`: what `validate_batches`, `validate_message_set` and the conversions raise;
        RECORD_LIST_TOO_LARGE for more than a segment takes; INVALID_PRODUCER_EPOCH,
        OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_TXN_STATE, TRANSACTION_COORDINATOR_FENCED;
        KAFKA_STORAGE_ERROR. Nothing is appended then.
        """
        rules = self._rules
        from_client = origin is Origin.CLIENT
        if rules.magic != MAGIC_V2 or (produce_version is not None and produce_version < 3):
            prepared = self.prepare(
                records, now_ms=now_ms, produce_version=produce_version, from_client=from_client
            )
            return self.append_prepared(prepared, leader_epoch=leader_epoch, origin=origin, now_ms=now_ms)
        records, headers = rules.validated(
            records, from_client=from_client, now_ms=now_ms, produce_version=produce_version
        )
        return appending.append_batches(self, records, headers, leader_epoch, origin, now_ms)

    def prepare(
        self, records: Buffer, *, now_ms: int, produce_version: int | None, from_client: bool = True
    ) -> Prepared:
        """The part of `append` that changes nothing, for another thread where it takes long.

        Raises as `append`, but for what only the log's state can say.
        """
        return prepare(
            self._rules,
            records,
            base_offset=self.log_end_offset,
            from_client=from_client,
            now_ms=now_ms,
            produce_version=produce_version,
        )

    def append_prepared(
        self, prepared: Prepared, *, leader_epoch: int, origin: Origin = Origin.CLIENT, now_ms: int
    ) -> AppendInfo:
        """The rest of `append`."""
        return appending.append_prepared(self, prepared, leader_epoch, origin, now_ms)

    def plain_limits(self, now_ms: int) -> tuple[int, int, int, bool] | None:
        """What a batch must keep to, to be appended as it is.

        The largest size in bytes, the earliest and the latest timestamp, and whether each record needs a key;
        None where the log rewrites what it is given.
        """
        plain = self._rules.plain
        if plain is None:
            return None
        max_bytes, before_ms, after_ms, compacted = plain
        earliest, latest = now_ms - before_ms, now_ms + after_ms
        return (
            max_bytes,
            earliest if earliest > INT64_MIN else INT64_MIN,
            latest if latest < INT64_MAX else INT64_MAX,
            compacted,
        )

    def append_checked(
        self,
        frame: Buffer,
        start: int,
        end: int,
        last_offset_delta: int,
        timestamp: int,
        header: BatchHeader | None,
        *,
        leader_epoch: int,
        now_ms: int,
    ) -> int:
        """As `append`, for one batch that keeps to `plain_limits` and may come next; its base offset.

        `frame[start:end]` is the batch, `timestamp` its largest, `header` is needed where it has a producer.
        Raises `KafkaError` RECORD_LIST_TOO_LARGE and KAFKA_STORAGE_ERROR. Nothing is appended then.
        """
        config = self._config
        size = end - start
        if size > config.segment_bytes or self.syncing.failed:
            appending.require_writable(self, size)
        base_offset = self.log_end_offset
        last_offset = base_offset + last_offset_delta
        if leader_epoch != self.epochs.latest and leader_epoch >= 0:
            self.assign_epochs([EpochEntry(leader_epoch, base_offset)])
        parts = (
            PREFIX.pack(base_offset, size - LOG_OVERHEAD, leader_epoch),
            (frame if frame.__class__ is memoryview else memoryview(frame))[start + PREFIX.size : end],
        )
        segment = self.segments.active
        plain = not config.segment_jitter_ms and not self._rules.compacted
        max_ms = config.segment_ms if plain else appending.segment_ms(self, segment)
        try:
            if not segment.takes_one(
                size, last_offset, timestamp, config.segment_bytes, max_ms
            ) and segment.should_roll(size, last_offset, timestamp, now_ms, config.segment_bytes, max_ms):
                segment = self.roll(now_ms, base_offset)
            segment.append_one(parts, size, last_offset, timestamp)
        except OSError as error:
            raise self.storage_error("appending", error) from error
        self.log_end_offset = self.producers.end_offset = last_offset + 1
        if header is not None:
            appending.note_producer(self, segment, BatchHeader._make((base_offset, *header[1:])), None)
        if last_offset + 1 - self.recovery_point >= config.flush_messages:
            self.flush()
        return base_offset

    def append_follower(self, records: Buffer, *, now_ms: int | None = None) -> AppendInfo | None:
        """Append what the leader sent, at the offsets it has there; None if there is no whole batch.

        Raises `KafkaError`: CORRUPT_MESSAGE; OFFSET_OUT_OF_RANGE where the records begin below the log's end;
        KAFKA_STORAGE_ERROR. Nothing is appended then.
        """
        return appending.append_as_given(self, records, self._clock.now_ms() if now_ms is None else now_ms)

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """A leader of that epoch takes over at the offset. Raises `KafkaError` KAFKA_STORAGE_ERROR."""
        self.assign_epochs([EpochEntry(epoch, start_offset)])

    def assign_epochs(self, entries: list[EpochEntry]) -> None:
        """As `assign_epoch`, for several. A log of messages, which do not tell their epochs, keeps none."""
        if self._rules.magic != MAGIC_V2:
            return
        try:
            self.epochs.assign_all(entries)
        except OSError as error:
            raise self.storage_error("writing the leader epochs", error) from error

    def roll(self, now_ms: int, first_offset: int | None = None) -> Segment:
        """Begin a new segment at the log's end, or at a `first_offset` beyond it. Raises `OSError`.

        If it fails, the log goes on with the segment it had.
        """
        return appending.roll(self, now_ms, first_offset)

    # Flushing and closing.

    def flush(self) -> None:
        """Get everything to the disk; the recovery point is then the log's end.

        Raises `KafkaError` KAFKA_STORAGE_ERROR. After that the kernel may have dropped what it could not
        write, so appends are refused until the log is opened again.
        """
        job = self.begin_flush()
        if job is not None:
            job.run()
            job.finish()

    def begin_flush(self, *, whole_segments_only: bool = False) -> FlushJob | None:
        """What is to be done to sync the log, or only the segments that are complete; None for nothing.

        Raises `KafkaError` KAFKA_STORAGE_ERROR.
        """
        try:
            job = flushing.begin(self, whole_segments_only=whole_segments_only)
        except OSError as error:
            raise self.storage_error("syncing", error) from error
        if not whole_segments_only:
            self.syncing.last_ms = self._clock.now_ms()
        return job

    def is_flush_overdue(self, now_ms: int) -> bool:
        """Whether `flush.ms` is up."""
        return now_ms - self.syncing.last_ms >= self._config.flush_ms

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
