"""Heartbeat, versions 0–4: a member shows that it is alive, and hears that it has to join again."""

from __future__ import annotations

from odradek.coordinators.groups.classic_group import ClassicGroup
from odradek.coordinators.groups.env import GroupEnv
from odradek.coordinators.groups.rebalance import restart_session
from odradek.coordinators.groups.states import GroupState
from odradek.errors import CoordinatorNotAvailableError, ErrorCode, IllegalGenerationError
from odradek.wire.messages.heartbeat import HeartbeatRequest


def heartbeat(env: GroupEnv, group: ClassicGroup, request: HeartbeatRequest) -> ErrorCode:
    """Put the member's session off, and say how things stand.

    Returns:
        NONE, or REBALANCE_IN_PROGRESS.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, or COORDINATOR_NOT_AVAILABLE
            for a group that is being removed.
    """
    if group.state is GroupState.DEAD:
        raise CoordinatorNotAvailableError
    member = group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise IllegalGenerationError
    restart_session(env, group, member)
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE
