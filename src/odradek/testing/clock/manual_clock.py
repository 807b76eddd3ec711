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
_OFTEN_ENOUGH = 10
"""How often brokers of a cluster come to rest before the next timer, if they never rest all at once."""
_CANCELLED_OVER = 1_000
"""How many cancelled timers may be kept beside as many as there are others."""


@dataclass(frozen=True, slots=True)
class _Advance:
    """The time from `begin_ms` until `end_ms`, in which looks come every `look_ms` at most."""

    begin_ms: int
    end_ms: int
    look_ms: float

    def look_at(self, now_ms: int, due_ms: int) -> int:
        """Return when to look for what would be looked for at `due_ms`.

        All brokers look at the same moments, and the last time at the end: nothing that is due is missed.
        """
        if due_ms > self.end_ms or due_ms - now_ms >= self.look_ms:
            return due_ms
        looks = ceil((due_ms - self.begin_ms) / self.look_ms)
        return min(self.end_ms, self.begin_ms + ceil(looks * self.look_ms))


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
        self._timers: list[tuple[int, int, int, Timer]] = []
        """A heap by the time at which they fire, the life of their broker, and the order of setting them."""
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

    @property
    def pending(self) -> int:
        """Return how many timers it keeps, cancelled ones that are not dropped yet among them."""
        return len(self._timers)

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
            self._advance = _Advance(self._passed_ms, end_ms, max(1.0, span_ms / LOOKS))
            try:
                self._rest()
                while (timer := self._next(end_ms)) is not None:
                    self._fire(timer, end_ms)
                self._passed_ms = end_ms
                self._rest(answers_followers=True)
            finally:
                self._advance = None

    # ------------------------------------------------------------------ timers

    def set_timer(self, timer: Timer, delay_ms: float) -> None:
        """Fire a timer that much later."""
        with self._lock:
            due_ms = self._passed_ms + max(1, ceil(delay_ms))
            if timer.is_look and self._advance is not None:
                due_ms = self._advance.look_at(self._passed_ms, due_ms)
            number = -1 if timer.life is None else timer.life.number
            heappush(self._timers, (due_ms, number, next(self._order), timer))
            if len(self._timers) > 2 * _CANCELLED_OVER:
                self._forget_cancelled()

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> TimerHandle:
        """Call something in the thread in which the time passes, when it has: what is of no broker."""
        timer = Timer(None, callback)
        self.set_timer(timer, delay_ms)
        return timer

    def _forget_cancelled(self) -> None:
        waiting = [entry for entry in self._timers if entry[3].callback is not None]
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
                due_ms, _, _, timer = timers[0]
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
                before = life.work
                life.run(next_timer)
                # Others hear of what a look begins by turns of the loop, as of requests to the controller.
                is_quiet = life.work == before and (next_timer.is_look or len(self._lives) == 1)
                next_timer = self._next(end_ms, life) if is_quiet else None

        life.do(fire)
        if not is_quiet:
            self._rest()

    # ------------------------------------------------------------------ brokers

    def begin_life(self, loop: RestingLoop) -> Life:
        """Begin a broker's life; called in its loop's thread, before the broker is made."""
        life = Life(self, loop, next(self._order))
        with self._lock:
            self._lives.append(life)
        return life

    def forget(self, life: Life) -> None:
        """A broker's life has ended, and with it its timers."""
        with self._lock:
            self._lives.remove(life)
            self._timers[:] = [entry for entry in self._timers if entry[3].life is not life]
            heapify(self._timers)

    def _rest(self, *, answers_followers: bool = False) -> None:
        """Return when all brokers have come to rest, and their followers have what their leaders have.

        Args:
            answers_followers: in any case, so that they fetch by the time that it is now.

        Raises:
            TimeoutError: a broker does not come to rest.
        """
        for _ in range(_OFTEN_ENOUGH):
            self._come_to_rest()
            lives = self._running()
            if len(lives) <= 1:
                return
            news = [life.answer_followers(in_any_case=answers_followers) for life in lives]
            if not answers_followers and not any(news):
                return
            answers_followers = False

    def _come_to_rest(self) -> None:
        """Return when each has come to rest, and none has done anything since the others have.

        What one has sent to another is there when the sender has come to rest: a connection on one machine
        hands it over at once. Clients that never pause have brokers do something all the time: then each has
        come to rest often enough.
        """
        before: list[int] = []
        for _ in range(_OFTEN_ENOUGH):
            lives = self._running()
            activities = [life.at_rest() for life in lives]
            if activities == before or len(lives) <= 1:
                return
            before = activities

    def _running(self) -> list[Life]:
        with self._lock:
            return [life for life in self._lives if not life.is_paused]
