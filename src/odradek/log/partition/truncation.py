# compiled: mypyc
"""Beginning segments, and cutting records off: at the end when another leader knows better, at the start by
segments.

A truncation goes from the end on, so that a stop in between leaves no hole. After an error of the disk the
cut can be begun again, or is completed when the log is loaded; after a sync that failed, by a start alone.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from pathlib import Path

from odradek.log.config import LogConfig
from odradek.log.partition.append_rules import AppendRules
from odradek.log.partition.flushing import SyncedLog
from odradek.log.producers.producer_replay import recall_recent_batches, replay_producers
from odradek.log.segments.segment import Segment
from odradek.log.segments.segment_list import open_segment
from odradek.log.storage.file_names import DELETED_SUFFIX, with_marker
from odradek.log.storage.files import FileSystem
from odradek.log.storage.gap_marker import note_gaps
from odradek.util.clock import Clock

logger = logging.getLogger(__name__)


class TruncatableLog(SyncedLog):
    """The part of a `PartitionLog` that begins segments, and loses records.

    Attributes:
        config: what the log is run with; may be replaced at any time.
        rules: what the config means for appends.
    """

    def __init__(
        self, directory: Path, topic: str, partition: int, config: LogConfig, files: FileSystem, clock: Clock
    ) -> None:
        super().__init__(directory, topic, partition, files, clock)
        self.config = config
        self.on_recovery_point_lowered: Callable[[], None] | None = None
        """Gets it to the disk before the log is cut. Raises `OSError`."""
        self._removals: list[tuple[int, list[Path]]] = []
        """Files marked as deleted, and when they are to be removed."""

    @property
    def config(self) -> LogConfig:
        """See the class."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self.rules = AppendRules(config)

    # Its bounds.

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark, within the log's bounds; returns what it is now."""
        self.high_watermark = min(max(offset, self.log_start_offset), self.log_end_offset)
        self.producers.on_high_watermark(self.high_watermark)
        return self.high_watermark

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

    # Its end.

    def truncate_to(self, offset: int) -> bool:
        """Drop the records from the offset on; whether there were any.

        Raises:
            KafkaStorageError: the files could not be cut.
        """
        try:
            return self.cut_end(offset)
        except OSError as error:
            raise self.storage_error(f"truncating to {offset}", error) from error

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything and go on at the offset.

        Raises:
            KafkaStorageError: the files could not be cut.
        """
        try:
            self._restart_at(offset, self._clock.now_ms())
        except OSError as error:
            raise self.storage_error(f"truncating to nothing at {offset}", error) from error

    def cut_end(self, offset: int) -> bool:
        """Drop the records from the offset on; whether there were any.

        Raises:
            OSError: the files could not be cut.
            KafkaStorageError: a sync has failed before; or as `truncate_fully_and_start_at`.
        """
        self.syncing.check()
        self.syncing.finish_swap()
        self.syncing.cuts += 1
        if offset >= self.log_end_offset:
            # An epoch may have been noted whose first record never came.
            self.epochs.truncate_from_end(self.log_end_offset)
            self.epochs.save()
            return False
        if self.segments[0].base_offset > offset:
            self.truncate_fully_and_start_at(offset)
            return True
        self._lower_recovery_point(self.segments[self.segments.floor(offset)].base_offset)
        later = [segment for segment in self.segments if segment.base_offset > offset]
        self._drop_from_end(later)
        active = self.segments.active
        active.truncate_to(offset)
        # Before an epoch is noted that comes in its place: if what was cut came back after a loss of power,
        # it would be taken for a part of that epoch, and not be cut again.
        self.sync_file(active.path)
        has_hole = _end_of(active) < offset
        if has_hole:
            # A batch goes whole, also if records of it are before the offset; the log goes on there all the
            # same.
            note_gaps(self.files, self.directory)
        active.become_active()
        self.epochs.truncate_from_end(offset)
        self.epochs.save()
        self.log_end_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        self.reload_producers(offset)
        if has_hole:
            # So that the log ends there also after the next start. What was cut may not come back beside it.
            for path in active.paths():
                self.sync_file(path)
            self.roll(self.syncing.last_ms)
        self.update_high_watermark(min(self.high_watermark, offset))
        return True

    def _drop_from_end(self, segments: list[Segment]) -> None:
        for segment in reversed(segments):
            self.drop_segment(segment)
        if segments:
            # What comes in their place must not meet them after a power failure.
            self.sync_directory()

    def _lower_recovery_point(self, offset: int) -> None:
        """Lower the recovery point, on the disk as well, before the log is cut below it: a start that finds a
        log end before its recovery point takes records for lost.
        """
        if offset < self.recovery_point:
            self.recovery_point = offset
            if self.on_recovery_point_lowered is not None:
                self.on_recovery_point_lowered()

    def _restart_at(self, offset: int, now_ms: int) -> None:
        self.syncing.check()
        self.syncing.finish_swap()
        # A sync under way is of files that go: its end is not to move the recovery point.
        self.syncing.cuts += 1
        self._lower_recovery_point(0)
        self._drop_from_end(list(self.segments))
        segment = open_segment(self.files, self.directory, offset, self.config)
        segment.create(now_ms)
        self.segments.add(segment)
        # The recovery point relies on the new name.
        self.sync_directory()
        self.epochs.clear()
        self.snapshots.restart_at(offset)
        self.syncing.names_made += 1
        self.producers.clear()
        self.producers.end_offset = offset
        self.log_start_offset = self.log_end_offset = self.high_watermark = self.recovery_point = offset

    def reload_producers(self, end_offset: int) -> None:
        """Build the producer state again as it was at the offset.

        Raises:
            OSError: a file cannot be read, or the snapshot not be written.
        """
        state, now_ms = self.producers, self._clock.now_ms()
        state.clear()
        self.snapshots.load(
            state, self.log_start_offset, end_offset, now_ms, self.config.producer_id_expiration_ms
        )
        recall_recent_batches(state, list(self.segments))
        replay_producers(state, list(self.segments), end_offset, {})
        self.snapshots.take(state, sync=True)

    # Segments and files that come and go.

    def roll(self, now_ms: int, first_offset: int | None = None) -> Segment:
        """Begin a new segment at the log's end, or at a `first_offset` beyond it.

        Raises:
            OSError: a file cannot be written; the log goes on with the segment it had.
        """
        base = max(self.log_end_offset, first_offset or 0)
        old = self.segments.active
        if old.base_offset == base and old.size == 0:
            return old
        # Each segment begins with a snapshot, so that a start can replay from any of them. It need not be on
        # the disk: one that is torn fails its CRC, and an older one is taken.
        self.producers.end_offset = base
        self.snapshots.take(self.producers, sync=False)
        old.become_inactive()
        if self.syncing.names_made != self.syncing.names_synced[0]:
            # So that a power failure cannot keep the new segment and lose the name of an older one.
            self.sync_directory()
        segment = open_segment(self.files, self.directory, base, self._config)
        try:
            segment.create(now_ms, self._config.segment_bytes if self._config.preallocate else 0)
        except Exception:
            segment.release()
            for path in segment.paths():
                self.files.remove(path)
            raise
        old.forget_tail()
        old.release()
        self.segments.add(segment)
        self.syncing.names_made += 1
        return segment

    def mark_deleted(self, segment: Segment) -> list[Path]:
        """Rename a segment's files, and the snapshot at its base offset, to be removed later.

        Returns their new names.

        Raises:
            OSError: a file cannot be renamed.
        """
        marked = segment.mark_deleted()
        if segment.base_offset in self.snapshots.offsets:
            path = self.snapshots.path(segment.base_offset)
            self.files.rename(path, with_marker(path, DELETED_SUFFIX))
            self.snapshots.forget(segment.base_offset)
            marked.append(with_marker(path, DELETED_SUFFIX))
        return marked

    def drop_segment(self, segment: Segment) -> None:
        """Take a segment out of the log; its files go after `file.delete.delay.ms`.

        Raises:
            OSError: a file cannot be renamed.
        """
        marked = self.mark_deleted(segment)
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
        self._removals = [(at_ms, paths) for at_ms, paths in self._removals if at_ms > now_ms]
        return due


def _end_of(segment: Segment) -> int:
    last = deque(segment.walk(segment.seek(segment.offset_index.last_offset), segment.size), 1)
    return last[0].last_offset + 1 if last else segment.base_offset
