"""The broker's services for any coordinator: its topic, and the partitions led here."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from odradek.broker.metadata.auto_creation import create_internal
from odradek.cluster.image import ClusterImage
from odradek.errors import KafkaError

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.broker.replicas.replica_manager import ReplicaManager
    from odradek.cluster.controller.kafka_controller import KafkaController
    from odradek.cluster.image import PartitionImage
    from odradek.coordinators.runtime import CoordinatorRuntime
    from odradek.errors.codes import ErrorCode
    from odradek.replication.partition import Partition


class Coordinator(Protocol):
    """A coordinator, as far as this needs it.

    Attributes:
        partition_count: partitions of its topic as it is; 0 while it does not exist.
        runtime: the partitions that it is in charge of.
    """

    partition_count: int

    @property
    def runtime(self) -> CoordinatorRuntime[Any]:
        """See above."""
        ...


class CoordinatorShell:
    """The half of a coordinator's binding that all have.

    How many partitions the topic has is the image's to say; who leads them the replicas': in a cluster of
    several brokers the image may be ahead of this broker's logs, or behind them.

    Args:
        topic: where the coordinator keeps its state.
        broker_id: this broker.
        replicas: the partitions on this broker.
        controller: creates the topic.
        config: the broker's configs; the topic's partitions are among them.

    Attributes:
        coordinator: set by the subclass.
    """

    coordinator: Coordinator

    def __init__(
        self,
        topic: str,
        broker_id: int,
        replicas: ReplicaManager,
        controller: KafkaController,
        config: BrokerConfig,
    ) -> None:
        self._topic = topic
        self._broker_id = broker_id
        self._replicas = replicas
        self._controller = controller
        self._config = config
        self._image = ClusterImage()

    def follow_leaders(self, topics: Collection[str] | None = None) -> bool:
        """Take up the partitions whose replicas here lead now, give up the others; harmless at any time.

        A partition that somebody else may have led meanwhile is loaded anew; an epoch that has only changed
        the ISR (a follower's broker has stopped) disturbs nobody, as in Kafka. One whose topic the image does
        not know yet has to wait for the image: nobody could say which group or id belongs to it.

        Args:
            topics: those of which some replicas here have begun or ceased to lead; None: perhaps any.

        Returns:
            Whether any were given up.
        """
        if topics is not None and self._topic not in topics:
            return False
        runtime = self.coordinator.runtime
        topic = self._image.topic(self._topic)
        partitions = {} if topic is None else topic.partitions
        self.coordinator.partition_count = len(partitions)
        led: dict[int, int] = {}
        for index, state in partitions.items():
            partition = self._replica(index, state)
            if partition is not None and partition.is_leader:
                led[index] = partition.led_since
        given_up = False
        for index in runtime.partitions():
            if index not in led:
                partition = self._replicas.find(self._topic, index)
                runtime.unload(index, None if partition is None else partition.leader_epoch)
                given_up = True
        for index, epoch in led.items():
            self._load(index, epoch)
        return given_up

    def _replica(self, index: int, state: PartitionImage) -> Partition | None:
        replica = self._replicas.find(self._topic, index)
        if replica is None and state.leader == self._broker_id:
            # Its log could not be used; perhaps it can by now.
            with suppress(KafkaError):
                return self._replicas.get(self._topic, index)
        return replica

    def _load(self, partition: int, leader_epoch: int) -> None:
        """Take up a partition in a leader epoch; harmless where it is taken up already."""
        self.coordinator.runtime.load(partition, leader_epoch)

    def ensure_topic(self) -> ErrorCode:
        """Create the topic through the controller.

        Returns:
            COORDINATOR_NOT_AVAILABLE when it could not be created; the client asks again.
        """
        return create_internal(self._controller, self._config, self._topic)

    def stop(self) -> None:
        """Give all partitions up; whoever waits is told NOT_COORDINATOR."""
        self.coordinator.runtime.unload_all()
