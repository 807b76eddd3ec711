"""ListGroups: the groups that a broker coordinates."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, int16, int32, string
from odradek.wire.message import Message, Struct, request, response, struct


@request(ApiKey.LIST_GROUPS, versions="0-5", flexible="3+")
class ListGroupsRequest(Message):
    """Filters by state (4, KIP-518) and type (5, KIP-848)."""

    states_filter: list[str] = array(string, "4+")
    types_filter: list[str] = array(string, "5+")


@struct
class ListedGroup(Struct):
    """An element of `ListGroupsResponse.groups`."""

    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string("4+", ignorable=True)
    group_type: str = string("5+", ignorable=True)


@response(ApiKey.LIST_GROUPS, versions="0-5", flexible="3+")
class ListGroupsResponse(Message):
    """The groups."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
    groups: list[ListedGroup] = array(ListedGroup)
