"""The broker's services for any coordinator: its topic, and the partitions led here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from odradek.broker.auto_creation import create_internal

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.cluster.controller import Controller
    from odradek.cluster.image import ClusterImage
    from odradek.coordinators.runtime import CoordinatorRuntime
    from odradek.errors.codes import ErrorCode


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

    Args:
        topic: where the coordinator keeps its state.
        broker_id: this broker.
        controller: creates the topic.
        config: the broker's configs; the topic's partitions are among them.

    Attributes:
        coordinator: set by the subclass.
    """

    coordinator: Coordinator

    def __init__(self, topic: str, broker_id: int, controller: Controller, config: BrokerConfig) -> None:
        self._topic = topic
        self._broker_id = broker_id
        self._controller = controller
        self._config = config

    def _follow_leaders(self, image: ClusterImage, load: Callable[[int, int], None]) -> bool:
        """Take up the partitions that this broker leads now, give up the others.

        Args:
            image: the cluster; the replicas have followed it already.
            load: takes up a partition in a leader epoch; harmless where it is taken up already.

        Returns:
            Whether any were given up.
        """
        topic = image.topic(self._topic)
        partitions = {} if topic is None else topic.partitions
        coordinator = self.coordinator
        coordinator.partition_count = len(partitions)
        given_up = False
        for index in coordinator.runtime.partitions():
            state = partitions.get(index)
            if state is None or state.leader != self._broker_id:
                coordinator.runtime.unload(index, None if state is None else state.leader_epoch)
                given_up = True
        for index, state in partitions.items():
            if state.leader == self._broker_id:
                load(index, state.leader_epoch)
        return given_up

    def ensure_topic(self) -> ErrorCode:
        """Create the topic through the controller.

        Returns:
            COORDINATOR_NOT_AVAILABLE when it could not be created; the client asks again.
        """
        return create_internal(self._controller, self._config, self._topic)

    def stop(self) -> None:
        """Give all partitions up; whoever waits is told NOT_COORDINATOR."""
        self.coordinator.runtime.unload_all()
