"""Gives partitions back to their preferred leaders, the first of their replicas.

By the clock, where too many are with others (`auto.leader.rebalance.enable`), and as tools up to 2.3 ask for
it, by `/admin/preferred_replica_election`. Kafka: `KafkaController.checkAndTriggerAutoLeaderRebalance`,
`PreferredReplicaElectionHandler`.
"""

from __future__ import annotations

import logging
from contextlib import suppress

from odradek.cluster import nodes, paths
from odradek.cluster.controller import elections
from odradek.cluster.controller.controller_context import ControllerContext
from odradek.cluster.controller.decisions import Decision, Remove
from odradek.cluster.controller.metadata_writer import WRITES_OVER, MetadataWriter
from odradek.cluster.controller.partition_reassignment import is_moving
from odradek.cluster.controller.partition_state_machine import PartitionStateMachine, States
from odradek.cluster.nodes import NodeFormatError, PartitionState
from odradek.cluster.store.store import NoNode
from odradek.errors import KafkaError, KafkaStorageError, NotControllerError
from odradek.util.topic_partition import TopicPartition

logger = logging.getLogger(__name__)


class PreferredLeaders:
    """Elects preferred leaders, many at once."""

    def __init__(
        self, context: ControllerContext, writer: MetadataWriter, partitions: PartitionStateMachine
    ) -> None:
        self._context = context
        self._writer = writer
        self._partitions = partitions

    def rebalance(self, imbalance_percentage: int = 10) -> int:
        """Give partitions back to their preferred leaders where too many are elsewhere.

        Args:
            imbalance_percentage: `leader.imbalance.per.broker.percentage`: a broker gets its leads back when
                more of those that it is preferred for are with others.

        Returns:
            How many leaders were changed; 0 where this broker is not the active controller, or not any more.

        Raises:
            KafkaStorageError, StoreError: the store cannot be written, or changes all the time.
        """
        moved = 0

        def move() -> None:
            nonlocal moved
            states = self._states_by_preference(imbalance_percentage)
            self._partitions.write_states(states)
            moved = len(states)

        if self._context.is_active:
            # Leaders may have changed states themselves (before 2.7), and so may brokers that were lost.
            with suppress(NotControllerError):
                self._writer.write_over(move, WRITES_OVER)
        return moved

    def _states_by_preference(self, imbalance_percentage: int) -> States:
        context, image = self._context, self._context.image
        preferred: dict[int, int] = {}
        away: dict[int, list[TopicPartition]] = {}
        for topic in image.topics.values():
            if topic.name in image.marked:
                continue
            for index, partition in topic.partitions.items():
                first = partition.replicas[0]
                preferred[first] = preferred.get(first, 0) + 1
                if partition.leader != first:
                    away.setdefault(first, []).append((topic.name, index))
        states: dict[TopicPartition, PartitionState] = {}
        for broker, partitions in away.items():
            if broker not in image.brokers or broker in context.shutting_down:
                continue
            if len(partitions) * 100 <= preferred[broker] * imbalance_percentage:
                continue
            for name, index in partitions:
                partition = image.topics[name].partitions[index]
                state = elections.preferred(partition, context.able(name, index), context.epoch)
                if state is not None and not is_moving(partition):
                    states[name, index] = state
        return states

    def elections_asked(self) -> None:
        """Elect what `/admin/preferred_replica_election` asks for, and remove it."""
        path = paths.PREFERRED_REPLICA_ELECTION
        try:
            data, _ = self._context.store.get(path)
            partitions = nodes.decode_elections(path, data)
        except NoNode:
            return
        except NodeFormatError as error:
            logger.warning("%s", error)
            partitions = []
        for topic, index in partitions:
            try:
                self._partitions.elect_leader(topic, index, unclean=False)
            except (NotControllerError, KafkaStorageError):
                raise
            except KafkaError as error:
                logger.info("the preferred leader of %s-%d is not elected: %s", topic, index, error)
        self._writer.commit(Decision((Remove(path),)))
