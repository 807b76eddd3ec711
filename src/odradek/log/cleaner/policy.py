"""The choice of what is to be cleaned of a log, and whether it is worth it (Kafka: LogCleanerManager)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from odradek.log.cleaner.job import CleanJob, LastRecord, Source

if TYPE_CHECKING:
    from odradek.log.partition.partition_log import PartitionLog
    from odradek.log.segments.segment import Segment


class CleanRange(NamedTuple):
    """The offsets up to which a log is clean and could be.

    Attributes:
        first_dirty: everything below has been cleaned.
        first_uncleanable: the base offset of the first segment that may not be cleaned now.
        clean_bytes, dirty_bytes: in the segments below these offsets.
        overdue: records have waited longer than `max.compaction.lag.ms`.
    """

    first_dirty: int
    first_uncleanable: int
    clean_bytes: int
    dirty_bytes: int
    overdue: bool

    @property
    def dirty_ratio(self) -> float:
        """The part of the bytes that has not been cleaned, 0 to 1."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_worth_it(self, min_ratio: float) -> bool:
        """Return whether to clean now (`min.cleanable.dirty.ratio`, `max.compaction.lag.ms`)."""
        return bool(self.dirty_bytes) and (self.overdue or self.dirty_ratio > min_ratio)


def clean_range(log: PartitionLog, checkpoint: int | None, now_ms: int) -> CleanRange:
    """Look at a log.

    Args:
        log: the log, which is to be compacted.
        checkpoint: the first dirty offset as the last pass left it, None if there was none.
        now_ms: the time.

    Raises:
        OSError: reading a segment's timestamps failed.
    """
    first_dirty = checkpoint if checkpoint is not None else log.log_start_offset
    # Retention may have moved the start past it, and a follower's log may have been cut below it. Kafka:
    # `LogCleanerManager.cleanableOffsets`.
    if not log.log_start_offset <= first_dirty <= log.log_end_offset:
        first_dirty = log.log_start_offset
    dirty = _inactive_from(log, first_dirty)
    # Whether a transaction's records stay is not known before its marker; the active segment is written to.
    bound = min(log.last_stable_offset, log.segments.active.base_offset)
    if log.config.min_compaction_lag_ms > 0:
        youngest = now_ms - log.config.min_compaction_lag_ms
        for segment in dirty:
            if segment.known_max_timestamp().timestamp > youngest:
                bound = min(bound, segment.base_offset)
                break
    bound = max(bound, first_dirty)
    uncleanable = _inactive_from(log, bound)
    first_uncleanable = (uncleanable[0] if uncleanable else log.segments.active).base_offset
    return CleanRange(
        first_dirty,
        first_uncleanable,
        sum(segment.size for segment in log.segments if segment.base_offset < first_dirty),
        sum(segment.size for segment in dirty if segment.base_offset < first_uncleanable),
        _is_overdue(log, dirty, now_ms),
    )


def _inactive_from(log: PartitionLog, offset: int) -> list[Segment]:
    """The segment that an offset is in, and those after it, but for the active one."""
    return [segment for segment, following in pairwise(log.segments) if following.base_offset > offset]


def _is_overdue(log: PartitionLog, dirty: list[Segment], now_ms: int) -> bool:
    limit = log.config.max_compaction_lag_ms
    first = [timestamp for segment in dirty if (timestamp := segment.first_timestamp()) > 0]
    return bool(first) and min(first) < now_ms - limit


def make_job(log: PartitionLog, extent: CleanRange, now_ms: int) -> CleanJob:
    """The job for a pass; see `CleanJob` for what may be replaced in it.

    Raises:
        OSError: the segments cannot be read.
    """
    config = log.config
    sources = [
        Source(
            segment.base_offset,
            segment.size,
            segment.modified_ms(),
            segment.offset_index.size_bytes,
            segment.time_index.size_bytes,
        )
        for segment in log.segments
        if segment.base_offset < extent.first_uncleanable
    ]
    aborted = [
        txn
        for segment in log.segments
        for txn in segment.txn_index.entries
        if txn.first_offset < extent.first_uncleanable
    ]
    producers = {}
    for producer_id, entry in log.producers.entries.items():
        last = entry.last_batch
        producers[producer_id] = LastRecord(entry.epoch, last.last_offset if last is not None else None)
    return CleanJob(
        str(log.directory),
        sources,
        extent.first_dirty,
        extent.first_uncleanable,
        now_ms,
        config.segment_bytes,
        config.segment_index_bytes,
        config.index_interval_bytes,
        config.delete_retention_ms,
        config.max_message_bytes,
        aborted=aborted,
        producers=producers,
    )
