"""__consumer_offsets: a classic group and its members."""

from __future__ import annotations

from odradek.wire.fields import array, blob, int32, int64, string
from odradek.wire.message import Data, Struct, record_value, struct


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
    """The group's generation with every member."""

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+")
    leader: str | None = string(nullable="0+")
    current_state_timestamp: int = int64("2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = array(MemberMetadata)
