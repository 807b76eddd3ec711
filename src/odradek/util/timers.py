# compiled: mypyc
"""Timers as something handed in: the event loop's in a broker, a test's own under `ManualClock`."""

from __future__ import annotations

import heapq
import itertools
import logging
from collections.abc import Callable
from typing import Protocol

from odradek.util.clock import ManualClock

logger = logging.getLogger(__name__)


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

    def every(self, name: str, interval_ms: float, callback: Callable[[], object]) -> Periodic:
        """Call `callback` again and again; see `Periodic`."""
        ...


class Periodic:
    """Calls something every so often, until it is stopped. The next call is set after the last has ended."""

    __slots__ = ("_callback", "_handle", "_interval_ms", "_timers", "name")

    def __init__(self, timers: Timers, name: str, interval_ms: float, callback: Callable[[], object]) -> None:
        """
        Args:
            timers: make the calls.
            name: for the log line of a call that failed.
            interval_ms: between the end of one call and the next.
            callback: what is called.
        """
        self._timers = timers
        self.name = name
        self._interval_ms = max(1.0, interval_ms)
        self._callback = callback
        self._handle: TimerHandle | None = timers.call_later(self._interval_ms, self._run)

    def _run(self) -> None:
        try:
            self._callback()
        except Exception:
            logger.exception("periodic work failed, it is tried again next time work=%s", self.name)
        if self._handle is not None:
            self._handle = self._timers.call_later(self._interval_ms, self._run)

    def stop(self) -> None:
        """No further calls."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class _ManualHandle:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualTimers:
    """Timers that fire, in order, when a test lets time pass with `advance`."""

    def __init__(self, clock: ManualClock, least_interval_ms: float = 0) -> None:
        """
        Args:
            clock: the time that passes.
            least_interval_ms: between calls of what is called again and again, however short its interval.
        """
        self.clock = clock
        self._least_interval_ms = least_interval_ms
        self._heap: list[tuple[float, int, _ManualHandle]] = []
        self._order = itertools.count()

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> _ManualHandle:
        """See `Timers.call_later`."""
        handle = _ManualHandle(callback)
        heapq.heappush(self._heap, (self.clock.monotonic_ms() + delay_ms, next(self._order), handle))
        return handle

    def every(self, name: str, interval_ms: float, callback: Callable[[], object]) -> Periodic:
        """See `Timers.every`."""
        return Periodic(self, name, max(interval_ms, self._least_interval_ms), callback)

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
