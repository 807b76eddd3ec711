"""Waits that a signal's handler may interrupt whenever it comes, and in which it may wait itself.

CPython runs a signal's handler between two instructions. Two things follow:

- A signal that comes when a thread has looked for some and does not wait yet wakes nobody, and its handler
  runs when the wait is over: without a bound, never. So one waits for a second at a time.
- A handler may come while the thread is inside `Event.wait`, `Future.result` or the like, where that holds a
  lock. Whoever is to ring needs this lock; if the handler waits for him, neither goes on. So nothing here
  holds a lock of Python's: a `SimpleQueue` puts and gets in one step.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable

SLICE_S = 1.0
"""For so long at most an interrupt may go unnoticed."""


def wait_until(wait: Callable[[float], bool], timeout_s: float | None = None) -> bool:
    """Wait in slices. Returns whether what is waited for has come.

    Args:
        wait: waits for so many seconds at most, and says whether it has come.
        timeout_s: seconds; None for as long as it takes.
    """
    deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        left_s = SLICE_S if deadline_s is None else max(0.0, deadline_s - time.monotonic())
        if wait(min(left_s, SLICE_S)):
            return True
        if deadline_s is not None and time.monotonic() >= deadline_s:
            return False


class Bell:
    """Wakes one that waits. May be rung from any thread, any number of times; each ring ends one wait."""

    __slots__ = ("_rings",)

    def __init__(self) -> None:
        self._rings: queue.SimpleQueue[None] = queue.SimpleQueue()

    def ring(self, *_: object) -> None:
        """Wake the one that waits, or that waits next."""
        self._rings.put(None)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait in slices, `timeout_s` seconds at most. Returns whether it was rung."""
        return wait_until(self._wait, timeout_s)

    def _wait(self, slice_s: float) -> bool:
        try:
            self._rings.get(timeout=slice_s)
        except queue.Empty:
            return False
        return True
