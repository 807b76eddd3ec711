"""The face of a controller: what brokers and handlers call of its parts.

`kafka_controller` makes the parts and hands them to each other (docs/controller.md); what is called here is
done there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from odradek.cluster.controller.config_changes import ConfigChanges
from odradek.cluster.controller.controller_context import ControllerContext
from odradek.cluster.controller.event_queue import EventQueue
from odradek.cluster.controller.image_publisher import ImagePublisher
from odradek.cluster.controller.isr_changes import IsrChanges
from odradek.cluster.controller.metadata_writer import MetadataWriter
from odradek.cluster.controller.partition_reassignment import PartitionReassignment
from odradek.cluster.controller.partition_state_machine import PartitionStateMachine
from odradek.cluster.controller.producer_id_manager import ProducerIdManager
from odradek.cluster.controller.topic_manager import TopicManager
from odradek.cluster.image import ClusterImage
from odradek.cluster.nodes import BrokerRegistration
from odradek.cluster.store.store import MetadataStore
from odradek.util.topic_partition import TopicPartition


class Controller(ABC):
    """One broker's view of the cluster's metadata, and the controller when it is the active one.

    Its event queue runs one piece of work after the other; every method that is not said to be safe anywhere
    is to be run in it.

    Attributes:
        context: what it knows.
        writer: the one way to change it.
        broker_id: of this broker.
    """

    def __init__(
        self,
        context: ControllerContext,
        images: ImagePublisher,
        writer: MetadataWriter,
        topics: TopicManager,
        partitions: PartitionStateMachine,
        reassignments: PartitionReassignment,
        isr_changes: IsrChanges,
        configs: ConfigChanges,
    ) -> None:
        self.context = context
        self.writer = writer
        self.broker_id = context.broker_id
        self.add_listener = images.add_listener
        self.check_active = context.check_active
        self.may_elect_unclean = context.may_elect_unclean
        self.create_topic = topics.create_topic
        self.create_topics = topics.create_topics
        self.create_partitions = topics.create_partitions
        self.delete_topics = topics.delete_topics
        self.adopt_topics = topics.adopt_topics
        self.elect_leader = partitions.elect_leader
        self.reassign = reassignments.reassign
        self.alter_partition = isr_changes.alter_partition
        self.alter_partitions = isr_changes.alter_partitions
        self.config_of = configs.config_of
        self.alter_config = configs.alter_config
        self.allocate_producer_ids = ProducerIdManager(context).allocate

    @property
    def image(self) -> ClusterImage:
        """The cluster as it is now."""
        return self.context.image

    @property
    def cluster_id(self) -> str:
        """The cluster's id; empty before `open`."""
        return self.context.image.cluster_id

    @property
    def is_active(self) -> bool:
        """Return whether this broker is the active controller."""
        return self.context.is_active

    @property
    def epoch(self) -> int:
        """The controller epoch of its last term."""
        return self.context.epoch

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration; -1 while it is not registered."""
        return self.context.broker_epoch

    @property
    def store(self) -> MetadataStore:
        """The session with the metadata store; the controller does not close it."""
        return self.context.store

    @store.setter
    def store(self, store: MetadataStore) -> None:
        self.context.store = store

    @property
    def event_queue(self) -> EventQueue:
        """Runs the work and changes the image."""
        return self.context.event_queue

    @event_queue.setter
    def event_queue(self, event_queue: EventQueue) -> None:
        self.context.event_queue = event_queue

    @property
    def offline_replicas(self) -> frozenset[tuple[int, str, int]]:
        """(broker, topic, partition) of replicas that live brokers cannot use."""
        return self.context.offline_replicas

    @offline_replicas.setter
    def offline_replicas(self, replicas: frozenset[tuple[int, str, int]]) -> None:
        self.context.offline_replicas = replicas

    @abstractmethod
    def open(self) -> ClusterImage:
        """Create what every cluster has, and load what is known before this broker has registered.

        Raises:
            StoreError: the store cannot be read or written, or holds what Kafka would not write.
        """

    @abstractmethod
    def start(self, registration: BrokerRegistration) -> None:
        """Register this broker, tell the listeners what there is, and try to become the controller.

        Args:
            registration: the advertised endpoints; the sockets are open by now.

        Raises:
            StoreError: another broker has this id, or the store cannot be written.
        """

    @abstractmethod
    def stop(self) -> None:
        """Resign and unregister. The store stays open."""

    @abstractmethod
    def note_offline(self, broker_id: int, partitions: Iterable[TopicPartition]) -> None:
        """Give the leads of a live broker's replicas that it cannot use to others, or to nobody.

        Raises:
            NotControllerError: this broker is not the active controller.
            KafkaStorageError, StoreError: the store cannot be written, or is not as the image says.
        """
