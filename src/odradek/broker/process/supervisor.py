"""Keeps the worker processes of one machine running.

A worker is a command that prints `ready HOST:PORT` on standard output, stops in good order on SIGTERM, and
ends when its standard input does (`lifeline`). One that dies is started again, after a while that grows; one
that dies again and again ends all: there is something that somebody has to look at. So does one that cannot
start. Where all are stopped, each is told so, and one that is still there after `STOP_LIMIT_S` is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from odradek.broker.process.lifeline import ALL_STOP
from odradek.util.clock import Clock
from odradek.util.own_python import module_environment

logger = logging.getLogger(__name__)

READY = "ready "

STOP_LIMIT_S = 60.0
"""How long workers may take to stop in good order. A broker that is killed loses nothing, and recovers when
it starts."""

WorkerCommand = Callable[[str | None], Sequence[str]]
"""Makes a worker's command line, given the address at which it was ready before, None the first time."""


class RestartLimits(NamedTuple):
    """The times after which a worker that has died is started again.

    Attributes:
        delay_ms: how long it rests after its first death; twice as long after each further one.
        delay_ms_max: the longest that it rests.
        settled_ms: after so long its earlier deaths are forgotten.
        deaths_max: with so many in a row it is not started again.
    """

    delay_ms: int = 200
    delay_ms_max: int = 10_000
    settled_ms: int = 60_000
    deaths_max: int = 5


class Deaths:
    """The deaths of one worker in a row. Times are milliseconds of any clock."""

    def __init__(self, limits: RestartLimits) -> None:
        self.limits = limits
        self.count = 0

    def died(self, started_ms: float, now_ms: float) -> int | None:
        """Return after how many milliseconds to start what began at `started_ms` again; None for never."""
        if now_ms - started_ms >= self.limits.settled_ms:
            self.count = 0
        self.count += 1
        if self.count >= self.limits.deaths_max:
            return None
        return min(self.limits.delay_ms << (self.count - 1), self.limits.delay_ms_max)


class WorkerGivenUp(Exception):
    """A worker is not started again; the message says why."""


class Worker:
    """One worker, and the process that it is at the moment.

    Attributes:
        name: for log lines, such as `worker 1`.
        address: where it was last ready.
        is_ready: set while it is.
        is_restarting: its process is to end, and another to take its place.
        is_stopping: no process of it is to run any more.
    """

    def __init__(self, name: str, command: WorkerCommand, limits: RestartLimits) -> None:
        self.name = name
        self.command = command
        self.deaths = Deaths(limits)
        self.address: str | None = None
        self.is_ready = asyncio.Event()
        self.is_restarting = False
        self.is_stopping = False
        self._process: Process | None = None

    async def live(self) -> int:
        """Start a process and wait for its end. Returns its exit code, negative for a signal's number."""
        # In a group of its own: a Ctrl-C is for the supervisor, which stops its workers in good order.
        process = await asyncio.create_subprocess_exec(
            *self.command(self.address),
            stdin=PIPE,
            stdout=PIPE,
            start_new_session=True,
            env=module_environment(),
        )
        self._process = process
        if self.is_stopping:
            self.stop()
        logger.info("%s started pid=%d", self.name, process.pid)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with contextlib.suppress(ValueError):  # a line without end: not from a worker
                while line := await process.stdout.readline():
                    text = line.decode(errors="replace").strip()
                    if text.startswith(READY):
                        self.address = text.removeprefix(READY)
                        self.is_ready.set()
                        logger.info("%s ready address=%s", self.name, self.address)
            return await process.wait()
        finally:
            self.is_ready.clear()
            self._process = None
            process.stdin.close()
            with contextlib.suppress(OSError):
                await process.stdin.wait_closed()

    def terminate(self) -> None:
        """Tell its process to stop in good order, if there is one."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()

    def stop(self) -> None:
        """The same, for good and with all others, which its process is told."""
        self.is_stopping = True
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError, RuntimeError):
                self._process.stdin.write(ALL_STOP)
        self.terminate()

    def kill(self) -> bool:
        """End its process at once; false where there is none."""
        if self._process is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        return True


class Supervisor:
    """Runs workers until it is told to stop; to be made in the event loop.

    Args:
        commands: one for each worker.
        clock: tells how long a worker has lived.
        limits: when it is started again.
        pause: waits so many seconds before that.
        patience: waits so many seconds for the end of those that were told to stop.
    """

    def __init__(
        self,
        commands: Sequence[WorkerCommand],
        *,
        clock: Clock,
        limits: RestartLimits | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        patience: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        limits = RestartLimits() if limits is None else limits
        self.workers = [
            Worker(f"worker {number}", command, limits) for number, command in enumerate(commands)
        ]
        self._clock = clock
        self._pause = pause
        self._patience = patience
        self._killing: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._rolling: asyncio.Task[None] | None = None

    async def run(self, on_ready: Callable[[str], None]) -> str | None:
        """Run the workers until `stop`.

        Args:
            on_ready: told `HOST:PORT,HOST:PORT,...` when all workers are ready for the first time.

        Returns:
            None after a stop, else why it could not go on. No worker runs any more.
        """
        tasks = [asyncio.create_task(self._keep(worker)) for worker in self.workers]
        telling = asyncio.create_task(self._tell_ready(on_ready))
        failure = None
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                error = task.exception()
                if error is not None:
                    failure = str(error)
                    # Now, and once more when all have ended.
                    logger.error("the workers are stopped: %s", failure)
                    break
        finally:
            self.stop()
            ended = [telling] if self._rolling is None else [telling, self._rolling]
            for task in ended:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, *ended, return_exceptions=True)
            if self._killing is not None:
                self._killing.cancel()
                await asyncio.gather(self._killing, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception) and not isinstance(outcome, WorkerGivenUp):
                logger.error("supervising broke", exc_info=outcome)
        return failure

    def stop(self) -> None:
        """Tell all workers to stop in good order, all at once; `run` then returns, after `STOP_LIMIT_S` and a
        moment at the latest. Harmless the second time.
        """
        if self._stopping.is_set():
            return
        self._stopping.set()
        for worker in self.workers:
            worker.stop()
        self._killing = asyncio.create_task(self._kill_who_stays())

    async def _kill_who_stays(self) -> None:
        await self._patience(STOP_LIMIT_S)
        for worker in self.workers:
            if worker.kill():
                logger.warning("%s has not stopped within %.0f s: it is killed", worker.name, STOP_LIMIT_S)

    def restart_one_by_one(self) -> None:
        """Restart each worker when the one before it is ready again. Nothing while that is under way."""
        if self._rolling is not None and not self._rolling.done():
            logger.info("the workers are being restarted already")
            return
        if not self._stopping.is_set():
            self._rolling = asyncio.create_task(self._roll())

    async def _roll(self) -> None:
        for worker in self.workers:
            await worker.is_ready.wait()
            logger.info("%s is restarted", worker.name)
            worker.is_restarting = True
            worker.is_ready.clear()
            worker.terminate()
            await worker.is_ready.wait()
        logger.info("all workers have been restarted")

    async def _tell_ready(self, on_ready: Callable[[str], None]) -> None:
        for worker in self.workers:
            # One that has died meanwhile has been ready, and is about to be again at the same address.
            while worker.address is None:
                await worker.is_ready.wait()
        on_ready(",".join(worker.address or "" for worker in self.workers))

    async def _keep(self, worker: Worker) -> None:
        while not self._stopping.is_set():
            started_ms = self._clock.monotonic_ms()
            try:
                code = await self._live(worker)
            except OSError as error:
                raise WorkerGivenUp(f"{worker.name} cannot be started: {error}") from error
            if self._stopping.is_set():
                logger.info("%s stopped code=%d", worker.name, code)
                return
            if worker.is_restarting:
                worker.is_restarting = False
                continue
            if worker.address is None and code == 1:
                raise WorkerGivenUp(
                    f"{worker.name} did not start; it has said why. All workers were stopped."
                )
            delay_ms = worker.deaths.died(started_ms, self._clock.monotonic_ms())
            if delay_ms is None:
                raise WorkerGivenUp(
                    f"{worker.name} died {worker.deaths.count} times in a row, the last time with "
                    f"{_told(code)}; what it has logged may say why. All workers were stopped."
                )
            logger.warning(
                "%s died, it is started again with=%s in_ms=%d", worker.name, _told(code), delay_ms
            )
            await self._rest(delay_ms)

    async def _live(self, worker: Worker) -> int:
        living = asyncio.create_task(worker.live())
        try:
            return await asyncio.shield(living)
        except asyncio.CancelledError:
            worker.terminate()
            await living
            raise

    async def _rest(self, delay_ms: int) -> None:
        """Wait, but not when there is a stop."""
        stopped = asyncio.create_task(self._stopping.wait())
        paused = asyncio.ensure_future(self._pause(delay_ms / 1000))
        await asyncio.wait([stopped, paused], return_when=asyncio.FIRST_COMPLETED)
        for task in (stopped, paused):
            task.cancel()
        await asyncio.gather(stopped, paused, return_exceptions=True)


def _told(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
