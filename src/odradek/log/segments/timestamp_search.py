"""Finding records by their time.

Both indexes help: the time index says from which offset on the time is reached, the offset index where to
begin reading. Only batches that can hold the record are unpacked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from odradek.log.segments.segment import Segment
from odradek.records.batch import NO_LEADER_EPOCH, BatchHeader, Record, batch_records
from odradek.records.message_sets.message_set import message_records, parse_entry


class OffsetForTimestamp(NamedTuple):
    """A record found by time. `leader_epoch` is -1 where it is not known."""

    offset: int
    timestamp: int
    leader_epoch: int


def find_newest(segments: Iterable[Segment], log_start_offset: int) -> OffsetForTimestamp | None:
    """The first record with the largest timestamp; None where no record has one.

    Raises `OSError`, `KafkaError` for a batch that does not unpack.
    """
    # Only the first segment can hold records that were deleted.
    largest = [(segment.largest_from(log_start_offset), segment) for segment in segments]
    found, newest = max(largest, key=lambda entry: entry[0].timestamp)
    if found.timestamp < 0:
        return None
    return first_record(newest, found.timestamp, log_start_offset, found.offset)


def find_not_older(
    segments: Iterable[Segment], log_start_offset: int, timestamp: int
) -> OffsetForTimestamp | None:
    """The first record that is not older than the timestamp; None if all are. Raises as `find_newest`."""
    for segment in segments:
        largest = segment.known_max_timestamp().timestamp
        if segment.size and (largest < 0 or largest >= timestamp):
            near = segment.reached_before(timestamp).offset
            found = first_record(segment, timestamp, log_start_offset, near)
            if found is not None:
                return found
    return None


def first_record(segment: Segment, timestamp: int, from_offset: int, near: int) -> OffsetForTimestamp | None:
    """The segment's first record at or above an offset that is not older than the timestamp.

    `near` is the last offset of a batch before which there is none. Raises as `find_newest`.
    """
    for step in segment.walk(segment.seek(max(near, from_offset)), segment.size):
        if step.max_timestamp < timestamp or step.last_offset < from_offset:
            continue
        entry = segment.pread(step.size, step.position)
        header = parse_entry(entry)
        epoch = NO_LEADER_EPOCH
        records: Iterable[Record]
        if isinstance(header, BatchHeader):
            epoch = header.partition_leader_epoch
            records = batch_records(header, entry)
        else:
            records = message_records(header, memoryview(entry), check_crcs=False)
        for record in records:
            if record.timestamp >= timestamp and record.offset >= from_offset:
                return OffsetForTimestamp(record.offset, record.timestamp, epoch)
    return None


LATEST, EARLIEST = -1, -2


def bases_before(
    segments: Sequence[Segment],
    timestamp: int,
    most: int,
    *,
    log_start_offset: int,
    log_end_offset: int,
    now_ms: int,
) -> list[int]:
    """Return where the segments begin that were last written to at a time or before it, the newest first.

    What ListOffsets 0 answers (UnifiedLog.legacyFetchOffsetsBefore). The log's end counts as the beginning of
    a segment that is written to now, unless the last one is empty.

    Args:
        timestamp: epoch ms; or `LATEST`: all; or `EARLIEST`: the first alone.
        most: how many offsets at most.

    Raises `OSError`.
    """
    starts = [(max(one.base_offset, log_start_offset), one.modified_ms()) for one in segments]
    if segments[-1].size:
        starts.append((log_end_offset, now_ms))
    last = len(starts) - 1
    if timestamp == EARLIEST:
        last = 0
    elif timestamp != LATEST:
        while last >= 0 and starts[last][1] > timestamp:
            last -= 1
    count = max(0, min(most, last + 1))
    return sorted((offset for offset, _ in starts[last + 1 - count : last + 1]), reverse=True)
