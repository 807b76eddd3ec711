"""A clock in a test's hand, for the brokers that it is given to.

Invariants: time passes in `advance` alone; a timer fires in its broker's loop, at its own moment, and the
next one when all brokers have come to rest, so that what the first has begun is done.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from heapq import heapify, heappop, heappush
from itertools import count
from math import ceil
from typing import TYPE_CHECKING

from odradek.testing.clock.life import Life, Timer
from odradek.testing.clock.resting_loop import RestingLoop

if TYPE_CHECKING:
    from odradek.util.timers import TimerHandle

LOOKS = 500
"""How often a broker looks at most, in one `advance`, whether there is something to do."""

_MS = timedelta(milliseconds=1)
_WITHIN_S = 30.0
_CANCELLED_OVER = 1_000
"""How many cancelled timers may be kept beside as many as there are others."""


@dataclass(frozen=True, slots=True)
class _Advance:
    """The time until `end_ms`, in which looks come every `look_ms` at most."""

    end_ms: int
    look_ms: float


class ManualClock:
    """A clock that stands until a test moves it: of a `Broker`, of several, or of a `Cluster`.

        clock = ManualClock()
        with Broker(clock=clock) as broker:
            broker.advance(hours=1)

    Clients know nothing of it. docs/testing.md tells what goes by it.
    """

    def __init__(self, now: datetime | None = None) -> None:
        """
        Args:
            now: where it begins, with a time zone; the real time when None.

        Raises:
            ValueError: it has no time zone.
        """
        if now is None:
            self._began_ms = time.time_ns() // 1_000_000
        elif now.tzinfo is None:
            raise ValueError(f"{now!r} has no time zone: say datetime(…, tzinfo=UTC)")
        else:
            self._began_ms = (now - datetime.fromtimestamp(0, UTC)) // _MS
        self._passed_ms = 0
        self._timers: list[tuple[int, int, Timer]] = []
        """A heap by the time at which they fire, and the order in which they were set."""
        self._order = count()
        self._lives: list[Life] = []
        """Of the brokers that run."""
        self._lock = threading.Lock()
        """Held for a change of these; brokers set timers in threads of their own."""
        self._one_at_a_time = threading.RLock()
        self._advance: _Advance | None = None

    @property
    def now(self) -> datetime:
        """The brokers' time, UTC; a client may stamp its records by it."""
        return datetime.fromtimestamp(self.now_ms() / 1000, UTC)

    def now_ms(self) -> int:
        """The brokers' time, milliseconds since the epoch."""
        return self._began_ms + self._passed_ms

    def monotonic_ms(self) -> float:
        """Milliseconds since the clock was made."""
        return float(self._passed_ms)

    def advance(
        self,
        by: timedelta | None = None,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        milliseconds: float = 0,
    ) -> None:
        """Let time pass, and return when all that is due by then is done. See `advance` of a broker.

        Args:
            by: how much.
            days, hours, minutes, seconds, milliseconds: how much, beside `by`; down to milliseconds.

        Raises:
            TimeoutError: a broker does not come to rest.
            ValueError: it would go back.
        """
        more = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds)
        span_ms = (more if by is None else by + more) // _MS
        if span_ms < 0:
            raise ValueError("time does not go back")
        with self._one_at_a_time:
            end_ms = self._passed_ms + span_ms
            self._advance = _Advance(end_ms, span_ms / LOOKS)
            try:
                self._rest()
                while (timer := self._next(end_ms)) is not None:
                    self._fire(timer, end_ms)
                self._passed_ms = end_ms
            finally:
                self._advance = None

    # ------------------------------------------------------------------ timers

    def set_timer(self, timer: Timer, delay_ms: float) -> None:
        """Fire a timer that much later."""
        with self._lock:
            due_ms = self._passed_ms + max(1, ceil(delay_ms))
            advance = self._advance
            if timer.is_look and advance is not None and due_ms <= advance.end_ms:
                # The last look is at the end, so that nothing that is due is missed.
                due_ms = min(advance.end_ms, max(due_ms, self._passed_ms + ceil(advance.look_ms)))
            heappush(self._timers, (due_ms, next(self._order), timer))
            if len(self._timers) > 2 * _CANCELLED_OVER:
                self._forget_cancelled()

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> TimerHandle:
        """Call something in the thread in which the time passes, when it has: what is of no broker."""
        timer = Timer(None, callback)
        self.set_timer(timer, delay_ms)
        return timer

    def _forget_cancelled(self) -> None:
        waiting = [entry for entry in self._timers if entry[2].callback is not None]
        if len(self._timers) > 2 * len(waiting) + _CANCELLED_OVER:
            self._timers[:] = waiting
            heapify(self._timers)

    def _next(self, end_ms: int, life: Life | None = None) -> Timer | None:
        """Take the next timer that is due by then, with the time at which it is; None for no more.

        Args:
            end_ms: since the clock was made.
            life: none but this one's, if another's would be the next.
        """
        timers = self._timers
        standing = []
        next_timer = None
        with self._lock:
            while timers and timers[0][0] <= end_ms:
                due_ms, _, timer = timers[0]
                if timer.callback is not None and timer.life is not None and timer.life.is_paused:
                    standing.append(heappop(timers))
                elif timer.callback is None:
                    heappop(timers)
                else:
                    if life is None or timer.life is life:
                        heappop(timers)
                        next_timer = timer
                        # It may have waited while its broker stood still.
                        self._passed_ms = max(self._passed_ms, due_ms)
                    break
            for entry in standing:
                heappush(timers, entry)
        return next_timer

    def _fire(self, timer: Timer, end_ms: int) -> None:
        """Fire a timer, and go on with those behind it as long as that begins nothing."""
        life = timer.life
        if life is None:
            timer.run()
            self._rest()
            return
        is_quiet = False

        def fire() -> None:
            nonlocal is_quiet
            next_timer: Timer | None = timer
            while next_timer is not None:
                life.run(next_timer)
                is_quiet = not life.has_work and (next_timer.is_look or len(self._lives) == 1)
                next_timer = self._next(end_ms, life) if is_quiet else None

        life.do(fire)
        if not is_quiet:
            self._rest()

    # ------------------------------------------------------------------ brokers

    def begin_life(self, loop: RestingLoop) -> Life:
        """Begin a broker's life; called in its loop's thread, before the broker is made."""
        life = Life(self, loop)
        with self._lock:
            self._lives.append(life)
        return life

    def forget(self, life: Life) -> None:
        """A broker's life has ended, and with it its timers."""
        with self._lock:
            self._lives.remove(life)
            self._timers[:] = [entry for entry in self._timers if entry[2].life is not life]
            heapify(self._timers)

    def _rest(self) -> None:
        """Return when all brokers have come to rest, and none has done anything since the others have.

        What one has sent to another is there when the sender has come to rest: a connection on one machine
        hands it over at once.

        Raises:
            TimeoutError: they do not, as when clients never pause.
        """
        before: list[int] = []
        until_s = time.monotonic() + _WITHIN_S
        while True:
            with self._lock:
                lives = [life for life in self._lives if not life.is_paused]
            activities = [life.at_rest() for life in lives]
            if activities == before or len(lives) <= 1:
                return
            before = activities
            if time.monotonic() > until_s:
                raise TimeoutError("the brokers do not come to rest: clients or brokers always have more")
