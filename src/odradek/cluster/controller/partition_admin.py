"""Electing leaders and moving replicas: what clients ask the controller for, partition by partition.

A reassignment ends at once or is refused. Adding replicas takes brokers that fetch from each other; as long
as brokers do not, all that can be asked for is other orders of a partition's replicas, and fewer of them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from odradek.cluster import paths
from odradek.cluster.controller import elections
from odradek.cluster.controller.admin import TopicAdmin, as_kafka
from odradek.cluster.controller.decisions import Decision, Write
from odradek.cluster.controller.topics import check_manual_replicas
from odradek.cluster.image import ClusterDelta, ClusterImage, PartitionImage
from odradek.cluster.nodes import (
    NO_LEADER,
    PartitionState,
    ReplicaAssignment,
    TopicNode,
    encode_partition_state,
    encode_topic,
)
from odradek.cluster.store.store import SetData, StoreError
from odradek.errors import (
    ElectionNotNeededError,
    EligibleLeadersNotAvailableError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    NoReassignmentInProgressError,
    PreferredLeaderNotAvailableError,
    UnknownTopicOrPartitionError,
)

_NO_SUCH_PARTITION = "The partition does not exist."


class PartitionAdmin(TopicAdmin):
    """The part of `Controller` that looks after single partitions."""

    offline_replicas: frozenset[tuple[int, str, int]]

    def elect_leader(self, topic: str, index: int, *, unclean: bool) -> None:
        """Make the preferred replica lead or, with `unclean`, anybody who is alive if nobody leads.

        Raises:
            UnknownTopicOrPartitionError: no such partition.
            InvalidTopicError: its topic is being deleted.
            ElectionNotNeededError: the right replica leads already.
            PreferredLeaderNotAvailableError: the preferred replica is not alive or not in sync.
            EligibleLeadersNotAvailableError: no replica is alive.
            NotControllerError: this broker is not the active controller.
        """
        self.check_active()
        partition = self._partition(topic, index)
        if topic in self.image.marked:
            raise InvalidTopicError("The topic is being deleted")
        live = self._able(topic, index)
        if unclean:
            if partition.leader != NO_LEADER and partition.leader in live:
                raise ElectionNotNeededError
            state = None if partition.is_new else elections.offline(partition, live, self.epoch, unclean=True)
            if state is None and not partition.is_new:
                # Who was the last in sync lives, and cannot use its replica. If the log is lost it can begin
                # with an empty one, which is what is asked for; if not, the ISR says what it said before.
                last = [one for one in self.image.brokers if one in partition.isr]
                state = elections.begun_anew(partition, last, self.epoch)
            if state is None:
                raise EligibleLeadersNotAvailableError
            self.offline_replicas -= {(state.leader, topic, index)}
        else:
            if partition.leader == partition.replicas[0]:
                raise ElectionNotNeededError
            state = None if partition.is_new else elections.preferred(partition, live, self.epoch)
            if state is None:
                raise PreferredLeaderNotAvailableError
        after = PartitionImage.of(partition.assignment, state, partition.partition_epoch + 1)
        self._write(topic, _change(self.image, topic, index, after, _state(topic, index, partition, state)))

    def reassign(
        self,
        topic: str,
        index: int,
        replicas: Sequence[int] | None,
        *,
        allow_replication_factor_change: bool = True,
        partition_last: bool = False,
    ) -> None:
        """Give a partition other replicas, at once.

        Args:
            topic: the topic.
            index: the partition.
            replicas: the brokers that are to hold it, the preferred leader first; None takes a reassignment
                that is under way back, and there is none.
            allow_replication_factor_change: whether there may be fewer than now (KIP-860).
            partition_last: whether the replicas are looked at before the partition, as with ZooKeeper.

        Raises:
            UnknownTopicOrPartitionError: no such partition.
            NoReassignmentInProgressError: there is nothing to take back.
            InvalidReplicaAssignmentError: no replicas, one twice, one that is not alive, or one that does not
                have what it needs.
            InvalidReplicationFactorError: fewer replicas than now, and that is not allowed.
            NotControllerError: this broker is not the active controller.
        """
        self.check_active()
        if partition_last:
            if replicas is None:
                raise NoReassignmentInProgressError
            self._check_replicas(topic, index, replicas)
        partition = self._partition(topic, index)
        if replicas is None:
            raise NoReassignmentInProgressError
        present = partition.replicas
        adding = [broker for broker in replicas if broker not in present]
        if not partition_last:
            # What there is may stay, though its broker is not alive.
            check_manual_replicas(replicas, {*self.image.brokers, *present})
        if adding:
            raise InvalidReplicaAssignmentError(f"Brokers {adding} do not take up replicas.")
        if len(replicas) != len(present) and not allow_replication_factor_change:
            raise InvalidReplicationFactorError(
                f"The replication factor is changed from {len(present)} to {len(replicas)}"
            )
        target = tuple(replicas)
        if target != present:
            self._write(topic, self._move(topic, index, partition, target))

    def _able(self, topic: str, index: int) -> Collection[int]:
        """The brokers that may be given the lead of a partition."""
        return [one for one in self.image.brokers if (one, topic, index) not in self.offline_replicas]

    def _write(self, topic: str, decision: Decision) -> None:
        try:
            self._commit(decision)
        except StoreError as error:
            self._refresh()
            raise as_kafka(error, topic) from error

    def _move(self, topic: str, index: int, partition: PartitionImage, target: tuple[int, ...]) -> Decision:
        assignment = ReplicaAssignment(target)
        if set(target) == set(partition.replicas):
            return _change(self.image, topic, index, partition._replace(replicas=target))
        isr = tuple(broker for broker in partition.isr if broker in target)
        if set(isr) != set(target):
            # Kafka waits for them to come back, keeping all of the replicas until then.
            late = [broker for broker in target if broker not in isr]
            raise InvalidReplicaAssignmentError(f"Brokers {late} are not in sync and would be left alone.")
        leader = partition.leader if partition.leader in target else target[0]
        state = PartitionState(
            leader, partition.leader_epoch + 1, isr, self.epoch, partition.leader_recovery_state
        )
        after = PartitionImage.of(assignment, state, partition.partition_epoch + 1)
        return _change(self.image, topic, index, after, _state(topic, index, partition, state))

    def _check_replicas(self, topic: str, index: int, replicas: Sequence[int]) -> None:
        """Check wanted replicas as a controller with ZooKeeper does."""
        if not replicas:
            raise InvalidReplicaAssignmentError("Empty replica list specified in partition reassignment.")
        if len(set(replicas)) != len(replicas):
            raise InvalidReplicaAssignmentError(
                f"Duplicate replica ids in partition reassignment replica list: {list(replicas)}"
            )
        if any(broker < 0 for broker in replicas):
            raise InvalidReplicaAssignmentError(f"Invalid broker id in replica list: {list(replicas)}")
        partition = self.image.partition(topic, index)
        present = () if partition is None else partition.replicas
        live = sorted(self.image.brokers)
        adding = [broker for broker in replicas if broker not in present]
        if any(broker not in live for broker in adding):
            raise InvalidReplicaAssignmentError(
                "Replica assignment has brokers that are not alive. Replica list: "
                f"{adding}, live broker list: {live}"
            )

    def _partition(self, topic: str, index: int) -> PartitionImage:
        found = self.image.topics.get(topic)
        partition = None if found is None else found.partitions.get(index)
        if partition is None:
            raise UnknownTopicOrPartitionError(_NO_SUCH_PARTITION)
        return partition


def _state(topic: str, index: int, before: PartitionImage, state: PartitionState) -> Write:
    return SetData(paths.partition_state(topic, index), encode_partition_state(state), before.partition_epoch)


def _change(image: ClusterImage, name: str, index: int, after: PartitionImage, *writes: Write) -> Decision:
    topic = image.topics[name]
    changed = topic._replace(partitions={**topic.partitions, index: after})
    if after.assignment != topic.partitions[index].assignment:
        node = TopicNode({p: one.assignment for p, one in changed.partitions.items()}, topic.topic_id)
        writes = (SetData(paths.topic(name), encode_topic(node)), *writes)
    return Decision(writes, ClusterDelta(topics={name: changed}))
