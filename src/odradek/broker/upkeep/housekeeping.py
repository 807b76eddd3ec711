"""Work by the clock: retention, removals, flushes, checkpoints, idle producers, compaction.

Moves of replicas between data folders go on beside it, begun by requests."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from odradek.broker.event_loop.loop_timers import Periodic
from odradek.broker.event_loop.threads import run_in_thread
from odradek.broker.upkeep.cleaning import Cleaning
from odradek.broker.upkeep.log_starts import LogStarts
from odradek.broker.upkeep.moving import Moving
from odradek.broker.upkeep.removing import Removing
from odradek.log.cleaner.manager import LogCleaner
from odradek.log.storage.real_files import RealFileSystem
from odradek.replication.sampled_rate import SampledRate

if TYPE_CHECKING:
    from odradek.broker.services import BrokerServices

logger = logging.getLogger(__name__)

_FLUSH_CHECK_MS = 1_000
_REMOVAL_CHECK_MS = 1_000
_ACLS_AGAIN_MS = 1_000
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

    def __init__(self, broker: BrokerServices) -> None:
        self._broker = broker
        self.periodic: list[Periodic] = []
        self._checkpointed: list[Any] = []
        self.is_flushing = self.is_checkpointing = False
        self._cleaning: Cleaning | None = None
        self.removals: Removing | None = None
        self.cleaner: LogCleaner | None = None
        self.moving: Moving | None = None
        self.log_starts: LogStarts

    def start(self) -> None:
        """Begin; the logs are loaded."""
        broker, config, logs = self._broker, self._broker.config, self._broker.logs
        now_ms = broker.clock.now_ms
        self.log_starts = LogStarts(broker.loop, logs)
        self._every("retention", config.log_retention_check_interval_ms, self._retain)
        self.removals = Removing(broker.loop, logs, broker.clock)
        self._every("removals", _REMOVAL_CHECK_MS, self.removals.check)
        # What the last stop has left has waited long enough.
        broker.loop.call_soon(self.removals.check)
        # Also without flush.ms: complete segments are synced, so that a recovery need not read them again.
        self._every("flush", min(_FLUSH_CHECK_MS, config.log_flush_scheduler_interval_ms), self.flush)
        self._every("checkpoints", config.replica_high_watermark_checkpoint_interval_ms, self.checkpoint)
        self._every(
            "producer expiry",
            config.producer_id_expiration_check_interval_ms,
            lambda: logs.expire_producers(now_ms()),
        )
        tokens = broker.delegation_tokens
        if tokens is not None:
            self._every("tokens", _ACLS_AGAIN_MS, tokens.look_again)
            self._every("expired tokens", config.delegation_token_expiry_check_interval_ms, self._end_tokens)
        if broker.acls is not None:
            self._every("ACLs", _ACLS_AGAIN_MS, broker.acls.look_again)
        # A worker is a process of its own: it sees real files only.
        if config.log_cleaner_enable and isinstance(broker.files, RealFileSystem):
            self.cleaner = LogCleaner(logs, broker.files, broker.clock)
            self._cleaning = Cleaning(broker.loop, self.cleaner, lambda: broker.config)
            self._every("compaction", config.log_cleaner_backoff_ms, self._cleaning.check)
            self._register_gauges(self.cleaner)
        copied = SampledRate(
            config.alter_log_dirs_replication_quota_window_num,
            1000 * config.alter_log_dirs_replication_quota_window_size_seconds,
        )
        self.moving = Moving(broker.loop, logs, lambda: broker.config, copied)
        self.moving.resume()

    def _end_tokens(self) -> None:
        """Remove delegation tokens that have expired; the controller does it for all brokers."""
        broker, tokens = self._broker, self._broker.delegation_tokens
        if tokens is not None and broker.controller.is_active:
            broker.controller.event_queue.post(tokens.remove_expired)

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

    def _every(self, name: str, interval_ms: float, work: Callable[[], object]) -> None:
        if 0 < interval_ms < _NEVER_MS:
            self.periodic.append(Periodic(self._broker.loop, name, interval_ms, work))

    def _retain(self) -> None:
        self._broker.logs.apply_retention(self._broker.clock.now_ms())

    def flush(self) -> None:
        """Sync what is due, in another thread: the disk takes its time over a large segment."""
        if self.is_flushing:
            return
        logs = self._broker.logs
        jobs = logs.begin_flushes(self._broker.clock.now_ms())
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
        run_in_thread(self._broker.loop, run, finish)

    def checkpoint(self) -> None:
        """All three checkpoints, at the shortest of their intervals; they are synced, in another thread."""
        if self.is_checkpointing:
            return
        logs = self._broker.logs
        state = [
            (one.high_watermark, one.recovery_point, one.log_start_offset, one.directory)
            for one in logs.all()
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
        run_in_thread(self._broker.loop, job.run, finish)

    def _register_gauges(self, cleaner: LogCleaner) -> None:
        gauge, stats, clock = self._broker.metrics.gauge, cleaner.stats, self._broker.clock
        kind = "kafka.log:LogCleanerManager"
        gauge(kind, "max-dirty-percent", lambda: stats.max_dirty_percent)
        gauge(kind, "time-since-last-run-ms", lambda: clock.now_ms() - stats.last_run_ms)
        gauge(kind, "uncleanable-partitions-count", lambda: len(cleaner.uncleanable))
        kind = "kafka.log:LogCleaner"
        gauge(kind, "cleaner-recopy-percent", lambda: stats.recopy_percent)
        gauge(kind, "max-buffer-utilization-percent", lambda: stats.map_percent)
