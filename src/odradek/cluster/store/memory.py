"""A metadata store in memory, with as many sessions as wanted: for tests and simulations."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from odradek.cluster.store.local import LocalSession
from odradek.cluster.store.store import (
    Delete,
    NodeContent,
    Op,
    OpResult,
    SessionExpired,
    Stat,
    Watcher,
    WatchEvent,
)
from odradek.cluster.store.tree import NodeTree
from odradek.util.clock import Clock, SystemClock


class MemoryServer:
    """The tree that several `MemoryStore` sessions share, each perhaps in a thread of its own.

    One thread at a time is inside, events' delivery included, so that all sessions see them in the order of
    the changes; a watcher must not wait for another thread.

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
        self.lock = threading.RLock()
        self._last_session = 0

    def next_session_id(self) -> int:
        """An id for a new session."""
        with self.lock:
            self._last_session += 1
            return self._last_session

    def commit(self, ops: Sequence[Op], session_id: int) -> list[OpResult]:
        """Do a transaction for a session and tell all sessions."""
        with self.lock:
            plan = self.tree.plan(ops, session_id, self.clock.now_ms())
            self.tree.apply(plan)
            self._tell(plan.events)
            return list(plan.results)

    def end_session(self, session_id: int) -> None:
        """Remove a session and its ephemeral nodes."""
        with self.lock:
            self.sessions.pop(session_id, None)
            paths = self.tree.ephemerals_of(session_id)
            if paths:
                ops = [Delete(path) for path in sorted(paths)]
                plan = self.tree.plan(ops, session_id, self.clock.now_ms())
                self.tree.apply(plan)
                self._tell(plan.events)

    def deliver(self) -> None:
        """Hand the waiting watch events to all sessions."""
        with self.lock:
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
        with self.server.lock:
            if not self._open:
                where = ops[0].path if ops else "/"
                raise SessionExpired(where, "the session with the metadata store is over")
            return self.server.commit(ops, self._session_id)

    def get(self, path: str, watch: Watcher | None = None) -> NodeContent:
        """See `MetadataStore.get`."""
        with self.server.lock:
            return super().get(path, watch)

    def exists(self, path: str, watch: Watcher | None = None) -> Stat | None:
        """See `MetadataStore.exists`."""
        with self.server.lock:
            return super().exists(path, watch)

    def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        """See `MetadataStore.children`."""
        with self.server.lock:
            return super().children(path, watch)

    def get_many(self, paths: Sequence[str]) -> list[NodeContent | None]:
        """See `MetadataStore.get_many`."""
        with self.server.lock:
            return super().get_many(paths)

    def exists_many(self, paths: Sequence[str]) -> list[Stat | None]:
        """See `MetadataStore.exists_many`."""
        with self.server.lock:
            return super().exists_many(paths)

    def watch_persistent(self, path: str, watcher: Watcher, recursive: bool = False) -> None:
        """See `MetadataStore.watch_persistent`."""
        with self.server.lock:
            super().watch_persistent(path, watcher, recursive)

    def unwatch(self, path: str, watcher: Watcher) -> None:
        """See `MetadataStore.unwatch`."""
        with self.server.lock:
            super().unwatch(path, watcher)

    def close(self) -> None:
        """See `MetadataStore.close`."""
        with self.server.lock:
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
