"""Gauges of a broker, under the names of Kafka's metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.broker.fetch.sessions import FetchSessionCache
    from odradek.broker.interbroker.replica_fetcher_manager import ReplicaFetcherManager
    from odradek.broker.metrics.metrics import Metrics, ReplicationMetrics
    from odradek.broker.network.server import Listener
    from odradek.broker.replicas.replica_manager import ReplicaManager
    from odradek.broker.upkeep.housekeeping import Housekeeping
    from odradek.broker.upkeep.moving import Moving
    from odradek.cluster.controller.kafka_controller import KafkaController
    from odradek.cluster.image import ClusterImage, PartitionImage
    from odradek.log.cleaner.manager import LogCleaner
    from odradek.log.folders.log_manager import LogManager
    from odradek.replication.delayed import Purgatory
    from odradek.util.clock import Clock
    from odradek.util.topic_partition import TopicPartition


def count_copied(
    replication: ReplicationMetrics, replicas: ReplicaManager, broker_id: int, key: TopicPartition, size: int
) -> None:
    """Bytes of a partition have come from its leader."""
    replica = replicas.find(*key)
    replication.bytes_in += size
    if replica is not None and broker_id in replica.adding:
        replication.reassignment_bytes_in += size


def register_replica_gauges(
    metrics: Metrics, replicas: ReplicaManager, clock: Clock, config: BrokerConfig
) -> None:
    """Add gauges for the partitions on a broker, and for what they are copied with."""
    gauge, kind = metrics.gauge, "kafka.server:ReplicaManager"
    gauge(kind, "PartitionCount", lambda: len(replicas))
    gauge(kind, "LeaderCount", lambda: replicas.leader_count)
    gauge(kind, "OfflineReplicaCount", lambda: len(replicas.offline))
    gauge(kind, "ProducerIdCount", partial(_count_producer_ids, replicas))
    gauge(
        kind,
        "PartitionsWithLateTransactionsCount",
        lambda: _count_late_transactions(replicas, clock.now_ms(), config.transaction_max_timeout_ms),
    )
    gauge(kind, "UnderReplicatedPartitions", partial(_count_under_replicated, replicas))
    gauge(kind, "UnderMinIsrPartitionCount", partial(_count_isr_below_minimum, replicas))
    gauge(kind, "AtMinIsrPartitionCount", partial(_count_isr_at_minimum, replicas))
    counts = replicas.isr_counts
    gauge(kind, "IsrExpandsPerSec", lambda: counts.expands)
    gauge(kind, "IsrShrinksPerSec", lambda: counts.shrinks)
    gauge(kind, "FailedIsrUpdatesPerSec", lambda: counts.failed)
    quotas = replicas.quotas
    gauge("kafka.server:LeaderReplication", "byte-rate", lambda: quotas.leader.byte_rate)
    gauge("kafka.server:FollowerReplication", "byte-rate", lambda: quotas.follower.byte_rate)


def register_log_gauges(metrics: Metrics, logs: LogManager, housekeeping: Housekeeping, clock: Clock) -> None:
    """Add gauges for a broker's data folders, what moves between them, and compaction."""
    kind, gauge = "kafka.log:LogManager", metrics.gauge
    gauge(kind, "OfflineLogDirectoryCount", lambda: len(logs.data_dirs) - len(logs.online_dirs))
    for path in logs.data_dirs:
        gauge(kind, "LogDirectoryOffline", partial(_is_offline, logs, path), logDirectory=str(path))
    gauge("kafka.server:AlterLogDirsReplication", "byte-rate", lambda: _moved_per_second(housekeeping.moving))
    if housekeeping.cleaner is not None:
        _register_cleaner_gauges(metrics, housekeeping.cleaner, clock)


def _register_cleaner_gauges(metrics: Metrics, cleaner: LogCleaner, clock: Clock) -> None:
    gauge, stats = metrics.gauge, cleaner.stats
    kind = "kafka.log:LogCleanerManager"
    gauge(kind, "max-dirty-percent", lambda: stats.max_dirty_percent)
    gauge(kind, "time-since-last-run-ms", lambda: clock.now_ms() - stats.last_run_ms)
    gauge(kind, "uncleanable-partitions-count", lambda: len(cleaner.uncleanable))
    kind = "kafka.log:LogCleaner"
    gauge(kind, "cleaner-recopy-percent", lambda: stats.recopy_percent)
    gauge(kind, "max-buffer-utilization-percent", lambda: stats.map_percent)


def register_request_gauges(
    metrics: Metrics, sessions: FetchSessionCache, purgatory: Purgatory, listeners: Iterable[Listener]
) -> None:
    """Add gauges for what a broker keeps of its clients; its listeners are bound."""
    gauge, kind = metrics.gauge, "kafka.server:FetchSessionCache"
    gauge(kind, "NumIncrementalFetchSessions", lambda: len(sessions))
    gauge(kind, "NumIncrementalFetchPartitionsCached", lambda: sessions.total_partitions)
    gauge("kafka.server:DelayedOperationPurgatory", "PurgatorySize", lambda: len(purgatory))
    for listener in listeners:
        gauge(
            "kafka.server:socket-server-metrics",
            "connection-count",
            partial(_connection_count, listener),
            listener=listener.name,
        )


def register_fetcher_gauges(metrics: Metrics, fetchers: ReplicaFetcherManager) -> None:
    """Add gauges to `metrics` of how far this broker is behind the leaders that it follows."""
    kind = "kafka.server:ReplicaFetcherManager"
    gauge = metrics.gauge
    gauge(kind, "MaxLag", lambda: fetchers.max_lag, clientId="Replica")
    gauge(kind, "FailedPartitionsCount", lambda: fetchers.failed_partitions_count, clientId="Replica")


def register_controller_gauges(metrics: Metrics, controller: KafkaController) -> None:
    """Add gauges for what the active controller alone knows; they are 0 on all other brokers."""
    kind = "kafka.controller:KafkaController"

    def of_controller(name: str, count: Callable[[ClusterImage], int]) -> None:
        metrics.gauge(kind, name, lambda: count(controller.image) if controller.is_active else 0)

    of_controller("ActiveControllerCount", lambda image: 1)
    of_controller("ActiveBrokerCount", lambda image: len(image.brokers))
    of_controller("OfflinePartitionsCount", _count_leaderless)
    of_controller("PreferredReplicaImbalanceCount", _count_imbalanced)
    of_controller("GlobalTopicCount", lambda image: len(image.topics))
    of_controller("GlobalPartitionCount", lambda image: sum(1 for _ in _partitions(image)))


def _partitions(image: ClusterImage) -> Iterator[PartitionImage]:
    for topic in image.topics.values():
        yield from topic.partitions.values()


def _kept_partitions(image: ClusterImage) -> Iterator[PartitionImage]:
    """Those of topics that are not being deleted."""
    for topic in image.topics.values():
        if topic.name not in image.marked:
            yield from topic.partitions.values()


def _count_leaderless(image: ClusterImage) -> int:
    return sum(partition.leader < 0 for partition in _kept_partitions(image))


def _count_imbalanced(image: ClusterImage) -> int:
    return sum(partition.leader != partition.replicas[0] for partition in _kept_partitions(image))


def _count_under_replicated(replicas: ReplicaManager) -> int:
    return sum(replica.is_under_replicated for replica in replicas)


def _count_isr_below_minimum(replicas: ReplicaManager) -> int:
    return sum(replica.is_leader and len(replica.isr) < replica.effective_min_isr for replica in replicas)


def _count_isr_at_minimum(replicas: ReplicaManager) -> int:
    return sum(replica.is_leader and len(replica.isr) == replica.effective_min_isr for replica in replicas)


def _count_producer_ids(replicas: ReplicaManager) -> int:
    return sum(len(replica.log.producers.entries) for replica in replicas)


def _count_late_transactions(replicas: ReplicaManager, now_ms: int, longest_ms: int) -> int:
    return sum(
        replica.is_leader and replica.log.producers.has_late_transaction(now_ms, longest_ms)
        for replica in replicas
    )


def _is_offline(logs: LogManager, path: Path) -> float:
    return float(logs.directories.failure_of(path) is not None)


def _moved_per_second(moving: Moving | None) -> float:
    return 0.0 if moving is None else moving.byte_rate


def _connection_count(listener: Listener) -> float:
    return len(listener.connections)
