"""JoinGroup, versions 0–9.

    0   the session timeout is the rebalance timeout too
    1+  a rebalance timeout of its own
    4+  a dynamic member without an id is given one with MEMBER_ID_REQUIRED and comes back with it (KIP-394)
    5+  static members by group.instance.id (KIP-345)
    7+  the answer names the protocol type (KIP-559)
    8+  the client says why it joins (KIP-800)
    9+  a static leader that came back to a stable group is told to skip the assignment (KIP-814)

Who is answered at once: a member of the present generation that repeats itself, and every error. Everybody
else's answer is parked until the generation is formed (`rebalance.complete_join`).
"""

from __future__ import annotations

from odradek.coordinators.groups.classic_group import ClassicGroup, join_error
from odradek.coordinators.groups.config import NEW_MEMBER_JOIN_TIMEOUT_MS
from odradek.coordinators.groups.env import Caller, GroupEnv, logger
from odradek.coordinators.groups.held_bytes import size_of
from odradek.coordinators.groups.member import Member, Protocols
from odradek.coordinators.groups.rebalance import (
    NOTHING,
    begin,
    begin_or_complete,
    complete_join,
    complete_join_if_all_joined,
    drop_member,
    expire_session,
    join_success,
    restart_session,
)
from odradek.coordinators.groups.records import group_record, group_value
from odradek.coordinators.groups.states import GroupState
from odradek.coordinators.outcome import Outcome
from odradek.coordinators.reply import Reply
from odradek.errors import ErrorCode, KafkaError
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from odradek.wire.messages.sync_group import SyncGroupResponse

FIRST_VERSION_WITH_REBALANCE_TIMEOUT = 1
FIRST_VERSION_REQUIRING_MEMBER_ID = 4
FIRST_VERSION_SKIPPING_ASSIGNMENT = 9
_MAX_PREFIX_BYTES = 32_000

_TOO_LARGE = ErrorCode.MESSAGE_TOO_LARGE
_GROUP_FULL = ErrorCode.GROUP_MAX_SIZE_REACHED
_BROKER_FULL = ErrorCode.COORDINATOR_NOT_AVAILABLE


class JoinAttempt:
    """One JoinGroup request with what its version implies filled in.

    Attributes:
        caller: who sends it.
        request: the request.
        reply: the answer owed.
        protocols: the strategies, best first.
        rebalance_timeout_ms: the session timeout for version 0.
    """

    __slots__ = ("caller", "protocols", "rebalance_timeout_ms", "reply", "request")

    def __init__(self, caller: Caller, request: JoinGroupRequest, reply: Reply[JoinGroupResponse]) -> None:
        self.caller = caller
        self.request = request
        self.reply = reply
        self.protocols: Protocols = [(p.name, bytes(p.metadata)) for p in request.protocols]
        self.rebalance_timeout_ms = (
            request.session_timeout_ms
            if caller.api_version < FIRST_VERSION_WITH_REBALANCE_TIMEOUT
            else request.rebalance_timeout_ms
        )

    @property
    def reason(self) -> str:
        """The client's reason to join, in its own words."""
        return self.request.reason or "not provided"

    def new_member(self, member_id: str) -> Member:
        """The member that the request describes."""
        request = self.request
        return Member(
            member_id,
            group_instance_id=request.group_instance_id,
            client_id=self.caller.client_id,
            client_host=f"/{self.caller.client_host}",
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=self.protocols,
        )


def join(env: GroupEnv, group: ClassicGroup, attempt: JoinAttempt) -> Outcome:
    """Let somebody into the group, or say why not.

    Args:
        env: the shard's surroundings.
        group: the group; made by the caller if the request may make one.
        attempt: the request.
    """
    request = attempt.request
    member_id = request.member_id
    if group.state is GroupState.DEAD:
        return _refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id)
    if not _has_room(env, group, member_id):
        return _turn_away(env, group, member_id)
    too_much = _too_much(env, group, attempt)
    if too_much is not None:
        return _refuse(too_much, member_id)
    if not group.supports(request.protocol_type, attempt.protocols):
        return _refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
    if not member_id:
        return _join_without_id(env, group, attempt)
    if member_id in group.pending_members:
        if request.group_instance_id is not None:
            # Ids are only given out in advance to dynamic members.
            return _refuse(ErrorCode.UNKNOWN_SERVER_ERROR, member_id)
        return _add(env, group, attempt, member_id)
    try:
        member = group.check_member(member_id, request.group_instance_id)
    except KafkaError as error:
        return _refuse(error.code, member_id)
    return _rejoin(env, group, attempt, member)


def _refuse(error: ErrorCode, member_id: str) -> Outcome:
    return Outcome(response=join_error(error, member_id))


def _has_room(env: GroupEnv, group: ClassicGroup, member_id: str) -> bool:
    limit = env.config.group_max_size
    member = group.members.get(member_id)
    if group.state is GroupState.EMPTY:
        return True
    if group.state is GroupState.PREPARING_REBALANCE:
        # Those who wait count, not the members: when the limit was lowered, the last to come back go.
        if member is not None and member.awaiting_join is not None:
            return True
        return group.awaiting_join_count < limit
    return member is not None or len(group.members) < limit


def _too_much(env: GroupEnv, group: ClassicGroup, attempt: JoinAttempt) -> ErrorCode | None:
    """Return whether the request's member is larger than a member may be, or than there is room for.

    Kafka has no such bounds. The answers are those that its clients can say something of: the first two end
    them with the error's own text, the third has them try again.
    """
    config, request = env.config, attempt.request
    size = size_of(attempt.new_member(request.member_id))
    present = group.members.get(request.member_id)
    added = size - (0 if present is None else present.counted_bytes)
    for name, most, held, error in (
        ("odradek.group.member.max.bytes", config.odradek_group_member_max_bytes, size, _TOO_LARGE),
        ("odradek.group.max.bytes", config.odradek_group_max_bytes, group.held.bytes + added, _GROUP_FULL),
        (
            "odradek.group.coordinator.max.bytes",
            config.odradek_group_coordinator_max_bytes,
            env.held.bytes + added,
            _BROKER_FULL,
        ),
    ):
        if added > 0 and held > most:
            logger.info(
                "group %s: a member of %d bytes is refused: %d would be over %s=%d",
                group.group_id,
                size,
                held,
                name,
                most,
            )
            return error
    return None


def give_up(env: GroupEnv, group: ClassicGroup, reply: Reply[JoinGroupResponse]) -> Outcome:
    """Forget a new member whose connection has gone before it was told that it is one."""
    for member in group.members.values():
        if member.awaiting_join is reply and member.is_new:
            break
    else:
        return NOTHING
    logger.info("group %s: the connection of new member %s has gone", group.group_id, member.member_id)
    drop_member(env, group, member)
    if group.state is GroupState.PREPARING_REBALANCE and group.all_joined():
        return complete_join(env, group)
    return NOTHING


def _turn_away(env: GroupEnv, group: ClassicGroup, member_id: str) -> Outcome:
    if member_id:
        env.cancel_timer("session", (group.group_id, member_id))
        group.remove(member_id)
    then = complete_join_if_all_joined(env, group)
    refusal = join_error(ErrorCode.GROUP_MAX_SIZE_REACHED)
    return Outcome(then.records, refusal, then.on_appended, then.on_failed)


def _as_prefix(name: str) -> str:
    """Cut a name so that a member id of it still fits the longest string of the protocol."""
    if len(name) <= _MAX_PREFIX_BYTES // 4:
        return name
    return name.encode()[:_MAX_PREFIX_BYTES].decode(errors="ignore")


def _join_without_id(env: GroupEnv, group: ClassicGroup, attempt: JoinAttempt) -> Outcome:
    request = attempt.request
    instance_id = request.group_instance_id
    named_after = attempt.caller.client_id if instance_id is None else instance_id
    member_id = f"{_as_prefix(named_after)}-{env.new_uuid()}"
    if instance_id is not None:
        present = group.static_members.get(instance_id)
        if present is not None:
            return _replace_static(env, group, attempt, group.members[present], member_id)
        return _add(env, group, attempt, member_id)
    if attempt.caller.api_version < FIRST_VERSION_REQUIRING_MEMBER_ID:
        return _add(env, group, attempt, member_id)
    # Not a member yet: clients that gave up and tried again, each time as somebody new, once filled groups
    # with members that nobody was (KIP-394).
    group.add_pending(member_id)
    env.set_timer(
        "session",
        (group.group_id, member_id),
        request.session_timeout_ms,
        lambda: env.settled(group, expire_session(env, group, member_id)),
    )
    return Outcome(response=join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id))


def _add(env: GroupEnv, group: ClassicGroup, attempt: JoinAttempt, member_id: str) -> Outcome:
    member = attempt.new_member(member_id)
    member.is_new = True
    if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
        group.new_member_added = True
    group.add(member, attempt.reply)
    # Its client, which has no id yet and cannot heartbeat, may give up and come as somebody else: a long
    # rebalance would fill with members that nobody is. Kafka: `NewMemberJoinTimeoutMs`.
    restart_session(env, group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
    return begin_or_complete(env, group, f"new member {member_id}; client reason: {attempt.reason}")


def _rejoin(env: GroupEnv, group: ClassicGroup, attempt: JoinAttempt, member: Member) -> Outcome:
    state = group.state
    unchanged = member.protocols == attempt.protocols
    leads = group.is_leader(member.member_id)
    if state is GroupState.COMPLETING_REBALANCE and unchanged:
        # It has not heard of the generation yet.
        return Outcome(response=join_success(group, member.member_id, with_members=leads))
    if state is GroupState.STABLE and unchanged and not leads:
        return Outcome(response=join_success(group, member.member_id, with_members=False))
    # A leader that joins a stable group asks for a new assignment: the topics may have changed.
    group.update(member, attempt.protocols, attempt.rebalance_timeout_ms, attempt.request.session_timeout_ms)
    # A request sent twice: the first is owed an answer too, and its client no longer waits for one.
    env.answer(group.take_join(member), join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
    group.park_join(member, attempt.reply)
    role = "leader" if leads else "member"
    return begin_or_complete(
        env, group, f"{role} {member.member_id} joins again; client reason: {attempt.reason}"
    )


def _replace_static(
    env: GroupEnv, group: ClassicGroup, attempt: JoinAttempt, old: Member, new_id: str
) -> Outcome:
    """A static member has been restarted: the same instance, which has forgotten its member id."""
    new = old.renamed(new_id)
    new.protocols = attempt.protocols
    new.rebalance_timeout_ms = attempt.rebalance_timeout_ms
    new.session_timeout_ms = attempt.request.session_timeout_ms
    logger.info("group %s: %s replaces static member %s", group.group_id, new_id, old.member_id)
    if group.state is GroupState.STABLE and group.vote(if_replaced=(old, new)) == group.protocol:
        return _replace_in_place(env, group, attempt, old, new)
    _swap(env, group, old, new)
    group.park_join(new, attempt.reply)
    if group.state is GroupState.PREPARING_REBALANCE:
        return complete_join_if_all_joined(env, group)
    # The leader may be assigning to the old id, or the chosen protocol changes.
    return begin(
        env, group, f"static member {new_id} came back with a change; client reason: {attempt.reason}"
    )


def _replace_in_place(
    env: GroupEnv, group: ClassicGroup, attempt: JoinAttempt, old: Member, new: Member
) -> Outcome:
    """Replace the member's id and nothing else: the assignment stays, and nobody has to rebalance."""
    leader_before = group.leader or ""
    members = [new if member is old else member for member in group.members.values()]
    value = group_value(group, members, {member.member_id: member.assignment for member in members})
    if value.leader == old.member_id:
        value.leader = new.member_id

    def appended() -> Outcome:
        _swap(env, group, old, new)
        leads = group.is_leader(new.member_id)
        if attempt.caller.api_version >= FIRST_VERSION_SKIPPING_ASSIGNMENT:
            response = join_success(group, new.member_id, with_members=leads)
            response.skip_assignment = leads
        else:
            # Told the leader's former id, a leader takes itself for a follower and does not assign.
            response = join_success(group, new.member_id, with_members=False)
            response.leader = leader_before
        return Outcome(response=response)

    return Outcome([group_record(group.group_id, value)], on_appended=appended)


def _swap(env: GroupEnv, group: ClassicGroup, old: Member, new: Member) -> None:
    env.answer(group.take_join(old), join_error(ErrorCode.FENCED_INSTANCE_ID, old.member_id))
    env.answer(
        group.take_sync(old),
        SyncGroupResponse(
            error_code=ErrorCode.FENCED_INSTANCE_ID, protocol_type=None, protocol_name=None, assignment=b""
        ),
    )
    env.cancel_timer("session", (group.group_id, old.member_id))
    group.replace_static(old, new)
    restart_session(env, group, new)
