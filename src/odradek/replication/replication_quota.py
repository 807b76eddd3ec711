"""The throttle of copying replicas, of one side: how much may pass, and for which replicas that counts.

A reassignment moves many bytes that nobody waits for. An operator bounds them by a rate of each broker
(`leader.replication.throttled.rate`, `follower.replication.throttled.rate`) and names the replicas that it is
for (`leader.replication.throttled.replicas`, `follower.replication.throttled.replicas` of the topics). Both
halves of a copy obey (KIP-73):

- A leader gives no records of such a partition to a follower that is not in sync, while its rate is exceeded:
  `odradek.broker.fetch.reading`.
- A follower leaves such a partition, unless it has caught up, out of its fetch, while its own is exceeded:
  `odradek.replication.replica_fetcher`.

Replicas that are in sync are never held back, so no producer waits for a throttle; what they copy counts.
Kafka: `ReplicationQuotaManager`, `ReplicaManager.shouldLeaderThrottle`,
`ReplicaFetcherThread.shouldFollowerThrottle`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from odradek.replication.sampled_rate import SampledRate

if TYPE_CHECKING:
    from odradek.util.clock import Clock
    from odradek.util.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

NO_BOUND = 2**63 - 1
"""The rate where none is configured."""

ALL_REPLICAS = "*"

LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"


def throttled_partitions(replicas: str, broker_id: int) -> frozenset[int] | None:
    """Read the value of a topic's config.

    Args:
        replicas: `partition:broker,…`, or `*`. Brokers check it; who writes into the metadata store itself
            may not have: what is no such pair is passed over.
        broker_id: whose replicas count.

    Returns:
        The numbers of the partitions; None for all of them.
    """
    if replicas.strip() == ALL_REPLICAS:
        return None
    partitions = set()
    for entry in filter(None, map(str.strip, replicas.split(","))):
        index, _, broker = entry.partition(":")
        if not (index.isdecimal() and broker.isdecimal()):
            logger.warning("no replica, it is not throttled: %r", entry)
        elif int(broker) == broker_id:
            partitions.add(int(index))
    return frozenset(partitions)


class ReplicationQuota:
    """One side's throttle.

    Attributes:
        bytes_per_second: what may pass in a second.
    """

    __slots__ = ("_clock", "_rate", "_throttled", "bytes_per_second")

    def __init__(self, clock: Clock, *, samples: int = 11, sample_ms: float = 1000) -> None:
        """
        Args:
            clock: time.
            samples, sample_ms: over which time the rate is taken; see `SampledRate`.
        """
        self.bytes_per_second: int = NO_BOUND
        self._clock = clock
        self._rate = SampledRate(samples, sample_ms)
        # By topic, None for all of its partitions. No topic stands with an empty set: `is_idle` relies on it.
        self._throttled: dict[str, frozenset[int] | None] = {}

    def throttle(self, topic: str, partitions: frozenset[int] | None) -> None:
        """Set which replicas of a topic the rate is for.

        Args:
            topic: its name.
            partitions: their numbers; None for all of them.
        """
        if partitions is None or partitions:
            self._throttled[topic] = partitions
        else:
            self._throttled.pop(topic, None)

    @property
    def is_idle(self) -> bool:
        """Return whether the rate is for no replica at all."""
        return not self._throttled

    def is_throttled(self, key: TopicPartition) -> bool:
        """Return whether the rate is for this replica."""
        topic, index = key
        if topic not in self._throttled:
            return False
        partitions = self._throttled[topic]
        return partitions is None or index in partitions

    def record(self, size: int) -> None:
        """Count bytes of a replica that the rate is for, in sync or not."""
        self._rate.record(size, self._clock.monotonic_ms())

    @property
    def is_exceeded(self) -> bool:
        """Return whether more passes than may."""
        return self.byte_rate > self.bytes_per_second

    @property
    def byte_rate(self) -> float:
        """Kafka's `byte-rate`: bytes a second, of the replicas that the rate is for."""
        return self._rate.per_second(self._clock.monotonic_ms())

    @property
    def pause_ms(self) -> float:
        """Return how long not to ask for more: 0 unless the rate is exceeded."""
        return self._rate.falls_in_ms(self.bytes_per_second, self._clock.monotonic_ms())


class ReplicationQuotas(NamedTuple):
    """Both sides' throttles of a broker.

    Attributes:
        leader: of what this broker gives to followers.
        follower: of what it copies from leaders.
    """

    leader: ReplicationQuota
    follower: ReplicationQuota

    def follow_topic(self, topic: str, configs: Mapping[str, str], broker_id: int) -> None:
        """Take over the configs of a topic, an empty mapping for one that is gone."""
        for quota, name in ((self.leader, LEADER_REPLICAS), (self.follower, FOLLOWER_REPLICAS)):
            quota.throttle(topic, throttled_partitions(configs.get(name, ""), broker_id))


def replication_quotas(clock: Clock, *, samples: int = 11, sample_ms: float = 1000) -> ReplicationQuotas:
    """Make both sides' throttles, without a bound yet; see `ReplicationQuota`."""
    return ReplicationQuotas(
        leader=ReplicationQuota(clock, samples=samples, sample_ms=sample_ms),
        follower=ReplicationQuota(clock, samples=samples, sample_ms=sample_ms),
    )
