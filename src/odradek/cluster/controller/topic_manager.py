"""Creates, grows and marks topics, as clients ask for it.

Everything is checked before anything is written; what is wrong with one topic does not keep the others back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from odradek.cluster import paths
from odradek.cluster.configs.config_def import ConfigError
from odradek.cluster.configs.topic_config import validate_topic_configs
from odradek.cluster.controller import decisions, topics
from odradek.cluster.controller.adoption import FoundPartition, adopt
from odradek.cluster.controller.assignment import assign_replicas
from odradek.cluster.controller.controller_context import ControllerContext
from odradek.cluster.controller.decisions import PlannedTopic
from odradek.cluster.controller.metadata_writer import MetadataWriter, as_kafka
from odradek.cluster.image import ClusterImage, TopicImage
from odradek.cluster.store.store import StoreError
from odradek.errors import (
    InvalidConfigurationError,
    InvalidPartitionsError,
    InvalidRequestError,
    InvalidTopicError,
    KafkaError,
    PolicyViolationError,
    ReassignmentInProgressError,
    TopicExistsError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)

_NOTHING: Mapping[Any, Any] = MappingProxyType({})

USE_DEFAULT = -1
"""As a partition count or replication factor: the broker's default."""

MAX_PARTITIONS_PER_REQUEST = 10_000
"""More new partitions at once are refused: each is a folder and nodes. Kafka, in KRaft mode:
`ReplicationControlManager.MAX_PARTITIONS_PER_BATCH`."""

_PARTITIONS_PER_TRANSACTION = 500
"""Each is two nodes more, and a message of ZooKeeper's is at most 1 MB."""


class NewTopic(NamedTuple):
    """A topic that somebody wants.

    Attributes:
        name: its name.
        num_partitions: `USE_DEFAULT` for `num.partitions`.
        replication_factor: `USE_DEFAULT` for `default.replication.factor`.
        assignment: replicas by partition, instead of the two numbers; empty for automatic placement.
        configs: overrides by topic config name; a None value is refused.
    """

    name: str
    num_partitions: int = USE_DEFAULT
    replication_factor: int = USE_DEFAULT
    assignment: Mapping[int, Sequence[int]] = _NOTHING
    configs: Mapping[str, str | None] = _NOTHING


Admit = Callable[[int], None]
"""Told, before it is done, that so many partitions are to be made; raises `KafkaError` if they may not be."""


class TopicManager:
    """Creates, grows and marks topics.

    Args:
        context: has the topics that there are.
        writer: writes those that are new.
        finish_deletions: called when topics have been marked: their replicas may be gone by then.
    """

    def __init__(
        self, context: ControllerContext, writer: MetadataWriter, finish_deletions: Callable[[], None]
    ) -> None:
        self._context = context
        self._writer = writer
        self._finish_deletions = finish_deletions

    def create_topic(self, topic: NewTopic) -> PlannedTopic:
        """Create one topic.

        Raises:
            KafkaError: why the topic could not be created.
        """
        result = self.create_topics([topic])[0]
        if isinstance(result, KafkaError):
            raise result
        return result

    def create_topics(
        self,
        new_topics: Sequence[NewTopic],
        validate_only: bool = False,
        *,
        unknown_brokers: bool = False,
        admit: Admit | None = None,
    ) -> list[PlannedTopic | KafkaError]:
        """Create topics, or only say what would be created.

        Args:
            new_topics: the topics.
            validate_only: create nothing.
            unknown_brokers: whether a manual assignment may name brokers that are not there, as with
                ZooKeeper; a partition that has no other stays without a leader.
            admit: see `Admit`; called for each topic that is in order.

        Returns:
            For each of the topics, in order, what was created or the error.

        Raises:
            NotControllerError: this broker is not the active controller.
        """
        self._context.check_active()
        results: list[PlannedTopic | KafkaError] = []
        # The image does not have them yet, and two of them may collide.
        new_names: set[str] = set()
        new_partitions = 0
        for topic in new_topics:
            try:
                plan = self._plan(topic, new_names, new_partitions, unknown_brokers)
                if admit is not None and not validate_only:
                    admit(len(plan.assignment))
                # Only what was admitted counts: a refused topic takes no name and no room from the next.
                new_names.add(topic.name)
                new_partitions += len(plan.assignment)
                results.append(plan)
            except KafkaError as error:
                results.append(error)
        if validate_only:
            return results
        failed = self._create_all([plan for plan in results if isinstance(plan, PlannedTopic)])
        return [r if isinstance(r, KafkaError) else failed.get(r.name, r) for r in results]

    def _create_all(self, plans: list[PlannedTopic]) -> dict[str, KafkaError]:
        failed: dict[str, KafkaError] = {}
        for group in _groups(plans):
            try:
                self._writer.commit(decisions.create_topics(self._context.image, self._context.epoch, group))
            except (StoreError, KafkaError) as error:
                if len(group) > 1 and isinstance(error, StoreError):
                    # Somebody created one of the topics in the store itself; the others are not to suffer.
                    self._writer.refresh()
                    for plan in group:
                        failed |= self._create_all([plan])
                else:
                    failed |= {plan.name: as_kafka(error, plan.name) for plan in group}
        return failed

    def _plan(
        self, topic: NewTopic, new_names: set[str], new_partitions: int, unknown_brokers: bool
    ) -> PlannedTopic:
        image, config, name = self._context.image, self._context.config, topic.name
        # In the order of Kafka's `ZkAdminManager.createTopics`: of several errors the first is told.
        if name in image.topics:
            marked = "is marked for deletion" if name in image.marked else "already exists"
            raise TopicExistsError(f"Topic '{name}' {marked}.")
        nulls = [key for key, value in topic.configs.items() if value is None]
        if nulls:
            raise InvalidConfigurationError(f"Null value not supported for topic configs: {','.join(nulls)}")
        configs = {key: value for key, value in topic.configs.items() if value is not None}
        numbers = (topic.num_partitions, topic.replication_factor)
        if topic.assignment and numbers != (USE_DEFAULT, USE_DEFAULT):
            raise InvalidRequestError(
                "Both numPartitions or replicationFactor and replicasAssignments were set. "
                "Both cannot be used at the same time."
            )
        if topic.assignment:
            _check_size(new_partitions + len(topic.assignment))
            assignment: Mapping[int, Sequence[int]] = topic.assignment
        else:
            count = config.num_partitions if numbers[0] == USE_DEFAULT else numbers[0]
            _check_size(new_partitions + count)
            factor = config.default_replication_factor if numbers[1] == USE_DEFAULT else numbers[1]
            assignment = assign_replicas(self._racks(), count, factor, rng=self._context.rng)
        # After the placement, as Kafka's `AdminZkClient.validateTopicCreate` is.
        topics.check_name(name)
        topics.check_collision(name, image.topics.keys() | new_names)
        if topic.assignment and unknown_brokers:
            topics.check_new_assignment(assignment)
        elif topic.assignment:
            topics.check_manual_assignment(assignment, image.brokers)
        try:
            validate_topic_configs(configs, config.topic_defaults())
        except ConfigError as error:
            raise InvalidConfigurationError(str(error)) from error
        return PlannedTopic(name, self._context.new_topic_id(), assignment, configs)

    def _racks(self) -> dict[int, str | None]:
        return {broker: image.rack for broker, image in self._context.image.brokers.items()}

    def delete_topics(self, names: Iterable[str]) -> dict[str, KafkaError | None]:
        """Delete topics: mark them, have the brokers delete their replicas, remove the nodes.

        A topic with a replica on a dead broker stays marked until that broker returns.

        Returns:
            By name the error, None for what is deleted or marked.

        Raises:
            NotControllerError: this broker is not the active controller.
        """
        self._context.check_active()
        results: dict[str, KafkaError | None] = {}
        for name in names:
            exists = name in self._context.image.topics
            results[name] = None if exists else UnknownTopicOrPartitionError()
        known_names = [name for name, error in results.items() if error is None]
        # Those marked already are asked for again: their replicas may be gone by now.
        try:
            decision = decisions.mark_for_deletion(self._context.image, known_names)
            if decision:
                self._writer.commit(decision)
            self._finish_deletions()
        except (StoreError, KafkaError) as error:
            if isinstance(error, StoreError):
                self._writer.refresh()
            results |= {name: as_kafka(error, name) for name in known_names}
        return results

    def create_partitions(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
        *,
        admit: Admit | None = None,
    ) -> None:
        """Make a topic have `count` partitions.

        Args:
            name: the topic.
            count: how many partitions it is to have in all.
            assignments: replicas of each added partition; None for automatic placement.
            validate_only: only check.
            admit: see `Admit`.

        Raises:
            UnknownTopicOrPartitionError: no such topic.
            InvalidTopicError: it is being deleted.
            ReassignmentInProgressError: its partitions are being moved.
            InvalidPartitionsError: it has as many, or more.
            PolicyViolationError: too many at once.
            InvalidReplicaAssignmentError: the assignments do not fit.
            NotControllerError: this broker is not the active controller.
        """
        self._context.check_active()
        image = self._context.image
        topic = _check_growth(image, name, count)
        present = len(topic.partitions)
        first = topic.partitions[0].replicas
        racks = self._racks()
        added: Mapping[int, Sequence[int]]
        if assignments is not None:
            topics.check_added_assignments(assignments, count - present, len(first), racks)
            added = {present + i: replicas for i, replicas in enumerate(assignments)}
        else:
            # New partitions go on in the round that partition 0 has begun, as in Kafka's `AdminZkClient`.
            ids = sorted(racks)
            start = next((i for i, broker in enumerate(ids) if broker >= first[0]), 0)
            added = assign_replicas(
                racks, count - present, len(first), start_index=start, first_partition=present
            )
        if not validate_only:
            if admit is not None:
                admit(count - present)
            decision = decisions.add_partitions(image, self._context.epoch, name, added)
            self._writer.write_over_for(name, partial(self._writer.commit, decision), attempts=1)

    def adopt_topics(
        self,
        partitions: Iterable[FoundPartition],
        configs: Callable[[str], Mapping[str, str]],
        highest_producer_id: int,
    ) -> Mapping[str, str]:
        """Make topics of logs, where the store has never known any; see `adoption.adopt`.

        Returns:
            Topics that cannot be taken over, with the reason.

        Raises:
            StoreError: the store cannot be written.
        """
        context = self._context
        stat = context.store.exists(paths.TOPICS)
        # `cversion` grows with each topic that is made or removed: a store that has known any knows better.
        if not context.is_active or stat is None or stat.cversion:
            return {}
        adoption = adopt(
            partitions,
            context.broker_id,
            context.epoch,
            configs=configs,
            new_topic_id=context.new_topic_id,
            highest_producer_id=highest_producer_id,
        )
        if adoption.decision:
            self._writer.commit(adoption.decision)
        return adoption.left


def _check_growth(image: ClusterImage, name: str, count: int) -> TopicImage:
    """Return the topic that is to have `count` partitions, after the checks of `create_partitions`."""
    topic = image.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartitionError(f"The topic '{name}' does not exist.")
    if name in image.marked:
        raise InvalidTopicError("The topic is queued for deletion.")
    if any(p.adding or p.removing for p in topic.partitions.values()):
        raise ReassignmentInProgressError(f"A partition reassignment is in progress for the topic '{name}'.")
    present = len(topic.partitions)
    if count < present:
        raise InvalidPartitionsError(
            f"Topic currently has {present} partitions, which is higher than the requested {count}."
        )
    if count == present:
        raise InvalidPartitionsError(f"Topic already has {present} partitions.")
    _check_size(count - present)
    if 0 not in topic.partitions:
        # Another program wrote the node; partition 0 says how many replicas the others get.
        raise UnknownServerError(f"Unexpected existing replica assignment for topic '{name}': no partition 0")
    return topic


def _check_size(new_partitions: int) -> None:
    if new_partitions > MAX_PARTITIONS_PER_REQUEST:
        raise PolicyViolationError("Excessively large number of partitions per request.")


def _groups(plans: Sequence[PlannedTopic]) -> Iterable[list[PlannedTopic]]:
    """Topics that fit into one transaction; one alone may be larger."""
    group: list[PlannedTopic] = []
    size = 0
    for plan in plans:
        if group and size + len(plan.assignment) > _PARTITIONS_PER_TRANSACTION:
            yield group
            group, size = [], 0
        group.append(plan)
        size += len(plan.assignment)
    if group:
        yield group
