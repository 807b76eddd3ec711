"""The partitions on this broker: found by name, created and removed as the cluster's image says.

This is where the image (what should be) meets the log manager (what is on disk). A broker that is alone
follows its image (`apply`); one of a cluster of several does what the controller's requests say (`take_up`,
`stop`, `delete`), and its image only tells it of others.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

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

log = logging.getLogger(__name__)

_RETRY_MS = 1_000

PARTITIONS_AT_ONCE = 16
"""Partitions that are taken up or removed before others on the event loop get their turn: some 4 ms."""


class ReplicaManager:
    """All partitions of which this broker holds a replica.

    Attributes:
        by_topic: the partitions here, by topic and number, only to read: every request looks here.
        image: the cluster as of the last `apply`.
        offline: partitions whose log cannot be used, with the reason.
        in_pieces: whether `apply` takes up and removes only the first `PARTITIONS_AT_ONCE` partitions, and
            leaves the others to `apply_further`, and to `get` when somebody asks for one.
        quotas: the throttles of copies, those of `odradek.replication.replication_quota`.
        replica_selector: says from where consumers had better read; None for the leader.
        isr_counts: how often ISRs have changed that are led here.
        follows_image: whether leaderships are taken from the image; else they come with LeaderAndIsr alone,
            and what is offline stays so until it does.
        may_elect_unclean: whether a topic's `unclean.leader.election.enable` has it rather begin empty than
            be offline.
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
    ) -> None:
        """
        Args:
            broker_id: this broker.
            logs: the logs on disk.
            purgatory: told of every progress, under `Partition.key`.
            clock: time.
            log_config: `(topic, image) -> LogConfig`, with the topic's overrides over the broker's defaults.
            image: the cluster so far; nothing is created before `apply`.
            replica_lag_time_max_ms: Kafka's `replica.lag.time.max.ms`.
            quotas: the throttles, which follow the topics' configs; those without a bound when None.
        """
        self.broker_id = broker_id
        self.quotas = quotas if quotas is not None else replication_quotas(clock)
        self.image = image
        self.in_pieces = False
        self.follows_image = True
        self.offline: dict[tuple[str, int], str] = {}
        self._retry_at_ms: dict[tuple[str, int], float] = {}
        self._logs = logs
        self._purgatory = purgatory
        self._clock = clock
        self._log_config = log_config
        self.on_isr_wanted: OnIsrWanted | None = None
        self.is_eligible: IsEligible = bool
        self.may_elect_unclean: Callable[[str], bool] = lambda topic: False
        self.isr_counts = IsrCounts()
        self.replica_selector: ReplicaSelector | None = None
        self._replica_lag_time_max_ms = replica_lag_time_max_ms
        self.by_topic: dict[str, dict[int, Partition]] = {}
        self._count = 0
        self._due: dict[tuple[str, int], Callable[[], None]] = {}

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

    def find_now(self, topic: str, index: int) -> Partition | None:
        """As `find`, once what `apply` has left to do for the partition is done."""
        due = self._due.pop((topic, index), None)
        if due is not None:
            due()
        return self.find(topic, index)

    def get(self, topic: str, index: int) -> Partition:
        """The partition.

        Raises:
            UnknownTopicOrPartitionError: there is none in the cluster.
            NotLeaderOrFollowerError: there is one, on other brokers.
            KafkaStorageError: it is here and its log cannot be used.
        """
        partitions = self.by_topic.get(topic)
        partition = None if partitions is None else partitions.get(index)
        if partition is not None:
            return partition
        due = self._due.pop((topic, index), None)
        if due is not None:
            due()
            return self.get(topic, index)
        if (topic, index) in self.offline:
            return self._retry(topic, index)
        if self.image.partition(topic, index) is not None:
            raise NotLeaderOrFollowerError(f"{topic}-{index} is on other brokers")
        raise UnknownTopicOrPartitionError(f"there is no partition {topic}-{index}")

    def try_get(self, topic: str, index: int) -> Partition | None:
        """As `get`, which may take it up; None where that would raise."""
        try:
            return self.get(topic, index)
        except KafkaError:
            return None

    def _retry(self, topic: str, index: int) -> Partition:
        """Try to use an offline log again, once a second at most: the disk may have room by now."""
        key = (topic, index)
        now_ms = self._clock.monotonic_ms()
        if self.follows_image and now_ms >= self._retry_at_ms.get(key, 0):
            self._retry_at_ms[key] = now_ms + _RETRY_MS
            image = self.image.topic(topic)
            state = None if image is None else image.partitions.get(index)
            if image is not None and state is not None:
                self._take_up(image, index, state)
                partition = self.find(topic, index)
                if partition is not None:
                    log.info("partition online again topic=%s partition=%d", topic, index)
                    return partition
        raise KafkaStorageError(
            f"{topic}-{index} is offline: {self.offline.get(key, 'its topic is being deleted')}"
        )

    # ------------------------------------------------------------------ following the image

    def prepare(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Make the folders of the partitions that `apply` of the same will create, and wait for the disk.

        Called in another thread, while the image stands still.
        """
        self._logs.prepare(
            (topic.name, index, None if topic.topic_id == ZERO_UUID else topic.topic_id)
            for topic in delta.topics.values()
            if topic.name not in image.marked
            for index, partition in topic.partitions.items()
            if self.broker_id in partition.replicas and self.image.partition(topic.name, index) is None
        )

    def take_offline(self, keys: Iterable[tuple[str, int]], reason: str) -> None:
        """The disk of these partitions has failed; whoever waits for one of them learns it."""
        for topic, index in keys:
            self.offline[topic, index] = reason
            partition = self._take_out(topic, index)
            if partition is not None:
                self._purgatory.check(partition.key)

    def apply(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Follow a change of the cluster: create, remove, lead, follow, reconfigure."""
        before, self.image = self.image, image
        for name in delta.topics_marked:
            self._delete_topic(image.topics[name])
        for gone in delta.topics_gone.values():
            self._delete_topic(gone)
        for topic in delta.topics.values():
            if topic.name in image.marked:
                continue
            for index, partition in topic.partitions.items():
                if self.broker_id in partition.replicas:
                    is_new = before.partition(topic.name, index) is None
                    take_up = partial(self._take_up, topic, index, partition, is_new=is_new)
                    self._put_off(topic.name, index, take_up)
                else:
                    self._put_off(topic.name, index, partial(self._remove, topic.name, index))
        self.apply_further(PARTITIONS_AT_ONCE if self.in_pieces else None)
        self.follow_configs(image, delta)

    def apply_further(self, most: int | None = PARTITIONS_AT_ONCE) -> bool:
        """Go on with what `apply` has left.

        Args:
            most: of how many partitions; None for all that is left.

        Returns:
            Whether there is more.
        """
        due = self._due
        for _ in range(len(due) if most is None else min(most, len(due))):
            due.pop(next(iter(due)))()
        return bool(due)

    def _put_off(self, topic: str, index: int, change: Callable[[], None]) -> None:
        """Have a partition changed by `apply_further`, or when it is asked for."""
        earlier = self._due.pop((topic, index), None)
        if earlier is not None:
            earlier()
        self._due[topic, index] = change

    # ------------------------------------------------------------------ following the controller's requests

    def follow_configs(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Follow a change of the cluster whose leaderships come with LeaderAndIsr: take note, reconfigure."""
        self.image = image
        for entity in delta.configs:
            kind, _, name = entity.partition("/")
            if kind == "topics":
                self.quotas.follow_topic(name, image.topic_config(name), self.broker_id)
            if kind == "topics" and name in self.by_topic:
                config = self._log_config(name, image)
                for here in self.by_topic[name].values():
                    here.log.config = config

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
        if partition is not None:
            if topic.topic_id != ZERO_UUID and partition.log.topic_id is None:
                self._note_topic_id(partition, topic.topic_id)
            return ErrorCode.NONE
        partition_log = self._logs.get(topic.name, index)
        if partition_log is not None and partition_log.topic_id not in (None, ZERO_UUID, topic.topic_id):
            return ErrorCode.INCONSISTENT_TOPIC_ID
        return ErrorCode.KAFKA_STORAGE_ERROR

    def _note_topic_id(self, partition: Partition, topic_id: bytes) -> None:
        """The topic is older than ids are, and has been given one (`TopicChanges`)."""
        try:
            partition.log.set_topic_id(topic_id)
        except KafkaStorageError as error:
            log.warning("the topic id of %s-%d is not noted yet: %s", *partition.key, error)

    def stop(self, topic: str, index: int) -> None:
        """Neither lead nor follow a partition any more; its log stays."""
        partition = self.find(topic, index)
        if partition is not None:
            partition.leader_id = -1
            self._purgatory.check(partition.key)

    def delete(self, topic: str, index: int) -> None:
        """Remove a partition and its log. What cannot be removed is still known to the logs afterwards."""
        self._remove(topic, index)
        if not self._logs.offline.is_gone((topic, index)):
            self._delete_log(topic, index)

    def is_idle(self, topic: str, index: int) -> bool:
        """Return whether a partition is neither led nor followed here."""
        partition = self.find(topic, index)
        return partition is None or partition.leader_id < 0

    def set_aside(self, topic: str, index: int) -> None:
        """Have a partition here no more, and keep its log under a `-stray` name; see `membership.strays`.

        Raises:
            KafkaStorageError: its folder cannot be renamed.
        """
        stray = self._logs.set_aside(topic, index)
        self._forget(topic, index)
        log.warning(
            "%s-%d is no replica of this broker any more; its folder is %s now, and may be removed",
            *(topic, index, stray),
        )

    def preferred_read_replica(
        self, partition: Partition, offset: int, rack: str, listener: str, now_ms: int
    ) -> int:
        """The broker from which a consumer had better read a partition that is led here (KIP-392).

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
            # What is not in sync counts for nothing, so that nothing is lost where its log is made anew.
            is_copied = self.broker_id not in state.isr and (
                state.leader not in (-1, self.broker_id) or (is_new and bool(state.isr))
            )
            may_be_lost = state.leader == self.broker_id and (
                state.leader_recovery_state == LEADER_RECOVERING or self.may_elect_unclean(topic.name)
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
            self.offline[key] = str(error)
            # What is damaged or lost stays so until somebody repairs it, and is looked at by a start.
            is_to_stay = key in self._logs.damaged or key in self._logs.offline.lost
            retry_in_ms = math.inf if is_to_stay else _RETRY_MS
            self._retry_at_ms.setdefault(key, self._clock.monotonic_ms() + retry_in_ms)
            log.error("partition offline topic=%s partition=%d: %s", topic.name, index, error)
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
                log.warning(
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
        # The topic was deleted while this broker was away, or had given the partition up (KAFKA-14616). What
        # is there is of no use to the topic of that name now, of which nothing is here, or all is elsewhere.
        stray = self._logs.set_aside(topic.name, index)
        log.warning(
            "%s-%d was there of another topic of this name; its folder is %s now", topic.name, index, stray
        )
        return self._logs.create(topic.name, index, config, topic_id, is_new=is_new, is_copied=is_copied)

    def _delete_topic(self, topic: TopicImage) -> None:
        for index in {*self.by_topic.get(topic.name, ()), *topic.partitions}:
            self._put_off(topic.name, index, partial(self._delete_partition, topic, index))

    def _delete_partition(self, topic: TopicImage, index: int) -> None:
        self._remove(topic.name, index)
        # A deletion that a crash cut short goes on at the start, before the partition was taken up.
        left, key = self._logs.get(topic.name, index), (topic.name, index)
        if left is not None:
            is_its = left.topic_id in (None, topic.topic_id)
        else:
            is_its = key in self._logs.damaged and self._logs.damaged.may_be_of(key, topic.topic_id)
        if is_its:
            self._delete_log(topic.name, index)

    def _remove(self, topic: str, index: int) -> None:
        partition = self._forget(topic, index)
        if partition is not None:
            self._delete_log(topic, index)
            # Whoever waits for this partition learns that it is gone.
            self._purgatory.check(partition.key)

    def _forget(self, topic: str, index: int) -> Partition | None:
        """Have a partition here no more, nor one that cannot be used; return it, if it was here."""
        self.offline.pop((topic, index), None)
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
        partition.leader_id = -1
        return partition

    def _delete_log(self, topic: str, index: int) -> None:
        try:
            # Synced by whoever shows the image, before the nodes go.
            self._logs.delete(topic, index, sync=False)
        except (OSError, OdradekError) as error:
            log.error("log not removed topic=%s partition=%d: %s", topic, index, error)
