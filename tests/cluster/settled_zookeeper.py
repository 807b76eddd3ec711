"""A session with ZooKeeper whose events have all arrived when a write returns, as with stores in a process.

The server sends a session the events of its own write before the answer. So they are in one of two queues by
then, and what is put behind them comes when they are done.
"""

from __future__ import annotations

import threading
from typing import Any

from odradek.cluster.store.store import MetadataStore
from odradek.cluster.store.zookeeper import ZooKeeperStore

#: A watcher may write, and its write may have a watcher in turn.
LEVELS = 3


def settle(store: ZooKeeperStore, limit_s: float = 30) -> None:
    """Wait until the events that have arrived were handed over, and those that this has caused."""
    for _ in range(LEVELS):
        done = threading.Event()
        store.connection.dispatch(lambda done=done: store.watchers.later(done.set))
        assert done.wait(limit_s), "the thread that calls watchers hangs"


class _Settled(ZooKeeperStore):
    """Waits after each write; not in a watcher, which would wait for itself."""

    is_made = False

    def _write(self, *args: Any) -> Any:
        try:
            return super()._write(*args)
        finally:
            if self.is_made and threading.current_thread().name != "zookeeper-watches":
                settle(self)


def settled(connect: str) -> MetadataStore:
    """A session with all that a test needs to see its events in order."""
    store = _Settled(connect, session_timeout_ms=10_000)
    store.is_made = True
    return store
