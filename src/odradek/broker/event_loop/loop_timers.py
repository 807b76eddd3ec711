"""The event loop's timers behind `odradek.util.timers.Timers`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

log = logging.getLogger(__name__)


class LoopTimers:
    """Timers of an event loop. A callback that fails is logged, and nothing else stops."""

    __slots__ = ("_loop",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """See `Timers.call_later`."""
        return self._loop.call_later(max(0.0, delay_ms) / 1000, callback)


class Periodic:
    """Calls something every so often, until it is stopped. The next call is set after the last has ended."""

    __slots__ = ("_callback", "_handle", "_interval_s", "_loop", "_name")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, name: str, interval_ms: float, callback: Callable[[], object]
    ) -> None:
        """
        Args:
            loop: where the calls happen.
            name: for the log line of a call that failed.
            interval_ms: between the end of one call and the next.
            callback: what is called.
        """
        self._loop = loop
        self._name = name
        self._interval_s = max(0.001, interval_ms / 1000)
        self._callback = callback
        self._handle: asyncio.TimerHandle | None = loop.call_later(self._interval_s, self._run)

    def _run(self) -> None:
        try:
            self._callback()
        except Exception:
            log.exception("periodic work failed, it is tried again next time work=%s", self._name)
        if self._handle is not None:
            self._handle = self._loop.call_later(self._interval_s, self._run)

    def stop(self) -> None:
        """No further calls."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
