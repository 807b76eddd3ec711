"""Keys and values of `__consumer_offsets`: committed offsets, and groups of the classic protocol.

Those of other groups are in `consumer_groups`, `share_groups` and `streams_groups`.
"""

from __future__ import annotations

from odradek.wire.fields import array, blob, int32, int64, string, uuid
from odradek.wire.message import Data, Struct, record_key, record_value, struct


@record_key(record_type=1, versions="0")
class OffsetCommitKey(Data):
    """The key of a committed offset."""

    group: str = string()
    topic: str = string()
    partition: int = int32()


@record_value(versions="0-4", flexible="4+")
class OffsetCommitValue(Data):
    """A committed offset."""

    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1, ignorable=True)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=-1, ignorable=True)
    topic_id: bytes = uuid("4+", ignorable=True, tag=0)


@record_key(record_type=0, versions="0")
class LegacyOffsetCommitKey(Data):
    """The key of a committed offset in its first form."""

    group: str = string()
    topic: str = string()
    partition: int = int32()


@record_value(versions="0")
class LegacyOffsetCommitValue(Data):
    """A committed offset in its first form."""

    offset: int = int64()
    metadata: str = string()
    commit_timestamp: int = int64()


@record_key(record_type=2, versions="0")
class GroupMetadataKey(Data):
    """The key of a classic group."""

    group: str = string()


@struct
class MemberMetadata(Struct):
    """An element of `GroupMetadataValue.members`."""

    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32("1+", default=-1, ignorable=True)
    session_timeout: int = int32()
    subscription: bytes = blob()
    assignment: bytes = blob()


@record_value(versions="0-4", flexible="4+")
class GroupMetadataValue(Data):
    """A classic group and its members."""

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+")
    leader: str | None = string(nullable="0+")
    current_state_timestamp: int = int64("2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = array(MemberMetadata)
