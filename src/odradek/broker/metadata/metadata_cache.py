"""A broker's image of its cluster: what the controller's UpdateMetadata requests have said.

Kafka: `ZkMetadataCache`. Configs are not among it: each broker reads those from the metadata store itself.

Invariants:

- the live brokers are those of the last request, as in Kafka;
- a partition that is said to be led by -2 (Kafka's `LeaderAndIsr.LEADER_DURING_DELETE`) is being deleted, and
  is no longer there for clients;
- an image is never changed in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from typing import TYPE_CHECKING

from odradek.cluster.controller.control_request_forms import SECURITY_PROTOCOL_IDS
from odradek.cluster.image import (
    BrokerImage,
    ClusterDelta,
    ClusterImage,
    EntityPath,
    PartitionImage,
    TopicImage,
)
from odradek.cluster.nodes import (
    LEADER_DURING_DELETION,
    BrokerRegistration,
    Endpoint,
)
from odradek.wire.epochs import NO_EPOCH
from odradek.wire.messages.update_metadata import UpdateMetadataTopicState
from odradek.wire.primitives import ZERO_UUID

if TYPE_CHECKING:
    from odradek.wire.messages.update_metadata import (
        UpdateMetadataBroker,
        UpdateMetadataPartitionState,
        UpdateMetadataRequest,
    )

ImageListener = Callable[[ClusterImage, ClusterDelta], None]

FULL = 2
"""`type` of a request that names all topics (version 8): those that it does not name are gone."""

SECURITY_PROTOCOLS = {number: name for name, number in SECURITY_PROTOCOL_IDS.items()}


class MetadataCache:
    """The cluster as the controller has told it. Used in the event loop's thread.

    Attributes:
        image: the cluster as it is now.
        offline_replicas: (broker, topic, partition) of replicas that live brokers cannot use.
    """

    def __init__(self, cluster_id: str, configs: Mapping[EntityPath, Mapping[str, str]]) -> None:
        """
        Args:
            cluster_id: of the metadata store.
            configs: of the metadata store.
        """
        self.image = ClusterImage(cluster_id=cluster_id).apply(ClusterDelta(configs=configs))
        self.offline_replicas: frozenset[tuple[int, str, int]] = frozenset()
        self._listeners: list[ImageListener] = []

    def add_listener(self, listener: ImageListener) -> None:
        """Add a listener, which is called with every change, in order."""
        self._listeners.append(listener)

    def update(self, request: UpdateMetadataRequest, version: int) -> None:
        """Take over what a controller says that is no older than the last one.

        Args:
            request: what it says.
            version: of the request.
        """
        image = self.image
        brokers = {
            broker.id: BrokerImage(broker.id, NO_EPOCH, _registration(broker, version))
            for broker in request.live_brokers
        }
        topics, gone = self._take_over(request, version, brokers.keys())
        controller = (request.controller_id, request.controller_epoch)
        known_controller = (image.controller_id, image.controller_epoch)
        self._apply(
            ClusterDelta(
                brokers={b: new for b, new in brokers.items() if image.brokers.get(b) != new},
                brokers_gone=frozenset(image.brokers) - brokers.keys(),
                topics=topics,
                topics_gone=gone,
                controller=None if controller == known_controller else controller,
            )
        )

    def _take_over(
        self, request: UpdateMetadataRequest, version: int, brokers: Set[int]
    ) -> tuple[dict[str, TopicImage], dict[str, TopicImage]]:
        """Note which replicas are offline; return the topics that have changed, and those that are gone."""
        image = self.image
        topics: dict[str, TopicImage] = {}
        gone: dict[str, TopicImage] = {}
        offline = set(self.offline_replicas)
        named = set()
        for states in request.topic_states if version >= 5 else _grouped(request):
            name = states.topic_name
            named.add(name)
            before = topics.get(name) or (None if name in gone else image.topics.get(name))
            if before is not None and _is_of_another(states, before):
                if all(state.leader == LEADER_DURING_DELETION for state in states.partition_states):
                    continue  # of a topic of the same name that was before
                before = None
            for state in states.partition_states:
                index = state.partition_index
                offline -= {(broker, name, index) for broker in state.replicas}
                if state.leader != LEADER_DURING_DELETION:
                    offline |= {
                        (broker, name, index) for broker in state.offline_replicas if broker in brokers
                    }
            topic = _updated(states, before)
            if topic.partitions:
                topics[name] = topic
                gone.pop(name, None)
            elif name in image.topics:
                topics.pop(name, None)
                gone[name] = image.topics[name]
        if version >= 8 and request.type == FULL:
            gone |= {name: topic for name, topic in image.topics.items() if name not in named}
        offline = {replica for replica in offline if replica[0] in brokers and replica[1] not in gone}
        if offline != self.offline_replicas:
            self.offline_replicas = frozenset(offline)
        return topics, gone

    def update_configs(self, configs: Mapping[EntityPath, Mapping[str, str]]) -> None:
        """Take over the configs of entities that have changed, read from the metadata store."""
        self._apply(ClusterDelta(configs=configs))

    def _apply(self, delta: ClusterDelta) -> None:
        if not delta:
            return
        self.image = image = self.image.apply(delta)
        for listener in self._listeners:
            listener(image, delta)


def _registration(broker: UpdateMetadataBroker, version: int) -> BrokerRegistration:
    if version == 0:
        endpoints: tuple[Endpoint, ...] = (Endpoint("PLAINTEXT", broker.v0_host, broker.v0_port),)
    else:
        endpoints = tuple(
            Endpoint(
                # A listener was called after its protocol, before it had a name of its own.
                endpoint.listener or SECURITY_PROTOCOLS.get(endpoint.security_protocol, "PLAINTEXT"),
                endpoint.host,
                endpoint.port,
                SECURITY_PROTOCOLS.get(endpoint.security_protocol, "PLAINTEXT"),
            )
            for endpoint in broker.endpoints
        )
    return BrokerRegistration(endpoints, broker.rack if version >= 2 else None)


def _is_of_another(states: UpdateMetadataTopicState, before: TopicImage) -> bool:
    """Return whether a request speaks of another topic of the same name."""
    return ZERO_UUID not in (states.topic_id, before.topic_id) and states.topic_id != before.topic_id


def _updated(states: UpdateMetadataTopicState, before: TopicImage | None) -> TopicImage:
    """A topic with the partitions that a request names; it may have none any more."""
    topic_id = states.topic_id
    if topic_id == ZERO_UUID and before is not None:
        topic_id = before.topic_id
    partitions = {} if before is None else dict(before.partitions)
    for state in states.partition_states:
        if state.leader == LEADER_DURING_DELETION:
            partitions.pop(state.partition_index, None)
        else:
            partitions[state.partition_index] = _partition(state)
    return TopicImage(states.topic_name, topic_id, dict(sorted(partitions.items())))


def _partition(state: UpdateMetadataPartitionState) -> PartitionImage:
    return PartitionImage(
        tuple(state.replicas),
        tuple(state.isr),
        state.leader,
        state.leader_epoch,
        state.zk_version,
        state.controller_epoch,
    )


def _grouped(request: UpdateMetadataRequest) -> Iterable[UpdateMetadataTopicState]:
    topics: dict[str, UpdateMetadataTopicState] = {}
    for state in request.ungrouped_partition_states:
        topic = topics.setdefault(state.topic_name, UpdateMetadataTopicState(topic_name=state.topic_name))
        topic.partition_states.append(state)
    return topics.values()
