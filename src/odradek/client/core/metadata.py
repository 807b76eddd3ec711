"""The client's knowledge of the cluster: brokers, topics, leaders; older answers never overwrite newer ones
(KIP-320).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from odradek.client.types import Node, PartitionInfo, TopicPartition
from odradek.errors import ErrorCode
from odradek.errors.codes import to_code
from odradek.wire.internal_topics import INTERNAL_TOPICS
from odradek.wire.primitives import ZERO_UUID

NO_LEADER = -1

LOOKS_BEFORE_GONE = 6
"""How many answers have to lack a partition before it counts as missing, the retry backoff between them: a
cluster's brokers learn of a new partition one after the other."""


CREATION_FROM = 4
"""The first version of Metadata by which a missing topic can be asked for without being made."""


def asks_for_all(names: Iterable[str] | None, version: int, allow_creation: bool) -> bool:
    """Return whether all topics are asked for: also where only that makes none that is missing."""
    return names is None or (version < CREATION_FROM and not allow_creation)


def metadata_topics(
    names: Iterable[str] | None, version: int, allow_creation: bool = True
) -> list[Any] | None:
    """The topics of a MetadataRequest; None: all of them, which version 0 says with an empty list."""
    from odradek.wire.messages.metadata import MetadataRequestTopic

    if names is None or asks_for_all(names, version, allow_creation):
        return [] if version == 0 else None
    return [MetadataRequestTopic(name=name) for name in names]


@dataclass(slots=True)
class PartitionMetadata:
    """One partition. `leader` -1: none."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]

    def info(self) -> PartitionInfo:
        """For people."""
        return PartitionInfo(
            self.topic, self.partition, self.leader, self.replicas, self.isr, self.offline, self.leader_epoch
        )


@dataclass(slots=True)
class TopicMetadata:
    """One topic; `partitions` by number."""

    name: str
    topic_id: bytes
    is_internal: bool
    partitions: dict[int, PartitionMetadata] = field(default_factory=dict)


class MetadataCache:
    """The cluster as of the last answers.

    Invariant: a partition's leader epoch never goes back while its topic id stays, so an answer from a broker
    that lags behind does not send requests to a deposed leader again.
    """

    def __init__(self) -> None:
        self.brokers: dict[int, Node] = {}
        self.controller_id = -1
        self.cluster_id: str | None = None
        self.topics: dict[str, TopicMetadata] = {}
        self.names_by_id: dict[bytes, str] = {}
        self.errors: dict[str, ErrorCode] = {}
        self.version = 0

    def learn(self, node_id: int, host: str, port: int) -> Node:
        """A broker as an answer named it; what is known of it stays if that is the same."""
        node = self.brokers.get(node_id)
        if node is None or (node.host, node.port) != (host, port):
            node = self.brokers[node_id] = Node(node_id, host, port)
        return node

    def update(self, response: Any, *, replace_all: bool, expected: Iterable[str] = ()) -> set[str]:
        """Take a MetadataResponse.

        Args:
            replace_all: the answer was to "all topics": what it does not name is gone.
            expected: topics that do not exist if the answer does not name them.

        Returns: the topics some of whose partitions need another look (no leader yet, or a retriable error).
        """
        self.brokers = {b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers}
        self.controller_id = response.controller_id
        self.cluster_id = response.cluster_id
        unsettled: set[str] = set()
        seen: set[str] = set()
        if replace_all:
            self.errors.clear()
        for topic in response.topics:
            name = topic.name
            if name is None:
                continue
            seen.add(name)
            if topic.error_code:
                self._failed(name, topic.error_code, unsettled)
                continue
            self.errors.pop(name, None)
            if self._merge(topic):
                unsettled.add(name)
        for name in expected:
            if name not in seen:
                self._failed(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, unsettled)
        if replace_all:
            for name in [name for name in self.topics if name not in seen]:
                self.forget(name)
        self.version += 1
        return unsettled

    def _failed(self, name: str, code: int, unsettled: set[str]) -> None:
        self.errors[name] = error = to_code(code)
        if error.retriable:
            unsettled.add(name)
        if error in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
            self.forget(name, keep_error=True)

    def _merge(self, topic: Any) -> bool:
        old = self.topics.get(topic.name)
        state = TopicMetadata(
            topic.name, bytes(topic.topic_id), topic.is_internal or topic.name in INTERNAL_TOPICS
        )
        same_topic = old is not None and old.topic_id == state.topic_id
        leaderless = False
        for p in topic.partitions:
            leader = NO_LEADER if p.error_code == ErrorCode.LEADER_NOT_AVAILABLE else p.leader_id
            new = PartitionMetadata(
                topic.name,
                p.partition_index,
                leader,
                p.leader_epoch,
                tuple(p.replica_nodes),
                tuple(p.isr_nodes),
                tuple(p.offline_replicas),
            )
            if same_topic and old is not None:
                old_partition = old.partitions.get(p.partition_index)
                if old_partition is not None and 0 <= p.leader_epoch < old_partition.leader_epoch:
                    new = old_partition
            leaderless = leaderless or new.leader == NO_LEADER
            state.partitions[p.partition_index] = new
        if old is not None and old.topic_id != state.topic_id:
            self.names_by_id.pop(old.topic_id, None)
        self.topics[topic.name] = state
        if state.topic_id != ZERO_UUID:
            self.names_by_id[state.topic_id] = topic.name
        return leaderless

    def forget(self, name: str, *, keep_error: bool = False) -> None:
        """Drop a topic."""
        state = self.topics.pop(name, None)
        if state is not None:
            self.names_by_id.pop(state.topic_id, None)
        if not keep_error:
            self.errors.pop(name, None)

    def partition(self, topic: str, partition: int) -> PartitionMetadata | None:
        """A partition, None if unknown."""
        state = self.topics.get(topic)
        return state.partitions.get(partition) if state is not None else None

    def leader(self, tp: TopicPartition | tuple[str, int]) -> int | None:
        """The leader's id; None if the partition is unknown or has none, or the leader's address is
        unknown.
        """
        state = self.partition(*tp)
        return state.leader if state is not None and state.leader in self.brokers else None

    def no_leader(self, tp: TopicPartition | tuple[str, int]) -> str:
        """Return for people why `leader` knows none: "it has no leader (replicas 1 and 2, in sync 2)"."""
        topic, number = tp
        error = self.errors.get(topic)
        if error is not None:
            return f"it has no leader that is known: {error.message}"
        state = self.partition(topic, number)
        if state is None:
            return "the brokers do not name it"
        if state.leader != NO_LEADER:
            return f"its leader, broker {state.leader}, is not among the live brokers"
        parts = [("replicas", state.replicas), ("in sync", state.isr), ("offline", state.offline)]
        replica_sets = ", ".join(f"{role} {', '.join(map(str, nodes))}" for role, nodes in parts if nodes)
        return f"it has no leader ({replica_sets})" if replica_sets else "it has no leader"

    def leader_epoch(self, tp: TopicPartition | tuple[str, int]) -> int:
        """The leader's epoch, -1 if unknown."""
        state = self.partition(*tp)
        return state.leader_epoch if state is not None else -1

    def topic_id(self, topic: str) -> bytes:
        """16 bytes, zeros if unknown."""
        state = self.topics.get(topic)
        return state.topic_id if state is not None else ZERO_UUID

    def update_leader(
        self, tp: TopicPartition, leader: int, epoch: int, endpoints: Iterable[Any] = ()
    ) -> bool:
        """Take a leader that came with an error in Produce or Fetch (KIP-951). Returns whether it is news."""
        state = self.partition(*tp)
        if state is None or leader < 0 or epoch <= state.leader_epoch:
            return False
        for endpoint in endpoints:
            self.brokers[endpoint.node_id] = Node(
                endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack
            )
        state.leader, state.leader_epoch = leader, epoch
        return leader in self.brokers

    def partitions(self) -> Iterator[PartitionMetadata]:
        """All known partitions."""
        for topic in self.topics.values():
            yield from topic.partitions.values()


class KnownTopic(NamedTuple):
    """A topic's partitions: all numbers ascending, those with a leader (all if none has), and by number.

    `state` is the metadata that it was made from.
    """

    state: Any
    numbers: list[int]
    available: list[int]
    tps: dict[int, TopicPartition]


class KnownTopics:
    """Makes them of the metadata, and keeps them until that changes."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self._topics: dict[str, KnownTopic] = {}

    def get(self, name: str) -> KnownTopic | None:
        """Return the known partitions of a topic; None if it is not in the metadata."""
        state = self._metadata.topics.get(name)
        if state is None or not state.partitions:
            return None
        known_topic = self._topics.get(name)
        if known_topic is None or known_topic.state is not state:
            numbers = sorted(state.partitions)
            available = [n for n in numbers if state.partitions[n].leader >= 0]
            tps = {n: TopicPartition(name, n) for n in numbers}
            known_topic = self._topics[name] = KnownTopic(state, numbers, available or numbers, tps)
        return known_topic
