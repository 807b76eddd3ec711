"""DescribeGroups: state and members of classic groups.

Version 3 tells what the principal may do (KIP-430); from 6 on an unknown group is an error (KIP-1043).
"""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, blob, boolean, int16, int32, string
from odradek.wire.message import Message, Struct, request, response, struct


@request(ApiKey.DESCRIBE_GROUPS, versions="0-6", flexible="5+")
class DescribeGroupsRequest(Message):
    """The groups that are asked for."""

    groups: list[str] = array(string)
    include_authorized_operations: bool = boolean("3+")


@struct
class DescribedGroupMember(Struct):
    """An element of `DescribedGroup.members`."""

    member_id: str = string()
    group_instance_id: str | None = string("4+", nullable="4+", default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = blob()
    member_assignment: bytes = blob()


@struct
class DescribedGroup(Struct):
    """An element of `DescribeGroupsResponse.groups`."""

    error_code: int = int16()
    error_message: str | None = string("6+", nullable="6+", default=None)
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32("3+", default=-(2**31))


@response(ApiKey.DESCRIBE_GROUPS, versions="0-6", flexible="5+")
class DescribeGroupsResponse(Message):
    """The groups as the coordinator knows them."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    groups: list[DescribedGroup] = array(DescribedGroup)
