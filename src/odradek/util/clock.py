# compiled: mypyc
"""Time as something handed in, never reached for."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """The source of a component's time."""

    def now_ms(self) -> int:
        """Wall-clock time, milliseconds since the epoch; may jump."""
        ...

    def monotonic_ms(self) -> float:
        """Milliseconds from an arbitrary start; never goes back."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """See `Clock.now_ms`."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        """See `Clock.monotonic_ms`."""
        return time.monotonic_ns() / 1_000_000


class Stopwatch:
    """The wall-clock time of another clock, and the machine's monotonic time: for pauses between tries, which
    pass by themselves also where a test has the broker's time in hand."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now_ms(self) -> int:
        """See `Clock.now_ms`."""
        return self._clock.now_ms()

    def monotonic_ms(self) -> float:
        """See `Clock.monotonic_ms`."""
        return time.monotonic_ns() / 1_000_000


class ManualClock:
    """A clock that stands still until a test moves it."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = 0.0

    def now_ms(self) -> int:
        """See `Clock.now_ms`."""
        return self._now_ms

    def monotonic_ms(self) -> float:
        """See `Clock.monotonic_ms`."""
        return self._monotonic_ms

    def advance(self, ms: float) -> None:
        """Let `ms` milliseconds pass."""
        self._now_ms += int(ms)
        self._monotonic_ms += ms

    def jump(self, ms: int) -> None:
        """Set the wall clock forward, or back for less than 0; the monotonic one knows nothing of it."""
        self._now_ms += ms
