"""An asyncio event loop whose time is a number: nobody waits, and a seed decides what the machine would.

Broker code runs in it as it is. Where a real loop would sleep in its selector until the next timer, this one
sets its time to that timer's; there are no sockets. What is handed to an executor runs in the loop's thread,
after a delay that the seed gives. One seed is thus one order of events, always the same.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

EXECUTOR_DELAY_MS_MAX = 20.0
"""How long work in an executor takes at most, in virtual time."""


class NothingLeft(Exception):
    """Somebody waits for what can no longer come: nothing is ready and no timer runs."""


class _VirtualSelector:
    """Has the loop's time pass instead of waiting."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        """See `selectors.BaseSelector.select`; nothing ever becomes readable here."""
        if timeout is None:
            raise NothingLeft("nothing is ready and no timer runs")
        self._loop.now_s += max(timeout, 0.0)
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """See the module.

    Attributes:
        now_s: its time, seconds since it was made.
        rng: decides delays; whatever else is left to chance in a simulation takes from it as well.
    """

    def __init__(self, seed: int) -> None:
        """
        Args:
            seed: of everything that is left to chance.
        """
        super().__init__()
        self.now_s = 0.0
        self.rng = random.Random(seed)
        self._selector = _VirtualSelector(self)

    def time(self) -> float:
        """See `asyncio.AbstractEventLoop.time`."""
        return self.now_s

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """See `asyncio.AbstractEventLoop.run_in_executor`; the executor is left alone."""
        done: asyncio.Future[Any] = self.create_future()
        self.call_later(self.rng.uniform(0, EXECUTOR_DELAY_MS_MAX) / 1000, _run, done, func, args)
        return done

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none: `BaseEventLoop` asks for it."""

    def _write_to_self(self) -> None:
        """Nobody sleeps who would have to be woken."""


def _run(done: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...]) -> None:
    if done.cancelled():
        return
    try:
        result = func(*args)
    except Exception as error:
        done.set_exception(error)
    else:
        done.set_result(result)


class VirtualClock:
    """The clock of one machine in a simulation; see `odradek.util.clock.Clock`."""

    def __init__(self, loop: VirtualLoop, start_ms: int = 1_700_000_000_000) -> None:
        """
        Args:
            loop: whose time passes.
            start_ms: the wall-clock time at its start, milliseconds since the epoch.
        """
        self._loop = loop
        self._offset_ms = start_ms

    def now_ms(self) -> int:
        """See `Clock.now_ms`."""
        return self._offset_ms + int(self._loop.now_s * 1000)

    def monotonic_ms(self) -> float:
        """See `Clock.monotonic_ms`."""
        return self._loop.now_s * 1000

    def jump(self, ms: int) -> None:
        """Set the wall clock forward, or back for less than 0; the monotonic one knows nothing of it."""
        self._offset_ms += ms
