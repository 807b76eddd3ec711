"""An offset of a partition by time, or by one of the special timestamps of ListOffsets."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, NamedTuple

from odradek.errors import OffsetNotAvailableError
from odradek.log.segments.timestamp_search import Candidate, OffsetForTimestamp
from odradek.replication.reading import visible_end
from odradek.wire.epochs import NO_EPOCH

if TYPE_CHECKING:
    from odradek.replication.partition import Partition

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL_TIMESTAMP = -4
LATEST_TIERED_TIMESTAMP = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP = -6

CONSUMER_REPLICA_ID = -1
DEBUGGING_REPLICA_ID = -2


class OffsetLookup(NamedTuple):
    """The answer to a lookup by timestamp; -1 where there is none."""

    offset: int
    timestamp: int
    leader_epoch: int


Search = Generator[Candidate, OffsetForTimestamp | None, OffsetLookup]
"""A lookup under way: it yields one candidate after the other, and is sent what the search of each gave."""


def look_up(
    partition: Partition,
    timestamp: int,
    *,
    isolation: int | None,
    current_leader_epoch: int = NO_EPOCH,
    only_leader: bool = True,
) -> OffsetLookup:
    """Look an offset up in one go: see `looking_up`."""
    search = looking_up(
        partition,
        timestamp,
        isolation=isolation,
        current_leader_epoch=current_leader_epoch,
        only_leader=only_leader,
    )
    match: OffsetForTimestamp | None = None
    try:
        candidate = next(search)
        while True:
            match = candidate.search()
            candidate = search.send(match)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def looking_up(
    partition: Partition,
    timestamp: int,
    *,
    isolation: int | None,
    current_leader_epoch: int = NO_EPOCH,
    only_leader: bool = True,
) -> Search:
    """Look an offset up by time, or by one of the special timestamps.

    The log may change while a batch is searched.

    Args:
        partition: in which one.
        timestamp: epoch milliseconds, or -1 latest, -2 earliest, -3 largest timestamp, -4 earliest local,
            -5 latest tiered, -6 earliest not yet tiered.
        isolation: what bounds "latest"; None for a follower or a debugging tool: the log end.
        current_leader_epoch: see `Partition.check_leader_epoch`.
        only_leader: refuse unless this broker leads.

    Raises:
        OffsetNotAvailableError: the high watermark has not reached the start of this leadership yet, so
            that the answer could go back in time (KIP-207).
        NotLeaderOrFollowerError: this broker does not lead, with `only_leader`.
        FencedLeaderEpochError, UnknownLeaderEpochError: as `Partition.check_leader_epoch`.
    """
    partition.check_leader_epoch(current_leader_epoch)
    if only_leader:
        partition.require_leader()
    log = partition.log
    end = log.log_end_offset if isolation is None else visible_end(log, isolation)
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
    match = None
    candidate = log.newest_candidate() if timestamp == MAX_TIMESTAMP else log.candidate_not_older(timestamp)
    while candidate is not None and match is None:
        match = yield candidate
        if match is None:
            candidate = log.candidate_behind(candidate)
    if match is None or match.offset >= end:
        if lags:
            _refuse_lagging(partition)
        return OffsetLookup(-1, -1, -1)
    return OffsetLookup(match.offset, match.timestamp, match.leader_epoch)


def look_up_segments(
    partition: Partition, timestamp: int, most: int, *, now_ms: int, replica_id: int
) -> list[int]:
    """Offsets at which segments begin that are not newer than a time, the newest first (ListOffsets 0).

    Args:
        partition: in which one.
        timestamp: epoch milliseconds, or -1 latest, -2 earliest.
        most: how many at most.
        now_ms: wall clock.
        replica_id: who asks. A consumer (-1) gets the high watermark in place of what is above it; a
            debugging tool (-2) is also answered by a broker that does not lead.

    Raises:
        NotLeaderOrFollowerError: this broker does not lead, and no debugging tool asks.
        KafkaStorageError: the files cannot be read.
    """
    if replica_id != DEBUGGING_REPLICA_ID:
        partition.require_leader()
    offsets = partition.log.offsets_before(timestamp, most, now_ms)
    high_watermark = partition.log.high_watermark
    if replica_id == CONSUMER_REPLICA_ID and any(offset > high_watermark for offset in offsets):
        return [high_watermark, *(offset for offset in offsets if offset <= high_watermark)]
    return offsets


def _refuse_lagging(partition: Partition) -> None:
    raise OffsetNotAvailableError(
        f"{partition.topic}-{partition.index}: the high watermark {partition.log.high_watermark} has not "
        f"reached {partition.leader_epoch_start_offset}, where leader epoch {partition.leader_epoch} began"
    )
