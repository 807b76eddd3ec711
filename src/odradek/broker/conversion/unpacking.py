"""Large batches, unpacked beside the event loop before they are appended.

A broker has to look at every record that it takes, and four kilobytes may unpack to a hundred megabytes.
What a request unpacks to at once is bounded (`odradek.broker.conversion.packed`); whatever goes beyond is
looked at in a thread, batch by batch, and its connection's next requests wait for it. How much these threads
unpack in a second is bounded, too (`odradek.unpacked.bytes.per.second`): who sends more waits, and so do
others with large batches, but nobody with small ones. Those who wait take turns: of each connection one piece
of work is done, then it is the next one's turn.

What producers of old formats send is converted here, too, and so is what consumers of old formats fetch
(`odradek.broker.conversion.fetch`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from odradek.util.futures import error_of

if TYPE_CHECKING:
    from odradek.broker.requests.peer import Peer
    from odradek.util.clock import Clock
    from odradek.util.timers import TimerHandle, Timers

T = TypeVar("T")

ROOM_BYTES: Final = 1024 * 1024
"""So much is unpacked in one round of the loop at once, for all connections together: half a millisecond's
work, or three of gzip's. The rest goes to the threads."""

THREADS = 2
"""How many batches are unpacked at once."""

AHEAD_MS = 1_000.0
"""So much of the time to come may be used up: the bound is one of the average over a second."""

_MOST_GONE = 16
"""So many peers that have gone may have work here before it is looked for and dropped."""


class _Job(Generic[T]):
    __slots__ = ("cost", "future", "work")

    def __init__(
        self, work: Callable[[], T], cost: Callable[[T | None], int], future: asyncio.Future[T]
    ) -> None:
        self.work = work
        self.cost = cost
        self.future = future


class Unpacking:
    """Runs work that unpacks records, in threads: a peer's in the order in which it comes, several peers' by
    turns. Called from the event loop.

    Args:
        clock, timers: time.
        bytes_per_second: how much all of it may unpack to; 0 for no bound.

    Attributes:
        room: how many bytes may still be unpacked on the loop in its present round.
    """

    def __init__(self, clock: Clock, timers: Timers, bytes_per_second: int) -> None:
        self._clock = clock
        self._timers = timers
        self._bytes_per_second = bytes_per_second
        self.room = ROOM_BYTES
        self._is_room_used = False
        self._threads: ThreadPoolExecutor | None = None
        self._waiting: dict[Peer, deque[_Job[Any]]] = {}
        """What has not begun; whose turn comes next is the first."""
        self._looked_at = _MOST_GONE
        """How many peers may wait before those that have gone are dropped."""
        self._running = 0
        self._paid_until_ms = 0.0
        """Until when the bytes unpacked so far use up the bound."""
        self._timer: TimerHandle | None = None

    def run(self, work: Callable[[], T], cost: Callable[[T | None], int], peer: Peer) -> asyncio.Future[T]:
        """Run `work` in a thread, when its time has come.

        Args:
            work: unpacks something.
            cost: how many bytes that were, from its result; from None where it has failed.
            peer: for whom. Where it has gone before the work begins, that is left.

        Returns:
            A future of the result; cancelled where a stop comes before the work has begun, or the peer goes.
        """
        job = _Job(work, cost, asyncio.get_running_loop().create_future())
        jobs = self._waiting.get(peer)
        if jobs is None:
            self._waiting[peer] = jobs = deque()
            if len(self._waiting) > self._looked_at:
                self._drop_gone(but=peer)
        jobs.append(job)
        self._begin()
        return job.future

    def use_room(self, unpacked_bytes: int) -> None:
        """Note that so much has been unpacked on the loop, which the rest of its round has to do without."""
        self.room = max(0, self.room - unpacked_bytes)
        if not self._is_room_used:
            self._is_room_used = True
            asyncio.get_running_loop().call_soon(self._have_room)

    def _have_room(self) -> None:
        self._is_room_used = False
        self.room = ROOM_BYTES

    def _drop_gone(self, but: Peer) -> None:
        """Leave the work of peers that have gone, which holds what they sent."""
        for peer in [waiting for waiting in self._waiting if waiting is not but and not waiting.is_open]:
            self._drop(self._waiting.pop(peer))
        self._looked_at = 2 * len(self._waiting) + _MOST_GONE

    @staticmethod
    def _drop(jobs: deque[_Job[Any]]) -> None:
        for job in jobs:
            job.future.cancel()

    @property
    def is_busy(self) -> bool:
        """Return whether something is in a thread right now; what waits for its time is not."""
        return self._running > 0

    def _begin(self) -> None:
        """Begin as many jobs as may run now."""
        while self._waiting and self._running < THREADS:
            wait_ms = self._paid_until_ms - self._clock.monotonic_ms() - AHEAD_MS
            if self._bytes_per_second and wait_ms > 0:
                if self._timer is None:
                    self._timer = self._timers.call_later(wait_ms, self._time_has_come)
                return
            peer = next(iter(self._waiting))
            jobs = self._waiting.pop(peer)
            if not peer.is_open:
                self._drop(jobs)
                continue
            job = jobs.popleft()
            if jobs:
                self._waiting[peer] = jobs
            if not job.future.done():
                self._begin_one(job)

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
        waiting, self._waiting = self._waiting, {}
        for jobs in waiting.values():
            self._drop(jobs)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None
