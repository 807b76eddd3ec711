"""Moving partitions to other brokers while they are used (KIP-455).

A partition under reassignment has the replicas of its target and of its origin; `adding` are those that it
had not before, `removing` those that it will not have. Each step is one transaction with the topic's node and
the partition's state, so that a controller that finds it knows how far it is:

1. start: replicas = target and origin, leader epoch + 1: new replicas begin to fetch;
2. wait until the whole target is in the ISR, which leaders change by AlterPartition;
3. end: replicas = target, ISR and leader within it, leader epoch + 1: the others are deleted.

Taking back is a reassignment to the origin. What needs no new replica ends with its start.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from odradek.cluster import nodes, paths
from odradek.cluster.controller import elections
from odradek.cluster.controller.controller_config import ControllerConfig
from odradek.cluster.controller.decisions import Decision, IsrChange, Remove, Write
from odradek.cluster.controller.random_source import RandomSource
from odradek.cluster.controller.topic_deletion import TopicDeletion
from odradek.cluster.controller.topics import check_manual_replicas
from odradek.cluster.image import ClusterDelta, ClusterImage, PartitionImage
from odradek.cluster.nodes import (
    NO_LEADER,
    NodeFormatError,
    PartitionState,
    ReplicaAssignment,
    TopicNode,
    encode_partition_state,
    encode_topic,
)
from odradek.cluster.store.store import MetadataStore, NoNode, SetData
from odradek.errors import (
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    KafkaError,
    KafkaStorageError,
    NoReassignmentInProgressError,
    NotControllerError,
    OdradekError,
    UnknownTopicOrPartitionError,
)
from odradek.util.clock import Clock

log = logging.getLogger(__name__)


def is_moving(partition: PartitionImage) -> bool:
    """Return whether a partition is under reassignment."""
    return bool(partition.adding or partition.removing)


def origin_of(partition: PartitionImage) -> tuple[int, ...]:
    """The replicas from before the reassignment that is under way."""
    return tuple(broker for broker in partition.replicas if broker not in partition.adding)


def target_of(partition: PartitionImage) -> tuple[int, ...]:
    """The replicas after the reassignment that is under way."""
    return tuple(broker for broker in partition.replicas if broker not in partition.removing)


def start(
    partition: PartitionImage, target: tuple[int, ...], live: Collection[int], epoch: int
) -> PartitionImage | None:
    """The partition after the first step towards `target`, or after all; None where nobody could lead.

    Args:
        partition: as it is, perhaps under another reassignment, whose target is given up.
        target: the wanted replicas.
        live: brokers that may lead.
        epoch: of the controller.
    """
    origin = origin_of(partition)
    replicas = tuple(dict.fromkeys((*target, *origin)))
    adding = tuple(broker for broker in replicas if broker not in origin)
    removing = tuple(broker for broker in replicas if broker not in target)
    if partition.is_new:
        return partition._replace(replicas=target, adding=(), removing=())
    started = _with_replicas(partition, ReplicaAssignment(replicas, adding, removing), live, epoch)
    if started is None or not set(target) <= set(started.isr):
        return started
    return _with_replicas(partition, ReplicaAssignment(target), live, epoch) or started


def end(partition: PartitionImage, live: Collection[int], epoch: int) -> PartitionImage | None:
    """The partition after its reassignment; None while the target is not in sync or cannot lead."""
    target = target_of(partition)
    if not is_moving(partition) or not set(target) <= set(partition.isr):
        return None
    return _with_replicas(partition, ReplicaAssignment(target), live, epoch)


def _with_replicas(
    partition: PartitionImage, assignment: ReplicaAssignment, live: Collection[int], epoch: int
) -> PartitionImage | None:
    isr = tuple(broker for broker in partition.isr if broker in assignment.replicas)
    if not isr:
        return None
    leader = partition.leader
    if leader not in isr:
        able = [broker for broker in assignment.replicas if broker in isr and broker in live]
        if not able and leader != NO_LEADER:
            return None
        leader = able[0] if able else NO_LEADER
    state = elections.state_of(partition)._replace(
        leader=leader, isr=isr, leader_epoch=partition.leader_epoch + 1, controller_epoch=epoch
    )
    return PartitionImage.of(assignment, state, partition.partition_epoch + 1)


def change(image: ClusterImage, name: str, changed: Mapping[int, PartitionImage]) -> Decision:
    """Write partitions of a topic as they are in `changed`: their assignment, and their state where that is
    another."""
    topic = image.topics[name]
    after = topic._replace(partitions={**topic.partitions, **changed})
    node = TopicNode({index: one.assignment for index, one in after.partitions.items()}, topic.topic_id)
    writes: list[Write] = [SetData(paths.topic(name), encode_topic(node))]
    for index, partition in changed.items():
        before = topic.partitions[index]
        if partition.partition_epoch != before.partition_epoch:
            state: PartitionState = elections.state_of(partition)
            path = paths.partition_state(name, index)
            writes.append(SetData(path, encode_partition_state(state), before.partition_epoch))
    return Decision(tuple(writes), ClusterDelta(topics={name: after}))


class Reassignment(TopicDeletion):
    """The part of `ClusterController` that moves partitions."""

    def __init__(
        self,
        store: MetadataStore,
        broker_id: int,
        config: ControllerConfig,
        clock: Clock,
        rng: RandomSource | None = None,
    ) -> None:
        super().__init__(store, broker_id, config, clock, rng)
        self._begun: set[tuple[str, int]] = set()

    def _clear_term(self) -> None:
        super()._clear_term()
        self._begun.clear()

    def reassign(
        self,
        topic: str,
        index: int,
        replicas: Sequence[int] | None,
        *,
        allow_replication_factor_change: bool = True,
        partition_last: bool = False,
    ) -> None:
        """Begin to give a partition other replicas; see `PartitionAdmin.reassign` for the arguments.

        Raises:
            UnknownTopicOrPartitionError: no such partition, or its topic is being deleted.
            NoReassignmentInProgressError: there is nothing to take back.
            InvalidReplicaAssignmentError: no replicas, one twice, one to be added that is not alive, or
                nobody would be left that has all records.
            InvalidReplicationFactorError: another number of replicas, and that is not allowed.
            NotControllerError: this broker is not the active controller.
        """
        self.check_active()
        if partition_last and replicas is not None:
            self._check_replicas(topic, index, replicas)
        found = self.image.partition(topic, index)
        if found is None and replicas is None and partition_last:
            raise NoReassignmentInProgressError
        partition = self._partition(topic, index)
        if topic in self.image.marked:
            raise UnknownTopicOrPartitionError("The topic is being deleted.")
        origin = origin_of(partition)
        if replicas is None:
            if not is_moving(partition):
                raise NoReassignmentInProgressError
            target = origin
        else:
            target = tuple(replicas)
            if not partition_last:
                # What there is may stay, though its broker is not alive.
                check_manual_replicas(target, {*self.image.brokers, *partition.replicas})
            if len(target) != len(origin) and not allow_replication_factor_change:
                raise InvalidReplicationFactorError(
                    f"The replication factor is changed from {len(origin)} to {len(target)}"
                )
        if target == (target_of(partition) if is_moving(partition) else partition.replicas):
            return
        after = start(partition, target, self._able(topic, index), self.epoch)
        if after is None:
            raise InvalidReplicaAssignmentError(f"Nobody of {list(target)} could lead the partition.")
        self._write(topic, change(self.image, topic, {index: after}))
        if after.is_new:
            self._settle()

    def alter_partitions(self, changes: Sequence[IsrChange]) -> list[PartitionImage | KafkaError]:
        """See `IsrChanges.alter_partitions`; the last new replica in sync ends a reassignment."""
        outcomes = super().alter_partitions(changes)
        for change, outcome in zip(changes, outcomes, strict=True):
            if isinstance(outcome, PartitionImage) and is_moving(outcome):
                self.event_queue.post(partial(self._after_isr_change, change.topic, change.partition))
        return outcomes

    def _able(self, topic: str, index: int) -> Collection[int]:
        return self._electable(self.image.brokers, topic, index)

    def _after_isr_change(self, topic: str, index: int) -> None:
        """End the reassignment of a partition if its target is in sync. Never raises."""
        partition = self._image.partition(topic, index)
        if not self.is_active or partition is None:
            return
        after = end(partition, self._able(topic, index), self.epoch)
        if after is None:
            return
        try:
            self._write(topic, change(self._image, topic, {index: after}))
            if self.store.exists(paths.REASSIGN_PARTITIONS) is not None:
                self._forget_ended()
        except NotControllerError:
            return
        except OdradekError as error:
            self._doubt()
            log.error("cannot end the reassignment of %s-%d yet: %s", topic, index, error)

    def _resume(self) -> None:
        super()._resume()
        for name, topic in list(self._image.topics.items()):
            for index, partition in topic.partitions.items():
                if is_moving(partition):
                    self._after_isr_change(name, index)
        if self.store.exists(paths.REASSIGN_PARTITIONS) is not None:
            self._reassignments_asked()

    # --- how tools up to 2.4 ask for it -------------------------------------------------------------------

    def _active_handlers(self) -> Mapping[str, Callable[[], None]]:
        return {**super()._active_handlers(), paths.REASSIGN_PARTITIONS: self._reassignments_asked}

    def _reassignments_asked(self) -> None:
        """Begin what `/admin/reassign_partitions` asks for, and has not been begun."""
        for topic, index, replicas in self._asked():
            if (topic, index) in self._begun or self._is_under_way(topic, index):
                continue
            try:
                self.reassign(topic, index, replicas)
            except (NotControllerError, KafkaStorageError):
                raise
            except KafkaError as error:
                log.warning("cannot reassign %s-%d to %s: %s", topic, index, list(replicas), error)
            self._begun.add((topic, index))
        self._forget_ended()

    def _forget_ended(self) -> None:
        """Leave in the node only what is under way, and remove it with the last."""
        asked = self._asked()
        left = [one for one in asked if self._is_under_way(*one[:2])]
        if not left:
            self._begun.clear()
            self._commit(Decision((Remove(paths.REASSIGN_PARTITIONS),)))
        elif left != asked:
            data = nodes.encode_reassignments(left)
            self._commit(Decision((SetData(paths.REASSIGN_PARTITIONS, data),)))

    def _is_under_way(self, topic: str, index: int) -> bool:
        partition = self._image.partition(topic, index)
        return partition is not None and is_moving(partition)

    def _asked(self) -> list[tuple[str, int, tuple[int, ...]]]:
        path = paths.REASSIGN_PARTITIONS
        try:
            data, _ = self.store.get(path)
            return nodes.decode_reassignments(path, data)
        except NoNode:
            return []
        except NodeFormatError as error:
            log.warning("%s", error)
            return []
