"""Timers as something handed in: the event loop's in a broker, a test's own under `ManualClock`."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Protocol

from odradek.util.clock import ManualClock


class TimerHandle(Protocol):
    """A timer that has been set."""

    def cancel(self) -> None:
        """Keep the timer from firing; harmless when it already has."""
        ...


class Timers(Protocol):
    """The timers of a component."""

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> TimerHandle:
        """Call `callback` once, `delay_ms` milliseconds from now."""
        ...


class _ManualHandle:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualTimers:
    """Timers that fire, in order, when a test lets time pass with `advance`."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self._heap: list[tuple[float, int, _ManualHandle]] = []
        self._order = itertools.count()

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> _ManualHandle:
        """See `Timers.call_later`."""
        handle = _ManualHandle(callback)
        heapq.heappush(self._heap, (self.clock.monotonic_ms() + delay_ms, next(self._order), handle))
        return handle

    @property
    def pending(self) -> int:
        """Return how many timers are set and not cancelled."""
        return sum(1 for _, _, handle in self._heap if handle.callback is not None)

    def advance(self, ms: float) -> None:
        """Let `ms` milliseconds pass, firing each timer at its moment."""
        end = self.clock.monotonic_ms() + ms
        while self._heap and self._heap[0][0] <= end:
            when, _, handle = heapq.heappop(self._heap)
            if handle.callback is None:
                continue
            self.clock.advance(max(0.0, when - self.clock.monotonic_ms()))
            callback, handle.callback = handle.callback, None
            callback()
        self.clock.advance(end - self.clock.monotonic_ms())
