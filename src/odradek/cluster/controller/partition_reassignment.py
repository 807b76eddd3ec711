"""Moving partitions to other brokers while they are used (KIP-455).

A partition under reassignment has the replicas of its target and of its origin; `adding` are those that it
had not before, `removing` those that it will not have. Each step is one transaction with the topic's node and
the partition's state, so that a controller that finds it knows how far it is:

1. start: replicas = target and origin, leader epoch + 1: new replicas begin to fetch;
2. wait until the whole target is in the ISR, which leaders change by AlterPartition;
3. end: replicas = target, ISR and leader within it, leader epoch + 1: the others are deleted.

Taking back is a reassignment to the origin. What needs no new replica ends with its start. Kafka:
`KafkaController.onPartitionReassignment`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from odradek.cluster import nodes, paths
from odradek.cluster.controller import elections
from odradek.cluster.controller.controller_context import ControllerContext
from odradek.cluster.controller.decisions import Decision, Remove, Write
from odradek.cluster.controller.metadata_writer import MetadataWriter
from odradek.cluster.controller.partition_state_machine import PartitionStateMachine
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
from odradek.cluster.store.store import NoNode, SetData
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
from odradek.util.topic_partition import TopicPartition

logger = logging.getLogger(__name__)


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
    # Not the present replicas: those that an earlier reassignment was adding are given up.
    origin = origin_of(partition)
    # The target in front: its first broker is the preferred leader. Kafka: `ReplicaAssignment.reassignTo`.
    replicas = tuple(dict.fromkeys((*target, *origin)))
    adding = tuple(broker for broker in replicas if broker not in origin)
    removing = tuple(broker for broker in replicas if broker not in target)
    if partition.is_new:
        # Nobody has ever led, so there are no records to wait for.
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
            # Who leads is not given up for nobody; where nobody leads nothing gets worse.
            return None
        leader = able[0] if able else NO_LEADER
    # Always a new leader epoch, with the same leader too: its LeaderAndIsr would be passed over otherwise.
    state = elections.state_of(partition)._replace(
        leader=leader, isr=isr, leader_epoch=partition.leader_epoch + 1, controller_epoch=epoch
    )
    return PartitionImage.of(assignment, state, partition.partition_epoch + 1)


def change(image: ClusterImage, name: str, changed: Mapping[int, PartitionImage]) -> Decision:
    """Write partitions of a topic as they are in `changed`: their assignment, and their state where that is
    another."""
    topic = image.topics[name]
    after = topic._replace(partitions={**topic.partitions, **changed})
    assignments = {index: partition.assignment for index, partition in after.partitions.items()}
    node = TopicNode(assignments, topic.topic_id)
    writes: list[Write] = [SetData(paths.topic(name), encode_topic(node))]
    for index, partition in changed.items():
        before = topic.partitions[index]
        if partition.partition_epoch != before.partition_epoch:
            state: PartitionState = elections.state_of(partition)
            path = paths.partition_state(name, index)
            writes.append(SetData(path, encode_partition_state(state), before.partition_epoch))
    return Decision(tuple(writes), ClusterDelta(topics={name: after}))


def check_replicas(image: ClusterImage, topic: str, index: int, replicas: Sequence[int]) -> None:
    """Check wanted replicas as a controller with ZooKeeper does. Kafka: `KafkaController.validateReplicas`.

    Raises:
        InvalidReplicaAssignmentError: no replicas, one twice, a negative one, or one to be added that is not
            alive.
    """
    if not replicas:
        raise InvalidReplicaAssignmentError("Empty replica list specified in partition reassignment.")
    if len(set(replicas)) != len(replicas):
        raise InvalidReplicaAssignmentError(
            f"Duplicate replica ids in partition reassignment replica list: {list(replicas)}"
        )
    if any(broker < 0 for broker in replicas):
        raise InvalidReplicaAssignmentError(f"Invalid broker id in replica list: {list(replicas)}")
    partition = image.partition(topic, index)
    present = () if partition is None else partition.replicas
    live = sorted(image.brokers)
    adding = [broker for broker in replicas if broker not in present]
    if any(broker not in live for broker in adding):
        raise InvalidReplicaAssignmentError(
            "Replica assignment has brokers that are not alive. Replica list: "
            f"{adding}, live broker list: {live}"
        )


class PartitionReassignment:
    """Moves partitions."""

    def __init__(
        self, context: ControllerContext, writer: MetadataWriter, partitions: PartitionStateMachine
    ) -> None:
        self._context = context
        self._writer = writer
        self._partitions = partitions
        self._begun: set[TopicPartition] = set()
        """What the tools' node names and was begun, or refused, in this term: not tried at every look."""

    def end_term(self) -> None:
        """Forget what was begun of what tools have asked for."""
        self._begun.clear()

    def resume(self) -> None:
        """End what can be ended, and begin what tools have asked for."""
        for name, topic in list(self._context.image.topics.items()):
            for index, partition in topic.partitions.items():
                if is_moving(partition):
                    self.on_isr_changed(name, index)
        if self._context.store.exists(paths.REASSIGN_PARTITIONS) is not None:
            self.follow_asked()

    def reassign(
        self,
        topic: str,
        index: int,
        replicas: Sequence[int] | None,
        *,
        allow_replication_factor_change: bool = True,
        partition_last: bool = False,
    ) -> None:
        """Begin to give a partition other replicas.

        Args:
            topic: the topic.
            index: the partition.
            replicas: the brokers that are to hold it, the preferred leader first; None takes a reassignment
                that is under way back.
            allow_replication_factor_change: whether there may be more or fewer than now (KIP-860).
            partition_last: whether the replicas are looked at before the partition, as with ZooKeeper.

        Raises:
            UnknownTopicOrPartitionError: no such partition, or its topic is being deleted.
            NoReassignmentInProgressError: there is nothing to take back.
            InvalidReplicaAssignmentError: no replicas, one twice, one to be added that is not alive, or
                nobody would be left that has all records.
            InvalidReplicationFactorError: another number of replicas, and that is not allowed.
            NotControllerError: this broker is not the active controller.
            KafkaStorageError, UnknownServerError: the store failed, perhaps after the new replicas were
                written: they are asked for all the same then.
        """
        self._context.check_active()
        begin = partial(self._begin, topic, index, replicas, allow_replication_factor_change, partition_last)
        self._writer.write_over_for(topic, begin)
        partition = self._context.image.partition(topic, index)
        if partition is not None and partition.is_new:
            # One of the new replicas may live, and lead. Where that fails the answer is an error, as Kafka's
            # is (`KafkaController.maybeTriggerPartitionReassignment`), and what is written stays: the next
            # look at the store, or the next controller, goes on with it.
            self._writer.write_over_for(topic, self._partitions.settle, attempts=1)

    def _begin(
        self,
        topic: str,
        index: int,
        replicas: Sequence[int] | None,
        allow_replication_factor_change: bool,
        partition_last: bool,
    ) -> None:
        context = self._context
        if partition_last and replicas is not None:
            check_replicas(context.image, topic, index, replicas)
        is_known = context.image.partition(topic, index) is not None
        if not is_known and replicas is None and partition_last:
            raise NoReassignmentInProgressError
        partition = context.partition(topic, index)
        if topic in context.image.marked:
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
                check_manual_replicas(target, {*context.image.brokers, *partition.replicas})
            if len(target) != len(origin) and not allow_replication_factor_change:
                raise InvalidReplicationFactorError(
                    f"The replication factor is changed from {len(origin)} to {len(target)}"
                )
        # Asked for twice. Another order of the same replicas is a change: another is the preferred leader.
        if target == (target_of(partition) if is_moving(partition) else partition.replicas):
            return
        after = start(partition, target, context.able(topic, index), context.epoch)
        if after is None:
            raise InvalidReplicaAssignmentError(f"Nobody of {list(target)} could lead the partition.")
        self._writer.commit(change(context.image, topic, {index: after}))

    def on_isr_changed(self, topic: str, index: int) -> None:
        """End the reassignment of a partition if its target is in sync. Never raises."""
        context = self._context
        partition = context.image.partition(topic, index)
        if not context.is_active or partition is None:
            return
        after = end(partition, context.able(topic, index), context.epoch)
        if after is None:
            return
        try:
            self._writer.commit(change(context.image, topic, {index: after}))
            if context.store.exists(paths.REASSIGN_PARTITIONS) is not None:
                self._forget_ended()
        except NotControllerError:
            return
        except OdradekError as error:
            # Nobody asks for this end a second time: the next look at the store comes back to it, after one
            # reading for however many partitions have come too late.
            self._writer.doubt()
            logger.error("cannot end the reassignment of %s-%d yet: %s", topic, index, error)

    # --- how tools up to 2.4 ask for it -------------------------------------------------------------------

    def follow_asked(self) -> None:
        """Begin what `/admin/reassign_partitions` asks for, and has not been begun."""
        for topic, index, replicas in self._asked():
            if (topic, index) in self._begun or self._is_under_way(topic, index):
                continue
            try:
                self.reassign(topic, index, replicas)
            except (NotControllerError, KafkaStorageError):
                raise
            except KafkaError as error:
                # Refused for good, and left out of the node: the tool's `--verify` says that it has failed.
                logger.warning("cannot reassign %s-%d to %s: %s", topic, index, list(replicas), error)
            self._begun.add((topic, index))
        self._forget_ended()

    def _forget_ended(self) -> None:
        """Leave in the node only what is under way, and remove it with the last."""
        moves = self._asked()
        left = [move for move in moves if self._is_under_way(*move[:2])]
        if not left:
            self._begun.clear()
            self._writer.commit(Decision((Remove(paths.REASSIGN_PARTITIONS),)))
        elif left != moves:
            data = nodes.encode_reassignments(left)
            self._writer.commit(Decision((SetData(paths.REASSIGN_PARTITIONS, data),)))

    def _is_under_way(self, topic: str, index: int) -> bool:
        partition = self._context.image.partition(topic, index)
        return partition is not None and is_moving(partition)

    def _asked(self) -> list[tuple[str, int, tuple[int, ...]]]:
        path = paths.REASSIGN_PARTITIONS
        try:
            data, _ = self._context.store.get(path)
            return nodes.decode_reassignments(path, data)
        except NoNode:
            return []
        except NodeFormatError as error:
            logger.warning("%s", error)
            return []
