"""A member of a classic consumer group, as a state machine.

    UNJOINED ──join sent──▶ JOINING ──generation came──▶ SYNCING ──assignment came──▶ STABLE
        ▲                      │                            │                           │
        └──────────────────────┴────── an error that `ANSWERS` maps to a reaction ──────┘

The coordinator answers Join, Sync, Heartbeat and OffsetCommit with error codes; `ANSWERS` says what each
means. What is not in the table is fatal: the caller raises it. A generation is identified by (number,
member id); an answer to a request of an older one must not undo the newer, so every reaction carries the
generation that it is about.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, Flag, auto
from typing import NamedTuple

from odradek.errors import ErrorCode as E

NO_GENERATION = -1
NO_MEMBER = ""


class MemberState(Enum):
    """The states of a member."""

    UNJOINED = auto()
    JOINING = auto()
    SYNCING = auto()
    STABLE = auto()


class Call(Enum):
    """The requests of a member."""

    JOIN = auto()
    SYNC = auto()
    HEARTBEAT = auto()
    COMMIT = auto()


class Reaction(Flag):
    """The consequences of an answer; there may be several."""

    NONE = 0
    FIND_COORDINATOR = auto()  # the group has another coordinator, or none at the moment
    RETRY = auto()  # the same call again, after the backoff
    RETRY_NOW = auto()  # the same call again, at once
    REJOIN = auto()  # the group is rebalancing, or the member must come in again
    DROP_GENERATION = auto()  # the generation is over; the member id stays
    DROP_MEMBER = auto()  # generation and member id are void: partitions are lost
    FATAL = auto()  # raise it; the member cannot go on


_R = Reaction
_ELSEWHERE = _R.FIND_COORDINATOR | _R.RETRY

#: (call, error) → reaction.
ANSWERS: dict[tuple[Call, E], Reaction] = {
    (Call.JOIN, E.COORDINATOR_LOAD_IN_PROGRESS): _R.RETRY,
    (Call.JOIN, E.COORDINATOR_NOT_AVAILABLE): _ELSEWHERE,
    (Call.JOIN, E.NOT_COORDINATOR): _ELSEWHERE,
    (Call.JOIN, E.UNKNOWN_MEMBER_ID): _R.DROP_MEMBER | _R.RETRY,
    (Call.JOIN, E.ILLEGAL_GENERATION): _R.DROP_GENERATION | _R.RETRY,
    (Call.JOIN, E.MEMBER_ID_REQUIRED): _R.RETRY_NOW,
    (Call.JOIN, E.REBALANCE_IN_PROGRESS): _R.RETRY,
    (Call.SYNC, E.COORDINATOR_LOAD_IN_PROGRESS): _R.REJOIN | _R.RETRY,
    (Call.SYNC, E.COORDINATOR_NOT_AVAILABLE): _R.FIND_COORDINATOR | _R.REJOIN | _R.RETRY,
    (Call.SYNC, E.NOT_COORDINATOR): _R.FIND_COORDINATOR | _R.REJOIN | _R.RETRY,
    (Call.SYNC, E.REBALANCE_IN_PROGRESS): _R.REJOIN,
    (Call.SYNC, E.UNKNOWN_MEMBER_ID): _R.DROP_MEMBER | _R.REJOIN,
    (Call.SYNC, E.ILLEGAL_GENERATION): _R.DROP_GENERATION | _R.REJOIN,
    (Call.HEARTBEAT, E.COORDINATOR_LOAD_IN_PROGRESS): _R.RETRY,
    (Call.HEARTBEAT, E.COORDINATOR_NOT_AVAILABLE): _ELSEWHERE,
    (Call.HEARTBEAT, E.NOT_COORDINATOR): _ELSEWHERE,
    (Call.HEARTBEAT, E.REBALANCE_IN_PROGRESS): _R.REJOIN,
    (Call.HEARTBEAT, E.UNKNOWN_MEMBER_ID): _R.DROP_MEMBER | _R.REJOIN,
    (Call.HEARTBEAT, E.ILLEGAL_GENERATION): _R.DROP_GENERATION | _R.REJOIN,
    (Call.COMMIT, E.COORDINATOR_LOAD_IN_PROGRESS): _R.RETRY,
    (Call.COMMIT, E.UNKNOWN_TOPIC_OR_PARTITION): _R.RETRY,
    (Call.COMMIT, E.COORDINATOR_NOT_AVAILABLE): _ELSEWHERE,
    (Call.COMMIT, E.NOT_COORDINATOR): _ELSEWHERE,
    (Call.COMMIT, E.REQUEST_TIMED_OUT): _ELSEWHERE,
    (Call.COMMIT, E.REBALANCE_IN_PROGRESS): _R.REJOIN,
    (Call.COMMIT, E.UNKNOWN_MEMBER_ID): _R.DROP_MEMBER | _R.REJOIN,
    (Call.COMMIT, E.ILLEGAL_GENERATION): _R.DROP_GENERATION | _R.REJOIN,
}


def reaction_to(call: Call, code: E) -> Reaction:
    """Return the consequences of an answer."""
    return Reaction.NONE if code == E.NONE else ANSWERS.get((call, code), Reaction.FATAL)


class Generation(NamedTuple):
    """A member's place in one generation of the group."""

    number: int
    member_id: str
    protocol: str | None = None


NO_PLACE = Generation(NO_GENERATION, NO_MEMBER)


@dataclass
class Membership:
    """One member.

    Attributes:
        state: see `MemberState`.
        generation: current place in the group; number -1 while there is none.
        rejoin_needed: the next poll has to join (again).
        lost: the place was taken away: the partitions belong to someone else by now.
    """

    state: MemberState = MemberState.UNJOINED
    generation: Generation = NO_PLACE
    rejoin_needed: bool = True
    lost: bool = False

    @property
    def member_id(self) -> str:
        """Empty before the coordinator gave one."""
        return self.generation.member_id

    @property
    def in_group(self) -> bool:
        """Return whether heartbeats are due."""
        return (
            self.state in (MemberState.SYNCING, MemberState.STABLE)
            and self.generation.number != NO_GENERATION
        )

    def join_sent(self) -> None:
        """A JoinGroup is on its way."""
        self.state = MemberState.JOINING

    def member_id_given(self, member_id: str) -> None:
        """The coordinator gave an id and wants the join repeated with it (KIP-394)."""
        self.generation = Generation(NO_GENERATION, member_id)

    def joined(self, number: int, member_id: str, protocol: str | None) -> None:
        """The new generation."""
        self.state = MemberState.SYNCING
        self.generation = Generation(number, member_id, protocol)
        self.rejoin_needed = False

    def synced(self) -> bool:
        """The assignment came. Returns whether it still counts."""
        if self.state is not MemberState.SYNCING:
            return False
        self.state = MemberState.STABLE
        self.lost = False
        return True

    def request_rejoin(self) -> None:
        """The subscription or the group changed."""
        self.rejoin_needed = True

    def answered(self, call: Call, code: E, about: Generation) -> Reaction:
        """Take an error.

        Args:
            about: the generation in which the call was made.
        """
        reaction = reaction_to(call, code)
        current = about == self.generation
        if reaction & (Reaction.DROP_MEMBER | Reaction.DROP_GENERATION):
            if not current and call is not Call.JOIN:
                # The member has gone on since; only the call itself failed.
                return Reaction.NONE if call is Call.HEARTBEAT else Reaction.REJOIN
            had_place = self.generation.number != NO_GENERATION
            keep_id = not reaction & Reaction.DROP_MEMBER
            self.generation = Generation(NO_GENERATION, self.generation.member_id if keep_id else NO_MEMBER)
            self.state = MemberState.UNJOINED
            self.rejoin_needed = True
            self.lost = self.lost or had_place
        elif reaction & Reaction.REJOIN and (current or call is Call.SYNC):
            self.rejoin_needed = True
        if reaction & Reaction.FATAL and call in (Call.JOIN, Call.SYNC):
            # What fails a commit or a heartbeat leaves the member where it is, as in ConsumerCoordinator:
            # its next heartbeat says whether it still has its place.
            self.state = MemberState.UNJOINED
        return reaction

    def interrupted(self) -> None:
        """A join or sync did not come to its end (the connection broke): it has to be done again."""
        if self.state in (MemberState.JOINING, MemberState.SYNCING):
            self.state = MemberState.UNJOINED
        self.rejoin_needed = True

    def left(self, *, lost: bool = False) -> None:
        """The member left (or was too slow and left): its partitions are for others."""
        self.lost = self.lost or lost
        self.generation = NO_PLACE
        self.state = MemberState.UNJOINED
        self.rejoin_needed = True
