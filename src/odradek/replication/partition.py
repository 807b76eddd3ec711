"""One partition as this broker sees it: who leads, who is in sync, what is committed.

A `Partition` stands over a `PartitionLog` and decides what the log cannot know: whether this broker may
append (leadership, min.insync.replicas), how far clients may read (the high watermark), and whether a
client's idea of the leader epoch is current (KIP-320).

How leadership comes and goes, and the high watermark rises, is in `odradek.replication.leadership`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.errors import NotEnoughReplicasError, OffsetOutOfRangeError, PolicyViolationError
from odradek.errors.codes import ErrorCode
from odradek.log.partition.readable_log import NEVER
from odradek.log.producers.producer_state import Origin
from odradek.records.message_set import iter_entries
from odradek.replication.leadership import NO_EPOCH, Leadership
from odradek.replication.lookups import OffsetLookup, look_up, look_up_segments
from odradek.replication.reading import FetchedRecords, Isolation

if TYPE_CHECKING:
    from odradek.log.partition.appending import AppendInfo
    from odradek.log.partition.format_conversion import Prepared
    from odradek.log.partition.partition_log import PartitionLog
    from odradek.records.batch import BatchHeader


class Partition(Leadership):
    """One replica of a partition on this broker.

    Attributes:
        topic, index: which partition.
        log: its log.
        leader_id: the broker that leads, -1 for none.
        leader_epoch: the epoch of that leadership; never goes back.
        leader_epoch_start_offset: the log end at which this broker took the leadership.
        replicas, isr: broker ids, in assignment order.
        partition_epoch: version of the leadership and ISR state in the metadata store.
        appended_bytes: bytes appended here since the start; a difference of two readings tells a waiting
            fetch how much has arrived without a look into the log.
    """

    __slots__ = ("appended_bytes",)

    def __init__(
        self,
        log: PartitionLog,
        *,
        topic: str,
        index: int,
        broker_id: int,
        on_progress: Callable[[Partition], None] | None = None,
        replica_lag_time_max_ms: int = 30_000,
    ) -> None:
        """
        Args:
            log: the log of this replica.
            topic, index: which partition.
            broker_id: this broker.
            on_progress: called when the log end, the high watermark, the log start or the leadership may have
                moved, so that whoever waits for it can look again.
            replica_lag_time_max_ms: Kafka's `replica.lag.time.max.ms`.
        """
        super().__init__(log, topic, index, broker_id, on_progress, replica_lag_time_max_ms)
        self.appended_bytes = 0

    # ------------------------------------------------------------------ writing

    def append(
        self,
        records: bytes | bytearray | memoryview,
        *,
        required_acks: int,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        produce_version: int | None = None,
        prepared: Prepared | None = None,
    ) -> AppendInfo:
        """Append batches or messages as the leader.

        Args:
            records: whole record batches (one, for Produce), or a message set; not kept after the call.
            required_acks: 0, 1 or -1; -1 refuses when too few replicas are in sync.
            now_ms: wall clock, for LogAppendTime and timestamp checks.
            origin: who writes.
            produce_version: of the Produce request, which bounds what may be in it.
            prepared: what `PartitionLog.prepare` has made of the records before, if it has.

        Raises:
            NotLeaderOrFollowerError: this broker does not lead.
            NotEnoughReplicasError: acks=-1 and the ISR is below min.insync.replicas.
            KafkaStorageError: the files could not be written; nothing was appended.
            KafkaError: the records were refused; nothing was appended.
        """
        if self.leader_id != self.broker_id:
            self.require_leader()
        # A full ISR is never below the minimum: the usual case costs two lengths.
        if (
            required_acks == -1
            and len(self.isr) != len(self.replicas)
            and len(self.isr) < self.effective_min_isr
        ):
            raise NotEnoughReplicasError(
                f"{len(self.isr)} in-sync replicas of {self.topic}-{self.index}, "
                f"min.insync.replicas wants {self.effective_min_isr}"
            )
        if prepared is not None:
            info = self.log.append_prepared(
                prepared, leader_epoch=self.leader_epoch, origin=origin, now_ms=now_ms
            )
        else:
            info = self.log.append(
                records,
                leader_epoch=self.leader_epoch,
                origin=origin,
                now_ms=now_ms,
                produce_version=produce_version,
            )
        self.appended_bytes += len(records)
        self.advance_high_watermark(now_ms)
        self._progress()
        return info

    def takes_at_once(self, required_acks: int) -> bool:
        """Whether this broker may append, and has answered for all replicas when it has."""
        return self.leader_id == self.broker_id and (required_acks != -1 or not self._followers)

    def append_checked(
        self,
        frame: bytes | bytearray | memoryview,
        start: int,
        end: int,
        last_offset_delta: int,
        timestamp: int,
        header: BatchHeader | None,
        now_ms: int,
    ) -> int:
        """As `append`, where `takes_at_once` says so, for a batch that was checked before.

        See `PartitionLog.append_checked` for the arguments, what it returns and raises.
        """
        base_offset = self.log.append_checked(
            frame,
            start,
            end,
            last_offset_delta,
            timestamp,
            header,
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
        )
        self.appended_bytes += end - start
        if self._followers:
            self.advance_high_watermark(now_ms)
        else:
            self.log.commit_all()
        if self._on_progress is not None:
            self._on_progress(self)
        return base_offset

    def committed(self, offset: int) -> tuple[bool, ErrorCode]:
        """Whether everything below `offset` is committed, for acks=-1.

        Returns:
            `(done, error)`: done with an error when leadership was lost or the ISR has shrunk below
            min.insync.replicas after the append.
        """
        if not self.is_leader:
            return True, ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.log.high_watermark < offset:
            return False, ErrorCode.NONE
        if len(self.isr) != len(self.replicas) and len(self.isr) < self.effective_min_isr:
            return True, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return True, ErrorCode.NONE

    # ------------------------------------------------------------------ reading

    def readable_end(self, isolation: int) -> int:
        """The offset below which a fetch with this isolation may read."""
        if isolation == Isolation.READ_UNCOMMITTED:
            return self.log.high_watermark
        if isolation == Isolation.READ_COMMITTED:
            return self.log.last_stable_offset
        return self.log.log_end_offset

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        isolation: int,
        min_one_batch: bool,
        current_leader_epoch: int = NO_EPOCH,
        last_fetched_epoch: int = NO_EPOCH,
        only_leader: bool = True,
        range_from: int = NEVER,
    ) -> FetchedRecords:
        """Read whole batches from `offset` on.

        Args:
            offset: the first offset wanted.
            max_bytes: how much at most, except that `min_one_batch` lets the first batch be larger.
            isolation: an `Isolation`.
            min_one_batch: whether a first batch larger than `max_bytes` is returned all the same.
            current_leader_epoch: what the fetcher believes; see `check_leader_epoch`.
            last_fetched_epoch: the epoch of the last batch that the fetcher has; -1 when it does not say.
            only_leader: refuse unless this broker leads.
            range_from: from how many bytes on the records are given as a `FileRange`, where that is possible.

        Raises:
            OffsetOutOfRangeError, NotLeaderOrFollowerError, FencedLeaderEpochError, UnknownLeaderEpochError,
            KafkaStorageError.
        """
        if current_leader_epoch != NO_EPOCH:
            self.check_leader_epoch(current_leader_epoch)
        if only_leader and self.leader_id != self.broker_id:
            self.require_leader()
        log = self.log
        high_watermark, last_stable = log.high_watermark, log.last_stable_offset
        start, end = log.log_start_offset, log.log_end_offset
        if not start <= offset <= end:
            raise OffsetOutOfRangeError(
                f"offset {offset} of {self.topic}-{self.index}: the log holds {start} to {end}"
            )
        if last_fetched_epoch != NO_EPOCH:
            epoch, epoch_end = self.end_offset_for_epoch(last_fetched_epoch)
            if epoch_end < 0 or epoch < 0:
                raise OffsetOutOfRangeError(
                    f"{self.topic}-{self.index}: nothing is known of leader epoch {last_fetched_epoch}"
                )
            if epoch < last_fetched_epoch or epoch_end < offset:
                return FetchedRecords(b"", high_watermark, last_stable, start, end, (epoch, epoch_end))
        if isolation == Isolation.READ_UNCOMMITTED:
            upper_bound = high_watermark
        elif isolation == Isolation.READ_COMMITTED:
            upper_bound = last_stable
        else:
            upper_bound = end
        if offset >= upper_bound or (max_bytes <= 0 and not min_one_batch):
            return FetchedRecords(b"", high_watermark, last_stable, start, end, None)
        if isolation == Isolation.READ_COMMITTED:
            aborted = log.aborted_transactions(offset, upper_bound)
            if aborted:
                records = log.slice(offset, max_bytes, upper_bound, min_one_batch)
                assert isinstance(records, bytes)
                read_end = max((header.next_offset for header, _ in iter_entries(records)), default=-1)
                aborted = [one for one in aborted if one.first_offset < read_end]
                return FetchedRecords(records, high_watermark, last_stable, start, end, None, aborted)
        records = log.slice(offset, max_bytes, upper_bound, min_one_batch, range_from)
        return FetchedRecords(records, high_watermark, last_stable, start, end, None)

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """The largest known epoch not above `leader_epoch` and where it ended.

        Returns:
            `(epoch, end_offset)`, both -1 when nothing is known.
        """
        found = self.log.end_offset_for_epoch(leader_epoch)
        return (-1, -1) if found is None else (found[0], found[1])

    def offset_for_timestamp(
        self,
        timestamp: int,
        *,
        isolation: int | None,
        current_leader_epoch: int = NO_EPOCH,
        only_leader: bool = True,
    ) -> OffsetLookup:
        """Look an offset up by time, or by one of the special timestamps of ListOffsets.

        Args:
            timestamp: epoch milliseconds, or -1 latest, -2 earliest, -3 largest timestamp, -4 earliest local,
                -5 latest tiered, -6 earliest not yet tiered.
            isolation: what bounds "latest"; None for a follower or a debugging tool: the log end.
            current_leader_epoch: see `check_leader_epoch`.
            only_leader: refuse unless this broker leads.

        Raises:
            OffsetNotAvailableError: the high watermark has not reached the start of this leadership yet, so
                that the answer could go back in time (KIP-207).
            NotLeaderOrFollowerError, FencedLeaderEpochError, UnknownLeaderEpochError.
        """
        return look_up(self, timestamp, isolation, current_leader_epoch, only_leader)

    def offsets_before(self, timestamp: int, most: int, *, now_ms: int, replica_id: int) -> list[int]:
        """Offsets at which segments begin that are not newer than a time, the newest first (ListOffsets 0).

        Args:
            timestamp: epoch milliseconds, or -1 latest, -2 earliest.
            most: how many at most.
            now_ms: wall clock.
            replica_id: who asks. A consumer (-1) gets the high watermark in place of what is above it; a
                debugging tool (-2) is also answered by a broker that does not lead.

        Raises:
            NotLeaderOrFollowerError, KafkaStorageError.
        """
        return look_up_segments(self, timestamp, most, now_ms, replica_id)

    # ------------------------------------------------------------------ deleting

    def delete_records_before(self, offset: int) -> int:
        """Move the log start to `offset`, or to the high watermark for -1.

        Returns:
            The offset that was asked for, resolved.

        Raises:
            PolicyViolationError: the topic's cleanup.policy does not allow deletion.
            OffsetOutOfRangeError: beyond the high watermark, or negative.
            NotLeaderOrFollowerError: this broker does not lead.
        """
        self.require_leader()
        if not self.log.config.delete:
            raise PolicyViolationError(
                f"records of {self.topic}-{self.index} cannot be deleted: its cleanup.policy lacks delete"
            )
        if offset == -1:
            offset = self.log.high_watermark
        if offset < 0 or offset > self.log.high_watermark:
            raise OffsetOutOfRangeError(
                f"cannot delete records of {self.topic}-{self.index} before {offset}: "
                f"the high watermark is {self.log.high_watermark}"
            )
        self.log.delete_records_before(offset)
        self._progress()
        return offset
