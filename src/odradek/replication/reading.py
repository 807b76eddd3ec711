# compiled: mypyc
"""Reads of a partition: what may be read, by whom and how far; what a read gives.

One rule for everybody who fetches: `readable_end` refuses a reader or says how far it may read now, and
`read_partition` reads up to there. A first read, a look of a fetch session (KIP-227) and a reader that waits
all ask here.

| who reads | up to | from a broker that does not lead |
|---|---|---|
| a consumer, read_uncommitted | the high watermark | from Fetch 11 on (KIP-392) |
| a consumer, read_committed | the last stable offset | from Fetch 11 on (KIP-392) |
| a follower | the log end | never |

A reader that says a leader epoch must know the current one (KIP-320); one that says the epoch of its last
batch is told where its log has left this one's (KIP-595).
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from odradek.errors import OffsetOutOfRangeError
from odradek.log.partition.readable_log import NEVER
from odradek.records.message_sets.message_set import iter_entries
from odradek.wire.epochs import NO_EPOCH
from odradek.wire.messages.fetch import AbortedTransaction, EpochEndOffset, PartitionData

if TYPE_CHECKING:
    from odradek.log.partition.partition_log import PartitionLog
    from odradek.log.segments.txn_index import AbortedTxn
    from odradek.replication.partition import Partition
    from odradek.wire.messages.fetch import FetchPartition


class Isolation(IntEnum):
    """The offset up to which a fetch may read."""

    READ_UNCOMMITTED = 0
    """Up to the high watermark: a consumer."""

    READ_COMMITTED = 1
    """Up to the last stable offset: a consumer that sees committed transactions only."""

    LOG_END = 2
    """Everything: a follower."""


class Reader(NamedTuple):
    """Whoever fetches; made by `reader_of`.

    Attributes:
        replica_id: the broker id of a follower, -1 for a consumer.
        isolation: an `Isolation`, as a plain number.
        only_leader: whether it may read from the leader alone.
    """

    replica_id: int
    isolation: int
    only_leader: bool


@lru_cache(maxsize=64)
def reader_of(replica_id: int, isolation_level: int, version: int) -> Reader:
    """Return who sends a Fetch of this version with these fields."""
    # A follower copies what its leader has, and no other replica is that (`FetchParams.fetchOnlyLeader`).
    if replica_id >= 0:
        return Reader(replica_id, int(Isolation.LOG_END), True)
    committed = isolation_level == Isolation.READ_COMMITTED
    isolation = Isolation.READ_COMMITTED if committed else Isolation.READ_UNCOMMITTED
    return Reader(replica_id, int(isolation), version < 11)


def visible_end(log: PartitionLog, isolation: int) -> int:
    """The offset below which a log is visible to readers of this isolation."""
    if isolation == 0:  # Isolation.READ_UNCOMMITTED; this line runs once for each partition of each fetch
        return log.high_watermark
    return log.last_stable_offset if isolation == Isolation.READ_COMMITTED else log.log_end_offset


def readable_end(partition: Partition, fetch_partition: FetchPartition, reader: Reader) -> int | None:
    """The offset below which a reader may read a partition now; nothing is read.

    Args:
        partition: what is read.
        fetch_partition: from where, and what the reader knows of leader epochs.
        reader: who asks.

    Returns:
        The offset, which may be below the one that is wanted; None when the reader's log has left this one's.

    Raises:
        OffsetOutOfRangeError: the log has no such offset, or nothing is known of the epoch that the reader
            fetched last.
        NotLeaderOrFollowerError: this broker does not lead, and the reader asks the leader only.
        FencedLeaderEpochError, UnknownLeaderEpochError: as `Partition.check_leader_epoch`.
    """
    epoch = fetch_partition.current_leader_epoch
    if epoch != NO_EPOCH and epoch != partition.leader_epoch:
        partition.check_leader_epoch(epoch)
    if reader.only_leader and partition.leader_id != partition.broker_id:
        partition.require_leader()
    log = partition.log
    offset = fetch_partition.fetch_offset
    # Where a reader beyond the end has left this log says more than that it has.
    has_left = (
        offset >= log.log_start_offset
        and fetch_partition.last_fetched_epoch != NO_EPOCH
        and _diverging_epoch(partition, fetch_partition) is not None
    )
    if has_left:
        return None
    if not log.log_start_offset <= offset <= log.log_end_offset:
        raise OffsetOutOfRangeError(
            f"offset {offset} of {partition.topic}-{partition.index}: "
            f"the log holds {log.log_start_offset} to {log.log_end_offset}"
        )
    return visible_end(log, reader.isolation)


def read_partition(
    partition: Partition,
    fetch_partition: FetchPartition,
    reader: Reader,
    max_bytes: int,
    *,
    min_one_batch: bool,
    range_from: int = NEVER,
) -> PartitionData:
    """Read whole batches from the wanted offset on, as far as the reader may see them.

    Args:
        partition, fetch_partition, reader: see `readable_end`.
        max_bytes: how much at most, except that `min_one_batch` lets the first batch be larger.
        min_one_batch: whether a first batch larger than `max_bytes` is returned all the same (KIP-74).
        range_from: from how many bytes on the records are given as a `FileRange`, where that is possible.

    Returns:
        The answer: records as they lie in the file, empty when there is nothing to read yet; the log's
        offsets as they were before the read; for read_committed the aborted transactions that the reader
        must leave out; where the reader's log has left this one's (KIP-595), to which it truncates.

    Raises:
        KafkaStorageError: the file cannot be read.
        KafkaError: as `readable_end`.
    """
    end = readable_end(partition, fetch_partition, reader)
    log = partition.log
    data = PartitionData(
        partition_index=partition.index,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        aborted_transactions=None,
        records=b"",
    )
    offset = fetch_partition.fetch_offset
    committed = reader.isolation == 1  # Isolation.READ_COMMITTED, whose name would be looked up each time
    if committed:
        data.aborted_transactions = []
    if end is None:
        diverging = _diverging_epoch(partition, fetch_partition)
        assert diverging is not None
        data.diverging_epoch = EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
    elif offset < end and (max_bytes > 0 or min_one_batch):
        aborted = log.aborted_transactions(offset, end) if committed else None
        # Read as bytes, not sent from the file: only the records tell which of the transactions reach them.
        if aborted:
            records = log.slice(offset, max_bytes, end, min_one_batch)
            data.aborted_transactions = _within(aborted, records)
            data.records = records
        else:
            data.records = log.slice(offset, max_bytes, end, min_one_batch, range_from)
    return data


def _within(aborted: list[AbortedTxn], records: Any) -> list[AbortedTransaction]:
    """The transactions that begin before the end of the records; those behind are of no use yet."""
    read_end = max((header.next_offset for header, _ in iter_entries(records)), default=-1)
    return [
        AbortedTransaction(producer_id=transaction.producer_id, first_offset=transaction.first_offset)
        for transaction in aborted
        if transaction.first_offset < read_end
    ]


def note_follower(
    partition: Partition,
    fetch_partition: FetchPartition,
    replica_id: int,
    now_ms: int,
    broker_epoch: int = NO_EPOCH,
) -> None:
    """Take note of what a follower's fetch says about its log, which may move the high watermark.

    The end of a log that has left this one's, or goes on behind its end, says nothing about what is copied:
    it is not noted.

    Raises:
        FencedLeaderEpochError, UnknownLeaderEpochError: as `Partition.check_leader_epoch`.
        NotLeaderOrFollowerError: this broker does not lead, or as `Partition.record_follower_fetch`.
        OffsetOutOfRangeError: nothing is known of the epoch that the follower fetched last.
    """
    partition.check_leader_epoch(fetch_partition.current_leader_epoch)
    partition.require_leader()
    # Noted, it would let the high watermark rise over records that this follower does not have.
    if fetch_partition.fetch_offset > partition.log.log_end_offset:
        return
    if (
        fetch_partition.last_fetched_epoch != NO_EPOCH
        and _diverging_epoch(partition, fetch_partition) is not None
    ):
        return
    partition.record_follower_fetch(
        replica_id,
        fetch_offset=fetch_partition.fetch_offset,
        log_start_offset=fetch_partition.log_start_offset,
        now_ms=now_ms,
        broker_epoch=broker_epoch,
    )


def _diverging_epoch(partition: Partition, fetch_partition: FetchPartition) -> tuple[int, int] | None:
    """Return where the reader's log has left this one's, `(epoch, end_offset)`; None if it has not (KIP-595).

    Raises:
        OffsetOutOfRangeError: nothing is known of the epoch that the reader fetched last.
    """
    last_epoch = fetch_partition.last_fetched_epoch
    epoch, end = partition.end_offset_for_epoch(last_epoch)
    if end < 0 or epoch < 0:
        raise OffsetOutOfRangeError(
            f"{partition.topic}-{partition.index}: nothing is known of leader epoch {last_epoch}"
        )
    return (epoch, end) if epoch < last_epoch or end < fetch_partition.fetch_offset else None
