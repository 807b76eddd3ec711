"""Timers by key that are cheap to put off.

A session of a group member is put off by every heartbeat and hardly ever runs out. A deadline here is a
number; the timer behind it is only touched when it fires (and is then set again for what is left) or when a
deadline moves closer. Thousands of groups that heartbeat therefore cost an assignment each.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from odradek.util.clock import Clock
from odradek.util.timers import Periodic, TimerHandle, Timers


class _Deadline:
    """One deadline.

    Attributes:
        at_ms: when the callback is due, monotonic.
        fires_at_ms: when the timer behind it fires: then, or earlier where the deadline was put off since.
        callback: what is called then.
        handle: the timer; None while it fires.
    """

    __slots__ = ("at_ms", "callback", "fires_at_ms", "handle")

    def __init__(self) -> None:
        self.at_ms = 0.0
        self.fires_at_ms = 0.0
        self.callback: Callable[[], None] | None = None
        self.handle: TimerHandle | None = None


class Deadlines:
    """Deadlines by key; setting one that exists replaces it.

    Args:
        timers: where the timers behind the deadlines are set.
        clock: only its monotonic time is read.
    """

    def __init__(self, timers: Timers, clock: Clock) -> None:
        self._timers = timers
        self._clock = clock
        self._by_key: dict[Hashable, _Deadline] = {}
        self._periodic: list[Periodic] = []

    def __len__(self) -> int:
        """Return how many deadlines are set."""
        return len(self._by_key)

    def __contains__(self, key: Hashable) -> bool:
        """Return whether a deadline is set for `key`."""
        return key in self._by_key

    def set(self, key: Hashable, delay_ms: float, callback: Callable[[], None]) -> None:
        """Call `callback` once, `delay_ms` from now, unless the key is set again or cancelled before."""
        deadline = self._by_key.get(key)
        if deadline is None:
            deadline = self._by_key[key] = _Deadline()
        at_ms = self._clock.monotonic_ms() + delay_ms
        deadline.at_ms = at_ms
        deadline.callback = callback
        if deadline.handle is None or at_ms < deadline.fires_at_ms:
            self._arm(key, deadline, delay_ms)

    def cancel(self, key: Hashable) -> None:
        """Forget the deadline of `key`, if there is one."""
        deadline = self._by_key.pop(key, None)
        if deadline is not None and deadline.handle is not None:
            deadline.handle.cancel()

    def pass_now(self, key: Hashable) -> None:
        """Let the time of `key` be over now; nothing happens where no deadline is set for it."""
        deadline = self._by_key.get(key)
        if deadline is not None:
            if deadline.handle is not None:
                deadline.handle.cancel()
            deadline.at_ms = self._clock.monotonic_ms()
            self._fired(key, deadline)

    def every(self, name: str, interval_ms: float, callback: Callable[[], object]) -> None:
        """Call `callback` again and again, until `cancel_all`; see `Timers.every`."""
        self._periodic.append(self._timers.every(name, interval_ms, callback))

    def cancel_all(self) -> None:
        """Forget all deadlines, and what is done again and again."""
        for periodic in self._periodic:
            periodic.stop()
        self._periodic.clear()
        for key in tuple(self._by_key):
            self.cancel(key)

    def _arm(self, key: Hashable, deadline: _Deadline, delay_ms: float) -> None:
        if deadline.handle is not None:
            deadline.handle.cancel()
        deadline.fires_at_ms = self._clock.monotonic_ms() + delay_ms
        deadline.handle = self._timers.call_later(delay_ms, lambda: self._fired(key, deadline))

    def _fired(self, key: Hashable, deadline: _Deadline) -> None:
        deadline.handle = None
        if self._by_key.get(key) is not deadline:
            return
        left_ms = deadline.at_ms - self._clock.monotonic_ms()
        if left_ms > 0:
            self._arm(key, deadline, left_ms)
            return
        # Taken out first: the callback may set the same key again.
        del self._by_key[key]
        assert deadline.callback is not None
        deadline.callback()
