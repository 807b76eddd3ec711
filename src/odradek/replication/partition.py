# compiled: mypyc
"""One partition as this broker sees it: who leads, who is in sync, what is committed.

A `Partition` stands over a `PartitionLog` and decides what the log cannot know: whether this broker may
append (leadership, min.insync.replicas), how far clients may read (the high watermark), and whether a
client's idea of the leader epoch is current (KIP-320).

How leadership comes and goes, and the high watermark rises, is in `odradek.replication.leadership`; who may
read how far in `odradek.replication.reading`; offsets by time in `odradek.replication.lookups`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from odradek.errors import NotEnoughReplicasError, OffsetOutOfRangeError, PolicyViolationError
from odradek.errors.codes import ErrorCode
from odradek.log.producers.producer_state import Origin
from odradek.replication.following import Following
from odradek.util.topic_partition import TopicPartition

if TYPE_CHECKING:
    from odradek.log.partition.appending import AppendInfo
    from odradek.log.partition.format_conversion import Prepared
    from odradek.log.partition.partition_log import PartitionLog


_NONE: Final = ErrorCode.NONE


class Partition(Following):
    """One replica of a partition on this broker.

    Attributes:
        topic, index: which partition.
        log: its log.
        leader_id: the broker that leads, -1 for none.
        leader_epoch: the epoch of that leadership; never goes back.
        led_since: where this broker leads, the epoch in which it began to, and has led ever since: an epoch
            that only changes the ISR interrupts nothing.
        leader_epoch_start_offset: the log end at which this broker took the leadership.
        replicas, isr: broker ids, in assignment order.
        adding: those of the replicas that a reassignment adds.
        partition_epoch: version of the leadership and ISR state in the metadata store.
        appended_bytes: bytes appended here since the start; a difference of two readings tells a waiting
            fetch how much has arrived without a look into the log.
    """

    # All state is in `Leadership` and `Following`; without this each partition would have a dict as well.
    __slots__ = ()

    def __init__(
        self,
        log: PartitionLog,
        *,
        topic: str,
        index: int,
        broker_id: int,
        on_progress: Callable[[TopicPartition], object] | None = None,
        replica_lag_time_max_ms: int = 30_000,
    ) -> None:
        """
        Args:
            log: the log of this replica.
            topic, index: which partition.
            broker_id: this broker.
            on_progress: called with `key` when the log end, the high watermark, the log start or the
                leadership may have moved, so that whoever waits for it can look again.
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
        if self._followers:
            self.advance_high_watermark(now_ms)
        else:
            # The only replica: whatever is in its log is committed.
            self.log.commit_all()
        if self._on_progress is not None:
            self._on_progress(self.key)
        return info

    def committed(self, offset: int) -> tuple[bool, ErrorCode]:
        """Return whether everything below `offset` is committed, for acks=-1.

        Returns:
            `(done, error)`: done with an error when leadership was lost or the ISR has shrunk below
            min.insync.replicas after the append.
        """
        if self.leader_id != self.broker_id:
            return True, ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.log.high_watermark < offset:
            return False, _NONE
        # The records stay in the log; only the promise of `min.insync.replicas` copies cannot be given.
        # Kafka: `Partition.checkEnoughReplicasReachOffset`.
        if len(self.isr) != len(self.replicas) and len(self.isr) < self.effective_min_isr:
            return True, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return True, _NONE

    # ------------------------------------------------------------------ epochs

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """The largest known epoch not above `leader_epoch` and where it ended.

        Returns:
            `(epoch, end_offset)`, both -1 when nothing is known.
        """
        epoch_end = self.log.end_offset_for_epoch(leader_epoch)
        return (-1, -1) if epoch_end is None else (epoch_end[0], epoch_end[1])

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
        self.progress()
        return offset
