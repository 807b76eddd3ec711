"""DescribeGroups and ListGroups: what groups look like from outside."""

from __future__ import annotations

from collections.abc import Collection

from odradek.coordinators.groups.classic_group import ClassicGroup
from odradek.coordinators.groups.states import GroupState
from odradek.errors import ErrorCode
from odradek.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from odradek.wire.messages.list_groups import ListedGroup

GROUP_TYPE = "classic"
FIRST_VERSION_WITH_NOT_FOUND = 6


def describe(group: ClassicGroup) -> DescribedGroup:
    """The group with its members; their subscriptions and the protocol only when it is Stable."""
    stable = group.state is GroupState.STABLE
    protocol = group.protocol if stable and group.protocol is not None else ""
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(protocol) if stable else b"",
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )


def describe_unknown(group_id: str, api_version: int) -> DescribedGroup:
    """A group that is not there: from version 6 an error, before that a dead group."""
    if api_version < FIRST_VERSION_WITH_NOT_FOUND:
        return DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
    return DescribedGroup(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"Group {group_id} not found.",
        group_id=group_id,
        group_state=GroupState.DEAD.value,
    )


def describe_error(group_id: str, error: ErrorCode) -> DescribedGroup:
    """A group that cannot be described."""
    return DescribedGroup(error_code=error, group_id=group_id)


def listed(group: ClassicGroup, states: Collection[str], types: Collection[str]) -> ListedGroup | None:
    """The group's line in ListGroups, or `None` when a filter keeps it out.

    Args:
        group: the group.
        states: lower-case names of states; empty for all.
        types: lower-case group types; empty for all.
    """
    if states and group.state.value.lower() not in states:
        return None
    if types and GROUP_TYPE not in types:
        return None
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        group_state=group.state.value,
        group_type=GROUP_TYPE,
    )
