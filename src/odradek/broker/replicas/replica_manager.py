"""The partitions on this broker: found by name, created and removed as the controller says.

It brings together what the controller wants and what is on the disk (the log manager). The controller's
requests say what is led, followed and removed (`take_up`, `stop`, `delete`); the image only tells of other
brokers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from odradek.cluster.nodes import LEADER_RECOVERING
from odradek.errors import (
    InconsistentTopicIdError,
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    OdradekError,
    UnknownTopicOrPartitionError,
)
from odradek.errors.codes import ErrorCode
from odradek.replication.in_sync import IsrCounts
from odradek.replication.partition import Partition
from odradek.replication.replica_selector import ReplicaView
from odradek.replication.replication_quota import replication_quotas
from odradek.util.topic_partition import TopicPartition
from odradek.wire.primitives import ZERO_UUID

if TYPE_CHECKING:
    from odradek.cluster.image import ClusterDelta, ClusterImage, PartitionImage, TopicImage
    from odradek.log.config import LogConfig
    from odradek.log.folders.log_manager import LogManager
    from odradek.log.partition.partition_log import PartitionLog
    from odradek.replication.delayed import Purgatory
    from odradek.replication.leadership import IsEligible, OnIsrWanted
    from odradek.replication.replica_selector import ReplicaSelector
    from odradek.replication.replication_quota import ReplicationQuotas
    from odradek.util.clock import Clock

logger = logging.getLogger(__name__)

_RETRY_MS = 1_000
"""Between two tries of a log that found no room: each costs a `mkdir` and an open file."""

PARTITIONS_AT_ONCE = 16
"""Partitions that are taken up or removed before others on the event loop get their turn: some 4 ms."""


class _Refused(NamedTuple):
    """A replica that could not be taken up, and is tried again: what it was to be."""

    topic: TopicImage
    state: PartitionImage
    is_new: bool


class ReplicaManager:
    """All partitions of which this broker holds a replica.

    Attributes:
        by_topic: the partitions here, by topic and number, only to read: every request looks here.
        image: the cluster as this broker has been told of it.
        offline: partitions whose log cannot be used, with the reason; none of them is in `by_topic`. (Kafka's
            `HostedPartition.Offline`.)
        quotas: the throttles of copies, those of `odradek.replication.replication_quota`.
        replica_selector: see `__init__`.
        isr_counts: how often the ISRs of partitions that this broker leads have changed.
        on_isr_wanted, is_eligible: of the partitions that are taken up from now on; not set while this broker
            is alone.
    """

    def __init__(
        self,
        *,
        broker_id: int,
        logs: LogManager,
        purgatory: Purgatory,
        clock: Clock,
        log_config: Callable[[str, ClusterImage], LogConfig],
        image: ClusterImage,
        replica_lag_time_max_ms: int = 30_000,
        quotas: ReplicationQuotas | None = None,
        tries_again: bool = False,
        may_elect_unclean: Callable[[str], bool] = lambda _: False,
        replica_selector: ReplicaSelector | None = None,
        knows_cluster: Callable[[], bool] = lambda: True,
    ) -> None:
        """
        Args:
            broker_id: this broker.
            logs: the logs on disk.
            purgatory: told of every progress, under `Partition.key`.
            clock: time.
            log_config: `(topic, image) -> LogConfig`, with the topic's overrides over the broker's defaults.
            image: the cluster so far.
            replica_lag_time_max_ms: Kafka's `replica.lag.time.max.ms`.
            quotas: the throttles, which follow the topics' configs; those without a bound when None.
            tries_again: whether what could not be taken up is tried again when it is asked for, as nobody
                else could lead it; else it is offline until the next LeaderAndIsr.
            may_elect_unclean: whether a topic's `unclean.leader.election.enable` has it rather begin empty
                than be offline.
            replica_selector: says from where consumers had better read; None for the leader.
            knows_cluster: whether this broker has been told which topics there are.
        """
        self.broker_id = broker_id
        self.quotas = quotas if quotas is not None else replication_quotas(clock)
        self.image = image
        self._tries_again = tries_again
        self.offline: dict[TopicPartition, str] = {}
        self._retry_at_ms: dict[TopicPartition, float] = {}
        """When a partition of `offline` may be tried again, in monotonic ms; asked of `_refused` alone."""
        self._logs = logs
        self._purgatory = purgatory
        self._clock = clock
        self._log_config = log_config
        self.on_isr_wanted: OnIsrWanted | None = None
        self.is_eligible: IsEligible = bool
        self._may_elect_unclean = may_elect_unclean
        self._knows_cluster = knows_cluster
        self.isr_counts = IsrCounts()
        self.replica_selector = replica_selector
        self._replica_lag_time_max_ms = replica_lag_time_max_ms
        self.by_topic: dict[str, dict[int, Partition]] = {}
        """A topic without partitions here is not in it: `in` tells whether this broker holds any."""
        self._count = 0
        """The partitions in `by_topic`: a gauge, and the line of a start, do not count ten thousand."""
        self._refused: dict[TopicPartition, _Refused] = {}
        """What the controller has said of partitions in `offline` that are tried again. It does not say so
        a second time, as it was answered that they are taken up."""

    def __len__(self) -> int:
        """Return how many partitions there are here (`PartitionCount`)."""
        return self._count

    def __iter__(self) -> Iterator[Partition]:
        """Every partition here."""
        for partitions in self.by_topic.values():
            yield from partitions.values()

    @property
    def leader_count(self) -> int:
        """The number of partitions that this broker leads (`LeaderCount`)."""
        return sum(1 for partition in self if partition.is_leader)

    def find(self, topic: str, index: int) -> Partition | None:
        """The partition if this broker holds a usable replica, else None."""
        partitions = self.by_topic.get(topic)
        return None if partitions is None else partitions.get(index)

    def get(self, topic: str, index: int) -> Partition:
        """The partition. Kafka: `ReplicaManager.getPartitionOrError`.

        Raises:
            UnknownTopicOrPartitionError: the cluster has no such partition.
            NotLeaderOrFollowerError: the partition is on other brokers, as the client's next Metadata tells;
                or this broker has not been told yet what there is.
            KafkaStorageError: it is here and its log cannot be used.
        """
        partitions = self.by_topic.get(topic)
        partition = None if partitions is None else partitions.get(index)
        if partition is not None:
            return partition
        if (topic, index) in self.offline:
            return self._retry(topic, index)
        if self.image.partition(topic, index) is not None:
            raise NotLeaderOrFollowerError(f"{topic}-{index} is on other brokers")
        if not self._knows_cluster():
            # Clients take an unknown topic for deleted, some at once (librdkafka's ListOffsets). A broker of
            # Kafka with ZooKeeper says so all the same; one with KRaft is not heard before it knows.
            raise NotLeaderOrFollowerError(f"whether {topic}-{index} is here is not known yet")
        raise UnknownTopicOrPartitionError(f"there is no partition {topic}-{index}")

    def try_get(self, topic: str, index: int) -> Partition | None:
        """Return the partition as `get` does, which may take it up; None where that raises."""
        try:
            return self.get(topic, index)
        except KafkaError:
            return None

    def _retry(self, topic: str, index: int) -> Partition:
        """Try to use an offline log again, once a second at most: the disk may have room by now."""
        key = (topic, index)
        now_ms = self._clock.monotonic_ms()
        # Empty in a cluster of several: the controller has elected another leader upon KAFKA_STORAGE_ERROR,
        # and only its next LeaderAndIsr may bring this replica back.
        refused = self._refused.get(key)
        if refused is not None and now_ms >= self._retry_at_ms.get(key, 0):
            self._retry_at_ms[key] = now_ms + _RETRY_MS
            self._take_up(refused.topic, index, refused.state, is_new=refused.is_new)
            partition = self.find(topic, index)
            if partition is not None:
                logger.info("partition online again topic=%s partition=%d", topic, index)
                return partition
        raise KafkaStorageError(
            f"{topic}-{index} is offline: {self.offline.get(key, 'its topic is being deleted')}"
        )

    # ------------------------------------------------------------------ following the controller's requests

    def take_offline(self, keys: Iterable[TopicPartition], reason: str) -> None:
        """Give up partitions whose disk has failed, and answer those who wait for one of them."""
        for topic, index in keys:
            # First: those who wait ask `get`, which tells the reason.
            self.offline[topic, index] = reason
            partition = self._take_out(topic, index)
            if partition is not None:
                self._purgatory.check(partition.key)

    def follow_configs(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Follow a change of the cluster: take note, reconfigure. Leaderships come with LeaderAndIsr."""
        self.image = image
        for entity in delta.configs:
            kind, _, name = entity.partition("/")
            if kind == "topics":
                self.quotas.follow_topic(name, image.topic_config(name), self.broker_id)
            if kind == "topics" and name in self.by_topic:
                config = self._log_config(name, image)
                for partition in self.by_topic[name].values():
                    partition.log.config = config

    def take_up(
        self, topic: TopicImage, index: int, state: PartitionImage, *, is_new: bool = False
    ) -> ErrorCode:
        """Lead or follow a partition, whose replica is made if it is not here.

        Args:
            topic: its name and id.
            index, state: the partition.
            is_new: whether it has never been anywhere.

        Returns:
            INCONSISTENT_TOPIC_ID where the log that is here is of another topic, KAFKA_STORAGE_ERROR where it
            cannot be used, NONE.
        """
        self._take_up(topic, index, state, is_new=is_new)
        partition = self.find(topic.name, index)
        if partition is None and self._is_to_be_tried_again(topic.name, index):
            # An error would take its leader from the partition, and nobody else could lead it
            # (docs/decisions/a-controller-of-parts.md).
            self._refused[topic.name, index] = _Refused(topic, state, is_new)
            return ErrorCode.NONE
        if partition is not None:
            if topic.topic_id != ZERO_UUID and partition.log.topic_id is None:
                self._note_topic_id(partition, topic.topic_id)
            return ErrorCode.NONE
        # A log from before topic ids (KIP-516, Kafka 2.8) has none, and counts as the topic's.
        partition_log = self._logs.get(topic.name, index)
        if partition_log is not None and partition_log.topic_id not in (None, ZERO_UUID, topic.topic_id):
            return ErrorCode.INCONSISTENT_TOPIC_ID
        return ErrorCode.KAFKA_STORAGE_ERROR

    def _is_to_be_tried_again(self, topic: str, index: int) -> bool:
        """Return whether a log may be of use soon.

        A log that is damaged or lost stays so until somebody repairs it, and a start looks at it again. A
        start also looks at a folder that has failed, in which the log may be.
        """
        key, logs = (topic, index), self._logs
        return self._tries_again and not (
            key in logs.damaged or key in logs.offline.lost or len(logs.online_dirs) < len(logs.data_dirs)
        )

    def _note_topic_id(self, partition: Partition, topic_id: bytes) -> None:
        """Give the id to the log of a topic that is older than ids, and has been given its id since
        (`TopicChanges`)."""
        try:
            partition.log.set_topic_id(topic_id)
        except KafkaStorageError as error:
            logger.warning("the topic id of %s-%d is not noted yet: %s", *partition.key, error)

    def stop(self, topic: str, index: int) -> None:
        """Neither lead nor follow a partition any more; its log stays."""
        partition = self.find(topic, index)
        if partition is not None:
            partition.leader_id = -1
            # Fetches and acks=all that wait find NOT_LEADER_OR_FOLLOWER, and go to the next leader.
            self._purgatory.check(partition.key)

    def delete(self, topic: str, index: int, topic_id: bytes | None = None) -> bool:
        """Remove a partition and its log; that of another topic of its name stays.

        Args:
            topic, index: the partition.
            topic_id: of the topic; None where it is not known, and any log of that name goes.

        Returns:
            Whether nothing of it is here any more. What cannot be removed is still known to the logs.
        """
        self._remove(topic, index)
        if topic_id is not None and self._is_of_another(topic, index, topic_id):
            return True
        is_gone = self._logs.offline.is_gone
        if not is_gone((topic, index)):
            # There may be a log without a partition: the topic was deleted while this broker was away
            # (`HostedPartition.None` in Kafka's `stopReplicas`).
            self._delete_log(topic, index)
        return is_gone((topic, index))

    def _is_of_another(self, topic: str, index: int, topic_id: bytes) -> bool:
        left, key = self._logs.get(topic, index), (topic, index)
        if left is not None:
            return left.topic_id not in (None, topic_id)
        return key in self._logs.damaged and not self._logs.damaged.may_be_of(key, topic_id)

    def is_idle(self, topic: str, index: int) -> bool:
        """Return whether a partition is neither led nor followed here."""
        partition = self.find(topic, index)
        return partition is None or partition.leader_id < 0

    def set_aside(self, topic: str, index: int) -> None:
        """Remove a partition, and keep its log under a `-stray` name; see `membership.strays`.

        Raises:
            KafkaStorageError: its folder cannot be renamed.
        """
        # The folder first: where that fails, the partition is still known.
        stray = self._logs.set_aside(topic, index)
        self._forget(topic, index)
        logger.warning(
            "%s-%d is no replica of this broker any more; its folder is %s now, and may be removed",
            *(topic, index, stray),
        )

    def preferred_read_replica(
        self, partition: Partition, offset: int, rack: str, listener: str, now_ms: int
    ) -> int:
        """The broker from which a consumer had better read a partition that is led here (KIP-392).

        Kafka: `ReplicaManager.findPreferredReadReplica`.

        Args:
            partition, offset: what it reads.
            rack: where it stands.
            listener: by which it is connected, and could be to the other broker.
            now_ms: wall clock.

        Returns:
            The broker's id, -1 for this one.
        """
        selector = self.replica_selector
        if selector is None or not rack or partition.leader_id != self.broker_id:
            return -1
        brokers = self.image.brokers
        views = [
            ReplicaView(broker_id, broker.rack, follower.log_end_offset, now_ms - follower.last_caught_up_ms)
            for broker_id, follower in partition.followers_at(offset)
            if (broker := brokers.get(broker_id)) is not None and broker.endpoint(listener) is not None
        ]
        own = brokers.get(self.broker_id)
        return selector(rack, None if own is None else own.rack, views)

    def reconfigure(self) -> None:
        """The broker's defaults have changed: give every log its config anew."""
        for name, partitions in self.by_topic.items():
            config = self._log_config(name, self.image)
            for partition in partitions.values():
                partition.log.config = config

    def _take_up(self, topic: TopicImage, index: int, state: PartitionImage, *, is_new: bool = False) -> None:
        partition = self.find(topic.name, index)
        if partition is None:
            # A replica that is not in the ISR counts for nothing, so that nothing is lost where its log is
            # made anew. One in the ISR may be the last copy: an empty log in its place would be led with, and
            # the others would cut theirs (docs/decisions/who-has-lost-a-replica-leaves-its-isr.md).
            is_copied = self.broker_id not in state.isr and (
                state.leader not in (-1, self.broker_id) or (is_new and bool(state.isr))
            )
            # Somebody has decided to begin empty: by an unclean election (KIP-704), or by the topic's config.
            may_be_lost = state.leader == self.broker_id and (
                state.leader_recovery_state == LEADER_RECOVERING or self._may_elect_unclean(topic.name)
            )
            partition = self._open(topic, index, is_new, is_copied, may_be_lost)
            if partition is None:
                return
        partition.adding = state.adding
        if state.leader == self.broker_id:
            partition.make_leader(
                state.leader_epoch,
                replicas=state.replicas,
                isr=state.isr,
                partition_epoch=state.partition_epoch,
                now_ms=self._clock.now_ms(),
            )
        else:
            partition.make_follower(
                state.leader,
                state.leader_epoch,
                replicas=state.replicas,
                isr=state.isr,
                partition_epoch=state.partition_epoch,
            )

    def _open(
        self,
        topic: TopicImage,
        index: int,
        is_new: bool,
        is_copied: bool = False,
        may_be_lost: bool = False,
    ) -> Partition | None:
        key = (topic.name, index)
        try:
            partition_log = self._log_of(topic, index, is_new, is_copied, may_be_lost)
        except (OSError, OdradekError) as error:
            # The others are taken up all the same (docs/decisions/a-damaged-partition-is-offline.md).
            self.offline[key] = str(error)
            self._retry_at_ms.setdefault(key, self._clock.monotonic_ms() + _RETRY_MS)
            logger.error("partition offline topic=%s partition=%d: %s", topic.name, index, error)
            return None
        partition = Partition(
            partition_log,
            topic=topic.name,
            index=index,
            broker_id=self.broker_id,
            on_progress=self._purgatory.check,
            replica_lag_time_max_ms=self._replica_lag_time_max_ms,
        )
        if self.on_isr_wanted is not None:
            partition.on_isr_wanted, partition.is_eligible = self.on_isr_wanted, self.is_eligible
            partition.isr_counts = self.isr_counts
        self.offline.pop(key, None)
        self._refused.pop(key, None)
        self._retry_at_ms.pop(key, None)
        self.by_topic.setdefault(topic.name, {})[index] = partition
        self._count += 1
        return partition

    def _log_of(
        self, topic: TopicImage, index: int, is_new: bool, is_copied: bool, may_be_lost: bool
    ) -> PartitionLog:
        config = self._log_config(topic.name, self.image)
        topic_id = None if topic.topic_id == ZERO_UUID else topic.topic_id
        partition_log = self._logs.get(topic.name, index)
        if partition_log is None:
            if may_be_lost and self._logs.offline.lacks(topic.name, index) and not (is_new or is_copied):
                logger.warning(
                    "%s-%d begins empty, by an unclean election: its log here is lost", topic.name, index
                )
            return self._logs.create(
                *(topic.name, index, config, topic_id),
                is_new=is_new,
                is_copied=is_copied,
                may_be_lost=may_be_lost,
            )
        if topic_id is None or partition_log.topic_id is None or partition_log.topic_id == topic_id:
            if topic_id is not None:
                # Its file may not have got to the disk before a power failure: without an id, the log would
                # be taken for that of any topic of this name.
                partition_log.set_topic_id(topic_id)
            partition_log.config = config
            return partition_log
        if not is_new and not is_copied:
            raise InconsistentTopicIdError(
                f"{partition_log.directory} belongs to another topic of this name; move it away to go on"
            )
        # The topic was deleted while this broker was away, or had given the partition up (KAFKA-14616). Its
        # log is of no use to the topic that has the name now: that one is new here, or has its records
        # elsewhere.
        stray = self._logs.set_aside(topic.name, index)
        logger.warning(
            "%s-%d was there of another topic of this name; its folder is %s now", topic.name, index, stray
        )
        return self._logs.create(topic.name, index, config, topic_id, is_new=is_new, is_copied=is_copied)

    def _remove(self, topic: str, index: int) -> None:
        # Forgotten before its log closes: a request that came in between would find a closed file.
        partition = self._forget(topic, index)
        if partition is not None:
            self._delete_log(topic, index)
            # Whoever waits for this partition learns that it is gone.
            self._purgatory.check(partition.key)

    def _forget(self, topic: str, index: int) -> Partition | None:
        """Forget a partition, also an offline one; return it if it could be used."""
        self.offline.pop((topic, index), None)
        self._refused.pop((topic, index), None)
        self._retry_at_ms.pop((topic, index), None)
        return self._take_out(topic, index)

    def _take_out(self, topic: str, index: int) -> Partition | None:
        partitions = self.by_topic.get(topic)
        partition = None if partitions is None else partitions.pop(index, None)
        if partition is None or partitions is None:
            return None
        if not partitions:
            del self.by_topic[topic]
        self._count -= 1
        # Requests that wait still have the object: from now on it refuses them.
        partition.leader_id = -1
        return partition

    def _delete_log(self, topic: str, index: int) -> None:
        try:
            # `StateChanges` syncs the folder, for all partitions of a request at once, before it answers:
            # upon that answer the topic's nodes go.
            self._logs.delete(topic, index, sync=False)
        except (OSError, OdradekError) as error:
            logger.error("log not removed topic=%s partition=%d: %s", topic, index, error)
