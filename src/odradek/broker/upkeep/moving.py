"""Moves of replicas between data folders beside the event loop: slices in threads, at a bounded rate."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.broker.event_loop.threads import run_in_thread
from odradek.errors import OdradekError
from odradek.util.topic_partition import TopicPartition

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.log.folders.log_manager import LogManager
    from odradek.log.folders.moving import Move
    from odradek.log.steps import DiskSteps
    from odradek.replication.sampled_rate import SampledRate

logger = logging.getLogger(__name__)

_LOOK_AGAIN_S = 1.0
"""How often is looked, while a move waits, whether the rate is another."""


class Moving:
    """Goes through the steps of the moves; every method is called from the loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        logs: LogManager,
        config: BrokerConfig,
        copied: SampledRate,
    ) -> None:
        """
        Args:
            loop: the broker's.
            logs: whose replicas are moved.
            config: the broker's, which changes as it runs: `num.replica.alter.log.dirs.threads` moves at
                a time, as many as there are folders if it is not set, and
                `replica.alter.log.dirs.io.max.bytes.per.second` for all of them.
            copied: how fast is copied, over the windows of that rate
                (`alter.log.dirs.replication.quota.window.num`, `.size.seconds`).
        """
        self._loop = loop
        self._logs = logs
        self._config = config
        self._queue: deque[Move] = deque()
        self._running = 0
        self._threads: ThreadPoolExecutor | None = None
        self._copied = copied
        self._has_copied = False
        self._stopped = False

    def resume(self) -> None:
        """Begin the moves again that a stop has broken off."""
        for key, directory in list(self._logs.moves.unfinished.items()):
            try:
                self.begin(key, directory.parent)
            except OdradekError as error:
                logger.warning("move not resumed topic=%s partition=%d: %s", *key, error)

    def begin(self, key: TopicPartition, parent: Path) -> None:
        """Begin to move a replica to that data folder.

        Raises:
            KafkaStorageError: as `Moves.begin`.
        """
        move = self._logs.moves.begin(key, parent)
        if move is not None:
            logger.info("move begun topic=%s partition=%d from=%s to=%s", *key, move.source.parent, parent)
            self._queue.append(move)
            self._start()

    def _start(self) -> None:
        config = self._config
        most = config.num_replica_alter_log_dirs_threads or len(self._logs.data_dirs)
        while self._queue and self._running < most:
            move = self._queue.popleft()
            if move.is_over:
                continue
            if self._threads is None:
                self._threads = ThreadPoolExecutor(thread_name_prefix="moves")
            self._running += 1
            self._go_on(move, move.steps(), None)

    def _go_on(self, move: Move, steps: DiskSteps, error: BaseException | None) -> None:
        """The next step, and what waits for the disk in a thread."""
        if self._stopped:
            steps.close()
            return
        try:
            wait = next(steps) if error is None else steps.throw(error)
        except StopIteration as done:
            self._end(move, "moved" if done.value else "move given up", None)
            return
        except OdradekError as failure:
            self._end(move, "move failed", failure)
            return
        except Exception as failure:
            # A fault of ours: the move ends all the same, and others get their turn.
            logger.exception("unforeseen failure of a move")
            self._end(move, "move failed", failure)
            return
        assert self._threads is not None
        before = move.bytes_copied

        def waited(failed: BaseException | None) -> None:
            copied = move.bytes_copied - before
            if copied:
                self._has_copied = True
                self._copied.record(copied, 1000 * self._loop.time())
            self._pause(move, steps, failed)

        run_in_thread(self._loop, wait, waited, self._threads)

    def _pause(self, move: Move, steps: DiskSteps, error: BaseException | None = None) -> None:
        """Go on when the rate allows it, as it is by then."""
        config = self._config
        bound = config.replica_alter_log_dirs_io_max_bytes_per_second
        if bound:
            wait_s = self._copied.falls_in_ms(bound, 1000 * self._loop.time()) / 1000
        else:
            wait_s = _LOOK_AGAIN_S if self._has_copied else 0.0
        if self._stopped or error is not None or move.is_over or not wait_s:
            self._go_on(move, steps, error)
        else:
            self._loop.call_later(min(wait_s, _LOOK_AGAIN_S), self._pause, move, steps)

    @property
    def byte_rate(self) -> float:
        """Kafka's `byte-rate` of `AlterLogDirsReplication`: bytes a second that are copied."""
        return self._copied.per_second(1000 * self._loop.time())

    def _end(self, move: Move, outcome: str, failure: Exception | None) -> None:
        self._running -= 1
        self._logs.moves.end(move)
        say = logger.info if failure is None else logger.error
        say(
            "%s topic=%s partition=%d to=%s%s",
            outcome,
            *move.key,
            move.parent,
            f": {failure}" if failure else "",
        )
        self._start()

    def stop(self) -> None:
        """No further step. Closing the logs leaves the moves such that the next start goes on."""
        self._stopped = True
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None
