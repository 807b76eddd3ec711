"""JoinGroup: enter a group, or begin another round of rebalancing.

From version 4 on a newcomer gets its member id first and joins again with it (KIP-394); 5 knows static
members (KIP-345), 8 takes a reason (KIP-800), 9 may tell the leader to skip the assignment (KIP-814).
"""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, blob, boolean, int16, int32, string
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class JoinGroupRequestProtocol(Struct):
    """An element of `JoinGroupRequest.protocols`."""

    name: str = string()
    metadata: bytes = blob()


@request(ApiKey.JOIN_GROUP, versions="0-9", flexible="6+")
class JoinGroupRequest(Message):
    """A member and the protocols that it offers."""

    MOST_ELEMENTS = 1_000

    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string("8+", nullable="8+", default=None, ignorable=True)


@struct
class JoinGroupResponseMember(Struct):
    """An element of `JoinGroupResponse.members`."""

    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    metadata: bytes = blob()


@response(ApiKey.JOIN_GROUP, versions="0-9", flexible="6+")
class JoinGroupResponse(Message):
    """The generation; for the leader, all members with their metadata."""

    throttle_time_ms: int = int32("2+", ignorable=True)
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string("7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    skip_assignment: bool = boolean("9+")
    member_id: str = string()
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)
