"""A classic group: its members, their leader, the protocol they agreed on.

This is the volatile picture that requests and timers act on. What survives a restart is the
`GroupMetadataValue` that `shard` keeps beside it; a group is rebuilt from that by `from_record`.

Invariants, checked by `tests/coordinators`:

- a group with members has exactly one leader, and the leader is a member;
- no two members have the same `group_instance_id`; `static_members` maps each to its present member id;
- the generation never goes back;
- an id is pending or a member, never both;
- a member that awaits a join answer exists only in PreparingRebalance.
"""

from __future__ import annotations

from odradek.coordinators.groups.held_bytes import PER_PENDING_ID, HeldBytes, size_of
from odradek.coordinators.groups.member import Member, Protocols
from odradek.coordinators.groups.states import LEGAL_MOVES, GroupState
from odradek.coordinators.reply import Reply
from odradek.errors import ErrorCode, FencedInstanceIdError, ProtocolError, UnknownMemberIdError
from odradek.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from odradek.wire.messages.sync_group import SyncGroupResponse
from odradek.wire.schemas.consumer_offsets import GroupMetadataValue
from odradek.wire.schemas.consumer_protocol import ConsumerProtocolSubscription

CONSUMER_PROTOCOL_TYPE = "consumer"

MAX_SUBSCRIBED_TOPICS = 100_000
"""Of topics in the subscriptions of all members. Beyond it a group counts as subscribed to any topic: to
decode more would hold up the event loop."""


class ClassicGroup:
    """One group; see the module for its invariants.

    Attributes:
        group_id: its name.
        state: see `states`.
        previous_state: the state before; a rebalance that comes from Empty is the initial one.
        state_timestamp_ms: when it got into `state`, wall clock; `None` when the log does not say (records
            older than Kafka 2.1).
        generation: of the present or last membership; 0 before the first.
        protocol_type: what the members speak; `None` for a group that only stores offsets.
        protocol: the strategy chosen for this generation; `None` before the first, and once it is Empty.
        leader: the member that assigns; a key of `members`, `None` only while there are none.
        members: by member id, in the order of their coming.
        static_members: member id by instance id.
        pending_members: ids that were given out with MEMBER_ID_REQUIRED and have not come back yet.
        pending_sync: members of this generation that have not sent SyncGroup.
        held: the bytes that its members and pending ids take.
        new_member_added: whether somebody joined during the initial delay, so that it is extended.
    """

    __slots__ = (
        "_awaiting_join",
        "_support",
        "generation",
        "group_id",
        "held",
        "leader",
        "members",
        "new_member_added",
        "pending_members",
        "pending_sync",
        "previous_state",
        "protocol",
        "protocol_type",
        "state",
        "state_timestamp_ms",
        "static_members",
    )

    def __init__(self, group_id: str, now_ms: int | None, held_by_all: HeldBytes | None = None) -> None:
        self.group_id = group_id
        self.held = HeldBytes(held_by_all)
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.DEAD
        self.state_timestamp_ms = now_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.pending_members: set[str] = set()
        self.pending_sync: set[str] = set()
        self.new_member_added = False
        # How many members have an `awaiting_join`. Kept as a number, since each JoinGroup asks for it.
        self._awaiting_join = 0
        # How many members can do each protocol; no name stands with 0, so that what members once named goes.
        self._support: dict[str, int] = {}

    @classmethod
    def from_record(
        cls, group_id: str, value: GroupMetadataValue, held_by_all: HeldBytes | None = None
    ) -> ClassicGroup:
        """The group as a record of the log describes it: Stable, or Empty without members."""
        timestamp = value.current_state_timestamp
        group = cls(group_id, None if timestamp == -1 else timestamp, held_by_all)
        group.generation = value.generation
        group.protocol_type = value.protocol_type or None
        group.protocol = value.protocol
        group.leader = value.leader
        # A group is written when it becomes Stable or Empty, so it is one of the two.
        if value.members:
            group.state = GroupState.STABLE
        for stored in value.members:
            session_timeout_ms = stored.session_timeout
            rebalance_timeout_ms = stored.rebalance_timeout
            group.add(
                Member(
                    stored.member_id,
                    group_instance_id=stored.group_instance_id,
                    client_id=stored.client_id,
                    client_host=stored.client_host,
                    # -1 in values of version 0: JoinGroup 0 knew the session timeout alone.
                    rebalance_timeout_ms=session_timeout_ms
                    if rebalance_timeout_ms == -1
                    else rebalance_timeout_ms,
                    session_timeout_ms=session_timeout_ms,
                    protocol_type=value.protocol_type,
                    # The log has the chosen protocol alone; a member names all of its own when it rejoins.
                    protocols=[(value.protocol or "", bytes(stored.subscription))],
                    assignment=bytes(stored.assignment),
                )
            )
        # Whatever the log says, the invariants hold: a leader that is no member could never assign.
        if group.leader not in group.members:
            group.leader = next(iter(group.members), None)
        return group

    # State

    def move_to(self, state: GroupState, now_ms: int) -> None:
        """Change the state, by a legal move."""
        assert state in LEGAL_MOVES[self.state], f"group {self.group_id}: {self.state} to {state}"
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = now_ms

    def is_leader(self, member_id: str) -> bool:
        """Return whether `member_id` leads."""
        return self.leader == member_id

    # Membership

    def add(self, member: Member, reply: Reply[JoinGroupResponse] | None = None) -> None:
        """Take a member in; `reply` is the answer owed to its JoinGroup."""
        instance_id = member.group_instance_id
        if instance_id is not None:
            assert instance_id not in self.static_members, f"{instance_id} is in {self.group_id} already"
            self.static_members[instance_id] = member.member_id
        # The first to come decides what kind of group this is, also where another kind left it Empty.
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._count_support(member, 1)
        self.park_join(member, reply)
        self._discard_pending(member.member_id)
        self.count_bytes(member)

    def remove(self, member_id: str) -> Member | None:
        """Forget a member or a pending id; the longest-standing member takes over from a leader that goes."""
        self._discard_pending(member_id)
        self.pending_sync.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self.held.add(-member.counted_bytes)
        self._count_support(member, -1)
        if member.awaiting_join is not None:
            self._awaiting_join -= 1
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def replace_static(self, old: Member, new: Member) -> None:
        """Put `new`, the same instance under a new id, in the place of `old`, which is owed nothing."""
        assert new.group_instance_id is not None and new.group_instance_id == old.group_instance_id
        self._count_support(old, -1)
        self._count_support(new, 1)
        # In the old place, so that the order of the members stays.
        self.members = {
            (new.member_id if member is old else member_id): (new if member is old else member)
            for member_id, member in self.members.items()
        }
        self.static_members[new.group_instance_id] = new.member_id
        self.held.add(-old.counted_bytes)
        self.count_bytes(new)
        self.pending_sync.discard(old.member_id)
        # A leader that was started again leads on: its instance is the same (KIP-345).
        if self.leader == old.member_id:
            self.leader = new.member_id

    def update(
        self, member: Member, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int
    ) -> None:
        """Take over what a member said in a further JoinGroup."""
        # Taken out with the old protocols, put in with the new: `_support` must not drift.
        self._count_support(member, -1)
        member.protocols = protocols
        self._count_support(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        self.count_bytes(member)

    def add_pending(self, member_id: str) -> None:
        """Remember an id that was given out."""
        self.pending_members.add(member_id)
        self.held.add(PER_PENDING_ID + len(member_id))

    def _discard_pending(self, member_id: str) -> None:
        if member_id in self.pending_members:
            self.pending_members.discard(member_id)
            self.held.add(-PER_PENDING_ID - len(member_id))

    def count_bytes(self, member: Member) -> None:
        """Count anew what a member takes, after it has changed."""
        size = size_of(member)
        self.held.add(size - member.counted_bytes)
        member.counted_bytes = size

    def check_member(self, member_id: str, group_instance_id: str | None) -> Member:
        """The member that a request speaks for.

        Raises:
            UnknownMemberIdError: there is no such member, or no such instance.
            FencedInstanceIdError: the instance has a newer member id by now.
        """
        if group_instance_id is not None:
            present = self.static_members.get(group_instance_id)
            if present is None:
                raise UnknownMemberIdError
            # Two processes with one `group.instance.id`: the later process has it (KIP-345).
            if present != member_id:
                raise FencedInstanceIdError
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberIdError
        return member

    # Parked answers

    def park_join(self, member: Member, reply: Reply[JoinGroupResponse] | None) -> None:
        """Owe `member` the answer to its JoinGroup; an earlier reply, to the same request, is dropped."""
        self._awaiting_join += (reply is not None) - (member.awaiting_join is not None)
        member.awaiting_join = reply

    def take_join(self, member: Member) -> Reply[JoinGroupResponse] | None:
        """The answer owed to the member's JoinGroup, which is no longer owed."""
        reply = member.awaiting_join
        self.park_join(member, None)
        return reply

    def take_sync(self, member: Member) -> Reply[SyncGroupResponse] | None:
        """The answer owed to the member's SyncGroup, which is no longer owed."""
        reply, member.awaiting_sync = member.awaiting_sync, None
        return reply

    @property
    def awaiting_join_count(self) -> int:
        """The number of members that wait for the answer to JoinGroup."""
        return self._awaiting_join

    def all_joined(self) -> bool:
        """Return whether nobody has to be waited for before a generation can be formed."""
        return self._awaiting_join == len(self.members) and not self.pending_members

    def rebalance_timeout_ms(self) -> int:
        """Return how long a rebalance waits: as long as its most patient member asks for."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # Agreement

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Return whether somebody with these protocols could be in the group."""
        # Nobody is in it who could disagree. Kafka: `ClassicGroup.supportsProtocols`.
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        everybody = len(self.members)
        return self.protocol_type == protocol_type and any(
            self._support.get(name, 0) == everybody for name, _ in protocols
        )

    def vote(self, *, if_replaced: tuple[Member, Member] | None = None) -> str:
        """The protocol that most members like best among those that all support.

        Args:
            if_replaced: (old, new): as it would be with `new` in the place of `old`.
        """
        support = self._support
        members = list(self.members.values())
        if if_replaced is not None:
            support = dict(support)
            old, new = if_replaced
            members = [new if member is old else member for member in members]
            _count(support, old, -1)
            _count(support, new, 1)
        everybody = len(members)
        candidates = {name for name, count in support.items() if count == everybody}
        votes: dict[str, int] = {}
        for member in members:
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=votes.__getitem__)

    def elect_joined_leader(self) -> bool:
        """Elect a member that has joined as leader, unless the leader has; return false when none has."""
        if self.leader is None:
            return False
        if self.members[self.leader].awaiting_join is not None:
            return True
        for member in self.members.values():
            if member.awaiting_join is not None:
                self.leader = member.member_id
                return True
        return False

    def next_generation(self, now_ms: int) -> None:
        """Form a new generation of the present members."""
        # Also without members: whoever still has the last generation is to be told ILLEGAL_GENERATION.
        self.generation += 1
        self.pending_sync.clear()
        if self.members:
            self.protocol = self.vote()
            self.move_to(GroupState.COMPLETING_REBALANCE, now_ms)
        else:
            self.protocol = None
            self.move_to(GroupState.EMPTY, now_ms)

    def members_for_leader(self) -> list[JoinGroupResponseMember]:
        """Everybody with their metadata, as the leader needs it to assign."""
        assert self.protocol is not None
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata(self.protocol),
            )
            for member in self.members.values()
        ]

    def subscribed_topics(self) -> set[str] | None:
        """The topics that a consumer group's members subscribe to; `None` when that cannot be known."""
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        if not self.members:
            return set()
        if self.protocol is None:
            return None
        topics: set[str] = set()
        left = MAX_SUBSCRIBED_TOPICS
        for member in self.members.values():
            try:
                # Two bytes of version, then version 0's fields, with which every version begins.
                subscription, _ = ConsumerProtocolSubscription.decode_received(
                    member.metadata(self.protocol), 0, 2, left
                )
            except ProtocolError:
                return None
            topics.update(subscription.topics)
            left -= len(subscription.topics)
        return topics

    def _count_support(self, member: Member, by: int) -> None:
        _count(self._support, member, by)


def _count(support: dict[str, int], member: Member, by: int) -> None:
    # A name may stand twice in a hostile request; it counts once.
    for name in {name for name, _ in member.protocols}:
        count = support.get(name, 0) + by
        if count:
            support[name] = count
        else:
            del support[name]


def join_error(error: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    """A JoinGroup response that says `error`."""
    return JoinGroupResponse(
        error_code=error,
        generation_id=-1,
        protocol_type=None,
        protocol_name=None,
        leader="",
        member_id=member_id,
    )


def sync_error(error: ErrorCode) -> SyncGroupResponse:
    """A SyncGroup response that says `error`."""
    return SyncGroupResponse(error_code=error, protocol_type=None, protocol_name=None, assignment=b"")
