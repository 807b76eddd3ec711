# compiled: mypyc
"""The event loop's timers behind `odradek.util.timers.Timers`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from math import ceil
from typing import final

from odradek.util.timers import Periodic

TIMES_OVER = 1_000
"""How many times of cancelled timers may stand in the heap, beside as many as there are others."""


@final
class Timer:
    """A timer of `LoopTimers`."""

    __slots__ = ("callback", "due_ms", "timers")

    def __init__(self, timers: LoopTimers, due_ms: int, callback: Callable[[], None]) -> None:
        self.timers = timers
        self.due_ms = due_ms
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """See `odradek.util.timers.TimerHandle.cancel`."""
        if self.callback is not None:
            self.callback = None
            self.timers.forget(self)


@final
class LoopTimers:
    """Timers of an event loop. A callback that fails is logged, and nothing else stops.

    The loop has one timer for all of these, at the earliest time: nearly all that are set are cancelled, as
    what they were for has come, and to set one and cancel it costs two entries of a dictionary. They fire in
    the millisecond after the one that was asked for, never before; what is for now, in the loop's next turn.
    """

    __slots__ = ("_armed_ms", "_handle", "_loop", "by_ms", "heap")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.by_ms: dict[int, dict[Timer, None]] = {}
        """Those that wait, by the millisecond at which they are due; none without a timer."""
        self.heap: list[int] = []
        """The times that are in `by_ms`, and some that were."""
        self._handle: asyncio.TimerHandle | None = None
        self._armed_ms = 0

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        """See `Timers.call_later`."""
        if delay_ms <= 0:
            # The loop's next turn: what loads in steps would wait a millisecond for each.
            soon = Timer(self, 0, callback)
            self._loop.call_soon(self._run, soon)
            return soon
        # With a margin for what `_fire` may be early, and for what clocks round: who finds a timer early
        # sets it anew for now, which has no end while the clock stands.
        due_ms = ceil(self._loop.time() * 1000.0 + delay_ms + 0.02)
        timer = Timer(self, due_ms, callback)
        due = self.by_ms.get(due_ms)
        if due is None:
            self.by_ms[due_ms] = {timer: None}
            heappush(self.heap, due_ms)
            self._arm(due_ms)
        else:
            due[timer] = None
        return timer

    def every(self, name: str, interval_ms: float, callback: Callable[[], object]) -> Periodic:
        """See `Timers.every`."""
        return Periodic(self, name, interval_ms, callback)

    def forget(self, timer: Timer) -> None:
        """A timer has been cancelled."""
        due = self.by_ms.get(timer.due_ms)
        if due is not None and due.pop(timer, self) is None and not due:
            del self.by_ms[timer.due_ms]
            # Clients say how long they wait: times that are weeks away must not gather.
            if len(self.heap) > 2 * len(self.by_ms) + TIMES_OVER:
                self.heap[:] = self.by_ms
                heapify(self.heap)

    def _arm(self, due_ms: int) -> None:
        """Ask the loop to call at this time at the latest."""
        handle = self._handle
        if handle is not None:
            if self._armed_ms <= due_ms:
                return
            handle.cancel()
        self._armed_ms = due_ms
        self._handle = self._loop.call_at(due_ms / 1000.0, self._fire)

    def _fire(self) -> None:
        self._handle = None
        # A loop may call a moment before the time, by as little as its clock can tell.
        now_ms = self._loop.time() * 1000.0 + 0.01
        heap, by_ms = self.heap, self.by_ms
        while heap and (heap[0] <= now_ms or heap[0] not in by_ms):
            for timer in tuple(by_ms.pop(heappop(heap), ())):
                self._run(timer)
        if heap:
            self._arm(heap[0])

    def _run(self, timer: Timer) -> None:
        callback, timer.callback = timer.callback, None
        if callback is None:
            return
        try:
            callback()
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # as the loop does: `CancelledError` is none that ends a process
            self._loop.call_exception_handler({"message": "a timer's callback failed", "exception": error})
