"""The knowledge that the parts of a controller share: the image, the epoch, and what only a term knows.

Kafka: `ControllerContext`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from odradek.cluster.configs.config_def import ConfigValue
from odradek.cluster.controller.event_queue import EventQueue, ImmediateQueue
from odradek.cluster.controller.random_source import RandomSource, SystemRandomSource, random_uuid
from odradek.cluster.image import BrokerImage, ClusterImage, PartitionImage
from odradek.cluster.inter_broker_versions import has_topic_ids
from odradek.cluster.store.store import MetadataStore
from odradek.errors import NotControllerError, UnknownTopicOrPartitionError
from odradek.util.clock import Clock
from odradek.wire.primitives import ZERO_UUID


class ControllerConfig(Protocol):
    """The broker's configs that the controller needs; `broker.config.BrokerConfig` has them."""

    @property
    def num_partitions(self) -> int:
        """`num.partitions`."""
        ...

    @property
    def default_replication_factor(self) -> int:
        """`default.replication.factor`."""
        ...

    @property
    def delete_topic_enable(self) -> bool:
        """`delete.topic.enable`."""
        ...

    @property
    def inter_broker_protocol_version(self) -> str:
        """`inter.broker.protocol.version`."""
        ...

    def topic_defaults(self) -> Mapping[str, ConfigValue]:
        """The values of topic configs that are not overridden, by topic config name."""
        ...


class ControllerContext:
    """The knowledge of one broker's controller.

    Args:
        store: the session with the metadata store; another one takes its place when it has ended.
        broker_id: of this broker.
        config: defaults for new topics, and what brokers of this release understand.
        clock: for timestamps in nodes.
        rng: for topic ids, the cluster id and where round robin starts.
        alone: whether there are no other brokers.

    Attributes:
        event_queue: runs the work and changes the image; in the caller's thread unless it is replaced.
        image: the cluster after the last write or watch event; never changed in place.
        broker_epoch: of this broker's registration; -1 while it is not registered.
        is_active: whether this broker is the active controller.
        is_alone: whether there are no other brokers.
        epoch, epoch_version: of its term, and the version of `/controller_epoch` in it.
        refused: epochs of registered brokers at whose address nobody listens: they count as dead.
        shutting_down: epochs of live brokers that have asked to leave: they are not to lead.
        offline_replicas: (broker, topic, partition) of replicas that live brokers cannot use.
    """

    def __init__(
        self,
        store: MetadataStore,
        broker_id: int,
        config: ControllerConfig,
        clock: Clock,
        rng: RandomSource | None = None,
        *,
        alone: bool = False,
    ) -> None:
        self.store = store
        self.broker_id = broker_id
        self.config = config
        self.clock = clock
        self.rng: RandomSource = rng if rng is not None else SystemRandomSource()
        self.is_alone = alone
        self.event_queue: EventQueue = ImmediateQueue()
        self.image = ClusterImage()
        self.broker_epoch = -1
        self.is_active = False
        self.epoch = 0
        self.epoch_version = -1
        self.refused: dict[int, int] = {}
        self.shutting_down: dict[int, int] = {}
        self.offline_replicas: frozenset[tuple[int, str, int]] = frozenset()

    def end_term(self) -> None:
        """Forget what only the active controller knows."""
        self.refused, self.shutting_down, self.offline_replicas = {}, {}, frozenset()

    def check_active(self) -> None:
        """Check that this broker is the active controller.

        Raises:
            NotControllerError: it is not.
        """
        if not self.is_active:
            raise NotControllerError

    def partition(self, topic: str, index: int) -> PartitionImage:
        """Return a partition of the image, also of a topic that is being deleted.

        Raises:
            UnknownTopicOrPartitionError: there is no such partition.
        """
        topic_image = self.image.topics.get(topic)
        partition = None if topic_image is None else topic_image.partitions.get(index)
        if partition is None:
            raise UnknownTopicOrPartitionError("The partition does not exist.")
        return partition

    # --- who is alive, and who may be elected -------------------------------------------------------------

    def live(self, registered: Mapping[int, BrokerImage]) -> dict[int, BrokerImage]:
        """Return the registered brokers but the refused ones. Forgets what was known of earlier epochs."""
        epochs = {broker: image.epoch for broker, image in registered.items()}
        self.refused = {b: e for b, e in self.refused.items() if epochs.get(b) == e}
        self.shutting_down = {b: e for b, e in self.shutting_down.items() if epochs.get(b) == e}
        known_brokers = {b for b, image in self.image.brokers.items() if epochs.get(b) == image.epoch}
        self.offline_replicas = frozenset(
            replica for replica in self.offline_replicas if replica[0] in known_brokers
        )
        return {broker: image for broker, image in registered.items() if broker not in self.refused}

    def electable(self, live: Collection[int], topic: str, index: int) -> Collection[int]:
        """Return the live brokers that can use their replica; those that are leaving only when there is no
        other."""
        if not self.offline_replicas and not self.shutting_down:
            return live
        usable = [b for b in live if (b, topic, index) not in self.offline_replicas]
        partition = self.image.topics[topic].partitions[index]
        staying = [b for b in usable if b not in self.shutting_down]
        return staying if any(b in partition.isr for b in staying) or partition.is_new else usable

    def able(self, topic: str, index: int) -> Collection[int]:
        """Return the brokers of the image that may be given the lead of a partition."""
        return self.electable(self.image.brokers, topic, index)

    def may_elect_unclean(self, topic: str) -> bool:
        """Return whether a topic is rather led by one who may lack records than by nobody."""
        allowed = allows_unclean(self.image.topic_config(topic))
        if allowed is None:
            return self.config.topic_defaults().get("unclean.leader.election.enable") is True
        return allowed

    # --- topic ids ----------------------------------------------------------------------------------------

    @property
    def has_topic_ids(self) -> bool:
        """Return whether all brokers of the cluster know topic ids."""
        return self.is_alone or has_topic_ids(self.config.inter_broker_protocol_version)

    def new_topic_id(self) -> bytes:
        """Return an id for a new topic; none where there are brokers that do not know any."""
        while self.has_topic_ids:
            topic_id = random_uuid(self.rng)
            if topic_id not in self.image.topic_names:
                return topic_id
        return ZERO_UUID


def allows_unclean(config: Mapping[str, str]) -> bool | None:
    """Return whether configs allow unclean elections; None where they do not say."""
    text = config.get("unclean.leader.election.enable")
    # In any case and with blanks, as Kafka's `ConfigDef.parseType` has it.
    return None if text is None else text.strip().lower() == "true"
