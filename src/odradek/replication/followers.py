"""The followers of a partition, as its leader knows them."""

from __future__ import annotations

from dataclasses import dataclass

NEVER = -(2**60)
"""As a time: so long ago that it is beyond every limit."""


@dataclass(slots=True)
class Follower:
    """One other replica, as the leader knows it.

    Attributes:
        log_end_offset: the follower's log end, as its last fetch told; -1 before the first.
        log_start_offset: likewise.
        last_caught_up_ms: when it last had everything that the leader had at that time; `NEVER` while it has
            not since this leadership began.
        last_fetch_ms: when it last fetched.
        last_fetch_leader_log_end: the leader's log end at that fetch; a next fetch from there or behind it
            shows that the follower had all there was at `last_fetch_ms`. -1 before the first.
        broker_epoch: of the life of its broker in which it last fetched, -1 where it does not say (before
            Fetch 15).
    """

    log_end_offset: int = -1
    log_start_offset: int = -1
    last_caught_up_ms: int = NEVER
    last_fetch_ms: int = 0
    last_fetch_leader_log_end: int = -1
    broker_epoch: int = -1
