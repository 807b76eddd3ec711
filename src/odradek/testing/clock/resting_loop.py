"""An event loop that can tell when it has come to rest: nothing is ready, and no thread works for it."""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable
from typing import Any

Events = list[tuple[selectors.SelectorKey, int]]


class RestingLoop(asyncio.SelectorEventLoop):
    """See the module. Timers of the loop that are not due are no work, nor are sockets that say nothing.

    Attributes:
        is_busy: asked in the loop's thread, when nothing is ready: whether there is work all the same, after
            which the loop has something to do again.
    """

    def __init__(self) -> None:
        self.is_busy: Callable[[], bool] = lambda: False
        self._working = 0
        """Pieces of work that threads do for the loop."""
        self._activity = 0
        """Goes up with whatever is done, but for an answer to `at_rest`."""
        self._asking: threading.Event | None = None
        """Set when the loop has come to rest; None while nobody asks."""
        self._is_let_go = False
        """Whether it ends: nobody waits for it any more."""
        super().__init__(_Selector(self))

    @property
    def work(self) -> int:
        """Return how many turns are ready, and pieces of work in threads. In the loop's thread."""
        return len(self._ready) + self._working  # type: ignore[attr-defined]

    def at_rest(self, within_s: float) -> int:
        """Wait, in another thread, until the loop has come to rest.

        Args:
            within_s: how long that may take.

        Returns:
            A number that goes up with all that the loop does.

        Raises:
            TimeoutError: it has not.
        """
        rested = self._asking = threading.Event()
        # Not `call_soon_threadsafe`: to look is no activity.
        self._write_to_self()  # type: ignore[attr-defined]
        # In this order, as `let_go` has the other: one of both sees what the other has done.
        if not self._is_let_go and not rested.wait(within_s):
            raise TimeoutError(f"the broker has not come to rest within {within_s:g} s")
        return self._activity

    def let_go(self) -> None:
        """Answer whoever waits for rest: the loop ends."""
        self._is_let_go = True
        asking = self._asking
        if asking is not None:
            asking.set()

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """See `asyncio.AbstractEventLoop.run_in_executor`."""
        future = super().run_in_executor(executor, func, *args)
        self._working += 1
        future.add_done_callback(self._worked)
        return future

    def _worked(self, _: asyncio.Future[Any]) -> None:
        self._working -= 1

    def _idle(self) -> None:
        """Nothing is ready: answer whoever waits for it, unless there is work."""
        asking = self._asking
        if asking is not None and not self._working and not self.is_busy() and not self.work:
            self._asking = None
            asking.set()


class _Selector(selectors.DefaultSelector):
    """Tells its loop before it waits for events."""

    def __init__(self, loop: RestingLoop) -> None:
        super().__init__()
        self._loop = loop
        self._waker: int | None = None
        """The first that is registered: by it the loop is woken out of its wait."""

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = super().register(fileobj, events, data)
        if self._waker is None:
            self._waker = key.fd
        return key

    def select(self, timeout: float | None = None) -> Events:
        loop = self._loop
        if timeout is not None and timeout <= 0:
            loop._activity += 1
            return super().select(timeout)
        events = super().select(0)
        if not events:
            loop._idle()
            # What `is_busy` has begun is done first.
            events = super().select(0 if loop._ready else timeout)  # type: ignore[attr-defined]
        if loop._ready or not events or any(key.fd != self._waker for key, _ in events):  # type: ignore[attr-defined]
            loop._activity += 1
        return events
