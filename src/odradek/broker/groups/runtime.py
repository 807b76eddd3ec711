"""The group coordinator in a broker: its log is the replicas, its shards the partitions that are led here.

A broker makes one `GroupRuntime`, calls `follow` with every image once the replicas have followed it (at the
start too), and `stop` before it closes its logs. Handlers reach the coordinator as
`broker.groups.coordinator`.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from odradek.broker.groups.stored_offsets import StoredOffsets
from odradek.cluster.admin import NewTopic
from odradek.coordinators.groups.config import GroupConfig
from odradek.coordinators.groups.coordinator import GROUP_METADATA_TOPIC, GroupCoordinator
from odradek.errors import KafkaError
from odradek.errors.codes import ErrorCode
from odradek.log.producer_state import Origin
from odradek.records.compression import Buffer, Codec
from odradek.records.message_set import iter_entries

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.broker.replicas import Replicas
    from odradek.cluster.controller import Controller
    from odradek.cluster.image import ClusterDelta, ClusterImage
    from odradek.replication.delayed import Purgatory
    from odradek.replication.partition import Partition
    from odradek.util.clock import Clock
    from odradek.util.timers import Timers

log = logging.getLogger(__name__)

LOAD_CHUNK_BYTES = 64 * 1024
"""How much of a partition is replayed before other work gets its turn."""

_COMMIT_RECHECK_MS = 60_000

R = TypeVar("R")


class ReplicatedLog:
    """`coordinators.runtime.RecordLog` over the partitions on this broker."""

    def __init__(self, replicas: Replicas, purgatory: Purgatory, clock: Clock) -> None:
        self._replicas = replicas
        self._purgatory = purgatory
        self._clock = clock

    def append(self, topic: str, partition: int, batches: bytes, on_committed: Callable[[], None]) -> int:
        """See `RecordLog.append`; acknowledged by all in-sync replicas, as Kafka's coordinators ask for."""
        found = self._replicas.get(topic, partition)
        info = found.append(batches, required_acks=-1, now_ms=self._clock.now_ms(), origin=Origin.COORDINATOR)
        self._once_committed(found, info.last_offset + 1, on_committed)
        return info.first_offset

    def when_committed(self, topic: str, partition: int, on_committed: Callable[[], None]) -> None:
        """See `RecordLog.when_committed`."""
        found = self._replicas.get(topic, partition)
        self._once_committed(found, found.log.log_end_offset, on_committed)

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


class GroupRuntime:
    """Keeps the group coordinator in step with the cluster.

    Args:
        broker_id: this broker.
        replicas: the partitions on it.
        purgatory: told of their progress.
        controller: creates the topic when it is first needed; its store keeps the offsets of version 0.
        clock: the time.
        timers: the event loop's.
        config: the broker's configs.

    Attributes:
        coordinator: what handlers call.
        stored_offsets: the offsets of OffsetCommit and OffsetFetch version 0.
    """

    def __init__(
        self,
        *,
        broker_id: int,
        replicas: Replicas,
        purgatory: Purgatory,
        controller: Controller,
        clock: Clock,
        timers: Timers,
        config: BrokerConfig,
    ) -> None:
        self._broker_id = broker_id
        self._controller = controller
        self._config = config
        self.stored_offsets = StoredOffsets(controller.store)
        self.coordinator = GroupCoordinator(
            config=group_config(config),
            log=ReplicatedLog(replicas, purgatory, clock),
            clock=clock,
            timers=timers,
            new_uuid=lambda: str(uuid.uuid4()),
            codec=Codec(config.offsets_topic_compression_codec),
        )

    def follow(self, image: ClusterImage, delta: ClusterDelta | None = None) -> None:
        """Take up the groups of partitions that this broker leads now, give up the others.

        Args:
            image: the cluster; the replicas have followed it already.
            delta: what has changed; `None` at the start. Offsets of deleted topics are removed.
        """
        topic = image.topic(GROUP_METADATA_TOPIC)
        runtime = self.coordinator.runtime
        partitions = {} if topic is None else topic.partitions
        self.coordinator.partition_count = len(partitions)
        for index in runtime.partitions():
            state = partitions.get(index)
            if state is None or state.leader != self._broker_id:
                runtime.unload(index, None if state is None else state.leader_epoch)
        for index, state in partitions.items():
            if state.leader == self._broker_id:
                runtime.load(index, state.leader_epoch)
        if delta is not None:
            deleted: dict[str, set[int] | None] = dict.fromkeys(
                delta.topics_marked | delta.topics_gone.keys()
            )
            deleted.pop(GROUP_METADATA_TOPIC, None)
            if deleted:
                self.coordinator.on_partitions_deleted(deleted)

    def ensure_topic(self) -> ErrorCode:
        """Create `__consumer_offsets` through the controller.

        Returns:
            COORDINATOR_NOT_AVAILABLE when it could not be created; the client asks again.
        """
        config = self._config
        wanted = NewTopic(
            GROUP_METADATA_TOPIC,
            config.offsets_topic_num_partitions,
            config.offsets_topic_replication_factor,
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            },
        )
        try:
            self._controller.create_topic(wanted)
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                log.warning("%s could not be created: %s", GROUP_METADATA_TOPIC, error.message)
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.NONE

    def stop(self) -> None:
        """Give all groups up; whoever waits is told NOT_COORDINATOR."""
        self.coordinator.runtime.unload_all()


def group_config(config: BrokerConfig) -> GroupConfig:
    """What groups need of the broker's configs."""
    return GroupConfig(
        group_min_session_timeout_ms=config.group_min_session_timeout_ms,
        group_max_session_timeout_ms=config.group_max_session_timeout_ms,
        group_initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        group_max_size=config.group_max_size,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_retention_minutes=config.offsets_retention_minutes,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        offsets_commit_timeout_ms=config.offsets_commit_timeout_ms,
    )


class Answer(Generic[R]):
    """Bridges the coordinator's callback to a handler's return value: the response, or a future of it."""

    __slots__ = ("_future", "_response")

    def __init__(self) -> None:
        self._response: R | None = None
        self._future: asyncio.Future[R] | None = None

    def deliver(self, response: R) -> None:
        """What the coordinator calls, once."""
        future = self._future
        if future is None:
            self._response = response
        elif not future.done():
            # A peer that has gone took its future with it.
            future.set_result(response)

    def result(self, loop: asyncio.AbstractEventLoop) -> R | asyncio.Future[R]:
        """The response if it has come already, else a future of it."""
        if self._response is not None:
            return self._response
        self._future = loop.create_future()
        return self._future
