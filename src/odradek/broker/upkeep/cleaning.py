"""Compaction beside the event loop: a process per pass, a thread that waits for it."""

from __future__ import annotations

import asyncio
import logging
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from odradek.broker.event_loop.threads import run_in_thread
from odradek.log.cleaner.manager import CleanTask, LogCleaner
from odradek.log.cleaner.worker import CleanFailedError, outcome
from odradek.util.futures import error_of
from odradek.util.own_python import module_command, module_environment

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.log.cleaner.job import CleanResult
    from odradek.log.steps import DiskSteps

logger = logging.getLogger(__name__)

_COMMAND = module_command("odradek.log.cleaner.worker")


class Cleaning:
    """Starts passes and takes their results; every method is called from the loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        cleaner: LogCleaner,
        config: BrokerConfig,
    ) -> None:
        """
        Args:
            loop: the broker's.
            cleaner: what decides.
            config: the broker's, which changes as it runs (`log.cleaner.*`).
        """
        self._loop = loop
        self._cleaner = cleaner
        self._config = config
        self._workers: set[subprocess.Popen[str]] = set()
        self._threads: ThreadPoolExecutor | None = None
        self._stopped = False

    def check(self) -> None:
        """Start passes while there is work and `log.cleaner.threads` allows it."""
        config = self._config
        while not self._stopped and self._cleaner.in_progress < config.log_cleaner_threads:
            task = self._cleaner.take()
            if task is None:
                return
            self._start(task, config)

    def _start(self, task: CleanTask, config: BrokerConfig) -> None:
        threads = max(1, config.log_cleaner_threads)
        job = replace(
            task.job,
            dedupe_bytes=config.log_cleaner_dedupe_buffer_size // threads,
            load_factor=config.log_cleaner_io_buffer_load_factor,
            io_bytes=max(1, config.log_cleaner_io_buffer_size // threads),
            io_bytes_per_second=config.log_cleaner_io_max_bytes_per_second,
        )
        task = task._replace(job=job)
        logger.info("%r: cleaning from offset %d to %d", task.log, job.first_dirty, job.first_uncleanable)
        try:
            worker = subprocess.Popen(
                _COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=module_environment(),
            )
        except OSError as error:
            self._cleaner.fail(task, f"no worker could be started: {error}", for_good=False)
            return
        self._workers.add(worker)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(thread_name_prefix="cleaner")
        waiting = self._loop.run_in_executor(self._threads, _wait, worker, job.to_json())
        waiting.add_done_callback(lambda done: self._done(task, worker, done))

    def _done(
        self, task: CleanTask, worker: subprocess.Popen[str], done: asyncio.Future[CleanResult]
    ) -> None:
        self._workers.discard(worker)
        # Also asked for by a stop, which has ended the worker: nobody is to be told of it.
        error = error_of(done)
        if self._stopped:
            # What the worker made is removed by the next start.
            return
        if error is None:
            self._go_on(self._cleaner.finishing(task, done.result()), None)
        elif isinstance(error, CleanFailedError):
            self._cleaner.fail(task, str(error), for_good=error.for_good)
        else:
            self._cleaner.fail(task, f"{type(error).__name__}: {error}", for_good=False)

    def _go_on(self, steps: DiskSteps, error: BaseException | None) -> None:
        """The next step of a swap; what waits for the disk waits in a thread."""
        if self._stopped:
            # Closing the logs finishes what is under way.
            steps.close()
            return
        try:
            wait = next(steps) if error is None else steps.throw(error)
        except StopIteration as done:
            if done.value:
                self.check()
            return
        assert self._threads is not None
        run_in_thread(self._loop, wait, partial(self._go_on, steps), self._threads)

    def stop(self) -> None:
        """End the workers; their work is lost, nothing else."""
        self._stopped = True
        for worker in self._workers:
            worker.kill()
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None


def _wait(worker: subprocess.Popen[str], job: str) -> CleanResult:
    with worker:
        output, _ = worker.communicate(job + "\n")
    return outcome(output, worker.returncode)
