"""The cluster at one moment, as immutable objects, and the difference between two moments.

An image is never changed: `ClusterImage.apply` makes the next one from a `ClusterDelta`, sharing everything
that stayed. Readers may hold on to one for as long as they like. All lookups are O(1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from odradek.cluster.nodes import (
    LEADER_RECOVERED,
    NO_LEADER,
    BrokerRegistration,
    Endpoint,
    PartitionState,
    ReplicaAssignment,
)
from odradek.wire.internal_topics import INTERNAL_TOPICS
from odradek.wire.primitives import ZERO_UUID

_NOTHING: Mapping[Any, Any] = MappingProxyType({})


class BrokerImage(NamedTuple):
    """A live broker. `epoch` is the transaction that registered it; a restart gives a new one."""

    broker_id: int
    epoch: int
    registration: BrokerRegistration

    @property
    def rack(self) -> str | None:
        """`broker.rack`, None when unset."""
        return self.registration.rack

    def endpoint(self, listener: str) -> Endpoint | None:
        """The endpoint of a listener, None if the broker has no such listener."""
        return self.registration.endpoint(listener)


class PartitionImage(NamedTuple):
    """One partition: who holds it, and who leads.

    Attributes:
        replicas: the brokers that hold it; the first is the preferred leader.
        isr: those in sync.
        leader: the leader's id; `NO_LEADER` (-1) when there is none.
        leader_epoch: grows by one with each change of leader or ISR that the controller makes.
        partition_epoch: the version of the state node; what a conditional write must name.
        controller_epoch: of the controller that last wrote the state.
        adding, removing: replicas under reassignment.
        leader_recovery_state: 1 after an unclean election until the leader has recovered.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    controller_epoch: int = 0
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    leader_recovery_state: int = LEADER_RECOVERED

    @classmethod
    def of(
        cls, assignment: ReplicaAssignment, state: PartitionState | None, partition_epoch: int
    ) -> PartitionImage:
        """From the topic's node and the partition's state; without a state it has no leader yet, epoch -1."""
        if state is None:
            return cls(assignment.replicas, (), NO_LEADER, -1, -1, 0, assignment.adding, assignment.removing)
        return cls(
            assignment.replicas,
            state.isr,
            state.leader,
            state.leader_epoch,
            partition_epoch,
            state.controller_epoch,
            assignment.adding,
            assignment.removing,
            state.leader_recovery_state,
        )

    @property
    def is_new(self) -> bool:
        """Return whether it has no state yet: it is in the topic's node, but no leader was ever chosen."""
        return self.partition_epoch < 0

    @property
    def assignment(self) -> ReplicaAssignment:
        """As in the topic's node."""
        return ReplicaAssignment(self.replicas, self.adding, self.removing)


class TopicImage(NamedTuple):
    """One topic: `topic_id` 16 bytes (zero where a broker before 2.8 made it), its partitions by index."""

    name: str
    topic_id: bytes
    partitions: Mapping[int, PartitionImage]

    @property
    def is_internal(self) -> bool:
        """Return whether it belongs to the brokers themselves."""
        return self.name in INTERNAL_TOPICS


EntityPath = str
"""The path of a thing that has configs: `topics/clicks`, `brokers/1`, `brokers/<default>`, `users/bob`, …"""


class ClusterDelta(NamedTuple):
    """The difference between two images. Whatever it does not name is as before.

    Attributes:
        brokers: new or newly registered brokers.
        brokers_gone: ids of brokers that are no longer live.
        topics: new topics, and topics with a changed partition, in their new state.
        topics_gone: deleted topics, in their last state.
        topics_marked: topics marked for deletion.
        configs: changed entities with all of their configs; empty when they have none left.
        controller: `(id, epoch)` of the new controller; id -1 for none.
    """

    brokers: Mapping[int, BrokerImage] = _NOTHING
    brokers_gone: frozenset[int] = frozenset()
    topics: Mapping[str, TopicImage] = _NOTHING
    topics_gone: Mapping[str, TopicImage] = _NOTHING
    topics_marked: frozenset[str] = frozenset()
    configs: Mapping[EntityPath, Mapping[str, str]] = _NOTHING
    controller: tuple[int, int] | None = None

    def __bool__(self) -> bool:
        return bool(
            self.brokers
            or self.brokers_gone
            or self.topics
            or self.topics_gone
            or self.topics_marked
            or self.configs
            or self.controller is not None
        )


class ClusterImage(NamedTuple):
    """The cluster at one moment.

    Attributes:
        cluster_id: 22 characters.
        controller_id: the controller's broker id, -1 for none.
        controller_epoch: of that controller.
        brokers: the live brokers by id.
        topics: all topics by name, those marked for deletion included.
        topic_names: names by topic id.
        configs: configs by entity path.
        marked: topics that are marked for deletion.
    """

    cluster_id: str = ""
    controller_id: int = -1
    controller_epoch: int = 0
    brokers: Mapping[int, BrokerImage] = _NOTHING
    topics: Mapping[str, TopicImage] = _NOTHING
    topic_names: Mapping[bytes, str] = _NOTHING
    configs: Mapping[EntityPath, Mapping[str, str]] = _NOTHING
    marked: frozenset[str] = frozenset()

    def topic(self, name: str) -> TopicImage | None:
        """The topic called `name`, None if there is none or it is being deleted."""
        if name in self.marked:
            return None
        return self.topics.get(name)

    def topic_by_id(self, topic_id: bytes) -> TopicImage | None:
        """The topic with this id, None if there is none or it is being deleted."""
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topic(name)

    def topic_name(self, topic_id: bytes) -> str | None:
        """The name of the topic with this id, None if there is none."""
        return self.topic_names.get(topic_id)

    def topic_id(self, name: str) -> bytes:
        """The id of the topic called `name`; `ZERO_UUID` if there is none."""
        topic = self.topics.get(name)
        return ZERO_UUID if topic is None else topic.topic_id

    def partition(self, name: str, index: int) -> PartitionImage | None:
        """A partition, None if there is none or its topic is being deleted."""
        topic = self.topic(name)
        return None if topic is None else topic.partitions.get(index)

    def partitions_of(self, broker_id: int) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
        """All partitions of which a broker holds a replica."""
        for topic in self.topics.values():
            for index, partition in topic.partitions.items():
                if broker_id in partition.replicas:
                    yield topic, index, partition

    def config(self, entity_path: EntityPath) -> Mapping[str, str]:
        """The configs of an entity, empty when it has none."""
        return self.configs.get(entity_path, _NOTHING)

    def topic_config(self, name: str) -> Mapping[str, str]:
        """The overrides of a topic, empty when it has none."""
        return self.configs.get(f"topics/{name}", _NOTHING)

    def apply(self, delta: ClusterDelta) -> ClusterImage:
        """The image after `delta`."""
        brokers, topics, names, configs = self.brokers, self.topics, self.topic_names, self.configs
        if delta.brokers or delta.brokers_gone:
            brokers = {k: v for k, v in brokers.items() if k not in delta.brokers_gone} | dict(delta.brokers)
        if delta.topics or delta.topics_gone:
            changed, changed_names = dict(topics), dict(names)
            for name, topic in delta.topics_gone.items():
                changed.pop(name, None)
                changed_names.pop(topic.topic_id, None)
            changed.update(delta.topics)
            for topic in delta.topics.values():
                # Topics that older brokers made share the zero id: it finds none of them.
                if topic.topic_id != ZERO_UUID:
                    changed_names[topic.topic_id] = topic.name
            topics, names = changed, changed_names
        if delta.configs:
            merged = {**configs, **delta.configs}
            configs = {entity: config for entity, config in merged.items() if config}
        controller_id, controller_epoch = delta.controller or (self.controller_id, self.controller_epoch)
        return ClusterImage(
            self.cluster_id,
            controller_id,
            controller_epoch,
            brokers,
            topics,
            names,
            configs,
            (self.marked - delta.topics_gone.keys()) | delta.topics_marked,
        )
