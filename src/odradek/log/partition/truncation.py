"""Cutting records off a log: from the end when another leader knows better, from the start by segments.

A truncation goes from the end on, so that a stop in between leaves no hole. Everything may raise `OSError`;
the cut can then be begun again, or is completed when the log is loaded.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.log.producers.producer_replay import recall_recent_batches, replay_producers
from odradek.log.segments.segment import Segment
from odradek.log.segments.segment_list import open_segment
from odradek.log.storage.file_names import DELETED_SUFFIX, with_marker
from odradek.log.storage.gap_marker import note_gaps

if TYPE_CHECKING:
    from odradek.log.partition.partition_log import PartitionLog


def truncate_to(log: PartitionLog, offset: int) -> bool:
    """See `PartitionLog.truncate_to`."""
    log.syncing.finish_swap()
    log.syncing.cuts += 1
    if offset >= log.log_end_offset:
        # An epoch may have been noted whose first record never came.
        log.epochs.truncate_from_end(log.log_end_offset)
        log.epochs.save()
        return False
    if log.segments[0].base_offset > offset:
        log.truncate_fully_and_start_at(offset)
        return True
    _lower_recovery_point(log, log.segments[log.segments.floor(offset)].base_offset)
    later = [segment for segment in log.segments if segment.base_offset > offset]
    _drop_from_end(log, later)
    active = log.segments.active
    active.truncate_to(offset)
    has_hole = _end_of(active) < offset
    if has_hole:
        # A batch goes whole, also if records of it are before the offset; the log goes on there all the same.
        note_gaps(log.files, log.directory)
    active.become_active()
    log.epochs.truncate_from_end(offset)
    log.epochs.save()
    log.log_end_offset = offset
    log.log_start_offset = min(log.log_start_offset, offset)
    log.reload_producers(offset)
    if has_hole:
        # So that the log ends there also after the next start. What was cut may not come back beside it.
        for path in active.paths():
            log.files.fsync(path)
        log.roll(log.syncing.last_ms)
    log.update_high_watermark(min(log.high_watermark, offset))
    return True


def _drop_from_end(log: PartitionLog, segments: list[Segment]) -> None:
    for segment in reversed(segments):
        log.drop_segment(segment)
    if segments:
        # What comes in their place must not meet them after a power failure.
        log.files.fsync_dir(log.directory)


def _lower_recovery_point(log: PartitionLog, offset: int) -> None:
    """No log ends before the recovery point that is on the disk, also if the process dies in between."""
    if offset < log.recovery_point:
        log.recovery_point = offset
        if log.on_recovery_point_lowered is not None:
            log.on_recovery_point_lowered()


def _end_of(segment: Segment) -> int:
    last = deque(segment.walk(segment.seek(segment.offset_index.last_offset), segment.size), 1)
    return last[0].last_offset + 1 if last else segment.base_offset


def restart_at(log: PartitionLog, offset: int, now_ms: int) -> None:
    """See `PartitionLog.truncate_fully_and_start_at`."""
    log.syncing.finish_swap()
    log.syncing.cuts += 1
    _lower_recovery_point(log, 0)
    _drop_from_end(log, list(log.segments))
    segment = open_segment(log.files, log.directory, offset, log.config)
    segment.create(now_ms)
    log.segments.add(segment)
    # The recovery point relies on the new name.
    log.files.fsync_dir(log.directory)
    log.epochs.clear()
    log.snapshots.restart_at(offset)
    log.syncing.names_made += 1
    log.producers.clear()
    log.producers.end_offset = offset
    log.log_start_offset = log.log_end_offset = log.high_watermark = log.recovery_point = offset


def mark_deleted(log: PartitionLog, segment: Segment) -> list[Path]:
    """Rename a segment's files, and the snapshot at its base offset, to be removed later; their new names."""
    marked = segment.mark_deleted()
    if segment.base_offset in log.snapshots.offsets:
        path = log.snapshots.path(segment.base_offset)
        log.files.rename(path, with_marker(path, DELETED_SUFFIX))
        log.snapshots.forget(segment.base_offset)
        marked.append(with_marker(path, DELETED_SUFFIX))
    return marked


def reload_producers(log: PartitionLog, end_offset: int, now_ms: int) -> None:
    """Build the producer state again as it was at the offset."""
    state = log.producers
    state.clear()
    log.snapshots.load(state, log.log_start_offset, end_offset, now_ms, log.config.producer_id_expiration_ms)
    recall_recent_batches(state, list(log.segments))
    replay_producers(state, list(log.segments), end_offset, {})
    log.snapshots.take(state, sync=True)
