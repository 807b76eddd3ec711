"""Groups and topics as the broker has them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from odradek.errors import OdradekError
from odradek.wire.schemas.consumer_protocol import ConsumerProtocolAssignment

if TYPE_CHECKING:
    from odradek.broker.services import BrokerServices
    from odradek.coordinators.groups.classic_group import ClassicGroup
    from odradek.coordinators.groups.member import Member
    from odradek.coordinators.groups.shard import GroupShard
    from odradek.util.topic_partition import TopicPartition

CONSUMERS = "consumer"
"""The protocol type of groups of consumers, whose assignments have a known form."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of a group.

    Attributes:
        member_id, client_id, client_host: as DescribeGroups has them.
        group_instance_id: of a static member; None for others.
        assignment: its partitions, in order; of consumers alone.
        assignment_bytes: what the group's leader has given it.
    """

    member_id: str
    client_id: str
    client_host: str = ""
    group_instance_id: str | None = None
    assignment: tuple[TopicPartition, ...] = ()
    assignment_bytes: bytes = b""


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """The offset that a group has committed of a partition.

    Attributes:
        offset: the next one to be read.
        lag: how many offsets are behind it, up to the high watermark; None where the partition is not there.
        leader_epoch: of the last record read, -1 where it was not said.
        metadata: the client's own note.
    """

    offset: int
    lag: int | None = None
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """A group of consumers, or of others.

    Attributes:
        group_id: its name.
        state: "Empty", "PreparingRebalance", "CompletingRebalance", "Stable" or "Dead".
        protocol_type: "consumer", "connect" …
        protocol: the assignor that was chosen, once one was.
        generation: counts its rebalances.
        leader: the member that assigns; None without members.
        members: by their ids.
        offsets: by partition.
    """

    group_id: str
    state: str = "Empty"
    protocol_type: str = ""
    protocol: str = ""
    generation: int = 0
    leader: str | None = None
    members: tuple[GroupMember, ...] = ()
    offsets: dict[TopicPartition, CommittedOffset] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic.

    Attributes:
        name: its.
        partitions: first and end offset (the high watermark) of each partition, by number; a partition
            without a leader is left out.
        configs: its own.
    """

    name: str
    partitions: dict[int, tuple[int, int]]
    configs: dict[str, str]


def groups_of(broker: BrokerServices) -> list[Group]:
    """Return the groups that a broker coordinates, without lags. In the broker's loop.

    Raises:
        KafkaError: COORDINATOR_LOAD_IN_PROGRESS while some are being loaded.
    """
    runtime = broker.groups.coordinator.runtime
    groups = []
    for partition in runtime.partitions():
        shard = runtime.shard(partition)
        groups += [_group(shard, group) for group in shard.groups.values()]
    return groups


def _group(shard: GroupShard, group: ClassicGroup) -> Group:
    return Group(
        group.group_id,
        group.state.value,
        group.protocol_type or "",
        group.protocol or "",
        group.generation,
        group.leader,
        tuple(_member(member, group.protocol_type) for _, member in sorted(group.members.items())),
        {
            (topic, index): CommittedOffset(entry.offset, None, entry.leader_epoch, entry.metadata)
            for topic, entries in sorted(shard.offsets.of_group(group.group_id).items())
            for index, entry in sorted(entries.items())
        },
    )


def _member(member: Member, protocol_type: str | None) -> GroupMember:
    assignment = bytes(member.assignment)
    return GroupMember(
        member.member_id,
        member.client_id,
        member.client_host,
        member.group_instance_id,
        assigned_partitions(assignment) if protocol_type == CONSUMERS else (),
        assignment,
    )


def assigned_partitions(assignment: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions in what a group's leader gives to a consumer; none where it is not to be read."""
    if not assignment:
        return ()
    try:
        assigned = ConsumerProtocolAssignment.decode_prefixed(assignment)
    except OdradekError:
        return ()
    return tuple(
        sorted((given.topic, index) for given in assigned.assigned_partitions for index in given.partitions)
    )


def bounds_of(broker: BrokerServices) -> dict[TopicPartition, tuple[int, int]]:
    """Return log start and high watermark of the partitions that a broker leads. In the broker's loop."""
    return {
        partition.key: (partition.log.log_start_offset, partition.log.high_watermark)
        for partition in broker.replicas
        if partition.is_leader
    }


def topics_of(broker: BrokerServices) -> dict[str, tuple[list[int], dict[str, str]]]:
    """Return the partitions and configs of the topics that a broker knows, internal ones left out."""
    image = broker.image
    return {
        name: (sorted(topic.partitions), dict(image.topic_config(name)))
        for name, topic in image.topics.items()
        if not topic.is_internal
    }


def with_lags(group: Group, bounds: dict[TopicPartition, tuple[int, int]]) -> Group:
    """Return a group with the lags of its offsets."""
    return replace(
        group,
        offsets={
            partition: replace(committed, lag=max(0, bounds[partition][1] - committed.offset))
            if partition in bounds
            else committed
            for partition, committed in group.offsets.items()
        },
    )
