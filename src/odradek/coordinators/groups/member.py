"""One member of a classic group."""

from __future__ import annotations

from collections.abc import Collection

from odradek.coordinators.reply import Reply
from odradek.wire.messages.join_group import JoinGroupResponse
from odradek.wire.messages.sync_group import SyncGroupResponse

Protocols = list[tuple[str, bytes]]
"""Assignment strategies that a member can do, best first, each with the member's metadata for it."""


class Member:
    """A member as the coordinator sees it.

    Attributes:
        member_id: given out by the coordinator.
        group_instance_id: the name that a static member keeps across restarts (KIP-345), or `None`.
        client_id: of the JoinGroup that brought it in.
        client_host: the peer's address in Java's form, `/127.0.0.1`.
        rebalance_timeout_ms: how long a rebalance waits for it.
        session_timeout_ms: how long it may be silent.
        protocol_type: `consumer`, `connect`, …
        protocols: see `Protocols`.
        assignment: what the leader gave it in the current generation; opaque.
        awaiting_join: the answer owed to its JoinGroup.
        awaiting_sync: the answer owed to its SyncGroup.
        is_new: whether it has not been in a generation yet; its client may not know its id then.
        counted_bytes: what its group counts for it, see `held_bytes`.
    """

    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "client_host",
        "client_id",
        "counted_bytes",
        "group_instance_id",
        "is_new",
        "member_id",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
    )

    def __init__(
        self,
        member_id: str,
        *,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.assignment = assignment
        self.awaiting_join: Reply[JoinGroupResponse] | None = None
        self.awaiting_sync: Reply[SyncGroupResponse] | None = None
        self.is_new = False
        self.counted_bytes = 0

    def metadata(self, protocol: str) -> bytes:
        """Its metadata for `protocol`, which it must support."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise AssertionError(f"member {self.member_id} does not support protocol {protocol}")

    def vote(self, candidates: Collection[str]) -> str:
        """The first of its protocols that everybody supports."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise AssertionError(f"member {self.member_id} supports none of {sorted(candidates)}")

    def is_parked(self) -> bool:
        """Return whether an answer is owed to it, so that its silence means nothing.

        A new member can be given up even so: its client may have gone while the connection waits.
        """
        if self.is_new:
            return False
        return self.awaiting_join is not None or self.awaiting_sync is not None

    def renamed(self, member_id: str) -> Member:
        """The same static member under a new id, with nothing owed to it."""
        return Member(
            member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            protocol_type=self.protocol_type,
            protocols=self.protocols,
            assignment=self.assignment,
        )
