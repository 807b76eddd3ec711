"""Gauges of a broker, under the names of Kafka's metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.broker.interbroker.replica_fetcher_manager import ReplicaFetcherManager
    from odradek.broker.metrics.metrics import Metrics
    from odradek.broker.network.server import Listener
    from odradek.broker.replicas.replica_manager import ReplicaManager
    from odradek.broker.services import BrokerServices
    from odradek.cluster.image import ClusterImage, PartitionImage
    from odradek.log.folders.log_manager import LogManager
    from odradek.util.topic_partition import TopicPartition


def count_copied(broker: BrokerServices, key: TopicPartition, size: int) -> None:
    """Bytes of a partition have come from its leader."""
    replication, replica = broker.metrics.replication, broker.replicas.find(*key)
    replication.bytes_in += size
    if replica is not None and broker.broker_id in replica.adding:
        replication.reassignment_bytes_in += size


def register_gauges(broker: BrokerServices, listeners: Iterable[Listener]) -> None:
    """Add gauges for the state of a broker that starts to `broker.metrics`; its listeners are bound."""
    gauge = broker.metrics.gauge
    kind = "kafka.server:ReplicaManager"
    gauge(kind, "PartitionCount", lambda: len(broker.replicas))
    gauge(kind, "LeaderCount", lambda: broker.replicas.leader_count)
    gauge(kind, "OfflineReplicaCount", lambda: len(broker.replicas.offline))
    gauge(kind, "ProducerIdCount", partial(_count_producer_ids, broker.replicas))
    gauge(kind, "PartitionsWithLateTransactionsCount", partial(_count_late_transactions, broker))
    gauge(kind, "UnderReplicatedPartitions", partial(_count_under_replicated, broker.replicas))
    gauge(kind, "UnderMinIsrPartitionCount", partial(_count_isr_below_minimum, broker.replicas))
    gauge(kind, "AtMinIsrPartitionCount", partial(_count_isr_at_minimum, broker.replicas))
    counts = broker.replicas.isr_counts
    gauge(kind, "IsrExpandsPerSec", lambda: counts.expands)
    gauge(kind, "IsrShrinksPerSec", lambda: counts.shrinks)
    gauge(kind, "FailedIsrUpdatesPerSec", lambda: counts.failed)
    quotas = broker.replicas.quotas
    gauge("kafka.server:LeaderReplication", "byte-rate", lambda: quotas.leader.byte_rate)
    gauge("kafka.server:FollowerReplication", "byte-rate", lambda: quotas.follower.byte_rate)
    gauge("kafka.server:AlterLogDirsReplication", "byte-rate", lambda: _moved_per_second(broker))
    broker.metrics.source(broker.quotas.metrics)
    _register_controller(broker)
    kind = "kafka.log:LogManager"
    gauge(
        kind,
        "OfflineLogDirectoryCount",
        lambda: len(broker.logs.data_dirs) - len(broker.logs.online_dirs),
    )
    for path in broker.logs.data_dirs:
        gauge(kind, "LogDirectoryOffline", partial(_is_offline, broker.logs, path), logDirectory=str(path))
    kind = "kafka.server:FetchSessionCache"
    gauge(kind, "NumIncrementalFetchSessions", lambda: len(broker.fetch_sessions))
    gauge(kind, "NumIncrementalFetchPartitionsCached", lambda: broker.fetch_sessions.total_partitions)
    gauge("kafka.server:DelayedOperationPurgatory", "PurgatorySize", lambda: len(broker.purgatory))
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


def _register_controller(broker: BrokerServices) -> None:
    """Register what the active controller alone knows; it is 0 on all other brokers."""
    kind, controller = "kafka.controller:KafkaController", broker.controller

    def of_controller(name: str, count: Callable[[ClusterImage], int]) -> None:
        broker.metrics.gauge(kind, name, lambda: count(controller.image) if controller.is_active else 0)

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


def _count_late_transactions(broker: BrokerServices) -> int:
    now_ms, longest_ms = broker.clock.now_ms(), broker.config.transaction_max_timeout_ms
    return sum(
        replica.is_leader and replica.log.producers.has_late_transaction(now_ms, longest_ms)
        for replica in broker.replicas
    )


def _is_offline(logs: LogManager, path: Path) -> float:
    return float(logs.directories.failure_of(path) is not None)


def _moved_per_second(broker: BrokerServices) -> float:
    return 0.0 if broker.moving is None else broker.moving.byte_rate


def _connection_count(listener: Listener) -> float:
    return len(listener.connections)
