"""LeaveGroup, versions 0–5: members go, or are sent away by an administrator.

    3+  several members at once; a static one may be named by its instance id alone (KIP-345)
    5+  with a reason (KIP-800)

The entry turns versions 0–2, with their single member id, into a list of one.
"""

from __future__ import annotations

from odradek.coordinators.groups.classic_group import ClassicGroup
from odradek.coordinators.groups.env import GroupEnv, logger
from odradek.coordinators.groups.rebalance import (
    NOTHING,
    begin_or_complete,
    complete_join_if_all_joined,
    drop_member,
)
from odradek.coordinators.groups.states import GroupState
from odradek.coordinators.outcome import Outcome
from odradek.errors import ErrorCode, KafkaError, UnknownMemberIdError
from odradek.wire.messages.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse


def leave(env: GroupEnv, group: ClassicGroup, leaving: list[MemberIdentity]) -> Outcome:
    """Remove members, each with its own result, and rebalance those who stay."""
    if group.state is GroupState.DEAD:
        return Outcome(response=LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
    results: list[MemberResponse] = []
    gone: list[str] = []
    for identity in leaving:
        error = ErrorCode.NONE
        try:
            gone.append(_leave_one(env, group, identity))
        except KafkaError as refused:
            error = refused.code
        results.append(
            MemberResponse(
                member_id=identity.member_id,
                group_instance_id=identity.group_instance_id,
                error_code=error,
            )
        )
    then = NOTHING
    if gone:
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            then = begin_or_complete(env, group, f"{', '.join(gone)} left")
        elif group.state is GroupState.PREPARING_REBALANCE:
            then = complete_join_if_all_joined(env, group)
    response = LeaveGroupResponse(error_code=ErrorCode.NONE, members=results)
    return Outcome(then.records, response, then.on_appended, then.on_failed)


def _leave_one(env: GroupEnv, group: ClassicGroup, identity: MemberIdentity) -> str:
    member_id = identity.member_id
    if not member_id:
        if identity.group_instance_id is None:
            raise UnknownMemberIdError
        present = group.static_members.get(identity.group_instance_id)
        if present is None:
            raise UnknownMemberIdError
        member_id = present
    elif member_id in group.pending_members:
        env.cancel_timer("session", (group.group_id, member_id))
        group.remove(member_id)
        return member_id
    else:
        group.check_member(member_id, identity.group_instance_id)
    logger.info("group %s: member %s left: %s", group.group_id, member_id, identity.reason or "not provided")
    drop_member(env, group, group.members[member_id])
    return member_id
