"""TLS handshakes: made in threads, so that the event loop goes on, and bounded in number and time.

A step of a handshake takes one to three milliseconds of a processor, nearly all of it within OpenSSL, where
the interpreter's lock is not held. A thousand peers that come at once wait for each other here, and nobody
who is connected waits for them. Who does not finish in time is closed; so is who has kept the broker waiting
longest, when too many do, or have sent too much.

    the loop ──submit──► steps ──► the threads ──► stepped ──a few in each turn──► the loop

All that OpenSSL does for a handshake is done in the threads. Of steps that are over the loop takes up a few,
and of sessions that have ended it frees a few, and then looks at other connections: a turn of it is short
however many come, or go, at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import deque
from queue import SimpleQueue
from typing import Protocol

logger = logging.getLogger(__name__)

TIMEOUT_S = 30.0
"""How long a handshake may take; Kafka has only `connections.max.idle.ms` for those who stay silent."""

MOST_IN_A_TURN = 32
"""So many steps that are over, each of which may bring a first request; so many sessions that have ended."""

MOST_WAITING = 4096
"""Handshakes under way that wait for their peers, each with some 40 KiB of OpenSSL's."""

MOST_BYTES = 64 * 1024 * 1024
"""That handshakes under way have been sent: some KiB each, but a peer may send more, and stop there."""


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
        most_bytes: how many bytes all of them together may have been sent.
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
        self.most_bytes = MOST_BYTES
        self.finished = 0
        self._deadlines: dict[ShakesHands, float] = {}
        """Loop times, in the order of their beginning."""
        self._bytes: dict[ShakesHands, int] = {}
        self._all_bytes = 0
        """The sum of `_bytes`, kept because it is asked for with each step."""
        self._waiting: dict[ShakesHands, None] = {}
        """Those that wait for their peers, the longest silent first."""
        self._timer: asyncio.TimerHandle | None = None
        self._most_threads = threads or max(1, (os.cpu_count() or 2) - 1)
        self._threads: list[threading.Thread] = []
        self._steps: SimpleQueue[ShakesHands | None] = SimpleQueue()
        """None ends a thread."""
        self._freed: deque[object] = deque()
        self._stepped: deque[ShakesHands] = deque()
        self._lock = threading.Lock()
        """Guards `_stepped` and `_is_called` together: no step ends unseen while the loop takes up."""
        self._is_called = False
        """Whether the loop is about to take up what is over."""
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._deadlines)

    def begin(self, handshake: ShakesHands) -> None:
        """Note a connection that was accepted, whose peer sends first."""
        self._deadlines[handshake] = self._loop.time() + self.timeout_s
        if self._timer is None:
            self._timer = self._loop.call_later(self.timeout_s, self._check_deadlines)

    def submit(self, handshake: ShakesHands, size: int) -> None:
        """Queue a step for the threads, because so many bytes have come; does nothing after `close`."""
        if self._is_closed:
            return
        self._waiting.pop(handshake, None)
        self._bytes[handshake] = self._bytes.get(handshake, 0) + size
        self._all_bytes += size
        while self._all_bytes > self.most_bytes and self._waiting:
            self._give_up_longest(
                f"peers have sent more than {self.most_bytes} bytes for handshakes under way"
            )
        if self._all_bytes > self.most_bytes:
            handshake.give_up(f"peers have sent more than {self.most_bytes} bytes for handshakes under way")
            return
        if len(self._threads) < self._most_threads:
            thread = threading.Thread(target=self._run, name=f"odradek-tls-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._steps.put(handshake)

    def waits(self, handshake: ShakesHands) -> None:
        """Note, after a step, that the handshake waits for its peer again."""
        self._waiting[handshake] = None
        while len(self._waiting) > self.most_waiting:
            self._give_up_longest(f"more than {self.most_waiting} handshakes wait for their peers")

    def _give_up_longest(self, reason: str) -> None:
        longest = next(iter(self._waiting))
        self.end(longest)
        longest.give_up(f"{reason}, this one longest")

    def end(self, handshake: ShakesHands) -> None:
        """Forget a handshake that is over, well or not."""
        self._deadlines.pop(handshake, None)
        self._waiting.pop(handshake, None)
        self._all_bytes -= self._bytes.pop(handshake, 0)

    def free(self, session: object) -> None:
        """Let go of a session a little later: OpenSSL takes its time, and thousands may hang up at once.

        Not in a thread, which would keep the interpreter's lock from the loop.
        """
        self._freed.append(session)
        if len(self._freed) == 1:
            self._loop.call_soon(self._free_some)

    def _free_some(self) -> None:
        freed = self._freed
        for _ in range(min(MOST_IN_A_TURN, len(freed))):
            freed.popleft()
        if freed:
            self._loop.call_soon(self._free_some)

    def close(self) -> None:
        """End the threads, when each has done the step that it is at."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        with self._lock:
            self._is_closed = True
        for _ in self._threads:
            self._steps.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        self._stepped.clear()

    def _run(self) -> None:
        """Do steps; in a thread."""
        while (handshake := self._steps.get()) is not None:
            if self._is_closed:
                continue
            handshake.step()
            with self._lock:
                self._stepped.append(handshake)
                if self._is_called or self._is_closed:
                    continue
                self._is_called = True
                self._loop.call_soon_threadsafe(self._take_up)

    def _take_up(self) -> None:
        """Tell some of those whose step is over; before the next ones the loop looks at its sockets."""
        stepped = self._stepped
        try:
            for _ in range(min(MOST_IN_A_TURN, len(stepped))):
                self._tell(stepped.popleft())
        finally:
            # Whatever failed, the others go on.
            with self._lock:
                self._is_called = bool(stepped) and not self._is_closed
                if self._is_called:
                    self._loop.call_soon(self._take_up)

    def _tell(self, handshake: ShakesHands) -> None:
        try:
            handshake.stepped()
        except Exception:
            logger.exception("unforeseen failure after a step of a handshake")
            self.end(handshake)
            handshake.give_up("the broker has failed")

    def _check_deadlines(self) -> None:
        self._timer = None
        now = self._loop.time()
        for handshake, deadline in list(self._deadlines.items()):
            if deadline > now:
                self._timer = self._loop.call_at(deadline, self._check_deadlines)
                break
            handshake.give_up(f"no handshake within {self.timeout_s:g} s")
            self.end(handshake)
