"""A metadata store in memory, with as many sessions as wanted: for tests and simulations."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.cluster.local import LocalSession
from odradek.cluster.store import Delete, Op, OpResult, SessionExpired, WatchEvent
from odradek.cluster.tree import NodeTree
from odradek.util.clock import Clock, SystemClock


class MemoryServer:
    """The tree that several `MemoryStore` sessions share.

    Args:
        clock: gives `ctime` and `mtime`.
        auto_deliver: watch events reach the sessions at once, before the write returns. Without it they wait
            for `deliver`, as they would on a slow network.
    """

    def __init__(self, clock: Clock | None = None, auto_deliver: bool = True) -> None:
        self.clock: Clock = clock if clock is not None else SystemClock()
        self.tree = NodeTree()
        self.auto_deliver = auto_deliver
        self.sessions: dict[int, MemoryStore] = {}
        self._last_session = 0

    def next_session_id(self) -> int:
        """An id for a new session."""
        self._last_session += 1
        return self._last_session

    def commit(self, ops: Sequence[Op], session_id: int) -> list[OpResult]:
        """Do a transaction for a session and tell all sessions."""
        plan = self.tree.plan(ops, session_id, self.clock.now_ms())
        self.tree.apply(plan)
        self._tell(plan.events)
        return list(plan.results)

    def end_session(self, session_id: int) -> None:
        """Remove a session and its ephemeral nodes."""
        self.sessions.pop(session_id, None)
        paths = self.tree.ephemerals_of(session_id)
        if paths:
            plan = self.tree.plan([Delete(path) for path in sorted(paths)], session_id, self.clock.now_ms())
            self.tree.apply(plan)
            self._tell(plan.events)

    def deliver(self) -> None:
        """Hand the waiting watch events to all sessions."""
        for session in list(self.sessions.values()):
            session.deliver()

    def _tell(self, events: Sequence[WatchEvent]) -> None:
        for session in list(self.sessions.values()):
            session.collect(events)
        if self.auto_deliver:
            self.deliver()


class MemoryStore(LocalSession):
    """One session with a `MemoryServer`; with a server of its own when none is given."""

    def __init__(self, server: MemoryServer | None = None) -> None:
        self.server = server if server is not None else MemoryServer()
        super().__init__(self.server.tree, self.server.next_session_id())
        self.server.sessions[self._session_id] = self

    def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        """See `MetadataStore.multi`."""
        if not self._open:
            raise SessionExpired(ops[0].path if ops else "/", "the session with the metadata store is over")
        return self.server.commit(ops, self._session_id)

    def close(self) -> None:
        """See `MetadataStore.close`."""
        if self._open:
            self._open = False
            self._watches.clear()
            self.server.end_session(self._session_id)

    def expire(self) -> None:
        """End the session as a server does that has not heard of it: for tests."""
        if self._open:
            self.close()
            for callback in self._expired_callbacks:
                callback()

    def collect(self, events: Sequence[WatchEvent]) -> None:
        """Queue what this session's watches see of `events`."""
        self._watches.collect(events)

    def deliver(self) -> None:
        """Hand this session its waiting events."""
        self._watches.deliver()
