"""Other replicas for a partition of a broker that is alone.

It is done at once or refused. Adding replicas takes brokers that fetch from each other, and there are none:
all that can be asked for is other orders of a partition's replicas, and fewer of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.cluster.controller.controller_context import ControllerContext
from odradek.cluster.controller.metadata_writer import MetadataWriter
from odradek.cluster.controller.partition_reassignment import change, check_replicas
from odradek.cluster.controller.topics import check_manual_replicas
from odradek.cluster.image import PartitionImage
from odradek.cluster.nodes import PartitionState, ReplicaAssignment
from odradek.errors import (
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    NoReassignmentInProgressError,
)


class LoneReassignment:
    """Reorders replicas, and gives some up."""

    def __init__(self, context: ControllerContext, writer: MetadataWriter) -> None:
        self._context = context
        self._writer = writer

    def reassign(
        self,
        topic: str,
        index: int,
        replicas: Sequence[int] | None,
        *,
        allow_replication_factor_change: bool = True,
        partition_last: bool = False,
    ) -> None:
        """Give a partition other replicas, at once; see `PartitionReassignment.reassign` for the arguments.

        Raises:
            UnknownTopicOrPartitionError: no such partition.
            NoReassignmentInProgressError: there is nothing to take back.
            InvalidReplicaAssignmentError: no replicas, one twice, one that is not alive, or one that does not
                have what it needs.
            InvalidReplicationFactorError: fewer replicas than now, and that is not allowed.
            NotControllerError: this broker is not the active controller.
        """
        context = self._context
        context.check_active()
        if partition_last:
            if replicas is None:
                raise NoReassignmentInProgressError
            check_replicas(context.image, topic, index, replicas)
        partition = context.partition(topic, index)
        if replicas is None:
            raise NoReassignmentInProgressError
        present = partition.replicas
        adding = [broker for broker in replicas if broker not in present]
        if not partition_last:
            # What there is may stay, though its broker is not alive.
            check_manual_replicas(replicas, {*context.image.brokers, *present})
        if adding:
            raise InvalidReplicaAssignmentError(f"Brokers {adding} do not take up replicas.")
        if len(replicas) != len(present) and not allow_replication_factor_change:
            raise InvalidReplicationFactorError(
                f"The replication factor is changed from {len(present)} to {len(replicas)}"
            )
        target = tuple(replicas)
        if target != present:
            after = self._moved(partition, target)
            self._writer.commit_for(topic, change(context.image, topic, {index: after}))

    def _moved(self, partition: PartitionImage, target: tuple[int, ...]) -> PartitionImage:
        if set(target) == set(partition.replicas):
            return partition._replace(replicas=target)
        isr = tuple(broker for broker in partition.isr if broker in target)
        if set(isr) != set(target):
            # Kafka waits for them to come back, keeping all of the replicas until then.
            late = [broker for broker in target if broker not in isr]
            raise InvalidReplicaAssignmentError(f"Brokers {late} are not in sync and would be left alone.")
        leader = partition.leader if partition.leader in target else target[0]
        state = PartitionState(
            leader,
            partition.leader_epoch + 1,
            isr,
            self._context.epoch,
            partition.leader_recovery_state,
        )
        return PartitionImage.of(ReplicaAssignment(target), state, partition.partition_epoch + 1)
