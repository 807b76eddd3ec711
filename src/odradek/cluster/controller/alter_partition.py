"""A leader's wish for another ISR (AlterPartition, KIP-497): what the controller makes of it.

Pure, as `decisions` is. Kafka: `KafkaController.processAlterPartition`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

from odradek.cluster.controller import elections
from odradek.cluster.controller.decisions import Decision, Write, write_state
from odradek.cluster.image import ClusterDelta, ClusterImage
from odradek.cluster.nodes import LEADER_RECOVERED, LEADER_RECOVERING
from odradek.errors import (
    FencedLeaderEpochError,
    IneligibleReplicaError,
    InvalidRequestError,
    InvalidUpdateVersionError,
    NotControllerError,
    UnknownTopicOrPartitionError,
)


class IsrChange(NamedTuple):
    """A leader's wish for another ISR (AlterPartition, KIP-497), with the epochs that it knows."""

    topic: str
    partition: int
    broker_id: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    leader_recovery_state: int = 0
    epochs: Mapping[int, int] = MappingProxyType({})
    """Broker epochs of members, as the leader knows them (KIP-903)."""


def alter_partition(
    image: ClusterImage, epoch: int, change: IsrChange, shutting_down: Collection[int] = ()
) -> Decision:
    """Change a partition's ISR for its leader. The leader epoch stays; the partition epoch grows.

    What is so already is granted without a write: the leader asks again when it has not heard the answer.
    Members are looked at last: upon IneligibleReplicaError a leader goes back to the ISR that it knows, which
    has to be the present one.

    Args:
        image: the cluster.
        epoch: of the controller.
        change: what the leader wishes for.
        shutting_down: live brokers that are about to stop.

    Raises:
        UnknownTopicOrPartitionError: no such partition.
        FencedLeaderEpochError: the asker knows an older leader epoch.
        NotControllerError: the asker knows more than this controller, which another must have followed.
        InvalidRequestError: the asker does not lead, or leaves itself out, or is recovering with others or
            anew (KIP-704).
        InvalidUpdateVersionError: the state was changed meanwhile.
        IneligibleReplicaError: a member of the new ISR is not alive, not in the life that the leader knows
            (KIP-903), or holds no replica; or one that is to come in is about to stop.
    """
    partition = image.partition(change.topic, change.partition)
    if partition is None or partition.is_new:
        raise UnknownTopicOrPartitionError
    if change.leader_epoch > partition.leader_epoch or change.partition_epoch > partition.partition_epoch:
        raise NotControllerError("the request is ahead of the controller's state")
    if change.leader_epoch < partition.leader_epoch:
        raise FencedLeaderEpochError
    if change.broker_id != partition.leader or change.broker_id not in change.isr:
        raise InvalidRequestError(f"broker {change.broker_id} does not lead the partition")
    recovery = change.leader_recovery_state
    if set(change.isr) == set(partition.isr) and recovery == partition.leader_recovery_state:
        return Decision()
    if change.partition_epoch < partition.partition_epoch:
        raise InvalidUpdateVersionError
    if recovery == LEADER_RECOVERING and (
        len(change.isr) > 1 or partition.leader_recovery_state == LEADER_RECOVERED
    ):
        raise InvalidRequestError("the leader is recovering from an unclean election, or is not any more")
    if any(broker not in image.brokers or broker not in partition.replicas for broker in change.isr) or any(
        image.brokers[broker].epoch != broker_epoch for broker, broker_epoch in change.epochs.items()
    ):
        raise IneligibleReplicaError
    if any(broker in shutting_down and broker not in partition.isr for broker in change.isr):
        raise IneligibleReplicaError
    state = elections.state_of(partition)._replace(
        isr=change.isr,
        controller_epoch=epoch,
        leader_recovery_state=change.leader_recovery_state,
    )
    writes: list[Write] = []
    after = write_state(writes, change.topic, change.partition, partition, state)
    topic = image.topics[change.topic]
    partitions = {**topic.partitions, change.partition: after}
    return Decision(tuple(writes), ClusterDelta(topics={topic.name: topic._replace(partitions=partitions)}))
