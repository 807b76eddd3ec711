"""The course of a rebalance: its start, its wait, its end, and how members are lost.

    begin             a member came, went or changed: everybody has to join again
      └─ waits for    all members (and pending ones) to send JoinGroup, at most the longest rebalance timeout;
                      a rebalance of an empty group waits group.initial.rebalance.delay.ms instead, again and
                      again while members keep coming, at most the rebalance timeout in all
    complete_join     forms the generation of those who came; dynamic members who did not come are out, static
                      ones stay; answers every JoinGroup
      └─ waits for    SyncGroup of all members, at most the rebalance timeout; who is late is out, and the
                      group rebalances
    expire_session    a member was silent for longer than its session timeout: out

Timers: `session` (group, member), `join` (group), `sync` (group).
"""

from __future__ import annotations

from odradek.coordinators.groups.classic_group import ClassicGroup, join_error
from odradek.coordinators.groups.env import GroupEnv, logger
from odradek.coordinators.groups.member import Member
from odradek.coordinators.groups.records import group_record, group_value
from odradek.coordinators.groups.states import GroupState, can_rebalance
from odradek.coordinators.outcome import Outcome
from odradek.errors import ErrorCode
from odradek.wire.messages.join_group import JoinGroupResponse
from odradek.wire.messages.sync_group import SyncGroupResponse

NOTHING = Outcome()

_REBALANCING = (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)


def begin_or_complete(env: GroupEnv, group: ClassicGroup, reason: str) -> Outcome:
    """Begin a rebalance; if one is being prepared already, end its first half if that can be done."""
    if can_rebalance(group.state):
        return begin(env, group, reason)
    return complete_join_if_all_joined(env, group)


def begin(env: GroupEnv, group: ClassicGroup, reason: str) -> Outcome:
    """Go to PreparingRebalance."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        reset_assignments(env, group, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_sync.clear()
    env.cancel_timer("sync", (group.group_id,))
    is_initial = group.state is GroupState.EMPTY
    group.move_to(GroupState.PREPARING_REBALANCE, env.clock.now_ms())
    logger.info("group %s: rebalance after generation %d: %s", group.group_id, group.generation, reason)
    if is_initial:
        # The first members of a group come one by one; without the delay each costs a rebalance (KIP-134).
        delay_ms = env.config.group_initial_rebalance_delay_ms
        group.new_member_added = False
        _wait_for_more(env, group, delay_ms, max(group.rebalance_timeout_ms() - delay_ms, 0))
        return NOTHING
    if group.all_joined():
        return complete_join(env, group)
    _wait_for_joins(env, group)
    return NOTHING


def complete_join_if_all_joined(env: GroupEnv, group: ClassicGroup) -> Outcome:
    """Form the generation if nobody is missing; an initial rebalance waits for its delay all the same."""
    if (
        group.state is GroupState.PREPARING_REBALANCE
        and group.previous_state is not GroupState.EMPTY
        and group.all_joined()
    ):
        return complete_join(env, group)
    return NOTHING


def _wait_for_joins(env: GroupEnv, group: ClassicGroup) -> None:
    env.set_timer(
        "join", (group.group_id,), group.rebalance_timeout_ms(), lambda: _join_time_is_up(env, group)
    )


def _join_time_is_up(env: GroupEnv, group: ClassicGroup) -> Outcome:
    return complete_join(env, group) if group.state is GroupState.PREPARING_REBALANCE else NOTHING


def _wait_for_more(env: GroupEnv, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
    def time_is_up() -> Outcome:
        if group.state is not GroupState.PREPARING_REBALANCE:
            return NOTHING
        if group.new_member_added and remaining_ms != 0:
            group.new_member_added = False
            further_ms = min(env.config.group_initial_rebalance_delay_ms, remaining_ms)
            _wait_for_more(env, group, further_ms, max(remaining_ms - delay_ms, 0))
            return NOTHING
        return complete_join(env, group)

    env.set_timer("join", (group.group_id,), delay_ms, time_is_up)


def complete_join(env: GroupEnv, group: ClassicGroup) -> Outcome:
    """Form the next generation of those who have joined, or become Empty."""
    env.cancel_timer("join", (group.group_id,))
    for member in list(group.members.values()):
        # A static member may be restarting: it keeps its place until its session runs out (KIP-345).
        if member.awaiting_join is None and member.group_instance_id is None:
            group.remove(member.member_id)
            env.cancel_timer("session", (group.group_id, member.member_id))
            logger.info("group %s: member %s did not join in time", group.group_id, member.member_id)
    if group.members and not group.elect_joined_leader():
        # Static members only, none of whom came: wait until one does, or their sessions run out.
        logger.warning("group %s: no member joined the rebalance; waiting on", group.group_id)
        _wait_for_joins(env, group)
        return NOTHING
    group.next_generation(env.clock.now_ms())
    if not group.members:
        return _store_empty(group)
    logger.info("group %s: generation %d of %d members", group.group_id, group.generation, len(group.members))
    for member in group.members.values():
        leads = group.is_leader(member.member_id)
        env.answer(group.take_join(member), join_success(group, member.member_id, with_members=leads))
        restart_session(env, group, member)
        member.is_new = False
        group.pending_sync.add(member.member_id)
    generation = group.generation
    env.set_timer(
        "sync",
        (group.group_id,),
        group.rebalance_timeout_ms(),
        lambda: _sync_time_is_up(env, group, generation),
    )
    return NOTHING


def _store_empty(group: ClassicGroup) -> Outcome:
    logger.info("group %s: generation %d has no members", group.group_id, group.generation)

    def failed(error: ErrorCode) -> None:
        # Should the broker stop before the next rebalance, the members of the generation before come back
        # from the log and run out of their sessions: nothing is lost.
        logger.warning("group %s: the empty generation was not written: %s", group.group_id, error.name)

    return Outcome([group_record(group.group_id, group_value(group, (), {}))], on_failed=failed)


def join_success(group: ClassicGroup, member_id: str, *, with_members: bool) -> JoinGroupResponse:
    """The answer to JoinGroup for the present generation."""
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader or "",
        skip_assignment=False,
        member_id=member_id,
        members=group.members_for_leader() if with_members else [],
    )


# Assignments


def reset_assignments(env: GroupEnv, group: ClassicGroup, error: ErrorCode) -> None:
    """Take everybody's assignment away and answer every SyncGroup with `error`."""
    for member in group.members.values():
        member.assignment = b""
        group.count_bytes(member)
    hand_out_assignments(env, group, error)


def hand_out_assignments(env: GroupEnv, group: ClassicGroup, error: ErrorCode = ErrorCode.NONE) -> None:
    """Answer every SyncGroup that waits."""
    succeeded = error == ErrorCode.NONE
    for member in group.members.values():
        response = SyncGroupResponse(
            error_code=error,
            protocol_type=group.protocol_type if succeeded else None,
            protocol_name=group.protocol if succeeded else None,
            assignment=member.assignment,
        )
        if env.answer(group.take_sync(member), response):
            # Its session may have run out, without effect, while its request was parked.
            restart_session(env, group, member)


# Sessions


def restart_session(
    env: GroupEnv, group: ClassicGroup, member: Member, timeout_ms: int | None = None
) -> None:
    """Count the member's silence from now on."""
    member_id = member.member_id
    env.set_timer(
        "session",
        (group.group_id, member_id),
        member.session_timeout_ms if timeout_ms is None else timeout_ms,
        lambda: expire_session(env, group, member_id),
    )


def expire_session(env: GroupEnv, group: ClassicGroup, member_id: str) -> Outcome:
    """A member, or one that never came back with its id, was silent for too long."""
    if group.state is GroupState.DEAD:
        return NOTHING
    if member_id in group.pending_members:
        logger.info("group %s: pending member %s did not come back", group.group_id, member_id)
        return remove_pending(env, group, member_id)
    member = group.members.get(member_id)
    if member is None or member.is_parked():
        return NOTHING
    logger.info("group %s: session of member %s has expired", group.group_id, member_id)
    drop_member(env, group, member)
    if group.state in _REBALANCING:
        return begin_or_complete(env, group, f"session of member {member_id} has expired")
    if group.state is GroupState.PREPARING_REBALANCE and group.all_joined():
        return complete_join(env, group)
    return NOTHING


def drop_member(env: GroupEnv, group: ClassicGroup, member: Member) -> None:
    """Remove a member; if it waits for JoinGroup it is told to join anew."""
    env.cancel_timer("session", (group.group_id, member.member_id))
    env.answer(group.take_join(member), join_error(ErrorCode.UNKNOWN_MEMBER_ID))
    env.answer(
        group.take_sync(member),
        SyncGroupResponse(
            error_code=ErrorCode.UNKNOWN_MEMBER_ID, protocol_type=None, protocol_name=None, assignment=b""
        ),
    )
    group.remove(member.member_id)


def remove_pending(env: GroupEnv, group: ClassicGroup, member_id: str) -> Outcome:
    """Forget an id that was given out; a rebalance that waited for it may go on."""
    env.cancel_timer("session", (group.group_id, member_id))
    group.remove(member_id)
    if group.state is GroupState.PREPARING_REBALANCE and group.all_joined():
        return complete_join(env, group)
    return NOTHING


def _sync_time_is_up(env: GroupEnv, group: ClassicGroup, generation: int) -> Outcome:
    # Of a rebalance that is over, or of which all have synced.
    if generation != group.generation or group.state not in _REBALANCING or not group.pending_sync:
        return NOTHING
    late = sorted(group.pending_sync)
    for member_id in late:
        env.cancel_timer("session", (group.group_id, member_id))
        group.remove(member_id)
    return begin(env, group, f"no SyncGroup from {', '.join(late)}")


def sync_received(env: GroupEnv, group: ClassicGroup, member_id: str) -> None:
    """Stop waiting for the member's SyncGroup."""
    group.pending_sync.discard(member_id)
    if not group.pending_sync:
        env.cancel_timer("sync", (group.group_id,))
