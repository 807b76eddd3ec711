"""Waits that Ctrl-C ends, whenever it comes.

CPython runs a signal's handler between two instructions. A signal that comes when a thread has looked for
some and does not wait yet wakes nobody, and its handler runs when the wait is over: without a bound, never.
So one waits for a second at a time.
"""

from __future__ import annotations

import concurrent.futures
import queue
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SLICE_S = 1.0
"""For so long at most an interrupt may go unnoticed."""


def wait_until(wait: Callable[[float], bool], timeout_s: float | None = None) -> bool:
    """Wait in slices. Returns whether what is waited for has come.

    Args:
        wait: waits for so many seconds at most, and says whether it has come: `threading.Event.wait`.
        timeout_s: seconds; None for as long as it takes.
    """
    deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        left_s = SLICE_S if deadline_s is None else max(0.0, deadline_s - time.monotonic())
        if wait(min(left_s, SLICE_S)):
            return True
        if deadline_s is not None and time.monotonic() >= deadline_s:
            return False


def result_of(future: concurrent.futures.Future[T], timeout_s: float | None = None) -> T:
    """Wait for a future as its `result` does, in slices. Raises what that raises."""

    def wait(slice_s: float) -> bool:
        concurrent.futures.wait((future,), slice_s)
        return future.done()

    if not future.done():
        wait_until(wait, timeout_s)
    return future.result(0)


def next_of(items: queue.SimpleQueue[T]) -> T:
    """Wait for the next of a queue, in slices."""
    while True:
        try:
            return items.get(timeout=SLICE_S)
        except queue.Empty:
            continue
