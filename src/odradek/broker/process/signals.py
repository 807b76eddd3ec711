"""Signals that stop a broker: SIGTERM, SIGINT, and SIGHUP as sent by a terminal that goes away.

All three mean the same, as in Kafka: stop in good order. A SIGHUP that was ignored when the process began
(`nohup`) stays ignored. While the broker starts, which may take minutes after a crash, a signal ends the
start where it is: that is no more than a crash is, and the next start goes through what this one has left. A
signal that comes while the broker stops changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

logger = logging.getLogger(__name__)

NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class StoppedWhileStarting(BaseException):
    """A signal came before the broker was ready. Not an `Exception`: nobody on the way may catch it."""


def look_past_the_stop(
    loop: asyncio.AbstractEventLoop, context: dict[str, Any], stop: Callable[[], object] | None = None
) -> None:
    """An event loop's handler of exceptions, for which `StoppedWhileStarting` is none.

    uvloop runs signals' handlers in a callback of its own: what they raise goes no further than that. The
    stop has been noted, and comes by `StopSignals.call`, or by `stop` where the start waits for something.
    """
    if not isinstance(context.get("exception"), StoppedWhileStarting):
        loop.default_exception_handler(context)
    elif stop is not None:
        stop()


class StopSignals:
    """The signals' handlers for the life of one broker; to be made in the main thread.

    Attributes:
        received: whether one has come.
    """

    def __init__(self) -> None:
        self.received = False
        self._before: dict[int, Any] = {}

    def interrupt_the_start(self) -> None:
        """From now on the first signal interrupts the main thread, with `StoppedWhileStarting`."""
        for number in NUMBERS:
            before = signal.getsignal(number)
            if number == signal.SIGHUP and before == signal.SIG_IGN:
                continue
            self._before[number] = before
            signal.signal(number, self._on_signal_while_starting)

    def call(self, loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
        """From now on a signal calls `stop` in the loop, at once if one has come before."""
        for number in self._before:
            loop.add_signal_handler(number, self._on_signal, number, stop)
        if self.received:
            stop()

    def let_go(self) -> None:
        """Put back what was there before."""
        for number, before in self._before.items():
            signal.signal(number, signal.SIG_DFL if before is None else before)

    def _on_signal_while_starting(self, number: int, _frame: FrameType | None) -> None:
        if not self.received:
            self._note(number)
            raise StoppedWhileStarting

    def _on_signal(self, number: int, stop: Callable[[], None]) -> None:
        if self.received:
            logger.info(
                "signal received, the broker is stopping already name=%s", signal.Signals(number).name
            )
            return
        self._note(number)
        stop()

    def _note(self, number: int) -> None:
        self.received = True
        logger.info("signal received name=%s", signal.Signals(number).name)


def ignore() -> None:
    """Ignore them all, as the process is about to end: a second Ctrl-C is to leave no traceback."""
    for number in NUMBERS:
        signal.signal(number, signal.SIG_IGN)
