"""The broker's settings that groups obey, under Kafka's names in snake case."""

from __future__ import annotations

from dataclasses import dataclass

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""How long a member that has never been in a generation may stay without another JoinGroup.

It does not know its id yet and cannot heartbeat, and a connection that waits for its answer does not show
that the peer has gone.
"""


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """The configs of a group coordinator; times in milliseconds unless the name says otherwise."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2**31 - 1
    odradek_group_member_max_bytes: int = 1_048_576
    odradek_group_max_bytes: int = 16 * 1_048_576
    odradek_group_coordinator_max_bytes: int = 128 * 1_048_576
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_minutes: int = 7 * 24 * 60
    offsets_retention_check_interval_ms: int = 600_000
    offsets_commit_timeout_ms: int = 5_000

    @property
    def offsets_retention_ms(self) -> int:
        """`offsets_retention_minutes` in milliseconds."""
        return self.offsets_retention_minutes * 60_000
