"""Removes deleted files and folders when their time has come, a few at a time, in another thread.

There may be many: a topic of thousands of partitions is deleted at once, and everything that the last stop
left over is due at the start. After each step there is a pause of twice its time, because others want the
disk and the processor too.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from odradek.broker.event_loop.threads import run_in_thread

if TYPE_CHECKING:
    from odradek.log.folders.log_manager import LogManager
    from odradek.log.folders.removing import RemovalJob
    from odradek.util.clock import Clock

logger = logging.getLogger(__name__)

STEP = 25
"""Files and folders that one step removes at most."""

RETRY_MS = 60_000
"""After how long what could not be removed is tried again."""


class Removing:
    """Goes through what is due; every method is called from the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, logs: LogManager, clock: Clock) -> None:
        self._loop = loop
        self._logs = logs
        self._clock = clock
        self.is_busy = False
        """Whether a step is in its thread, or in the pause behind it: then `check` begins no second one."""
        self._stopped = False

    def check(self) -> None:
        """Begin with what is due by now, unless it has been begun with."""
        if not self.is_busy:
            self._step()

    def stop(self) -> None:
        """No further step. What is left the next start removes."""
        self._stopped = True

    def _step(self) -> None:
        self.is_busy = False
        if self._stopped:
            return
        job = self._logs.removals.begin(self._clock.now_ms(), STEP)
        if len(job):
            self.is_busy = True
            began_s = self._loop.time()
            run_in_thread(self._loop, job.run, partial(self._pause, job, began_s))

    def _pause(self, job: RemovalJob, began_s: float, error: BaseException | None) -> None:
        if error is not None:
            logger.error("what was deleted could not be removed", exc_info=error)
        try:
            # What is left of the job is due again, also after an error.
            self._logs.removals.finish(job, self._clock.now_ms() + RETRY_MS)
        finally:
            self._loop.call_later(2 * (self._loop.time() - began_s), self._step)
