"""The thread in which a session with a metadata store calls its watchers, one after the other."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

logger = logging.getLogger(__name__)


class WatchersThread:
    """Makes calls in the order in which they come; one that fails is logged, and the next is made.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    def start(self) -> None:
        """Start it; what has come by then is called first."""
        threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def later(self, call: Callable[[], None]) -> None:
        """Make a call there, after those that have come before."""
        self._calls.put(call)

    def end(self) -> None:
        """End it, after the calls that have come."""
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                call()
            except Exception:
                logger.exception("a watcher of the metadata store broke")
