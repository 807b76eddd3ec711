"""The log cleaner: which log is cleaned next, and what came of it; over all logs of a broker.

    idle ──take──► in progress ──finish──► idle
                        └──fail──► idle, or uncleanable until the next start

Where each log is clean up to stands in `cleaner-offset-checkpoint` in its data folder. Losing it costs work,
not records.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from odradek.errors import KafkaError
from odradek.log.cleaner.job import CleanJob, CleanResult
from odradek.log.cleaner.policy import CleanRange, clean_range, make_job
from odradek.log.cleaner.swapping import swapping
from odradek.log.folders.log_manager import LogManager
from odradek.log.partition.partition_log import PartitionLog
from odradek.log.steps import DiskSteps, at_once
from odradek.log.storage.checkpoint_file import CorruptCheckpointError, read_offsets, write_offsets
from odradek.log.storage.file_names import CLEANER_OFFSETS
from odradek.log.storage.files import FileSystem
from odradek.util.clock import Clock
from odradek.util.topic_partition import TopicPartition

logger = logging.getLogger(__name__)


class CleanTask(NamedTuple):
    """A pass under way."""

    key: TopicPartition
    log: PartitionLog
    job: CleanJob


@dataclass
class CleanerStats:
    """The values of the gauges of `kafka.log:type=LogCleaner` and `LogCleanerManager`.

    `max_dirty_percent` of the log that most needs cleaning, as last looked at; `last_run_ms` when that was;
    `recopy_percent` and `map_percent` of the last pass: how much stayed, how full the map of keys was.
    """

    max_dirty_percent: float = 0.0
    last_run_ms: int = 0
    recopy_percent: float = 0.0
    map_percent: float = 0.0


class LogCleaner:
    """Decides; somebody else does the work (`cleaner.run`, in a process of its own).

    Attributes: `stats`; `uncleanable`: logs that a pass failed on, with the reason; they are left alone.
    """

    def __init__(self, logs: LogManager, files: FileSystem, clock: Clock) -> None:
        """Read the checkpoints of the data folders."""
        self._logs = logs
        self._files = files
        self._clock = clock
        # Up to where each log is clean, in whatever folder it lies.
        self._offsets: dict[TopicPartition, int] = {}
        # Logs that were taken and neither finished nor failed; no two passes work on one log.
        self._in_progress: set[TopicPartition] = set()
        self.uncleanable: dict[TopicPartition, str] = {}
        self.stats = CleanerStats(last_run_ms=clock.now_ms())
        for directory in logs.data_dirs:
            path = directory / CLEANER_OFFSETS
            try:
                self._offsets.update(read_offsets(files, path))
            except (CorruptCheckpointError, OSError) as error:
                logger.warning("cleaning begins anew in %s: %s", directory, error)

    @property
    def in_progress(self) -> int:
        """Return how many passes are under way."""
        return len(self._in_progress)

    def take(self) -> CleanTask | None:
        """Take the log of the largest dirty ratio, to be cleaned now; None when none is worth it."""
        now_ms = self._clock.now_ms()
        self.stats.last_run_ms = now_ms
        self._forget_deleted()
        best: tuple[float, PartitionLog, CleanRange] | None = None
        dirtiest = 0.0
        for log in self._logs.all():
            if not log.config.compact or not self._is_free(log):
                continue
            # A log that cannot be judged must not keep the others from being cleaned.
            try:
                extent = clean_range(log, self._offsets.get(_key(log)), now_ms)
            except (OSError, KafkaError) as error:
                logger.error("%r cannot be judged for cleaning: %s", log, error)
                continue
            # Also of logs that are not worth it: the gauge is to show how near the dirtiest is.
            dirtiest = max(dirtiest, extent.dirty_ratio)
            if extent.is_worth_it(log.config.min_cleanable_dirty_ratio) and (
                best is None or extent.dirty_ratio > best[0]
            ):
                best = extent.dirty_ratio, log, extent
        self.stats.max_dirty_percent = 100 * dirtiest
        if best is None:
            return None
        _, log, extent = best
        try:
            job = make_job(log, extent, now_ms)
        except OSError as error:
            logger.error("%r cannot be cleaned now: %s", log, error)
            return None
        self._in_progress.add(_key(log))
        return CleanTask(_key(log), log, job)

    def _is_free(self, log: PartitionLog) -> bool:
        key = _key(log)
        if key in self._in_progress or key in self.uncleanable:
            return False
        # A log that moves is copied as one state of its segments; a failed sync allows no swap any more.
        return not log.syncing.failed and not log.syncing.moving

    def finish(self, task: CleanTask, result: CleanResult) -> bool:
        """Do all of `finishing` in this thread."""
        return at_once(self.finishing(task, result))

    def finishing(self, task: CleanTask, result: CleanResult) -> DiskSteps:
        """Swap the new segments in and note how far the log is clean; false when that could not be done."""

        # By the object, not the name: the topic may have been deleted and made again meanwhile.
        def is_current() -> bool:
            return self._logs.get(*task.key) is task.log

        try:
            if not is_current():
                return False
            try:
                # The log went on while another process read it: only what is as it was is replaced.
                if not (yield from swapping(task.log, task.job, result, self._clock.now_ms(), is_current)):
                    logger.info("%r has changed while it was cleaned, it is tried again", task.log)
                    return False
            except KafkaError as error:
                logger.error("%r was not cleaned: %s", task.log, error.message)
                return False
            # After the swap: the checkpoint must not call clean what is not. Losing it costs a pass.
            self._offsets[task.key] = result.end_offset
            yield self._checkpoint_writer(task.log.directory.parent)
        finally:
            self._in_progress.discard(task.key)
        stats = self.stats
        stats.map_percent = 100 * result.map_utilization
        stats.recopy_percent = 100 * result.bytes_kept / max(result.bytes_read, 1)
        logger.info(
            "%r: cleaned up to offset %d: %d of %d records, %d of %d bytes stay; its keys filled %.0f %%",
            task.log,
            result.end_offset,
            result.records_kept,
            result.records_read,
            result.bytes_kept,
            result.bytes_read,
            stats.map_percent,
        )
        if result.keyless:
            logger.warning("%r: %d records without a key were dropped", task.log, result.keyless)
        # A pass that got no further is no progress: the next pass would do the same.
        if result.end_offset > task.job.first_dirty:
            return True
        logger.warning(
            "%r: the keys of one batch do not fit the map, so the log is not compacted from offset %d on: "
            "increase log.cleaner.dedupe.buffer.size",
            task.log,
            result.end_offset,
        )
        return False

    def fail(self, task: CleanTask, reason: str, *, for_good: bool) -> None:
        """Take note that a pass came to nothing. With `for_good` (damage) the log is left alone until the
        next start.
        """
        self._in_progress.discard(task.key)
        if for_good:
            self.uncleanable[task.key] = reason
            logger.error("%r cannot be cleaned and will not be until the next start: %s", task.log, reason)
        else:
            logger.warning("%r was not cleaned, it is tried again: %s", task.log, reason)

    def _forget_deleted(self) -> None:
        gone = [
            key
            for key in [*self._offsets, *self.uncleanable]
            # A damaged log may be repaired and come back; what was clean of it still is.
            if self._logs.get(*key) is None and key not in self._logs.damaged
        ]
        for key in gone:
            self._offsets.pop(key, None)
            self.uncleanable.pop(key, None)

    def _checkpoint_writer(self, directory: Path) -> Callable[[], None]:
        offsets = {}
        for key, offset in self._offsets.items():
            log = self._logs.get(*key)
            if log is not None and log.directory.parent == directory:
                offsets[key] = offset
        # The checkpoint is written anew as a whole; what it says of a damaged log is kept for its repair.
        for damaged in self._logs.damaged.in_folder(directory):
            if damaged.key in self._offsets:
                offsets[damaged.key] = self._offsets[damaged.key]

        # Runs in another thread, so it goes by the copy and not by `_offsets`.
        def write() -> None:
            try:
                write_offsets(self._files, directory / CLEANER_OFFSETS, offsets)
            except OSError as error:
                logger.error(
                    "writing %s failed, cleaning begins anew at the next start: %s", directory, error
                )

        return write


def _key(log: PartitionLog) -> TopicPartition:
    return log.topic, log.partition
