"""Log starts on the disk before DeleteRecords is answered: what was deleted never comes back.

Kafka answers first and writes a checkpoint within a minute. Here requests wait while another thread writes;
those that come meanwhile share the next write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.log.folders.log_manager import LogManager

Errors = dict[Path, OSError]
"""The data folders whose log starts could not be written."""


class LogStarts:
    """Writes the log starts of all partitions. Used in the event loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, logs: LogManager) -> None:
        self._loop = loop
        self._logs = logs
        self._waiting: list[Callable[[Errors], None]] = []
        self._writing = False

    def write(self, on_written: Callable[[Errors], None]) -> None:
        """Call `on_written` when the log starts as they are now are on the disk; at once if they are."""
        self._waiting.append(on_written)
        if not self._writing:
            self._begin()

    def _begin(self) -> None:
        waiting, self._waiting = self._waiting, []
        job = self._logs.begin_log_starts()
        if not job.entries:
            for on_written in waiting:
                on_written({})
            return
        self._writing = True

        def finish(_: object) -> None:
            self._writing = False
            self._logs.finish_checkpoint(job)
            for on_written in waiting:
                on_written(job.errors)
            if self._waiting and not self._writing:
                self._begin()

        self._loop.run_in_executor(None, job.run).add_done_callback(finish)
