"""Virtual time, and the event loops of all machines over it: nobody waits, a seed decides what chance would.

Each machine has an event loop of its own, which broker and client code runs in as it is. The world lets one
loop after the other do what is ready there; when nothing is, its time jumps to the next timer of any. A loop
that stands still (a paused process, a slow disk) has its events wait; one whose process has died is never
turned again, whatever it was about to do. What is handed to an executor runs in the loop's thread, after a
delay that the seed gives.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import random
from collections.abc import Callable, Coroutine
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from .sockets import Network
    from .virtual_threads import VirtualExecutor

T = TypeVar("T")

EXECUTOR_DELAY_S_MAX = 0.02
"""How long work in an executor takes at most, in virtual time."""


TURN_S = 1e-6
"""How long it takes to do what is ready: who waits for the smallest of times is not to wait for ever."""

TURNS_AT_ONCE = 5_000
"""How often loops may be turned before nothing is ready for once."""


class NothingLeft(Exception):
    """Somebody waits for what can no longer come: nothing is ready and no timer runs."""


class Killed(BaseException):
    """The process that does this has died. Not an `Exception`: no handler in the code under test sees it."""


class Livelock(Exception):
    """Somebody does something over and over without a pause."""


class World:
    """See the module.

    Attributes:
        now_s: the time, seconds since it was made.
        rng: decides delays; whatever else is left to chance in a simulation takes from it as well.
        loops: those of all machines, in the order in which they were made.
        events: how many were noted.
        made: how many tasks and futures there have been.
        problems: what must not happen and was logged by code under test, as text.
    """

    def __init__(self, seed: int, *, keep_trace: bool = False) -> None:
        """
        Args:
            seed: of everything that is left to chance.
            keep_trace: keep each event for printing, not only their digest.
        """
        self.now_s = 0.0
        self.rng = random.Random(seed)
        self.loops: list[MachineLoop] = []
        self.problems: list[str] = []
        self.trace: list[str] | None = [] if keep_trace else None
        self.events = 0
        self.made = 0
        self._turns = 0
        self._digest = blake2b(digest_size=16)
        self.control = self.loop("control")

    def loop(self, name: str) -> MachineLoop:
        """Make a machine's event loop."""
        made = MachineLoop(self, name)
        self.loops.append(made)
        return made

    def note(self, event: str) -> None:
        """Add an event to the trace."""
        line = f"{self.now_s:.6f} {event}"
        self.events += 1
        self._digest.update(line.encode())
        if self.trace is not None:
            self.trace.append(line)

    @property
    def digest(self) -> str:
        """Of the trace up to now: equal for equal runs."""
        return self._digest.hexdigest()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the control loop, and everything else with it, until it ends."""
        task = self.control.create_task(work)
        while not task.done():
            self.turn()
        return task.result()

    def turn(self) -> None:
        """Let each loop do what is ready, or time pass until something is.

        Raises:
            NothingLeft: nothing ever will be.
            Livelock: there is no end to what is ready.
        """
        ran = False
        for loop in self.loops:
            ran = loop.turn() or ran
        if ran:
            self.now_s += TURN_S
            self._turns += 1
            if self._turns > TURNS_AT_ONCE:
                raise Livelock(f"nobody ever waits at {self.now_s:.3f} s: {self._busy()}")
            return
        self._turns = 0
        soonest = min(filter(None, (loop.next_s() for loop in self.loops)), default=None)
        if soonest is None:
            raise NothingLeft("nothing is ready and no timer runs")
        self.now_s = max(self.now_s, soonest)

    def _busy(self) -> list[str]:
        ready = [handle for loop in self.loops for handle in loop._ready]  # type: ignore[attr-defined]
        tasks = [getattr(handle._callback, "__self__", None) for handle in ready]
        return [repr(task) for task in tasks if isinstance(task, asyncio.Task)] or [repr(ready[:3])]

    def close(self) -> None:
        """Let go of all tasks, without running what they would still do."""
        for loop in self.loops:
            loop.forget()
        self.loops.clear()


class _Task(asyncio.Task[Any]):
    """A task whose place in a set does not depend on where it lies in memory."""

    def __init__(self, work: Any, *, number: int, **more: Any) -> None:
        self._number = number
        super().__init__(work, **more)

    def __hash__(self) -> int:
        return self._number


class _Future(asyncio.Future[Any]):
    """See `_Task`."""

    def __init__(self, *, number: int, **more: Any) -> None:
        self._number = number
        super().__init__(**more)

    def __hash__(self) -> int:
        return self._number


class MachineLoop(asyncio.BaseEventLoop):
    """The event loop of one process; see the module.

    Attributes:
        name: of the process, for the trace.
        host: the machine that it runs on.
        executors: its threads.
        is_dead: it is never turned again.
        is_paused: its events wait.
        is_elsewhere: what runs now would run in another thread.
        busy_until_s: it does nothing before: a disk makes it wait.
        executor_delay_s_max: how long work in an executor takes at most.
    """

    def __init__(self, world: World, name: str) -> None:
        super().__init__()
        self.world = world
        self.name = self.host = name
        self.network: Network | None = None
        self.is_dead = self.is_paused = self.is_elsewhere = False
        self.busy_until_s = 0.0
        self.executor_delay_s_max = EXECUTOR_DELAY_S_MAX
        self.executors: list[VirtualExecutor] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self.set_exception_handler(_note_problem)
        self.set_task_factory(self._make_task)

    def time(self) -> float:
        """See `asyncio.AbstractEventLoop.time`."""
        return self.world.now_s

    def turn(self) -> bool:
        """Do what is ready now; return whether there was anything."""
        if self.is_dead or self.is_paused or self.busy_until_s > self.world.now_s:
            return False
        scheduled, ready, now_s = self._scheduled, self._ready, self.world.now_s  # type: ignore[attr-defined]
        while scheduled and scheduled[0]._when <= now_s:
            handle = heapq.heappop(scheduled)
            handle._scheduled = False
            if not handle._cancelled:
                ready.append(handle)
        if not ready:
            return False
        asyncio._set_running_loop(self)
        try:
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()
                if self.is_dead or self.is_paused or self.busy_until_s > now_s:
                    break
        finally:
            asyncio._set_running_loop(None)
        return True

    def next_s(self) -> float | None:
        """When there is something to do next; None for never."""
        if self.is_dead or self.is_paused:
            return None
        if self._ready:  # type: ignore[attr-defined]
            return max(self.busy_until_s, self.world.now_s)
        scheduled = self._scheduled  # type: ignore[attr-defined]
        while scheduled and scheduled[0]._cancelled:
            heapq.heappop(scheduled)._scheduled = False
        return max(scheduled[0]._when, self.busy_until_s) if scheduled else None

    def delay_s(self, least: float, most: float) -> float:
        """A delay that the seed gives."""
        return self.world.rng.uniform(least, most)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """See `asyncio.AbstractEventLoop.run_in_executor`; the executor is left alone."""
        if executor in self.executors:
            return asyncio.wrap_future(executor.submit(func, *args), loop=self)
        done: asyncio.Future[Any] = self.create_future()
        self.call_later(self.delay_s(0, self.executor_delay_s_max), self._run_elsewhere, done, func, args)
        return done

    def _run_elsewhere(
        self, done: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...]
    ) -> None:
        self.is_elsewhere = True
        try:
            _run(done, func, args)
        finally:
            self.is_elsewhere = False

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> list[Any]:  # type: ignore[override]
        """See `asyncio.AbstractEventLoop.getaddrinfo`: machines are known by their names."""
        return [(2, 1, 6, "", (host, port))]

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any
    ) -> Any:  # type: ignore[override]
        """See `asyncio.AbstractEventLoop.create_connection`."""
        assert self.network is not None
        return await self.network.connect(self, protocol_factory, host, port)

    def forget(self) -> None:
        """Let go of everything that was to be done."""
        self.is_dead = True
        for executor in self.executors:
            executor.end()
        for task in self._tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._ready.clear()  # type: ignore[attr-defined]
        self._scheduled.clear()  # type: ignore[attr-defined]
        self.close()

    def _make_task(self, loop: asyncio.AbstractEventLoop, work: Any, **more: Any) -> asyncio.Task[Any]:
        self.world.made += 1
        task = _Task(work, number=self.world.made, loop=loop, **more)
        self._tasks.append(task)
        task.add_done_callback(self._tasks.remove)
        return task

    def create_future(self) -> asyncio.Future[Any]:
        """See `asyncio.AbstractEventLoop.create_future`."""
        self.world.made += 1
        return _Future(number=self.world.made, loop=self)

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none: `BaseEventLoop` asks for it."""

    def _write_to_self(self) -> None:
        """Nobody sleeps who would have to be woken."""


def _note_problem(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    assert isinstance(loop, MachineLoop)
    error = context.get("exception")
    if not loop.is_dead and not isinstance(error, Killed):
        logging.getLogger(__name__).error("%s: %s", loop.name, context.get("message"), exc_info=error)


def _run(done: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...]) -> None:
    if done.cancelled():
        return
    try:
        result = func(*args)
    except Exception as error:
        done.set_exception(error)
    else:
        if not done.done():
            done.set_result(result)


class VirtualClock:
    """The clock of one machine in a simulation; see `odradek.util.clock.Clock`."""

    def __init__(self, world: World, start_ms: int = 1_700_000_000_000) -> None:
        """
        Args:
            world: whose time passes.
            start_ms: the wall-clock time at its start, milliseconds since the epoch.
        """
        self._world = world
        self._offset_ms = start_ms

    def now_ms(self) -> int:
        """See `Clock.now_ms`."""
        return self._offset_ms + int(self._world.now_s * 1000)

    def monotonic_ms(self) -> float:
        """See `Clock.monotonic_ms`."""
        return self._world.now_s * 1000

    def jump(self, ms: int) -> None:
        """Set the wall clock forward, or back for less than 0; the monotonic one knows nothing of it."""
        self._offset_ms += ms
