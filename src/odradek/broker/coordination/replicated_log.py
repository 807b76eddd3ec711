"""The log that coordinators append to and load from: the partitions on this broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from odradek.errors.codes import ErrorCode
from odradek.log.producers.producer_state import Origin
from odradek.records.compression import Buffer
from odradek.records.message_sets.message_set import iter_entries

if TYPE_CHECKING:
    from odradek.broker.replicas.replica_manager import ReplicaManager
    from odradek.replication.delayed import Purgatory
    from odradek.replication.partition import Partition
    from odradek.util.clock import Clock

LOAD_CHUNK_BYTES = 64 * 1024
"""How much of a partition is replayed before other work gets its turn."""

_COMMIT_RECHECK_MS = 60_000


class ReplicatedLog:
    """`coordinators.runtime.RecordLog` over the partitions on this broker."""

    def __init__(self, replicas: ReplicaManager, purgatory: Purgatory, clock: Clock) -> None:
        self._replicas = replicas
        self._purgatory = purgatory
        self._clock = clock

    def append(self, topic: str, partition: int, batches: bytes, on_committed: Callable[[], None]) -> int:
        """See `RecordLog.append`; acknowledged by all in-sync replicas, as Kafka's coordinators ask for."""
        replica = self._replicas.get(topic, partition)
        info = replica.append(
            batches, required_acks=-1, now_ms=self._clock.now_ms(), origin=Origin.COORDINATOR
        )
        self._once_committed(replica, info.last_offset + 1, on_committed)
        return info.first_offset

    def when_committed(self, topic: str, partition: int, on_committed: Callable[[], None]) -> None:
        """See `RecordLog.when_committed`."""
        replica = self._replicas.get(topic, partition)
        self._once_committed(replica, replica.log.log_end_offset, on_committed)

    def _once_committed(self, partition: Partition, end: int, on_committed: Callable[[], None]) -> None:
        done, error = partition.committed(end)
        if done and error != ErrorCode.NOT_LEADER_OR_FOLLOWER:
            # Alone, a broker commits what it appends.
            on_committed()
        else:
            self._when_committed(partition, end, on_committed)

    def _when_committed(self, partition: Partition, end: int, on_committed: Callable[[], None]) -> None:
        def try_complete() -> bool:
            done, error = partition.committed(end)
            if done and error != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                on_committed()
            return done

        # The coordinator bounds how long its clients wait; this only has to notice whenever it happens.
        self._purgatory.watch(
            [partition.key],
            try_complete,
            lambda: self._when_committed(partition, end, on_committed),
            _COMMIT_RECHECK_MS,
        )

    def max_batch_bytes(self, topic: str, partition: int) -> int:
        """See `RecordLog.max_batch_bytes`: the topic's `max.message.bytes`."""
        return self._replicas.get(topic, partition).log.config.max_message_bytes

    def read_all(self, topic: str, partition: int) -> Iterator[Buffer]:
        """See `RecordLog.read_all`."""
        partition_log = self._replicas.get(topic, partition).log
        offset, end = partition_log.log_start_offset, partition_log.log_end_offset
        while offset < end:
            records = partition_log.read(
                offset, LOAD_CHUNK_BYTES, upper_bound=end, min_one_batch=True
            ).records
            if not records:
                # What was behind it has been compacted away.
                return
            yield records
            for header, _ in iter_entries(records):
                offset = header.next_offset
