"""Every metric that a broker shows: its JMX bean in Kafka, its type and unit, and what it says.

docs/metrics.md is made from this table, and so are the `# HELP` and `# TYPE` lines of `/metrics`. A metric
that is not here is not shown. Names and meanings are those of Kafka's documentation ("Monitoring") and of
the classes that register them; beans of `odradek.server` are our own.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class MetricType(Enum):
    """The types of OpenMetrics that are used here."""

    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"


class MetricDeclaration(NamedTuple):
    """One metric.

    Attributes:
        kind: domain and bean type, as `odradek.broker.metrics.metrics` has them.
        name: Kafka's.
        tags: the names of its tags, in Kafka's order.
        type, unit, doc: the unit is empty where the value is a number of things.
    """

    kind: str
    name: str
    tags: tuple[str, ...]
    type: MetricType
    unit: str
    doc: str

    @property
    def bean(self) -> str:
        """The JMX name in full."""
        domain, _, bean_type = self.kind.partition(":")
        named = [f"type={bean_type}"]
        # Beans that Kafka makes with its own metrics library have the name as an attribute.
        if not self.is_attribute:
            named.append(f"name={self.name}")
        named += [f"{tag}=…" for tag in self.tags]
        return f"{domain}:{','.join(named)}" + (f" ({self.name})" if self.is_attribute else "")

    @property
    def is_attribute(self) -> bool:
        """True where the name is an attribute of the bean, as of `org.apache.kafka.common.metrics`."""
        return self.name == self.name.lower() and self.kind not in _NAMED_IN_SMALL_LETTERS


_NAMED_IN_SMALL_LETTERS = frozenset({"kafka.log:LogCleaner", "kafka.log:LogCleanerManager"})
"""Yammer's metrics, whose names are in small letters all the same."""

_COUNTER, _GAUGE, _SUMMARY = MetricType.COUNTER, MetricType.GAUGE, MetricType.SUMMARY

_TABLE: dict[str, list[tuple[str, str, MetricType, str, str]]] = {
    # Name, tags, type, unit, what it says.
    "kafka.server:BrokerTopicMetrics": [
        ("MessagesInPerSec", "topic", _COUNTER, "", "Records that producers have appended."),
        ("BytesInPerSec", "topic", _COUNTER, "bytes", "Bytes that producers have appended."),
        ("BytesOutPerSec", "topic", _COUNTER, "bytes", "Bytes that consumers were sent."),
        ("BytesRejectedPerSec", "topic", _COUNTER, "bytes", "Bytes of batches that were too large."),
        (
            "FailedFetchRequestsPerSec",
            "topic",
            _COUNTER,
            "",
            "Partitions that could not be read for a fetch.",
        ),
        ("FailedProduceRequestsPerSec", "topic", _COUNTER, "", "Partitions that could not be appended to."),
        ("FetchMessageConversionsPerSec", "topic", _COUNTER, "", "Records converted for an older consumer."),
        (
            "ProduceMessageConversionsPerSec",
            "topic",
            _COUNTER,
            "",
            "Records converted to the topic's format.",
        ),
        ("TotalFetchRequestsPerSec", "topic", _COUNTER, "", "Partitions that fetches asked for."),
        ("TotalProduceRequestsPerSec", "topic", _COUNTER, "", "Partitions that produce requests named."),
        ("ReplicationBytesInPerSec", "", _COUNTER, "bytes", "Bytes that followers here have copied."),
        ("ReplicationBytesOutPerSec", "", _COUNTER, "bytes", "Bytes that followers elsewhere were sent."),
        ("ReassignmentBytesInPerSec", "", _COUNTER, "bytes", "Those copied in for a reassignment."),
        ("ReassignmentBytesOutPerSec", "", _COUNTER, "bytes", "Those sent for a reassignment."),
    ],
    "kafka.network:RequestMetrics": [
        ("RequestsPerSec", "request", _COUNTER, "", "Requests that were taken up."),
        ("ErrorsPerSec", "request error", _COUNTER, "", "Errors that were told, by topic and partition."),
        ("RequestBytes", "request", _SUMMARY, "bytes", "Sizes of requests."),
        ("ResponseBytes", "request", _SUMMARY, "bytes", "Sizes of responses."),
        ("TotalTimeMs", "request", _SUMMARY, "ms", "From taking a request up to having its answer."),
        ("LocalTimeMs", "request", _SUMMARY, "ms", "The part in which this broker worked on it."),
        ("RemoteTimeMs", "request", _SUMMARY, "ms", "The part in which it waited for replicas or records."),
        ("ThrottleTimeMs", "request", _SUMMARY, "ms", "How long its client was throttled."),
        ("TotalTimeMsMax", "request", _GAUGE, "ms", "The longest of these since the start."),
    ],
    "kafka.server:ReplicaManager": [
        ("PartitionCount", "", _GAUGE, "", "Partitions with a replica here."),
        ("LeaderCount", "", _GAUGE, "", "Partitions that this broker leads."),
        ("OfflineReplicaCount", "", _GAUGE, "", "Replicas here whose log cannot be used."),
        ("ProducerIdCount", "", _GAUGE, "", "Producer ids that are remembered, over all partitions."),
        (
            "PartitionsWithLateTransactionsCount",
            "",
            _GAUGE,
            "",
            "Partitions with a transaction open too long.",
        ),
        (
            "UnderReplicatedPartitions",
            "",
            _GAUGE,
            "",
            "Led partitions with fewer in-sync replicas than replicas.",
        ),
        ("UnderMinIsrPartitionCount", "", _GAUGE, "", "Led partitions with fewer than min.insync.replicas."),
        ("AtMinIsrPartitionCount", "", _GAUGE, "", "Led partitions that have just min.insync.replicas."),
        ("IsrExpandsPerSec", "", _COUNTER, "", "How often a replica has come into sync."),
        ("IsrShrinksPerSec", "", _COUNTER, "", "How often a replica has fallen out of sync."),
        ("FailedIsrUpdatesPerSec", "", _COUNTER, "", "Changes of in-sync replicas that were refused."),
    ],
    "kafka.cluster:Partition": [
        (
            "UnderReplicated",
            "topic partition",
            _GAUGE,
            "",
            "1 where replicas of a led partition are out of sync.",
        ),
        ("UnderMinIsr", "topic partition", _GAUGE, "", "1 where fewer than min.insync.replicas are in sync."),
        ("AtMinIsr", "topic partition", _GAUGE, "", "1 where just min.insync.replicas are in sync."),
        ("InSyncReplicasCount", "topic partition", _GAUGE, "", "In-sync replicas of a led partition."),
        ("ReplicasCount", "topic partition", _GAUGE, "", "Replicas of a led partition."),
    ],
    "kafka.log:Log": [
        ("Size", "topic partition", _GAUGE, "bytes", "The log's bytes on the disk."),
        ("LogStartOffset", "topic partition", _GAUGE, "", "The first offset that there is."),
        ("LogEndOffset", "topic partition", _GAUGE, "", "The offset that the next record gets."),
        ("NumLogSegments", "topic partition", _GAUGE, "", "Segments of the log."),
    ],
    "kafka.log:LogManager": [
        ("OfflineLogDirectoryCount", "", _GAUGE, "", "Data folders that have failed."),
        ("LogDirectoryOffline", "logDirectory", _GAUGE, "", "1 where the data folder has failed."),
    ],
    "kafka.log:LogCleanerManager": [
        ("max-dirty-percent", "", _GAUGE, "percent", "The part of a log that waits for compaction, at most."),
        ("time-since-last-run-ms", "", _GAUGE, "ms", "Since the last round of compaction."),
        ("uncleanable-partitions-count", "", _GAUGE, "", "Partitions whose compaction has failed."),
    ],
    "kafka.log:LogCleaner": [
        ("cleaner-recopy-percent", "", _GAUGE, "percent", "What compaction kept of what it read."),
        ("max-buffer-utilization-percent", "", _GAUGE, "percent", "How full the map of keys was, at most."),
    ],
    "kafka.server:FetchSessionCache": [
        ("NumIncrementalFetchSessions", "", _GAUGE, "", "Fetch sessions (KIP-227)."),
        ("NumIncrementalFetchPartitionsCached", "", _GAUGE, "", "Partitions in them."),
    ],
    "kafka.server:DelayedOperationPurgatory": [
        ("PurgatorySize", "", _GAUGE, "", "Requests that wait for something."),
    ],
    "kafka.server:socket-server-metrics": [
        ("connection-count", "listener", _GAUGE, "", "Connections that are open."),
        (
            "connection-accept-rate",
            "listener ip",
            _GAUGE,
            "",
            "Connections a second, as the quota counts them.",
        ),
        ("connection-accept-throttle-time", "listener", _GAUGE, "ms", "How long a connection had to wait."),
        (
            "ip-connection-accept-throttle-time",
            "listener",
            _GAUGE,
            "ms",
            "The same, for a limit of its address.",
        ),
        ("broker-connection-accept-rate", "", _GAUGE, "", "Connections a second, of all listeners."),
        (
            "connections",
            "clientSoftwareName clientSoftwareVersion",
            _GAUGE,
            "",
            "Connections by their clients' software (KIP-511).",
        ),
        ("successful-authentication-total", "listener", _COUNTER, "", "Logins."),
        ("failed-authentication-total", "listener", _COUNTER, "", "Logins that were refused."),
        (
            "successful-reauthentication-total",
            "listener",
            _COUNTER,
            "",
            "Logins on an open connection (KIP-368).",
        ),
        ("failed-reauthentication-total", "listener", _COUNTER, "", "Those that were refused."),
        (
            "expired-connections-killed-count",
            "listener",
            _COUNTER,
            "",
            "Connections closed as their login ran out.",
        ),
    ],
    "kafka.server:LeaderReplication": [("byte-rate", "", _GAUGE, "bytes/s", "Throttled bytes to followers.")],
    "kafka.server:FollowerReplication": [
        ("byte-rate", "", _GAUGE, "bytes/s", "Throttled bytes from leaders.")
    ],
    "kafka.server:AlterLogDirsReplication": [
        ("byte-rate", "", _GAUGE, "bytes/s", "Bytes moved between data folders.")
    ],
    "kafka.server:ReplicaFetcherManager": [
        ("MaxLag", "clientId", _GAUGE, "", "Records by which a follower here is behind its leader, at most."),
        ("FailedPartitionsCount", "clientId", _GAUGE, "", "Partitions that cannot be copied."),
    ],
    "kafka.controller:KafkaController": [
        ("ActiveControllerCount", "", _GAUGE, "", "1 at the broker that is the controller."),
        ("ActiveBrokerCount", "", _GAUGE, "", "Brokers that live; 0 but at the controller, as all of these."),
        ("OfflinePartitionsCount", "", _GAUGE, "", "Partitions without a leader."),
        (
            "PreferredReplicaImbalanceCount",
            "",
            _GAUGE,
            "",
            "Partitions led by another than their first replica.",
        ),
        ("GlobalTopicCount", "", _GAUGE, "", "Topics."),
        ("GlobalPartitionCount", "", _GAUGE, "", "Partitions."),
    ],
    "kafka.coordinator.group:GroupMetadataManager": [
        ("NumGroups", "", _GAUGE, "", "Groups that this broker coordinates."),
        ("NumOffsets", "", _GAUGE, "", "Offsets that these have committed."),
        ("NumGroupsEmpty", "", _GAUGE, "", "Groups without members."),
        ("NumGroupsPreparingRebalance", "", _GAUGE, "", "Groups that wait for their members to join."),
        ("NumGroupsCompletingRebalance", "", _GAUGE, "", "Groups that wait for their leader's assignment."),
        ("NumGroupsStable", "", _GAUGE, "", "Groups whose members have their partitions."),
        ("NumGroupsDead", "", _GAUGE, "", "Groups that are being removed."),
    ],
    "odradek.server:ConsumerGroup": [
        ("Lag", "consumergroup topic partition", _GAUGE, "", "Records that the group has not committed yet."),
        ("CurrentOffset", "consumergroup topic partition", _GAUGE, "", "The offset that it has committed."),
        ("Members", "consumergroup", _GAUGE, "", "Members of the group."),
    ],
    "kafka.server:client-metrics": [
        ("instance-count", "", _GAUGE, "", "Client instances that have asked which metrics are wanted."),
        (
            "unknown-subscription-request-count",
            "",
            _COUNTER,
            "",
            "Pushes for a subscription that has changed.",
        ),
        ("throttle-count", "", _COUNTER, "", "Requests of clients that came before their interval was over."),
        ("plugin-error-count", "", _COUNTER, "", "Pushes that could not be read."),
    ],
    "kafka.server:transaction-coordinator-metrics": [
        ("partition-load-time-max", "", _GAUGE, "ms", "Longest loading of a coordinator's partition."),
        ("partition-load-time-avg", "", _GAUGE, "ms", "Average of these."),
    ],
    "kafka.coordinator.transaction:TransactionMarkerChannelManager": [
        ("UnknownDestinationQueueSize", "", _GAUGE, "", "Markers whose partition has no leader."),
        ("LogAppendRetryQueueSize", "", _GAUGE, "", "Transactions whose end is not written yet."),
    ],
    "kafka.server:AddPartitionsToTxnManager": [
        ("VerificationFailureRate", "", _COUNTER, "", "Partitions refused to a transaction (KIP-890)."),
        ("VerificationTimeMs", "", _COUNTER, "ms", "Time until the coordinator had answered, in all."),
        ("VerificationTimeMsMax", "", _GAUGE, "ms", "The longest of these."),
    ],
    "kafka.server:Produce": [
        ("byte-rate", "user client-id", _GAUGE, "bytes/s", "What a client with a quota produces."),
        ("throttle-time", "user client-id", _GAUGE, "ms", "How long it is throttled, on average."),
        ("queue-size", "", _GAUGE, "", "Clients that are throttled now."),
    ],
    "kafka.server:Fetch": [
        ("byte-rate", "user client-id", _GAUGE, "bytes/s", "What a client with a quota reads."),
        ("throttle-time", "user client-id", _GAUGE, "ms", "How long it is throttled, on average."),
        ("queue-size", "", _GAUGE, "", "Clients that are throttled now."),
    ],
    "kafka.server:Request": [
        ("request-time", "user client-id", _GAUGE, "percent", "The part of a thread that a client takes."),
        ("throttle-time", "user client-id", _GAUGE, "ms", "How long it is throttled, on average."),
        ("queue-size", "", _GAUGE, "", "Clients that are throttled now."),
        (
            "exempt-request-time",
            "",
            _GAUGE,
            "percent",
            "The part that requests take which are not throttled.",
        ),
    ],
    "kafka.server:ControllerMutation": [
        ("mutation-rate", "user client-id", _GAUGE, "1/s", "Partitions that a client makes or removes."),
        ("throttle-time", "user client-id", _GAUGE, "ms", "How long it is throttled, on average."),
        ("tokens", "user client-id", _GAUGE, "", "Partitions that it may still change at once."),
        ("queue-size", "", _GAUGE, "", "Clients that are throttled now."),
    ],
    "odradek.server:GarbageCollector": [
        ("Count", "generation", _COUNTER, "", "Rounds of Python's garbage collector."),
        ("TimeMs", "generation", _COUNTER, "ms", "For how long these held everybody up, in all."),
        ("TimeMsMax", "generation", _GAUGE, "ms", "The longest of these."),
        ("CollectedObjects", "", _COUNTER, "", "Objects that only the collector could free."),
    ],
    "odradek.server:EventLoop": [
        ("StallCount", "", _COUNTER, "", "Turns of the event loop longer than odradek.event.loop.stall.ms."),
        ("StarvedStallCount", "", _COUNTER, "", "Those in which the machine gave the loop no time."),
        ("StallTimeMs", "", _COUNTER, "ms", "For how long these held everybody up, in all."),
        ("StallTimeMsMax", "", _GAUGE, "ms", "The longest of these."),
        ("DelayMs", "", _SUMMARY, "ms", "For how long what is to be done has to wait for its turn."),
    ],
    "odradek.server:Process": [
        ("ResidentMemoryBytes", "", _GAUGE, "bytes", "Memory of the process."),
        ("CpuSeconds", "", _COUNTER, "s", "CPU time of the process."),
        ("OpenFiles", "", _GAUGE, "", "Files and sockets that are open."),
        ("StartTimeSeconds", "", _GAUGE, "s", "When the process was started, since 1970."),
    ],
}

DECLARATIONS: dict[tuple[str, str], MetricDeclaration] = {
    (kind, name): MetricDeclaration(kind, name, tuple(tags.split()), kind_of_value, unit, doc)
    for kind, rows in _TABLE.items()
    for name, tags, kind_of_value, unit, doc in rows
}
"""By kind and name."""
