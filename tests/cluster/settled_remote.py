"""Sessions over a Unix socket whose events have all been handed over when a write returns."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from odradek.cluster.store.embedded import EmbeddedStore
from odradek.cluster.store.remote_store import RemoteStore
from odradek.cluster.store.store import MetadataStore
from odradek.cluster.store.store_server import StoreServer
from odradek.util.clock import ManualClock

#: A watcher may write, and its write may have a watcher in turn.
LEVELS = 3


def settle(store: RemoteStore, limit_s: float = 30) -> None:
    """Wait until the events that have arrived were handed over, and those that this has caused."""
    for _ in range(LEVELS):
        done = threading.Event()
        store.later(done.set)
        assert done.wait(limit_s), "the thread that calls watchers hangs"


class _Served(RemoteStore):
    """The one session of a server of its own."""

    def __init__(self, embedded: EmbeddedStore, server: StoreServer) -> None:
        super().__init__(server.path)
        self.embedded = embedded
        self.server = server

    def _ask(self, *args: Any, is_write: bool = False, **options: Any) -> Any:
        try:
            return super()._ask(*args, is_write=is_write, **options)
        finally:
            if is_write and self._open and threading.current_thread().name != "store-watches":
                settle(self)

    def close(self) -> None:
        super().close()
        self.server.stop()
        self.embedded.close()


def served(folder: Path, clock: ManualClock) -> MetadataStore:
    """A session with all that a test needs to see its events in order."""
    embedded = EmbeddedStore(folder / "metadata.sqlite", clock)
    server = StoreServer(embedded, folder / "store.sock")
    server.start()
    return _Served(embedded, server)
