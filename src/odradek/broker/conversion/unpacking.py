"""Large batches, unpacked beside the event loop before they are appended.

A broker has to look at every record that it takes, and four kilobytes may unpack to a hundred megabytes.
What a request unpacks to at once is bounded (`odradek.broker.conversion.packed`); whatever goes beyond is
looked at in a thread, batch by batch, and its connection's next requests wait for it. How much these threads
unpack in a second is bounded, too (`odradek.unpacked.bytes.per.second`): who sends more waits, and so do
others with large batches, but nobody with small ones.

What consumers of old formats fetch is converted here as well, up to the first batch of each partition
(`odradek.broker.conversion.fetch`). What producers of old formats send goes the way of
`odradek.broker.conversion.produce`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from odradek.util.futures import error_of

if TYPE_CHECKING:
    from odradek.util.clock import Clock
    from odradek.util.timers import TimerHandle, Timers

T = TypeVar("T")

THREADS = 2
"""How many batches are unpacked at once."""

AHEAD_MS = 1_000.0
"""So much of the time to come may be used up: the bound is one of the average over a second."""


class _Job(Generic[T]):
    __slots__ = ("cost", "future", "work")

    def __init__(
        self, work: Callable[[], T], cost: Callable[[T | None], int], future: asyncio.Future[T]
    ) -> None:
        self.work = work
        self.cost = cost
        self.future = future


class Unpacking:
    """Runs work that unpacks records, in threads, in the order in which it comes. Called from the event loop.

    Args:
        clock, timers: time.
        bytes_per_second: how much all of it may unpack to; 0 for no bound.
    """

    def __init__(self, clock: Clock, timers: Timers, bytes_per_second: int) -> None:
        self._clock = clock
        self._timers = timers
        self._bytes_per_second = bytes_per_second
        self._threads: ThreadPoolExecutor | None = None
        self._jobs: deque[_Job[Any]] = deque()
        self._running = 0
        self._paid_until_ms = 0.0
        """Until when the bytes unpacked so far use up the bound."""
        self._timer: TimerHandle | None = None

    def run(self, work: Callable[[], T], cost: Callable[[T | None], int]) -> asyncio.Future[T]:
        """Run `work` in a thread, when its time has come.

        Args:
            work: unpacks something.
            cost: how many bytes that were, from its result; from None where it has failed.

        Returns:
            A future of the result; cancelled where a stop comes before it has begun.
        """
        job = _Job(work, cost, asyncio.get_running_loop().create_future())
        self._jobs.append(job)
        self._begin()
        return job.future

    @property
    def is_busy(self) -> bool:
        """Return whether something is in a thread right now; what waits for its time is not."""
        return self._running > 0

    def _begin(self) -> None:
        """Begin as many jobs as may run now."""
        while self._jobs and self._running < THREADS:
            wait_ms = self._paid_until_ms - self._clock.monotonic_ms() - AHEAD_MS
            if self._bytes_per_second and wait_ms > 0:
                if self._timer is None:
                    self._timer = self._timers.call_later(wait_ms, self._time_has_come)
                return
            self._begin_one(self._jobs.popleft())

    def _time_has_come(self) -> None:
        self._timer = None
        self._begin()

    def _begin_one(self, job: _Job[Any]) -> None:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="unpacking")
        self._running += 1
        running = asyncio.get_running_loop().run_in_executor(self._threads, job.work)
        running.add_done_callback(lambda done: self._ended(job, done))

    def _ended(self, job: _Job[Any], done: asyncio.Future[Any]) -> None:
        self._running -= 1
        error = error_of(done)
        result = done.result() if error is None else None
        if self._bytes_per_second:
            now_ms = self._clock.monotonic_ms()
            spent_ms = job.cost(result) * 1000 / self._bytes_per_second
            self._paid_until_ms = max(self._paid_until_ms, now_ms) + spent_ms
        if not job.future.done():
            if error is None:
                job.future.set_result(result)
            elif isinstance(error, asyncio.CancelledError):
                job.future.cancel()
            else:
                job.future.set_exception(error)
        self._begin()

    def stop(self) -> None:
        """Begin nothing more; what runs goes on to its end."""
        jobs, self._jobs = self._jobs, deque()
        for job in jobs:
            job.future.cancel()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None
