"""An offset by time, or by one of the special timestamps of ListOffsets.

`Partition.offset_for_timestamp` is the way in, and tells what may be raised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from odradek.errors import OffsetNotAvailableError

if TYPE_CHECKING:
    from odradek.replication.partition import Partition

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL_TIMESTAMP = -4
LATEST_TIERED_TIMESTAMP = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP = -6

_CONSUMER = -1
_DEBUGGING = -2


class OffsetLookup(NamedTuple):
    """The answer to a lookup by timestamp; -1 where there is none."""

    offset: int
    timestamp: int
    leader_epoch: int


def look_up(
    partition: Partition,
    timestamp: int,
    isolation: int | None,
    current_leader_epoch: int,
    only_leader: bool,
) -> OffsetLookup:
    """See `Partition.offset_for_timestamp`."""
    partition.check_leader_epoch(current_leader_epoch)
    if only_leader:
        partition.require_leader()
    log = partition.log
    end = log.log_end_offset if isolation is None else partition.readable_end(isolation)
    lags = (
        isolation is not None
        and partition.is_leader
        and partition.leader_epoch_start_offset > log.high_watermark
    )
    if timestamp == LATEST_TIMESTAMP:
        if lags:
            _refuse_lagging(partition)
        return OffsetLookup(end, -1, partition.leader_epoch)
    if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
        # Without remote storage everything is local, and nothing waits to be uploaded.
        if timestamp == EARLIEST_PENDING_UPLOAD_TIMESTAMP:
            return OffsetLookup(-1, -1, -1)
        earliest = log.earliest()
        return OffsetLookup(earliest.offset, -1, earliest.leader_epoch)
    if timestamp == LATEST_TIERED_TIMESTAMP:
        return OffsetLookup(-1, -1, -1)
    if timestamp == MAX_TIMESTAMP:
        found = log.max_timestamp()
    else:
        found = log.offset_for_timestamp(timestamp)
    if found is None or found.offset >= end:
        if lags:
            _refuse_lagging(partition)
        return OffsetLookup(-1, -1, -1)
    return OffsetLookup(found.offset, found.timestamp, found.leader_epoch)


def look_up_segments(
    partition: Partition, timestamp: int, most: int, now_ms: int, replica_id: int
) -> list[int]:
    """See `Partition.offsets_before`."""
    if replica_id != _DEBUGGING:
        partition.require_leader()
    offsets = partition.log.offsets_before(timestamp, most, now_ms)
    high_watermark = partition.log.high_watermark
    if replica_id == _CONSUMER and any(offset > high_watermark for offset in offsets):
        return [high_watermark, *(offset for offset in offsets if offset <= high_watermark)]
    return offsets


def _refuse_lagging(partition: Partition) -> None:
    raise OffsetNotAvailableError(
        f"{partition.topic}-{partition.index}: the high watermark {partition.log.high_watermark} has not "
        f"reached {partition.leader_epoch_start_offset}, where leader epoch {partition.leader_epoch} began"
    )
