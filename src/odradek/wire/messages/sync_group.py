"""SyncGroup: the leader hands in the assignment, every member gets its part.

From version 5 on the protocol's type and name are compared too (KIP-559).
"""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, blob, int16, int32, string
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class SyncGroupRequestAssignment(Struct):
    """An element of `SyncGroupRequest.assignments`."""

    member_id: str = string()
    assignment: bytes = blob()


@request(ApiKey.SYNC_GROUP, versions="0-5", flexible="4+")
class SyncGroupRequest(Message):
    """The assignment from the leader, nothing from others."""

    MOST_ELEMENTS = 50_000

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


@response(ApiKey.SYNC_GROUP, versions="0-5", flexible="4+")
class SyncGroupResponse(Message):
    """The member's part."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes = blob()
