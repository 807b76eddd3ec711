"""SyncGroup, versions 0–5: the leader hands in the assignment, everybody fetches theirs.

    3+  static members by group.instance.id
    5+  the client names the protocol type and protocol that it believes in (KIP-559)

Until the leader has come the others are parked. The assignment counts once it is in the log.
"""

from __future__ import annotations

from odradek.coordinators.groups.classic_group import ClassicGroup, sync_error
from odradek.coordinators.groups.env import GroupEnv, logger
from odradek.coordinators.groups.rebalance import (
    NOTHING,
    begin,
    hand_out_assignments,
    reset_assignments,
    sync_received,
)
from odradek.coordinators.groups.records import group_record, group_value
from odradek.coordinators.groups.states import GroupState
from odradek.coordinators.outcome import Outcome
from odradek.coordinators.reply import Reply
from odradek.errors import ErrorCode, KafkaError
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def sync(
    env: GroupEnv, group: ClassicGroup, request: SyncGroupRequest, reply: Reply[SyncGroupResponse]
) -> Outcome:
    """Answer with the member's assignment, now or when the leader has given it."""
    error = _objection(group, request)
    if error is not None:
        return Outcome(response=sync_error(error))
    member = group.members[request.member_id]
    if group.state is GroupState.PREPARING_REBALANCE:
        return Outcome(response=sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
    sync_received(env, group, member.member_id)
    if group.state is GroupState.STABLE:
        return Outcome(
            response=SyncGroupResponse(
                error_code=ErrorCode.NONE,
                protocol_type=group.protocol_type,
                protocol_name=group.protocol,
                assignment=member.assignment,
            )
        )
    # A request sent twice: the first is owed an answer too, and its client no longer waits for one.
    env.answer(group.take_sync(member), sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
    member.awaiting_sync = reply
    if not group.is_leader(member.member_id):
        return NOTHING
    return _store_assignment(env, group, request)


def _objection(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode | None:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    try:
        group.check_member(request.member_id, request.group_instance_id)
    except KafkaError as error:
        return error.code
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differs(request.protocol_type, group.protocol_type) or _differs(
        request.protocol_name, group.protocol
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return None


def _differs(believed: str | None, actual: str | None) -> bool:
    return believed is not None and actual is not None and believed != actual


def _store_assignment(env: GroupEnv, group: ClassicGroup, request: SyncGroupRequest) -> Outcome:
    assignments = {
        member_assignment.member_id: bytes(member_assignment.assignment)
        for member_assignment in request.assignments
    }
    missing = [member_id for member_id in group.members if member_id not in assignments]
    if missing:
        logger.warning(
            "group %s: generation %d: nothing assigned to %s", group.group_id, group.generation, missing
        )

    def appended() -> None:
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            group.count_bytes(member)
        group.move_to(GroupState.STABLE, env.clock.now_ms())
        hand_out_assignments(env, group)

    def failed(error: ErrorCode) -> Outcome:
        reset_assignments(env, group, error)
        return begin(env, group, f"the assignment could not be written: {error.name}")

    value = group_value(group, group.members.values(), assignments)
    return Outcome([group_record(group.group_id, value)], on_appended=appended, on_failed=failed)
