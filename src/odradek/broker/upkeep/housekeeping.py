"""Work on the logs by the clock: retention, removals, flushes, checkpoints, idle producers, compaction.

Moves of replicas between data folders go on beside it, begun by requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from odradek.broker.event_loop.threads import run_in_thread
from odradek.broker.upkeep.cleaning import Cleaning
from odradek.broker.upkeep.log_starts import LogStarts
from odradek.broker.upkeep.moving import Moving
from odradek.broker.upkeep.removing import Removing
from odradek.log.cleaner.manager import LogCleaner
from odradek.log.storage.real_files import RealFileSystem
from odradek.replication.sampled_rate import SampledRate

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.log.folders.log_manager import LogManager
    from odradek.log.storage.files import FileSystem
    from odradek.util.clock import Clock
    from odradek.util.timers import Periodic, Timers

logger = logging.getLogger(__name__)

_FLUSH_CHECK_MS = 1_000
_REMOVAL_CHECK_MS = 1_000
_NEVER_MS = 366 * 24 * 3600 * 1000


class Housekeeping:
    """The periodic work of one broker.

    Attributes:
        cleaner: decides what is compacted, None where compaction is off.
        moving: moves replicas.
        removals: removes deleted files and folders, None when stopped.
        log_starts: writes down what DeleteRecords has done.
        periodic: what is called by the clock.
        is_flushing: whether logs are being synced in a thread; no second flush begins then.
        is_checkpointing: likewise for the checkpoints.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        logs: LogManager,
        files: FileSystem,
        clock: Clock,
        timers: Timers,
        config: BrokerConfig,
    ) -> None:
        """
        Args:
            loop: the broker's.
            logs: which are looked after.
            files: on which they are.
            clock, timers: the time.
            config: the broker's: how often, and by which rates.
        """
        self._loop = loop
        self._logs = logs
        self._files = files
        self._clock = clock
        self._timers = timers
        self._config = config
        self.periodic: list[Periodic] = []
        self._checkpointed: list[Any] = []
        self.is_flushing = self.is_checkpointing = False
        self._cleaning: Cleaning | None = None
        self.removals: Removing | None = None
        self.cleaner: LogCleaner | None = None
        self.moving: Moving | None = None
        self.log_starts = LogStarts(loop, logs)

    def start(self) -> None:
        """Begin; the logs are loaded."""
        loop, config, logs, clock = self._loop, self._config, self._logs, self._clock
        self.every("retention", config.log_retention_check_interval_ms, self._retain)
        self.removals = Removing(loop, logs, clock)
        self.every("removals", _REMOVAL_CHECK_MS, self.removals.check)
        # What the last stop has left has waited long enough.
        loop.call_soon(self.removals.check)
        # Also without flush.ms: complete segments are synced, so that a recovery need not read them again.
        self.every("flush", min(_FLUSH_CHECK_MS, config.log_flush_scheduler_interval_ms), self.flush)
        self.every("checkpoints", config.replica_high_watermark_checkpoint_interval_ms, self.checkpoint)
        self.every(
            "producer expiry",
            config.producer_id_expiration_check_interval_ms,
            lambda: logs.expire_producers(clock.now_ms()),
        )
        # A worker is a process of its own: it sees real files only.
        if config.log_cleaner_enable and isinstance(self._files, RealFileSystem):
            self.cleaner = LogCleaner(logs, self._files, clock)
            self._cleaning = Cleaning(loop, self.cleaner, config)
            self.every("compaction", config.log_cleaner_backoff_ms, self._cleaning.check)
        copied = SampledRate(
            config.alter_log_dirs_replication_quota_window_num,
            1000 * config.alter_log_dirs_replication_quota_window_size_seconds,
        )
        self.moving = Moving(loop, logs, config, copied)
        self.moving.resume()

    def stop(self) -> None:
        """No more of it; passes of the cleaner that are under way come to nothing. Harmless twice."""
        for periodic in self.periodic:
            periodic.stop()
        self.periodic.clear()
        if self.removals is not None:
            self.removals.stop()
            self.removals = None
        if self.moving is not None:
            self.moving.stop()
            self.moving = None
        if self._cleaning is not None:
            self._cleaning.stop()
            self._cleaning = None

    def every(self, name: str, interval_ms: float, work: Callable[[], object]) -> None:
        """Call `work` at this interval until the stop; an interval of a year or more, or none, is never."""
        if 0 < interval_ms < _NEVER_MS:
            self.periodic.append(self._timers.every(name, interval_ms, work))

    def _retain(self) -> None:
        self._logs.apply_retention(self._clock.now_ms())

    def flush(self) -> None:
        """Sync what is due, in another thread: the disk takes its time over a large segment."""
        if self.is_flushing:
            return
        logs = self._logs
        jobs = logs.begin_flushes(self._clock.now_ms())
        if not jobs:
            return

        def run() -> None:
            for job in jobs:
                job.run()

        def finish(error: BaseException | None) -> None:
            self.is_flushing = False
            if error is None:
                logs.finish_flushes(jobs)
            else:
                # No recovery point moves: nobody knows which of them are on the disk.
                logger.error("logs were not synced, they are next time", exc_info=error)

        self.is_flushing = True
        run_in_thread(self._loop, run, finish)

    def checkpoint(self) -> None:
        """All three checkpoints, at the shortest of their intervals; they are synced, in another thread."""
        if self.is_checkpointing:
            return
        logs = self._logs
        state = [
            (log.high_watermark, log.recovery_point, log.log_start_offset, log.directory)
            for log in logs.all()
        ]
        if state == self._checkpointed:
            return
        job = logs.checkpoints.begin()

        def finish(error: BaseException | None) -> None:
            self.is_checkpointing = False
            if error is not None:
                logger.error("checkpoints were not written, they are next time", exc_info=error)
            elif logs.checkpoints.finish(job):
                self._checkpointed = state

        self.is_checkpointing = True
        run_in_thread(self._loop, job.run, finish)
