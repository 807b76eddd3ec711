"""The states of a classic group, and the legal moves between them.

    Empty                No members. There may be committed offsets, and members that were given an id and
                         have not come back with it. A group that only stores offsets stays here for ever.
    PreparingRebalance   A rebalance has begun: the coordinator waits until every member has sent JoinGroup,
                         or their rebalance timeout has passed. Heartbeats are answered REBALANCE_IN_PROGRESS.
    CompletingRebalance  A new generation has been formed and every member knows it; the coordinator waits
                         for the leader's assignment. SyncGroup of the others is parked.
    Stable               The assignment is in the log; SyncGroup is answered at once.
    Dead                 Removed or unloaded: nothing leads out of it; clients look for the coordinator again.

            first member joins              all joined, or time is up
    Empty ───────────────────► Preparing ───────────────────────────► Completing
      ▲                        Rebalance ◄─────────────────────────── Rebalance
      │   nobody is left           │  ▲   a member joins, leaves or dies   │
      └────────────────────────────┘  │                                    │ assignment appended
                                      └──────────── Stable ◄───────────────┘
                                   a member joins, leaves or dies

Every state may become Dead.
"""

from __future__ import annotations

from enum import Enum


class GroupState(Enum):
    """A state; the value is its name in DescribeGroups and ListGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_S = GroupState

LEGAL_MOVES: dict[GroupState, frozenset[GroupState]] = {
    _S.EMPTY: frozenset({_S.PREPARING_REBALANCE, _S.DEAD}),
    _S.PREPARING_REBALANCE: frozenset({_S.COMPLETING_REBALANCE, _S.EMPTY, _S.DEAD}),
    _S.COMPLETING_REBALANCE: frozenset({_S.STABLE, _S.PREPARING_REBALANCE, _S.DEAD}),
    _S.STABLE: frozenset({_S.PREPARING_REBALANCE, _S.DEAD}),
    _S.DEAD: frozenset({_S.DEAD}),
}


def can_rebalance(state: GroupState) -> bool:
    """Return whether a rebalance may begin in `state`; while one is being prepared, none begins."""
    return _S.PREPARING_REBALANCE in LEGAL_MOVES[state]
