"""TLS handshakes: made in threads, so that the event loop goes on, and bounded in number and time.

A step of a handshake takes one to three milliseconds of a processor, nearly all of it within OpenSSL, where
the interpreter's lock is not held. A thousand peers that come at once wait for each other here, and nobody
who is connected waits for them. Who does not finish in time is closed; so is who has kept the broker waiting
longest, when too many do.
"""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

TIMEOUT_S = 30.0
"""How long a handshake may take; Kafka has only `connections.max.idle.ms` for those who stay silent."""

MOST_WAITING = 4096
"""Handshakes under way that wait for their peers, each with some 40 KiB of OpenSSL's."""


class ShakesHands(Protocol):
    """A connection whose handshake is under way."""

    def step(self) -> None:
        """Do what can be done now; called in a thread."""
        ...

    def stepped(self) -> None:
        """Called in the event loop, when `step` is over."""
        ...

    def give_up(self, reason: str) -> None:
        """Close."""
        ...


class Handshakes:
    """The handshakes of a broker. Made and called in the event loop's thread.

    Attributes:
        timeout_s: how long one may take.
        most_waiting: how many may wait for their peers at once.
        finished: how many were gone through with, for metrics.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, threads: int = 0) -> None:
        """
        Args:
            loop: the event loop.
            threads: at most so many at once; 0 for one less than there are processors, and at least one.
        """
        self._loop = loop
        self.timeout_s = TIMEOUT_S
        self.most_waiting = MOST_WAITING
        self.finished = 0
        self._deadlines: dict[ShakesHands, float] = {}
        """Loop times, in the order of their beginning."""
        self._waiting: dict[ShakesHands, None] = {}
        """Those that wait for their peers, the longest silent first."""
        self._timer: asyncio.TimerHandle | None = None
        most = threads or max(1, (os.cpu_count() or 2) - 1)
        self._threads = ThreadPoolExecutor(most, thread_name_prefix="odradek-tls")

    def __len__(self) -> int:
        return len(self._deadlines)

    def begin(self, one: ShakesHands) -> None:
        """A connection was accepted; its peer has the word."""
        self._deadlines[one] = self._loop.time() + self.timeout_s
        if self._timer is None:
            self._timer = self._loop.call_later(self.timeout_s, self._check_deadlines)

    def submit(self, one: ShakesHands) -> None:
        """Have a step done: something has come."""
        self._waiting.pop(one, None)
        step = self._loop.run_in_executor(self._threads, one.step)
        step.add_done_callback(lambda _: one.stepped())

    def waits(self, one: ShakesHands) -> None:
        """After a step: the peer has the word again."""
        self._waiting[one] = None
        while len(self._waiting) > self.most_waiting:
            longest = next(iter(self._waiting))
            del self._waiting[longest]
            longest.give_up(
                f"more than {self.most_waiting} handshakes wait for their peers, this one longest"
            )

    def end(self, one: ShakesHands) -> None:
        """A handshake is over, well or not."""
        self._deadlines.pop(one, None)
        self._waiting.pop(one, None)

    def close(self) -> None:
        """End the threads, when they have done what they have."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._threads.shutdown()

    def _check_deadlines(self) -> None:
        self._timer = None
        now = self._loop.time()
        for one, deadline in list(self._deadlines.items()):
            if deadline > now:
                self._timer = self._loop.call_at(deadline, self._check_deadlines)
                break
            one.give_up(f"no handshake within {self.timeout_s:g} s")
            self._deadlines.pop(one, None)
