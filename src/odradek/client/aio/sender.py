"""The producer's I/O task: takes batches that are ready, sends them to the leaders, deals with the
answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from odradek.client.aio.cluster import Cluster
from odradek.client.aio.connection import Connection
from odradek.client.aio.producer_ids import NO_IDEMPOTENCE, ProducerIds
from odradek.client.aio.transactions import TransactionRequests
from odradek.client.config import ProducerConfig
from odradek.client.core.batches import ProducerBatch
from odradek.client.core.kernel import report
from odradek.client.core.produce import (
    BATCHES_FROM,
    Verdict,
    failure,
    produce_request,
    too_new,
)
from odradek.client.core.produce_results import ProduceResults
from odradek.client.core.record_accumulator import RecordAccumulator
from odradek.client.core.sequences import IdState, Sequences
from odradek.client.core.transactions.requests import at_most
from odradek.client.core.transactions.states import TxnState
from odradek.client.core.transactions.transaction_manager import FIRST_ADD_BACKOFF_MS, TransactionManager
from odradek.client.core.undelivered import Undelivered
from odradek.client.errors import (
    ClosedError,
    DeliveryTimeoutError,
    TransactionAbortedError,
    UnsupportedByBrokerError,
)
from odradek.client.types import RecordMetadata, TopicPartition
from odradek.errors import ErrorCode, KafkaError, OdradekError, error_for
from odradek.errors.codes import to_code
from odradek.util.futures import error_of
from odradek.wire.api import ApiKey

log = logging.getLogger("odradek.client.producer")

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
        self._sequences = sequences
        self._results = ProduceResults(
            accumulator, retries=config.retries, delivery_timeout_ms=config.delivery_timeout_ms
        )
        self._lock = lock
        self._on_memory = on_memory
        self._manager = manager
        if manager is not None:
            self._txn_requests = TransactionRequests(config, cluster, manager, self.wake)
            manager.on_producer_id = self._identity_changed
        # Batches were settled since `on_memory` was called last: it is called once for all of an answer.
        self._freed = False
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
        self.records_sent = 0
        self.records_failed = 0
        self.records_retried = 0
        self.undelivered = Undelivered()

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
            left = self._accumulator.incomplete()
            self._accumulator.take_all_queued()
        for batch in left:
            self._settle(batch, ClosedError("the producer was closed before the record was acknowledged"))
        self._memory_may_be_free()

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            try:
                next_ms = self._step()
            except Exception:
                log.exception("the producer's sender failed; it goes on")
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
        sequences = self._sequences
        # First, because what is over must not be drained below.
        with self._lock:
            expired = self._accumulator.expired(now)
        for batch in expired:
            self._expire(batch)
        if sequences is not None:
            lost = sequences.settle()
            if lost and self._manager is not None:
                self._manager.sequences_lost(_sequences_lost(lost))
        if self._manager is not None:
            self._step_transaction(self._manager)
        with self._lock:
            readiness = self._accumulator.ready(now, self._cluster.metadata.leader)
            next_ms = readiness.next_check_ms
            expiry = self._accumulator.next_expiry_ms()
        if expiry is not None and (next_ms is None or expiry < next_ms):
            next_ms = expiry
        if readiness.leaderless:
            # Wanted again, since metadata forgets topics that nothing is sent to for a while (KIP-526).
            self._cluster.want({tp.topic for tp in readiness.leaderless})
            self._cluster.request_update()
            self._cluster.tell_leaderless(readiness.leaderless)
        if not readiness.nodes:
            return next_ms
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
        """Drop what must not be sent any more, and send the transaction's next request."""
        if manager.drops_batches:
            error: OdradekError | None = manager.last_error
            with self._lock:
                self._accumulator.appender.forget()
                dropped = self._accumulator.take_unsent()
                # After an abortable error, batches with a sequence are sent on: they may be in the log, and
                # the marker of the abort comes behind them. After a fatal one nothing of this producer is
                # sent any more.
                if manager.state is TxnState.FATAL_ERROR:
                    dropped = self._accumulator.incomplete()
                    self._accumulator.take_all_queued()
            for batch in dropped:
                self._settle(batch, error or TransactionAbortedError("the transaction was aborted"))
        with self._lock:
            # What was given up unanswered may yet be written: behind a marker it would be in the next
            # transaction.
            left = self._accumulator.has_incomplete or bool(self._requests)
            request = manager.next_request(batches_left=left)
        if request is not None:
            self._txn_requests.send(request)

    def _identity_changed(self) -> None:
        assert self._manager is not None and self._sequences is not None
        self._sequences.id_received(self._manager.producer_id, self._manager.producer_epoch)

    def _send_to(self, node: int, now: float) -> float | None:
        """Send to one broker what may be sent. Returns how long to wait if it cannot be reached now."""
        connection = self._cluster.open_connection(node)
        if connection is None:
            wait = self._cluster.backoff_left_ms(node)
            if wait > 0:
                return wait
            if node not in self._connecting:
                self._connecting.add(node)
                self._cluster.spawn(self._connect(node))
            return None
        leads = [
            TopicPartition(p.topic, p.partition)
            for p in self._cluster.metadata.partitions()
            if p.leader == node
        ]
        while connection.in_flight < self._config.max_in_flight_requests_per_connection:
            with self._lock:
                batches = self._accumulator.drain(node, leads, self._config.max_request_size, now)
            if not batches:
                break
            self._send(connection, node, batches)
            # A drain takes batches that still linger along with the first that is due. For those alone
            # another request is not worth while.
            with self._lock:
                if node not in self._accumulator.ready(now, self._cluster.metadata.leader).nodes:
                    break
        return None

    async def _connect(self, node: int) -> None:
        try:
            await self._cluster.connection(node)
        except OdradekError as problem:
            log.debug("broker %d: %s", node, problem)
        finally:
            self._connecting.discard(node)
            self._wake.set()

    def _send(self, connection: Connection, node: int, batches: list[ProducerBatch]) -> None:
        acks = self._config.acks
        try:
            # zstd needs version 7 (KIP-110).
            manager = self._manager
            version = connection.pick(
                ApiKey.PRODUCE,
                at_most=None if manager is None else at_most(ApiKey.PRODUCE, v2=manager.v2),
                at_least=7 if self._config.compression_type == "zstd" else None,
            )
            if version < BATCHES_FROM:
                batches = self._fit_for_message_sets(batches)
                if not batches:
                    return
            request = produce_request(
                batches, acks, self._config.request_timeout_ms, version, self._config.transactional_id
            )
            if acks == _UNANSWERED:
                connection.send_unanswered(request, version)
                for batch in batches:
                    # Nobody will say at which offset: -1, as Kafka's client gives for acks=0.
                    self._written(batch, -1, -1)
                return
            future = connection.send(request, version)
        except KafkaError as problem:
            if problem.code == ErrorCode.UNSUPPORTED_VERSION and self._config.compression_type == "zstd":
                problem = UnsupportedByBrokerError(f"compression.type=zstd: {problem}")
            for batch in batches:
                self._failed_to_send(batch, problem, sent=False)
            return
        self._cluster.want(batch.tp.topic for batch in batches)
        self._requests.add(future)
        future.add_done_callback(lambda done: self._answered(done, node, batches))

    def _fit_for_message_sets(self, batches: list[ProducerBatch]) -> list[ProducerBatch]:
        """Those that a broker before 0.11 can take; the others fail."""
        fit = []
        for batch in batches:
            if batch.has_sequence and "enable_idempotence" in self._config.given:
                self._failed_to_send(batch, UnsupportedByBrokerError(NO_IDEMPOTENCE), sent=False)
            elif (per_record := too_new(batch)) is not None:
                self._give_up(batch)
                first = next(e for e in per_record.values() if isinstance(e, UnsupportedByBrokerError))
                self._settle(batch, first, per_record)
            else:
                fit.append(batch)
        return fit

    # Answers

    def _answered(self, done: asyncio.Future[Any], node: int, batches: list[ProducerBatch]) -> None:
        self._requests.discard(done)
        error = error_of(done)
        if isinstance(error, asyncio.CancelledError):
            return  # the loop ends: `stop` settles what is left
        if error is not None:
            problem = error if isinstance(error, KafkaError) else None
            if problem is None and isinstance(error, ClosedError):
                return  # the client is being closed: `stop` has settled what was left
            log.debug("no answer to Produce from broker %d: %s", node, error)
            for batch in batches:
                self._failed_to_send(batch, problem or error_for(ErrorCode.NETWORK_EXCEPTION, str(error)))
        else:
            try:
                self._take_response(done.result(), batches)
            except Exception as bug:
                # Nobody may wait for ever because of a mistake here.
                log.exception("the answer to Produce could not be dealt with")
                for batch in batches:
                    self._failed_to_send(batch, error_for(ErrorCode.UNKNOWN_SERVER_ERROR, repr(bug)))
        # Once per answer, so that whoever waits for room finds some for many records.
        self._memory_may_be_free()
        self._wake.set()

    def _take_response(self, response: Any, batches: list[ProducerBatch]) -> None:
        waiting = {batch.tp: batch for batch in batches}
        refresh = False
        for topic in response.responses:
            for answer in topic.partition_responses:
                batch = waiting.pop(TopicPartition(topic.name, answer.index), None)
                if batch is None:
                    continue
                code = to_code(answer.error_code)
                # An error may name the new leader (KIP-951): then no Metadata is needed before the next try.
                leader = answer.current_leader
                if code.refreshes_metadata and not self._cluster.metadata.update_leader(
                    batch.tp, leader.leader_id, leader.leader_epoch, response.node_endpoints
                ):
                    refresh = True
                self._take_answer(batch, code, answer)
        for batch in waiting.values():
            self._failed_to_send(
                batch,
                error_for(ErrorCode.UNKNOWN_SERVER_ERROR, f"{batch.tp}: the broker did not answer for it"),
            )
        if refresh:
            self._cluster.request_update()

    def _take_answer(self, batch: ProducerBatch, code: ErrorCode, answer: Any) -> None:
        if batch.outcome.settled:
            # It expired while the request was on its way.
            self._results.answered_late(batch, code, answer.base_offset)
            return
        with self._lock:
            verdict = self._results.answered(
                batch,
                code,
                base_offset=answer.base_offset,
                log_start_offset=answer.log_start_offset,
                now_ms=self._cluster.now_ms(),
                # Under KIP-890 Produce adds the partition to the transaction, while the one before may still
                # be being completed; the same short pause as Kafka's AddPartitionsToTxnHandler makes.
                wait_ms=FIRST_ADD_BACKOFF_MS if code == ErrorCode.CONCURRENT_TRANSACTIONS else None,
            )
        if code != ErrorCode.NONE:
            log.debug("%s: %s after %d tries: %s", batch.tp, code.name, batch.attempts + 1, verdict.name)
        if verdict is Verdict.WRITTEN:
            if self._cluster.stuck:
                self._cluster.stuck.went_well([batch.tp], self._cluster.now_ms())
            # DUPLICATE_SEQUENCE_NUMBER: the batch is in the log, but older than those whose offsets the
            # broker remembers, so that its answer has none (Kafka's Sender.completeBatch).
            known = code == ErrorCode.NONE
            self._written(
                batch, answer.base_offset if known else -1, answer.log_append_time_ms if known else -1
            )
        elif verdict is Verdict.RETRY:
            self.records_retried += batch.count
            self._tell_stuck(batch, f"{code.name}: {code.message}")
        elif verdict is Verdict.FAIL:
            error, per_record = failure(batch, answer)
            self._spoils_transaction(error)
            self._settle(batch, error, per_record)

    def _failed_to_send(self, batch: ProducerBatch, problem: KafkaError, *, sent: bool = True) -> None:
        """No answer came. If the batch was sent, its records may or may not be in the log."""
        if batch.outcome.settled:
            return
        # The leader may have gone, and another one be known already.
        self._cluster.request_update()
        with self._lock:
            verdict = self._results.unanswered(
                batch, retriable=problem.retriable, sent=sent, now_ms=self._cluster.now_ms()
            )
        if verdict is Verdict.RETRY:
            self.records_retried += batch.count
            self._tell_stuck(batch, str(problem))
            return
        self._spoils_transaction(problem)
        self._settle(batch, problem)

    def _tell_stuck(self, batch: ProducerBatch, reason: str) -> None:
        self._cluster.stuck.failed({batch.tp: reason}, self._cluster.now_ms())

    def _give_up(self, batch: ProducerBatch) -> None:
        with self._lock:
            self._results.given_up(batch)

    def _spoils_transaction(self, error: OdradekError) -> None:
        if self._manager is not None:
            self._manager.batch_failed(error)

    def _expire(self, batch: ProducerBatch) -> None:
        if batch.outcome.settled:
            return
        self._give_up(batch)
        waited = self._cluster.now_ms() - batch.created_ms
        why = ""
        if self._cluster.last_failure is not None:
            why = f": {self._cluster.last_failure}"
        elif self._fatal is not None:
            why = f": {self._fatal}"
        elif self._cluster.metadata.leader(batch.tp) is None:
            why = f": {self._cluster.metadata.no_leader(batch.tp)}"
        error = DeliveryTimeoutError(
            f"{batch.count} record(s) for {batch.tp} were not acknowledged within {waited:.0f} ms "
            f"({batch.attempts + batch.in_flight} tries){why}"
        )
        self._spoils_transaction(error)
        self._settle(batch, error)

    def _written(self, batch: ProducerBatch, base_offset: int, append_time_ms: int) -> None:
        self.records_sent += batch.count
        with self._lock:
            self._accumulator.release(batch)
            self._accumulator.unmute(batch.tp)
        self._freed = True
        batch.outcome.succeed(base_offset, append_time_ms)
        self._call_back(batch)

    def _settle(
        self, batch: ProducerBatch, error: Exception, per_record: dict[int, Exception] | None = None
    ) -> None:
        with self._lock:
            self._accumulator.release(batch)
            self._accumulator.unmute(batch.tp)
        self._freed = True
        if not batch.outcome.settled:
            self.records_failed += batch.count
            self._fail(batch, error, per_record)
            self._call_back(batch)

    def _fail(self, batch: ProducerBatch, error: Exception, per_record: dict[int, Exception] | None) -> None:
        """Settle a batch that is given up. If it is in a transaction, the commit raises its error."""
        outcome = batch.outcome
        for future in batch.callbacks:
            future._final()  # the batch may be part of one that was split
            outcome.hear(future._index)
        outcome.count = batch.count
        outcome.fail(error, per_record)
        if self._manager is None:
            outcome.count_unheard(self.undelivered)

    def _memory_may_be_free(self) -> None:
        if self._freed:
            self._freed = False
            self._on_memory()

    @staticmethod
    def _call_back(batch: ProducerBatch) -> None:
        if batch.callbacks:
            report(batch.callbacks, RecordMetadata, partial(_callback_raised, batch.tp))
            batch.callbacks = []

    # The producer id

    def _go_on_without_ids(self) -> None:
        """A batch at a time of each partition keeps the order; a repeat after a lost answer may be there
        twice.
        """
        self._sequences = None
        with self._lock:
            self._accumulator.give_up_sequences()
        self._wake.set()

    def _fail_all(self, problem: KafkaError) -> None:
        """No producer id can be had: nothing that waits can be sent."""
        self._fatal = problem
        with self._lock:
            batches = self._accumulator.incomplete()
            self._accumulator.take_all_queued()
        for batch in batches:
            self._give_up(batch)
            self._settle(batch, problem)
        self._memory_may_be_free()


def _sequences_lost(where: set[TopicPartition]) -> KafkaError:
    names = ", ".join(map(str, sorted(where)))
    return KafkaError(
        f"records for {names} were not acknowledged in time; nobody knows whether they are in the log"
    )


def _callback_raised(tp: TopicPartition, problem: Exception) -> None:
    log.error("a delivery callback for %s raised", tp, exc_info=problem)
