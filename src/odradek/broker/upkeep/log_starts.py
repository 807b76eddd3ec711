"""Log starts on the disk before DeleteRecords is answered: what was deleted never comes back.

Kafka answers first and writes a checkpoint within a minute. Here requests wait while another thread writes;
those that come meanwhile share the next write.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.broker.event_loop.threads import run_in_thread

if TYPE_CHECKING:
    from odradek.log.folders.log_manager import LogManager

logger = logging.getLogger(__name__)

Errors = dict[Path, OSError]
"""The data folders whose log starts could not be written."""


class LogStarts:
    """Writes the log starts of all partitions. Used in the event loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, logs: LogManager) -> None:
        self._loop = loop
        self._logs = logs
        self._waiting: list[Callable[[Errors], None]] = []
        self._writing = False

    @property
    def is_busy(self) -> bool:
        """Return whether a thread writes."""
        return self._writing

    def write(self, on_written: Callable[[Errors], None]) -> None:
        """Call `on_written` when the log starts as they are now are on the disk; at once if they are."""
        self._waiting.append(on_written)
        if not self._writing:
            self._begin()

    def _begin(self) -> None:
        waiting, self._waiting = self._waiting, []
        job = self._logs.checkpoints.begin_log_starts()
        if not job.entries:
            for on_written in waiting:
                on_written({})
            return
        self._writing = True

        def finish(error: BaseException | None) -> None:
            self._writing = False
            errors = job.errors
            if error is None:
                self._logs.checkpoints.finish(job)
            else:
                logger.error("log starts were not written", exc_info=error)
                errors = {path.parent: OSError(f"not written: {error!r}") for path, _ in job.entries}
            for on_written in waiting:
                try:
                    on_written(errors)
                except Exception:
                    # The others wait for theirs.
                    logger.exception("unforeseen failure after log starts were written")
            if self._waiting and not self._writing:
                self._begin()

        run_in_thread(self._loop, job.run, finish)
