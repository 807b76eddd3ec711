"""The tables of topics, partitions and configs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odradek.client.types import CONFIG_SOURCES, TopicPartition

if TYPE_CHECKING:
    from odradek.client.types import ConfigEntry, LogDirDescription, PartitionInfo, TopicDescription

#: Partition → broker → bytes of its replica there.
ReplicaSizes = Mapping[TopicPartition, Mapping[int, int]]

ORDERS = ("name", "partitions", "size", "problems")
DEFAULT_CONFIG = 5


def replica_sizes(log_dirs: Mapping[int, Mapping[str, LogDirDescription]]) -> ReplicaSizes:
    """Return the sizes that brokers tell of the replicas in their log dirs, without those that are moving in.

    Args:
        log_dirs: broker → path → folder, of the brokers that have answered.
    """
    sizes: dict[TopicPartition, dict[int, int]] = {}
    for broker, folders in log_dirs.items():
        for folder in folders.values():
            for tp, replica in folder.replicas.items():
                if not replica.is_future:
                    sizes.setdefault(tp, {})[broker] = replica.size
    return sizes


@dataclass(frozen=True)
class TopicRow:
    """A line of the table of topics.

    Attributes:
        replicas: of a partition; the most, where they differ.
        under_replicated: how many partitions lack a replica in sync.
        offline: how many partitions have no leader.
        size: bytes of all replicas, None where a broker has not told those of one.
    """

    name: str
    is_internal: bool
    partitions: int
    replicas: int
    under_replicated: int
    offline: int
    size: int | None

    @property
    def problems(self) -> int:
        """The number of partitions that are not well."""
        return self.under_replicated + self.offline


def topic_rows(
    topics: Iterable[TopicDescription], sizes: ReplicaSizes, live: Collection[int]
) -> list[TopicRow]:
    """Return a row for each topic.

    Args:
        topics: as described.
        sizes: what is known of the replicas' sizes.
        live: ids of the brokers that are there.
    """
    return [
        TopicRow(
            topic.name,
            topic.is_internal,
            len(topic.partitions),
            max((len(p.replicas) for p in topic.partitions), default=0),
            sum(p.leader in live and len(p.in_sync_replicas) < len(p.replicas) for p in topic.partitions),
            sum(p.leader not in live for p in topic.partitions),
            _size_of(topic, sizes),
        )
        for topic in topics
    ]


def chosen_rows(rows: Iterable[TopicRow], *, text: str, internal: bool, order: str) -> list[TopicRow]:
    """Return the rows that a filter lets through, in an order.

    Args:
        rows: all.
        text: a part of the name; upper and lower case are the same.
        internal: whether internal topics are wanted too.
        order: one of `ORDERS`; 'name' for any other.
    """
    chosen = [row for row in rows if text.lower() in row.name.lower() and (internal or not row.is_internal)]
    chosen.sort(key=lambda row: row.name)
    if order == "partitions":
        chosen.sort(key=lambda row: -row.partitions)
    elif order == "size":
        chosen.sort(key=lambda row: -(row.size if row.size is not None else -1))
    elif order == "problems":
        chosen.sort(key=lambda row: (-row.offline, -row.under_replicated))
    return chosen


def _size_of(topic: TopicDescription, sizes: ReplicaSizes) -> int | None:
    total = 0
    for partition in topic.partitions:
        known = sizes.get(TopicPartition(topic.name, partition.partition), {})
        for broker in partition.replicas:
            if broker not in known:
                return None
            total += known[broker]
    return total


@dataclass(frozen=True)
class ReplicaCell:
    """A replica of a partition: its broker, what it is there, and its size in bytes (None: not known)."""

    broker: int
    is_leader: bool
    in_sync: bool
    size: int | None


@dataclass(frozen=True)
class PartitionRow:
    """A line of the table of partitions.

    Attributes:
        state: 'ok', 'under-replicated' or 'offline'.
        first, end: the first offset, and the one that the next record gets; None where they are not known.
    """

    partition: int
    leader: int | None
    replicas: tuple[ReplicaCell, ...]
    state: str
    first: int | None = None
    end: int | None = None

    @property
    def offsets(self) -> int | None:
        """The number of offsets: of records at most, as some are compacted away, and others are markers."""
        return None if self.first is None or self.end is None else self.end - self.first


def partition_rows(
    topic: TopicDescription, sizes: ReplicaSizes, live: Collection[int], *, problems_only: bool = False
) -> list[PartitionRow]:
    """Return a row for each partition of a topic, without offsets.

    Args:
        topic: as described.
        sizes: what is known of the replicas' sizes.
        live: ids of the brokers that are there.
        problems_only: whether partitions that are well are left out.
    """
    rows = [
        _partition_row(p, sizes.get(TopicPartition(topic.name, p.partition), {}), live)
        for p in sorted(topic.partitions, key=lambda p: p.partition)
    ]
    return [row for row in rows if not problems_only or row.state != "ok"]


def _partition_row(p: PartitionInfo, sizes: Mapping[int, int], live: Collection[int]) -> PartitionRow:
    leader = p.leader if p.leader in live else None
    state = "ok" if len(p.in_sync_replicas) >= len(p.replicas) else "under-replicated"
    replicas = tuple(
        ReplicaCell(broker, broker == leader, broker in p.in_sync_replicas, sizes.get(broker))
        for broker in p.replicas
    )
    return PartitionRow(p.partition, leader, replicas, "offline" if leader is None else state)


@dataclass(frozen=True)
class ConfigRow:
    """A config as a page shows it.

    Attributes:
        value: None where it is not told: it is sensitive.
        source: Kafka's name of where the value comes from (KIP-226).
        is_set: whether it is other than Kafka's default.
        instead: what else would hold, strongest first, as `SOURCE: value`.
    """

    name: str
    value: str | None
    source: str
    is_set: bool
    read_only: bool
    documentation: str
    instead: tuple[str, ...]


def config_rows(
    entries: Mapping[str, ConfigEntry], *, text: str = "", set_only: bool = False
) -> list[ConfigRow]:
    """Return the rows of a table of configs, those first that somebody has set.

    Args:
        entries: by name.
        text: a part of the name.
        set_only: whether Kafka's defaults are left out.
    """
    rows = [
        ConfigRow(
            entry.name,
            None if entry.sensitive else entry.value or "",
            _source(entry.source),
            entry.source != DEFAULT_CONFIG,
            entry.read_only,
            entry.documentation or "",
            tuple(
                f"{_source(source)}: {'' if value is None else value}"
                for _, value, source in entry.synonyms
                if source != entry.source and not entry.sensitive
            ),
        )
        for entry in entries.values()
        if text.lower() in entry.name.lower()
    ]
    rows.sort(key=lambda row: (not row.is_set, row.name))
    return [row for row in rows if row.is_set or not set_only]


def _source(number: int) -> str:
    return CONFIG_SOURCES.get(number, "UNKNOWN")


def problem_counts(rows: Sequence[TopicRow]) -> tuple[int, int]:
    """Return how many partitions of all rows lack a replica in sync, and how many have no leader."""
    return sum(row.under_replicated for row in rows), sum(row.offline for row in rows)
