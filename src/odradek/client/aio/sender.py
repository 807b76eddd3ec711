"""The producer's I/O task: sends the batches that are ready to the leaders, and takes the answers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from odradek.client.aio.cluster import Cluster
from odradek.client.aio.connection import Connection
from odradek.client.aio.producer_ids import ProducerIds
from odradek.client.aio.transactions import TransactionRequests
from odradek.client.config import ProducerConfig
from odradek.client.core.batches import ProducerBatch
from odradek.client.core.node_latency_stats import NodeLatencyStats
from odradek.client.core.record_accumulator import RecordAccumulator
from odradek.client.core.sending import SenderState
from odradek.client.core.sequences import IdState, Sequences
from odradek.client.core.transactions.transaction_manager import TransactionManager
from odradek.client.errors import ClosedError
from odradek.errors import ErrorCode, KafkaError, OdradekError, error_for
from odradek.util.futures import error_of

logger = logging.getLogger("odradek.client.producer")

_UNANSWERED = 0  # acks


class Sender:
    """Runs in the client's loop.

    Args:
        config: the producer's.
        cluster: connections and metadata.
        accumulator: the batches.
        sequences: of the idempotent producer, or None.
        lock: held while the accumulator is touched; the synchronous producer's other threads do the same.
        on_memory: called when batches have been settled, with `lock` not held.
        manager: of the transactional producer.
    """

    def __init__(
        self,
        config: ProducerConfig,
        cluster: Cluster,
        accumulator: RecordAccumulator,
        sequences: Sequences | None,
        lock: AbstractContextManager[Any],
        on_memory: Callable[[], None],
        manager: TransactionManager | None = None,
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._accumulator = accumulator
        self._lock = lock
        self._on_memory = on_memory
        self._manager = manager
        self.state = SenderState(
            config, cluster.metadata, accumulator, cluster.stuck, cluster.request_update, lock, manager
        )
        if manager is not None:
            self._txn_requests = TransactionRequests(config, cluster, manager, self.wake)
        self.latency = NodeLatencyStats(config.partitioner_availability_timeout_ms)
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._ids: ProducerIds | None = None
        if sequences is not None and manager is None:
            self._ids = ProducerIds(
                config,
                cluster,
                sequences,
                wake=self.wake,
                failed=self._fail_all,
                do_without=self._go_on_without_ids,
            )
        # Brokers to which a connection is being made: one task at most for each.
        self._connecting: set[int] = set()
        # Produce requests on their way; with acks=0 there are none, as nothing is answered.
        self._requests: set[asyncio.Future[Any]] = set()
        self._task: asyncio.Task[None] | None = None
        # Why no producer id can be had: the reason that batches give when they expire.
        self._fatal: KafkaError | None = None

    @property
    def requests_in_flight(self) -> int:
        """Produce requests not yet answered."""
        return len(self._requests)

    def start(self) -> None:
        """Begin."""
        self._cluster.on_update.append(self.wake)
        self._task = self._loop.create_task(self._run())

    def wake(self) -> None:
        """Something changed: look at the batches. Call from the loop."""
        self._wake.set()

    @property
    def is_woken(self) -> bool:
        """Return whether a look is still to begin; may be asked from any thread."""
        return self._wake.is_set()

    async def stop(self) -> None:
        """End the task; what is left fails as closed."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        with self._lock:
            self._accumulator.appender.shut()
        self.state.fail_all(ClosedError("the producer was closed before the record was acknowledged"))
        self._memory_may_be_free()

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            try:
                next_ms = self._step()
            except Exception:
                logger.exception("the producer's sender failed; it goes on")
                # Without its sender the producer would neither send nor expire anything, and `flush` never
                # end.
                next_ms = self._cluster.now_ms() + 100
            self._memory_may_be_free()
            timeout = None if next_ms is None else max(0.0, next_ms - self._cluster.now_ms()) / 1000
            if timeout is None:
                await self._wake.wait()
            elif timeout > 0:
                timer = self._loop.call_later(timeout, self._wake.set)
                await self._wake.wait()
                timer.cancel()
            else:
                # Due at once: but answers and other tasks of the loop come first.
                await asyncio.sleep(0)

    def _step(self) -> float | None:
        """One look at everything. Returns when to look again at the latest (monotonic ms)."""
        now = self._cluster.now_ms()
        readiness = self.state.look(now, self._cluster.last_failure or self._fatal)
        if self._manager is not None:
            self._step_transaction(self._manager)
        next_ms = readiness.next_check_ms
        if readiness.leaderless:
            # Wanted again, since metadata forgets topics that nothing is sent to for a while (KIP-526).
            self._cluster.want({tp.topic for tp in readiness.leaderless})
        self.latency.nothing_waits_but_for(readiness.nodes)
        if not readiness.nodes:
            return next_ms
        sequences = self._accumulator.sequences
        if sequences is not None and sequences.state is not IdState.READY:
            if self._ids is not None:
                self._ids.ask()
            return next_ms
        for node in readiness.nodes:
            wait = self._send_to(node, now)
            if wait is not None:
                next_ms = now + wait if next_ms is None else min(next_ms, now + wait)
        return next_ms

    def _step_transaction(self, manager: TransactionManager) -> None:
        """Send the transaction's next request."""
        with self._lock:
            # What was given up unanswered may yet be written: behind a marker it would be in the next
            # transaction.
            left = self._accumulator.has_incomplete or bool(self._requests)
            request = manager.next_request(batches_left=left)
        if request is not None:
            self._txn_requests.send(request)

    def _send_to(self, node: int, now: float) -> float | None:
        """Send to one broker what may be sent. Returns how long to wait if it cannot be reached now."""
        connection = self._cluster.open_connection(node)
        most = self._config.max_in_flight_requests_per_connection
        self.latency.looked(node, now, connection is not None and connection.in_flight < most)
        if connection is None:
            wait = self._cluster.backoff_left_ms(node)
            if wait > 0:
                return wait
            if node not in self._connecting:
                self._connecting.add(node)
                self._cluster.spawn(self._connect(node))
            return None
        for batches in self.state.requests_for(node, now, lambda: connection.in_flight < most):
            self._send(connection, node, batches, now)
        return None

    async def _connect(self, node: int) -> None:
        try:
            await self._cluster.connection(node)
        except OdradekError as problem:
            logger.debug("broker %d: %s", node, problem)
        finally:
            self._connecting.discard(node)
            self._wake.set()

    def _send(self, connection: Connection, node: int, batches: list[ProducerBatch], now: float) -> None:
        outgoing = self.state.request(batches, connection.pick, now)
        if outgoing is None:
            return
        batches, message, version = outgoing
        try:
            if self._config.acks == _UNANSWERED:
                connection.send_unanswered(message, version)
                self.state.sent_unanswered(batches)
                return
            future = connection.send(message, version)
        except KafkaError as problem:
            self.state.unanswered(batches, problem, now, sent=False)
            return
        self._cluster.want(batch.tp.topic for batch in batches)
        self._requests.add(future)
        future.add_done_callback(lambda done: self._answered(done, node, batches))

    def _answered(self, done: asyncio.Future[Any], node: int, batches: list[ProducerBatch]) -> None:
        self._requests.discard(done)
        error = error_of(done)
        now = self._cluster.now_ms()
        if isinstance(error, asyncio.CancelledError):
            return  # the loop ends: `stop` settles what is left
        if error is not None:
            problem = error if isinstance(error, KafkaError) else None
            if problem is None and isinstance(error, ClosedError):
                return  # the client is being closed: `stop` has settled what was left
            logger.debug("no answer to Produce from broker %d: %s", node, error)
            problem = problem or error_for(ErrorCode.NETWORK_EXCEPTION, str(error))
            self.state.unanswered(batches, problem, now)
        else:
            try:
                self.state.answered(batches, done.result(), now)
            except Exception as bug:
                # Nobody may wait for ever because of a mistake here.
                logger.exception("the answer to Produce could not be dealt with")
                self.state.unanswered(batches, error_for(ErrorCode.UNKNOWN_SERVER_ERROR, repr(bug)), now)
        # Once per answer, so that whoever waits for room finds some for many records.
        self._memory_may_be_free()
        self._wake.set()

    def _memory_may_be_free(self) -> None:
        if self.state.freed:
            self.state.freed = False
            self._on_memory()

    # The producer id

    def _go_on_without_ids(self) -> None:
        """A batch at a time of each partition keeps the order; a repeat after a lost answer may be there
        twice.
        """
        with self._lock:
            self._accumulator.give_up_sequences()
        self._wake.set()

    def _fail_all(self, problem: KafkaError) -> None:
        """No producer id can be had: nothing that waits can be sent."""
        self._fatal = problem
        self.state.fail_all(problem)
        self._memory_may_be_free()
