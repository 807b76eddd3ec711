"""The values that go in and out of the clients, under Kafka's names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, Literal, NamedTuple, TypeAlias, TypedDict, TypeVar

from odradek.client.errors import IllegalArgumentError
from odradek.client.type_variables import K_co, Serialized, V_co
from odradek.errors import KafkaError

T = TypeVar("T")

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]

HeadersLike: TypeAlias = Sequence[tuple[str, Serialized | None]] | Mapping[str, Serialized | None]
"""What a producer takes as headers: (name, value) pairs or a mapping; text becomes UTF-8."""

Servers: TypeAlias = str | Iterable[str | tuple[str, int]]
"""Brokers to begin with: 'host:port[,host:port…]', or a list of such."""


class RecordColumns(TypedDict, total=False):
    """The look of records as columns, for Arrow: see `odradek.records.columns.ColumnDecoder`."""

    timestamp_unit: Literal["ms", "us"]
    as_timestamp: bool
    nullable_headers: bool


class FetchedColumns(RecordColumns, total=False):
    """Those of `RawReader`, where an Arrow batch may also be limited by its bytes."""

    batch_bytes: int


class ColumnNames(TypedDict, total=False):
    """The names of columns that are written: see `odradek.client.Producer.send_arrow`."""

    key_column: str | None
    value_column: str
    topic_column: str
    partition_column: str
    timestamp_column: str
    headers_column: str


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


TopicPartitionLike: TypeAlias = TopicPartition | tuple[str, int]

ByPartition: TypeAlias = Mapping[TopicPartition, T] | Mapping[tuple[str, int], T]
"""Something of each partition. Of a mapping's keys there is one type."""


class OffsetAndMetadata(NamedTuple):
    """A committed position: the next offset to read, a note, and the leader epoch it was read under (or
    -1).
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


Offsets: TypeAlias = ByPartition[OffsetAndMetadata | int]
"""The next offset to read, of each partition."""


class ConsumerGroupMetadata(NamedTuple):
    """As whom a consumer is in its group: what a transaction that commits the group's offsets proves itself
    by (KIP-447). Without a member only the group is named.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class PreparedTxnState(NamedTuple):
    """A prepared transaction, to be kept by the one that decides about it (KIP-939).

    As text `producer id:epoch`, as in Kafka; empty where there is no transaction.
    """

    producer_id: int = -1
    epoch: int = -1

    @classmethod
    def parse(cls, text: str) -> PreparedTxnState:
        """From its text.

        Raises:
            IllegalArgumentError: it is not of that form.
        """
        if not text:
            return cls()
        producer_id, colon, epoch = text.partition(":")
        state = cls(int(producer_id), int(epoch)) if colon else cls()
        if state.producer_id < 0 or state.epoch < 0:
            raise IllegalArgumentError(f"{text!r} is not producer id:epoch")
        return state

    @property
    def has_transaction(self) -> bool:
        """Return whether there is one."""
        return self.producer_id >= 0

    def __str__(self) -> str:
        return f"{self.producer_id}:{self.epoch}" if self.has_transaction else ""


class OffsetAndTimestamp(NamedTuple):
    """An offset found by time. `timestamp` in epoch milliseconds, -1 where the broker gives none."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


class ProducerRecord(NamedTuple):
    """A record as an interceptor's `on_send` sees it, and may replace it."""

    topic: str
    value: object = None
    key: object = None
    partition: int | None = None
    timestamp_ms: int | datetime | None = None
    headers: Headers = ()


class RecordMetadata(NamedTuple):
    """The place of a sent record.

    `offset` is -1 with acks=0, and for a batch that the broker had already forgotten to be a duplicate.
    `timestamp` is the broker's with LogAppendTime, else the record's own. Sizes are -1 for null.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    serialized_key_size: int
    serialized_value_size: int


class MetricName(NamedTuple):
    """The name of one of a client's metrics, as Kafka's clients have it.

    Attributes:
        group: such as 'producer-metrics'.
        tags: (name, value) pairs, such as ('client-id', 'producer-1'), ascending.
    """

    name: str
    group: str
    tags: tuple[tuple[str, str], ...]


class ConsumerRecord(NamedTuple, Generic[K_co, V_co]):
    """One record read, with a key of type K and a value of type V, or null.

    `timestamp_type` 0 is CreateTime, 1 LogAppendTime; headers are (name, bytes) pairs.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: K_co | None
    value: V_co | None
    headers: tuple[tuple[str, bytes | None], ...]
    leader_epoch: int


class Node(NamedTuple):
    """A broker."""

    id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port} (id {self.id})"


@dataclass(frozen=True)
class NewTopic:
    """A topic to be created. -1 leaves a number to the broker's default; `replica_assignment` maps partition
    to broker ids and excludes the two numbers."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    replica_assignment: Mapping[int, Sequence[int]] | None = None
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class PartitionInfo:
    """One partition as the metadata has it; `leader` -1: none at the moment. Of the replicas that may lead
    beside those in sync (KIP-966) only newer brokers tell; None: nothing is known."""

    topic: str
    partition: int
    leader: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    leader_epoch: int = -1
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_eligible_leader_replicas: tuple[int, ...] | None = None


@dataclass(frozen=True)
class TopicDescription:
    """A topic as `describe_topics` gives it; `topic_id` is 16 bytes, zeros where the broker has none."""

    name: str
    topic_id: bytes
    is_internal: bool
    partitions: tuple[PartitionInfo, ...]


@dataclass(frozen=True)
class ClusterDescription:
    """A cluster; `controller` is None while there is none.

    Attributes:
        fenced: ids of the brokers that are registered, but not serving, where they were asked for (KIP-1073).
    """

    cluster_id: str | None
    controller: Node | None
    nodes: tuple[Node, ...]
    fenced: frozenset[int] = frozenset()


CONFIG_SOURCES = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}
"""Kafka: `DescribeConfigsResponse.ConfigSource` (KIP-226, KIP-412 for loggers, KIP-714 for metrics)."""


@dataclass(frozen=True)
class ConfigEntry:
    """One config of a topic or broker. `source` and `type` are Kafka's numbers (DescribeConfigs)."""

    name: str
    value: str | None
    read_only: bool
    source: int
    sensitive: bool
    type: int = 0
    synonyms: tuple[tuple[str, str | None, int], ...] = ()
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        """Return whether nobody has set it: sources DEFAULT_CONFIG (5) and STATIC_BROKER_CONFIG (4) count."""
        return self.source in (4, 5)


@dataclass(frozen=True)
class GroupListing:
    """One line of `list_groups`; `state` and `type` are '' from brokers that do not tell."""

    group_id: str
    protocol_type: str
    state: str = ""
    type: str = ""


@dataclass(frozen=True)
class MemberDescription:
    """A member of a group; `assignment` holds its partitions where the protocol type is 'consumer'."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True)
class GroupDescription:
    """A group as `describe_groups` gives it."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[MemberDescription, ...]
    coordinator: Node | None


class ReplicaInfo(NamedTuple):
    """A replica in a data folder: `size` in bytes; `offset_lag`: how far it is behind; `is_future`: it is a
    copy that will take the present one's place."""

    size: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True)
class LogDirDescription:
    """A data folder of a broker; bytes are -1 where the broker does not say."""

    error: KafkaError | None
    replicas: Mapping[TopicPartition, ReplicaInfo]
    total_bytes: int = -1
    usable_bytes: int = -1


class TopicPartitionReplica(NamedTuple):
    """A partition's replica on one broker. As text `topic-partition-broker`."""

    topic: str
    partition: int
    broker_id: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker_id}"


@dataclass(frozen=True)
class ReplicaLogDirInfo:
    """The folders of a replica; a future one is that of a move under way. `None` and -1: there is none."""

    current_replica_log_dir: str | None = None
    current_replica_offset_lag: int = -1
    future_replica_log_dir: str | None = None
    future_replica_offset_lag: int = -1


class VersionRange(NamedTuple):
    """Levels of a feature, or versions."""

    min_version: int
    max_version: int


@dataclass(frozen=True)
class FeatureMetadata:
    """The features of a cluster (KIP-584).

    Attributes:
        finalized_features: the levels in use, by feature.
        finalized_features_epoch: None where the broker tells none.
        supported_features: the levels that the broker that was asked can have.
    """

    finalized_features: Mapping[str, VersionRange]
    finalized_features_epoch: int | None
    supported_features: Mapping[str, VersionRange]


@dataclass(frozen=True)
class QuorumReplica:
    """A controller, or a broker, of the metadata's quorum; times are epoch milliseconds, None: unknown."""

    replica_id: int
    log_end_offset: int
    last_fetch_timestamp_ms: int | None
    last_caught_up_timestamp_ms: int | None


@dataclass(frozen=True)
class QuorumInfo:
    """The quorum of the cluster's metadata.

    Attributes:
        nodes: (host, port) of each controller's listeners, where brokers tell them (KIP-853).
    """

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    nodes: Mapping[int, tuple[tuple[str, int], ...]]


class PartitionReassignment(NamedTuple):
    """A move that is under way: all replicas, those that come and those that go."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


class ProducerIdAndEpoch(NamedTuple):
    """A producer as brokers know it."""

    producer_id: int
    epoch: int


class TransactionListing(NamedTuple):
    """One line of `list_transactions`; `state` is Kafka's name of it, such as 'Ongoing'."""

    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True)
class TransactionDescription:
    """A transactional id as its coordinator knows it.

    Attributes:
        state: Kafka's name of it, such as 'Ongoing'.
        start_time_ms: epoch milliseconds, None between two transactions.
        partitions: those with records of the transaction, or still without its marker.
    """

    coordinator_id: int
    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None
    partitions: tuple[TopicPartition, ...]


class ProducerState(NamedTuple):
    """A producer as a partition knows it.

    Attributes:
        last_timestamp: epoch milliseconds of its last record.
        coordinator_epoch: that of the last marker, None where there was none.
        transaction_start_offset: where its open transaction begins, None without one.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int | None = None
    transaction_start_offset: int | None = None


class AbortTransactionSpec(NamedTuple):
    """A transaction of one partition that is to be aborted there, whatever its coordinator thinks."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


@dataclass(frozen=True)
class DelegationToken:
    """A delegation token (KIP-48): by its id and its HMAC in base64 one logs in as its owner, with SCRAM.

    Principals are Kafka's, `User:alice`; times are epoch milliseconds.
    """

    token_id: str
    hmac: bytes = field(repr=False)
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int


@dataclass(frozen=True)
class ApiVersionRange:
    """Versions of one API that a broker has; `api_name` is '' for a key unknown here."""

    api_key: int
    api_name: str
    min_version: int
    max_version: int


class ConsumerRebalanceListener:
    """Callbacks of a consumer about its partitions; every method is optional to override (KIP-429).

    The synchronous consumer calls from the thread that is in `poll`; the asyncio one awaits the result if it
    is awaitable.
    """

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> object:
        """These are about to be given up; offsets can still be committed."""

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> object:
        """These were added."""

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> object:
        """These belong to someone else by now: too late to commit. Default: as revoked."""
        return self.on_partitions_revoked(lost)
