"""FindCoordinator: which broker coordinates a group, a transaction or share state.

Version 4 asks for many keys at once (KIP-699); 6 knows share state, whose key is group:topic id:partition
(KIP-932).
"""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, int8, int16, int32, string
from odradek.wire.message import Message, Struct, request, response, struct


@request(ApiKey.FIND_COORDINATOR, versions="0-6", flexible="3+")
class FindCoordinatorRequest(Message):
    """The keys and their type: 0 group, 1 transaction, 2 share state."""

    key: str = string("0-3")
    key_type: int = int8("1+")
    coordinator_keys: list[str] = array(string, "4+")


@struct
class Coordinator(Struct):
    """An element of `FindCoordinatorResponse.coordinators`."""

    key: str = string("4+")
    node_id: int = int32("4+")
    host: str = string("4+")
    port: int = int32("4+")
    error_code: int = int16("4+")
    error_message: str | None = string("4+", nullable="4+", ignorable=True)


@response(ApiKey.FIND_COORDINATOR, versions="0-6", flexible="3+")
class FindCoordinatorResponse(Message):
    """The coordinators' addresses."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", nullable="1-3", ignorable=True)
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[Coordinator] = array(Coordinator, "4+")
