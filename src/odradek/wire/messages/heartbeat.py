"""Heartbeat: a member is alive."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import int16, int32, string
from odradek.wire.message import Message, request, response


@request(ApiKey.HEARTBEAT, versions="0-4", flexible="4+")
class HeartbeatRequest(Message):
    """The member, and its generation."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)


@response(ApiKey.HEARTBEAT, versions="0-4", flexible="4+")
class HeartbeatResponse(Message):
    """The order to go on, or to join again."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
