"""The records of `__consumer_offsets` that classic groups write.

Versions as Kafka 2.3 to 4.x writes them. Keys carry their type in the two bytes in front (1 an offset, 2 a
group); values their version. An offset with an explicit expiry (OffsetCommit 2–4) is value version 1, the
only one with that field; every other offset is version 3, with the leader epoch. Groups are version 3, with
instance ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from odradek.coordinators.groups.classic_group import ClassicGroup
from odradek.coordinators.groups.member import Member
from odradek.coordinators.groups.offset_store import OffsetEntry
from odradek.coordinators.outcome import CoordinatorRecord
from odradek.wire.schemas.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)

OFFSET_KEY_TYPES = (0, 1)
"""Key types of committed offsets; 0 is what Kafka 0.8 wrote, the same in form."""
GROUP_KEY_TYPE = 2

OFFSET_KEY_VERSION = OffsetCommitKey.VERSIONS[-1]
GROUP_KEY_VERSION = GroupMetadataKey.VERSIONS[-1]
OFFSET_VALUE_VERSION = 3
OFFSET_VALUE_VERSION_WITH_EXPIRY = 1
GROUP_VALUE_VERSION = 3


def group_value(
    group: ClassicGroup, members: Iterable[Member], assignments: Mapping[str, bytes]
) -> GroupMetadataValue:
    """The durable picture of `group` with these members.

    Args:
        group: gives everything but the members.
        members: who is in it.
        assignments: by member id; a member that is missing gets an empty one.
    """
    protocol = group.protocol
    return GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=protocol,
        leader=group.leader,
        current_state_timestamp=-1 if group.state_timestamp_ms is None else group.state_timestamp_ms,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(protocol or ""),
                assignment=assignments.get(member.member_id, b""),
            )
            for member in members
        ],
    )


def group_record(group_id: str, value: GroupMetadataValue | None) -> CoordinatorRecord:
    """The record of a group's durable picture; `None` removes the group."""
    return CoordinatorRecord(GroupMetadataKey(group=group_id), GROUP_KEY_VERSION, value, GROUP_VALUE_VERSION)


def offset_record(group_id: str, topic: str, partition: int, entry: OffsetEntry | None) -> CoordinatorRecord:
    """The record of a committed offset; `None` removes it."""
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    if entry is None:
        return CoordinatorRecord(key, OFFSET_KEY_VERSION, None, 0)
    value = OffsetCommitValue(
        offset=entry.offset,
        leader_epoch=entry.leader_epoch,
        metadata=entry.metadata,
        commit_timestamp=entry.commit_timestamp_ms,
    )
    if entry.expire_timestamp_ms is None:
        return CoordinatorRecord(key, OFFSET_KEY_VERSION, value, OFFSET_VALUE_VERSION)
    # Version 1 has no leader epoch.
    value.leader_epoch = -1
    value.expire_timestamp = entry.expire_timestamp_ms
    return CoordinatorRecord(key, OFFSET_KEY_VERSION, value, OFFSET_VALUE_VERSION_WITH_EXPIRY)
