"""Transaction markers in the partitions that this broker leads: what WriteTxnMarkers asks for.

A marker is a control batch, appended like any batch of a coordinator. If the partition is one of
`__consumer_offsets`, the group coordinator is told at once: the offsets of the transaction count from then
on, or never. Kafka's `handleWriteTxnMarkersRequest` in `KafkaApis.scala`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from odradek.broker.event_loop.slices import AT_ONCE, Slicer, Steps, take_all
from odradek.coordinators.transactions.transaction import MAX_EPOCH
from odradek.errors import KafkaError
from odradek.errors.codes import ErrorCode
from odradek.log.producers.producer_state import Origin
from odradek.records.batch import MAGIC_V2
from odradek.records.control import ControlType, end_marker_batch
from odradek.wire.internal_topics import GROUP_METADATA_TOPIC

if TYPE_CHECKING:
    from odradek.broker.groups.runtime import GroupRuntime
    from odradek.broker.replicas.replica_manager import ReplicaManager
    from odradek.coordinators.transactions.coordinator import PartitionErrors
    from odradek.replication.delayed import Purgatory
    from odradek.replication.partition import Partition
    from odradek.util.clock import Clock
    from odradek.util.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

_EPOCH_PER_TRANSACTION = 2


class MarkerWriter:
    """Writes markers into the partitions on this broker.

    Args:
        replicas: the partitions.
        purgatory: told of their progress.
        groups: the group coordinator's binding, asked for when a marker touches committed offsets.
        clock: the time.
        timeout_ms: how long a marker may take to be committed (`request.timeout.ms`).
        slicer: writes many markers in slices.
    """

    def __init__(
        self,
        replicas: ReplicaManager,
        purgatory: Purgatory,
        groups: Callable[[], GroupRuntime],
        clock: Clock,
        timeout_ms: int,
        slicer: Slicer,
    ) -> None:
        self._slicer = slicer
        self._replicas = replicas
        self._purgatory = purgatory
        self._groups = groups
        self._clock = clock
        self._timeout_ms = timeout_ms

    def write(
        self,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        *,
        coordinator_epoch: int,
        commit: bool,
        deliver: Callable[[PartitionErrors], None],
        transaction_version: int = 0,
    ) -> None:
        """End a producer's transaction in some partitions.

        Args:
            producer_id, producer_epoch: the producer, and the epoch of the decision.
            partitions: where.
            coordinator_epoch: leader epoch of the coordinator's partition of `__transaction_state`.
            commit: or abort.
            deliver: gets the error of each partition, NONE where the marker is committed, when all are known.
            transaction_version: 2 if the epoch has to be above that of what is ended (KIP-1228).
        """
        keys = list(dict.fromkeys(partitions))
        errors: PartitionErrors = {}
        if not keys:
            deliver(errors)
            return

        def settle(key: TopicPartition, error: ErrorCode) -> None:
            errors[key] = error
            if len(errors) == len(keys):
                deliver(errors)

        kind = ControlType.COMMIT if commit else ControlType.ABORT

        def write_all() -> Steps[None]:
            for key in keys:
                batch = end_marker_batch(
                    kind,
                    producer_id=producer_id,
                    producer_epoch=producer_epoch,
                    coordinator_epoch=coordinator_epoch,
                    timestamp=self._clock.now_ms(),
                )
                if transaction_version >= _EPOCH_PER_TRANSACTION and self._is_late(
                    key, producer_id, producer_epoch
                ):
                    settle(key, ErrorCode.INVALID_PRODUCER_EPOCH)
                else:
                    self._append(key, batch, producer_id, commit, settle)
                yield

        if len(keys) <= AT_ONCE:
            take_all(write_all())
        else:
            self._slicer.run(write_all())

    def _is_late(self, key: TopicPartition, producer_id: int, epoch: int) -> bool:
        """Return whether a marker with its own epoch belongs to a transaction before the present one."""
        partition = self._replicas.find(*key)
        if partition is None or not partition.is_leader:
            # What a follower has may not stand; the append says that it is none of this broker's.
            return False
        entry = partition.log.producers.entries.get(producer_id)
        if entry is None or epoch > entry.epoch:
            return False
        # Equal: written before and not heard of, unless it is of the next transaction. Fencing may have used
        # up the last epoch, though.
        is_repeated = epoch == entry.epoch and (entry.txn_first_offset < 0 or epoch == MAX_EPOCH)
        return not is_repeated

    def _append(
        self,
        key: TopicPartition,
        batch: bytes,
        producer_id: int,
        commit: bool,
        settle: Callable[[TopicPartition, ErrorCode], None],
    ) -> None:
        groups = self._groups() if key[0] == GROUP_METADATA_TOPIC else None
        try:
            partition = self._replicas.get(*key)
            if partition.log.config.record_magic < MAGIC_V2:
                # Nor can the producer have written here.
                settle(key, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
                return
            info = partition.append(
                batch, required_acks=-1, now_ms=self._clock.now_ms(), origin=Origin.COORDINATOR
            )
        except KafkaError as error:
            logger.debug("marker not written topic=%s partition=%d: %s", *key, error.message)
            settle(key, error.code)
            return
        if groups is not None:
            groups.coordinator.transaction_ended(key[1], producer_id, committed=commit)
        self._when_committed(partition, info.last_offset + 1, lambda error: settle(key, error))

    def _when_committed(self, partition: Partition, end: int, settle: Callable[[ErrorCode], None]) -> None:
        def try_complete() -> bool:
            done, error = partition.committed(end)
            if done:
                settle(error)
            return done

        if not try_complete():
            self._purgatory.watch(
                [partition.key],
                try_complete,
                lambda: settle(ErrorCode.REQUEST_TIMED_OUT),
                self._timeout_ms,
            )
