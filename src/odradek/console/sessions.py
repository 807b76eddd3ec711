"""Sessions by the cookie of a browser, and how often a login may fail. No I/O."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from odradek.console.watch import Watch

if TYPE_CHECKING:
    from odradek.client.aio.admin import AsyncAdmin
    from odradek.util.clock import Clock

IDLE_MS = 12 * 3_600_000
MOST_SESSIONS = 1000
FAILURES_A_MINUTE = 10
MOST_ADDRESSES = 10_000


@dataclass
class Session:
    """One login.

    Attributes:
        session_id: what the cookie has.
        csrf: what each form of the session has to send back.
        user: the SASL user; None for a login by token.
        admin: the client that asks the cluster for this session.
        notices: what the next page tells: (kind, text), kinds are 'done' and 'problem'.
        last_seen_ms: monotonic.
        watch: what this session has looked at, and how it was before.
        client_configs: for further clients of this session; a password may be in them.
        tails: how many topics it follows now.
        is_over: whether it has ended.
    """

    session_id: str
    csrf: str
    user: str | None
    admin: AsyncAdmin
    last_seen_ms: float
    watch: Watch
    notices: list[tuple[str, str]] = field(default_factory=list)
    client_configs: Mapping[str, Any] = field(default_factory=dict, repr=False)
    tails: int = 0
    is_over: bool = False


class Sessions:
    """The sessions of a console, the least recently used first.

    Args:
        clock: for the end of those that are idle.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_id: dict[str, Session] = {}

    def open(
        self,
        user: str | None,
        admin: AsyncAdmin,
        client_configs: Mapping[str, Any] | None = None,
        watch: Watch | None = None,
    ) -> Session:
        """Begin a session for somebody whose login was right.

        Args:
            user: None for a login by token.
            admin: the client that asks the cluster.
            client_configs: for further clients.
            watch: the one that sessions with this client share; None for one of its own.
        """
        session = Session(
            secrets.token_urlsafe(32),
            secrets.token_urlsafe(32),
            user,
            admin,
            self._clock.monotonic_ms(),
            watch or Watch(admin, self._clock),
        )
        session.client_configs = client_configs or {}
        self._by_id[session.session_id] = session
        return session

    def get(self, session_id: str) -> Session | None:
        """Return the session of a cookie, None if there is none (any more)."""
        session = self._by_id.get(session_id)
        if session is None or self._is_over(session):
            return None
        session.last_seen_ms = self._clock.monotonic_ms()
        # The most recently used stand last.
        self._by_id[session_id] = self._by_id.pop(session_id)
        return session

    def remove(self, session_id: str) -> Session | None:
        """End a session; it is returned, so that its client can be closed."""
        session = self._by_id.pop(session_id, None)
        if session is not None:
            session.is_over = True
        return session

    def take_over(self) -> list[Session]:
        """End and return the sessions that were idle too long, and the oldest of too many."""
        over = [session for session in self._by_id.values() if self._is_over(session)]
        live = [session for session in self._by_id.values() if not self._is_over(session)]
        over += live[: max(0, len(live) - MOST_SESSIONS)]
        for session in over:
            self.remove(session.session_id)
        return over

    def take_all(self) -> list[Session]:
        """End and return all sessions."""
        sessions = list(self._by_id.values())
        for session in sessions:
            self.remove(session.session_id)
        return sessions

    def _is_over(self, session: Session) -> bool:
        return self._clock.monotonic_ms() - session.last_seen_ms > IDLE_MS


class LoginThrottle:
    """Counts failed logins by address: beyond some a minute, further ones are not even looked at.

    Args:
        clock: its monotonic time counts.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: dict[str, deque[float]] = {}

    def may_try(self, address: str) -> bool:
        """Return whether a login from an address is looked at now."""
        failures = self._failures.get(address)
        if failures is None:
            return True
        while failures and self._clock.monotonic_ms() - failures[0] > 60_000:
            failures.popleft()
        return len(failures) < FAILURES_A_MINUTE

    def failed(self, address: str) -> None:
        """Count a failed login."""
        failures = self._failures.pop(address, deque())
        failures.append(self._clock.monotonic_ms())
        self._failures[address] = failures
        if len(self._failures) > MOST_ADDRESSES:
            del self._failures[next(iter(self._failures))]
