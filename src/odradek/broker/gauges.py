"""Gauges of a broker, under the names of Kafka's metrics."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.broker.network.server import Listener
    from odradek.broker.replica_manager import ReplicaManager
    from odradek.broker.services import BrokerServices
    from odradek.log.folders.log_manager import LogManager


def register_gauges(broker: BrokerServices, listeners: Iterable[Listener]) -> None:
    """Have `broker.metrics` show the state of a broker that starts; its listeners are bound."""
    gauge = broker.metrics.gauge
    kind = "kafka.server:ReplicaManager"
    gauge(kind, "PartitionCount", lambda: len(broker.replicas))
    gauge(kind, "LeaderCount", lambda: broker.replicas.leader_count)
    gauge(kind, "OfflineReplicaCount", lambda: len(broker.replicas.offline))
    gauge(kind, "ProducerIdCount", partial(_count_producer_ids, broker.replicas))
    gauge(kind, "PartitionsWithLateTransactionsCount", partial(_count_late_transactions, broker))
    gauge("kafka.controller:KafkaController", "OfflinePartitionsCount", partial(_count_leaderless, broker))
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


def _count_leaderless(broker: BrokerServices) -> int:
    image = broker.image
    return sum(
        one.leader < 0
        for topic in image.topics.values()
        if topic.name not in image.marked
        for one in topic.partitions.values()
    )


def _count_producer_ids(replicas: ReplicaManager) -> int:
    return sum(len(one.log.producers.entries) for one in replicas)


def _count_late_transactions(broker: BrokerServices) -> int:
    now_ms, longest_ms = broker.clock.now_ms(), broker.config.transaction_max_timeout_ms
    return sum(
        one.is_leader and one.log.producers.has_late_transaction(now_ms, longest_ms)
        for one in broker.replicas
    )


def _is_offline(logs: LogManager, path: Path) -> float:
    return float(logs.failure_of(path) is not None)


def _connection_count(listener: Listener) -> float:
    return len(listener.connections)
