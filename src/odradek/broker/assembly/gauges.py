"""Gauges of a broker, under the names of Kafka's metrics."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.broker.fetch.sessions import FetchSessionCache
    from odradek.broker.interbroker.replica_fetcher_manager import ReplicaFetcherManager
    from odradek.broker.metrics.metrics import Metrics, ReplicationMetrics, Samples
    from odradek.broker.network.server import Listener
    from odradek.broker.replicas.replica_manager import ReplicaManager
    from odradek.broker.upkeep.housekeeping import Housekeeping
    from odradek.broker.upkeep.moving import Moving
    from odradek.cluster.controller.kafka_controller import KafkaController
    from odradek.log.cleaner.manager import LogCleaner
    from odradek.log.folders.log_manager import LogManager
    from odradek.replication.delayed import Purgatory
    from odradek.util.clock import Clock
    from odradek.util.topic_partition import TopicPartition

_PARTITIONS_A_STEP = 16
_PARTITIONS_COUNTED_A_STEP = 256


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
    gauge(kind, "OfflineReplicaCount", lambda: len(replicas.offline))
    metrics.source(partial(_partition_samples, replicas, clock, config))
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
    metrics.source(partial(_controller_samples, controller))


def _controller_samples(controller: KafkaController) -> Samples:
    """Yield what the controller knows of its cluster; one walk through all partitions, with pauses."""
    image, is_active = controller.image, controller.is_active
    leaderless = imbalanced = partitions = 0
    if is_active:
        for topic in image.topics.values():
            is_kept = topic.name not in image.marked
            for partition in topic.partitions.values():
                partitions += 1
                if partitions % _PARTITIONS_COUNTED_A_STEP == 0:
                    yield None
                if is_kept:
                    leaderless += partition.leader < 0
                    imbalanced += partition.leader != partition.replicas[0]
    kind = "kafka.controller:KafkaController"
    for name, count in (
        ("ActiveControllerCount", 1),
        ("ActiveBrokerCount", len(image.brokers)),
        ("OfflinePartitionsCount", leaderless),
        ("PreferredReplicaImbalanceCount", imbalanced),
        ("GlobalTopicCount", len(image.topics)),
        ("GlobalPartitionCount", partitions),
    ):
        yield (kind, name, ()), count if is_active else 0


def _partition_samples(replicas: ReplicaManager, clock: Clock, config: BrokerConfig) -> Samples:
    """Yield what there is to say of each partition, and then the sums of it; one walk, with pauses."""
    leaders = under_replicated = under_min_isr = at_min_isr = producer_ids = late = 0
    now_ms, longest_ms = clock.now_ms(), config.transaction_max_timeout_ms
    for position, replica in enumerate(list(replicas)):
        if position % _PARTITIONS_A_STEP == 0:
            yield None
        tags = (("topic", replica.topic), ("partition", str(replica.index)))
        log, producers = replica.log, replica.log.producers
        yield ("kafka.log:Log", "Size", tags), log.size_bytes
        yield ("kafka.log:Log", "LogStartOffset", tags), log.log_start_offset
        yield ("kafka.log:Log", "LogEndOffset", tags), log.log_end_offset
        yield ("kafka.log:Log", "NumLogSegments", tags), len(log.segments)
        producer_ids += len(producers.entries)
        # Kafka has 0 for the partitions that others lead.
        is_leader, in_sync, copies, least = replica.is_leader, 0, 0, 1
        if is_leader:
            in_sync, copies, least = len(replica.isr), len(replica.replicas), replica.effective_min_isr
            leaders += 1
            under_replicated += in_sync < copies
            under_min_isr += in_sync < least
            at_min_isr += in_sync == least
            late += producers.has_late_transaction(now_ms, longest_ms)
        kind = "kafka.cluster:Partition"
        yield (kind, "UnderReplicated", tags), int(in_sync < copies)
        yield (kind, "UnderMinIsr", tags), int(is_leader and in_sync < least)
        yield (kind, "AtMinIsr", tags), int(is_leader and in_sync == least)
        yield (kind, "InSyncReplicasCount", tags), in_sync
        yield (kind, "ReplicasCount", tags), copies
    for name, count in (
        ("LeaderCount", leaders),
        ("UnderReplicatedPartitions", under_replicated),
        ("UnderMinIsrPartitionCount", under_min_isr),
        ("AtMinIsrPartitionCount", at_min_isr),
        ("ProducerIdCount", producer_ids),
        ("PartitionsWithLateTransactionsCount", late),
    ):
        yield ("kafka.server:ReplicaManager", name, ()), count


def _is_offline(logs: LogManager, path: Path) -> float:
    return float(logs.directories.failure_of(path) is not None)


def _moved_per_second(moving: Moving | None) -> float:
    return 0.0 if moving is None else moving.byte_rate


def _connection_count(listener: Listener) -> float:
    return len(listener.connections)
