"""The producer's way to the brokers: which batches leave, and what an answer, or none, does to them.

What is here is Kafka's Sender without its sockets; docs/produce_answers.md enumerates the answers. A shell
(`aio.sender`, `blocking_produce`) calls `look`, sends what `requests_for` and `request` give, and says what
came of it. Nothing here waits or reads a clock: times are monotonic milliseconds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, NamedTuple

from odradek.client.config import ProducerConfig
from odradek.client.core.batches import ProducerBatch
from odradek.client.core.interceptors import reaches_application
from odradek.client.core.kernel import report
from odradek.client.core.metadata import MetadataCache
from odradek.client.core.produce import (
    BATCHES_FROM,
    Verdict,
    failure,
    is_too_large,
    judge,
    leaves_doubt,
    produce_request,
    too_new,
)
from odradek.client.core.record_accumulator import Readiness, RecordAccumulator
from odradek.client.core.stuck_partitions import StuckPartitions
from odradek.client.core.transactions.requests import at_most
from odradek.client.core.transactions.state_machine import TxnState
from odradek.client.core.transactions.transaction_manager import FIRST_ADD_BACKOFF_MS, TransactionManager
from odradek.client.core.undelivered import Undelivered
from odradek.client.errors import (
    DeliveryTimeoutError,
    PurgedError,
    PurgedInFlightError,
    TransactionAbortedError,
    UnsupportedByBrokerError,
)
from odradek.client.types import RecordMetadata, TopicPartition
from odradek.errors import ErrorCode, KafkaError, OdradekError, error_for
from odradek.errors.codes import to_code
from odradek.wire.api import ApiKey

logger = logging.getLogger("odradek.client.producer")

_PURGED_SENT = "purged after it was sent: nobody knows whether it is in the log"

NO_IDEMPOTENCE = (
    "enable.idempotence: the broker is older than Kafka 0.11.0, which brought it; set it to false"
)


class OutgoingProduce(NamedTuple):
    """A Produce request that may leave, and the batches that are in it."""

    batches: list[ProducerBatch]
    message: Any
    version: int


class SenderState:
    """The batches of one producer on their way to the brokers (Kafka's Sender).

    Args:
        config: the producer's.
        metadata: where leaders are looked up, and leaders that brokers name are learnt (KIP-951).
        accumulator: the batches, and their sequences.
        stuck: is told of partitions that get nowhere.
        request_update: has the shell refresh the metadata soon.
        lock: held while the accumulator is touched; the synchronous producer's other threads do the same.
        manager: of the transactional producer.
        on_failed: called with the error of each batch that is given up.

    Attributes:
        freed: batches were settled since the shell set `freed` to False: there may be memory.
        records_sent, records_failed, records_retried: for the metrics; they only grow.
        undelivered: records that failed, of which the application has not heard.
    """

    def __init__(
        self,
        config: ProducerConfig,
        metadata: MetadataCache,
        accumulator: RecordAccumulator,
        stuck: StuckPartitions,
        request_update: Callable[[], None],
        lock: AbstractContextManager[Any] | None = None,
        manager: TransactionManager | None = None,
        on_failed: Callable[[Exception], None] | None = None,
    ) -> None:
        self._config = config
        self._metadata = metadata
        self._accumulator = accumulator
        self._stuck = stuck
        self._request_update = request_update
        self._lock: AbstractContextManager[Any] = nullcontext() if lock is None else lock
        self._manager = manager
        self._on_failed = on_failed
        if manager is not None:
            manager.on_producer_id = self._identity_changed
        self.freed = False
        self.records_sent = 0
        self.records_failed = 0
        self.records_retried = 0
        self.undelivered = Undelivered()

    def _identity_changed(self) -> None:
        sequences, manager = self._accumulator.sequences, self._manager
        assert sequences is not None
        assert manager is not None
        sequences.id_received(manager.producer_id, manager.producer_epoch)

    # What leaves

    def look(self, now_ms: float, why: object = None) -> Readiness:
        """Give up what is over, and return what may leave. To be called between answers, and before anything
        is sent.

        Args:
            why: why nothing gets through at present, as far as the shell knows; for batches that expire.

        Returns: `next_check_ms` counts what is going to expire, too.
        """
        # First, because what is over must not be drained.
        with self._lock:
            expired = self._accumulator.expired(now_ms)
        for batch in expired:
            self._expire(batch, now_ms, why)
        self._settle_sequences()
        if self._manager is not None and self._manager.drops_batches:
            self._drop_batches(self._manager)
        with self._lock:
            readiness = self._accumulator.ready(now_ms, self._metadata.leader)
            expiry = self._accumulator.next_expiry_ms()
        # No answer wakes the shell where nobody leads or answers; the batches expire all the same.
        if expiry is not None and (readiness.next_check_ms is None or expiry < readiness.next_check_ms):
            readiness.next_check_ms = expiry
        if readiness.leaderless:
            self._request_update()
            self._stuck.leaderless(readiness.leaderless, self._metadata, now_ms)
        return readiness

    def _settle_sequences(self) -> None:
        sequences = self._accumulator.sequences
        lost = None if sequences is None else sequences.settle()
        if lost and self._manager is not None:
            self._manager.sequences_lost(_sequences_lost(lost))

    def _drop_batches(self, manager: TransactionManager) -> None:
        """Drop what must not be sent any more."""
        error = manager.last_error or TransactionAbortedError("the transaction was aborted")
        if manager.state is TxnState.FATAL_ERROR:
            # Nothing of this producer is sent any more.
            with self._lock:
                # A record that another thread is about to append is refused, as no batch will be sent.
                self._accumulator.appender.forget()
            self.fail_all(error)
            return
        aborts, v2 = manager.state is TxnState.ABORTING, manager.v2
        with self._lock:
            # A record that another thread is about to append is of the transaction that ends.
            self._accumulator.appender.forget()
            # What may be in a log is sent on until a broker has said so: the marker of the abort has to come
            # behind it, as a late copy would be in the next transaction (Kafka's Sender waits likewise). With
            # KIP-890 the marker raises the epoch, which keeps late copies out.
            dropped = self._accumulator.take_queued(
                lambda batch: not batch.has_sequence or (aborts and (v2 or not batch.in_doubt))
            )
        for batch in dropped:
            self._give_up(batch, error)
        if dropped:
            self._settle_sequences()

    def requests_for(
        self, node: int, now_ms: float, has_room: Callable[[], bool]
    ) -> Iterator[list[ProducerBatch]]:
        """Take the batches that may leave for a broker, those of one request after the other.

        Args:
            has_room: whether one more request may be on its way to the broker.
        """
        accumulator = self._accumulator
        leads = [tp for tp in accumulator.partitions_queued if self._metadata.leader(tp) == node]
        while has_room():
            with self._lock:
                batches = accumulator.drain(node, leads, self._config.max_request_size, now_ms)
            if not batches:
                return
            yield batches
            # A drain takes batches that still linger along with the first that is due. For those alone
            # another request is not worth while.
            with self._lock:
                if node not in accumulator.ready(now_ms, self._metadata.leader).nodes:
                    return

    def request(
        self, batches: list[ProducerBatch], pick: Callable[..., int], now_ms: float
    ) -> OutgoingProduce | None:
        """Return the request of batches that `requests_for` gave; None if the broker can take none of them.

        Args:
            pick: the connection's choice of a version.
        """
        config, manager = self._config, self._manager
        zstd = config.compression_type == "zstd"
        try:
            version = pick(
                ApiKey.PRODUCE,
                at_most=None if manager is None else at_most(ApiKey.PRODUCE, v2=manager.v2),
                at_least=7 if zstd else None,  # zstd needs version 7 (KIP-110).
            )
        except KafkaError as problem:
            if problem.code == ErrorCode.UNSUPPORTED_VERSION and zstd:
                problem = UnsupportedByBrokerError(f"compression.type=zstd: {problem}")
            self.unanswered(batches, problem, now_ms, sent=False)
            return None
        if version < BATCHES_FROM:
            batches = self._fit_for_message_sets(batches, now_ms)
            if not batches:
                return None
        message = produce_request(
            batches, config.acks, config.request_timeout_ms, version, config.transactional_id
        )
        return OutgoingProduce(batches, message, version)

    def _fit_for_message_sets(self, batches: list[ProducerBatch], now_ms: float) -> list[ProducerBatch]:
        """Return the batches that a broker before 0.11 can take, and fail the others."""
        fit = []
        for batch in batches:
            # Idempotence is on by default (KIP-679). Only who asked for it is refused by an old broker.
            if batch.has_sequence and "enable_idempotence" in self._config.given:
                self.unanswered([batch], UnsupportedByBrokerError(NO_IDEMPOTENCE), now_ms, sent=False)
            elif (per_record := too_new(batch)) is not None:
                first = next(e for e in per_record.values() if isinstance(e, UnsupportedByBrokerError))
                self._give_up(batch, first, per_record)
            else:
                fit.append(batch)
        return fit

    # What came of a request

    def sent_unanswered(self, batches: Iterable[ProducerBatch]) -> None:
        """Take batches for written that have left with acks=0: no broker says anything of them."""
        for batch in batches:
            # Nobody will say at which offset: -1, as Kafka's client gives (Sender.handleProduceResponse).
            self._written(batch, -1, -1)

    def answered(self, batches: list[ProducerBatch], response: Any, now_ms: float) -> None:
        """Take a broker's answer to the request in which these batches were."""
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
                if code.refreshes_metadata and not self._metadata.update_leader(
                    batch.tp, leader.leader_id, leader.leader_epoch, response.node_endpoints
                ):
                    refresh = True
                self._answered(batch, code, answer, now_ms)
        for batch in waiting.values():
            # A broker that leaves a partition out may have appended its batch: that is in doubt.
            error = error_for(ErrorCode.UNKNOWN_SERVER_ERROR, f"{batch.tp}: the broker did not answer for it")
            self.unanswered([batch], error, now_ms)
        if refresh:
            self._request_update()

    def _answered(self, batch: ProducerBatch, code: ErrorCode, answer: Any, now_ms: float) -> None:
        if batch.outcome.settled:
            # It expired while the request was on its way: the answer still settles its sequence.
            sequences = self._accumulator.sequences
            if code == ErrorCode.NONE and sequences is not None and batch.has_sequence:
                sequences.acknowledged(batch, answer.base_offset)
            return
        with self._lock:
            verdict = self._apply(batch, code, answer, now_ms)
        if code != ErrorCode.NONE:
            logger.debug("%s: %s after %d tries: %s", batch.tp, code.name, batch.attempts + 1, verdict.name)
        if verdict is Verdict.WRITTEN:
            if self._stuck:
                self._stuck.went_well([batch.tp], now_ms)
            # DUPLICATE_SEQUENCE_NUMBER: the batch is in the log, but older than those whose offsets the
            # broker remembers, so that its answer has none (Kafka's Sender.completeBatch).
            has_offset = code == ErrorCode.NONE
            self._written(
                batch,
                answer.base_offset if has_offset else -1,
                answer.log_append_time_ms if has_offset else -1,
            )
        elif verdict is Verdict.RETRY:
            self.records_retried += batch.count
            self._stuck.failed({batch.tp: f"{code.name}: {code.message}"}, now_ms)
        elif verdict is Verdict.FAIL:
            error, per_record = failure(batch, answer)
            self._spoil_transaction(error)
            self._settle(batch, error, per_record)

    def _apply(self, batch: ProducerBatch, code: ErrorCode, answer: Any, now_ms: float) -> Verdict:
        """Move a batch, and its sequences, to where an answer puts it; return the verdict. Under the lock."""
        accumulator = self._accumulator
        sequences = accumulator.sequences
        batch.in_flight = False
        verdict = judge(
            batch,
            code,
            log_start_offset=answer.log_start_offset,
            sequences=sequences,
            retries=self._config.retries,
            expired=now_ms - batch.created_ms >= self._config.delivery_timeout_ms,
        )
        if verdict is Verdict.WRITTEN:
            if sequences is not None and batch.has_sequence:
                sequences.acknowledged(batch, answer.base_offset if code == ErrorCode.NONE else -1)
            return verdict
        if leaves_doubt(code):
            batch.in_doubt = True
        if verdict is Verdict.SPLIT:
            accumulator.too_large(batch, now_ms)
        elif verdict is Verdict.RETRY:
            # Under KIP-890 Produce adds the partition to the transaction, while the transaction before may
            # still be being completed: a short pause, as Kafka's AddPartitionsToTxnHandler makes.
            concurrent = code == ErrorCode.CONCURRENT_TRANSACTIONS
            accumulator.requeue(batch, now_ms, FIRST_ADD_BACKOFF_MS if concurrent else None)
        else:
            if is_too_large(code):
                accumulator.refused_as_too_large(batch, now_ms)
            self._give_up_sequence(batch, code)
        # What fails is unmuted when it is released.
        if verdict is not Verdict.FAIL:
            accumulator.unmute(batch.tp)
        return verdict

    def unanswered(
        self, batches: Iterable[ProducerBatch], problem: KafkaError, now_ms: float, *, sent: bool = True
    ) -> None:
        """Send batches again, or give them up: no answer came, or they could not be sent.

        Args:
            problem: why.
            sent: they may have reached the broker, and so be in the log.
        """
        unsettled = [batch for batch in batches if not batch.outcome.settled]
        if unsettled:
            # The leader may have gone, and another broker lead already.
            self._request_update()
        for batch in unsettled:
            if batch.outcome.settled:
                continue  # purged by a callback of one before it
            with self._lock:
                again = self._requeue_unanswered(batch, problem, sent, now_ms)
            if again:
                self.records_retried += batch.count
                self._stuck.failed({batch.tp: str(problem)}, now_ms)
            else:
                self._spoil_transaction(problem)
                self._settle(batch, problem)

    def _requeue_unanswered(
        self, batch: ProducerBatch, problem: KafkaError, sent: bool, now_ms: float
    ) -> bool:
        """Return whether the batch gets another try."""
        if not batch.in_flight:
            return True  # it is in its queue again already
        batch.in_flight = False
        if sent:
            batch.in_doubt = True
        if not problem.retriable or batch.attempts >= self._config.retries:
            self._give_up_sequence(batch)
            return False
        self._accumulator.requeue(batch, now_ms)
        self._accumulator.unmute(batch.tp)
        return True

    # The end of batches

    def fail_all(self, error: Exception) -> None:
        """Fail every batch, queued or on its way."""
        with self._lock:
            batches = self._accumulator.incomplete()
            self._accumulator.take_all_queued()
        for batch in batches:
            self._give_up(batch, error)

    def purge(self, *, in_queue: bool, in_flight: bool) -> int:
        """Give up what waits, what is on its way, or both (librdkafka's rd_kafka_purge).

        Returns: the number of records.
        """
        with self._lock:
            batches = self._accumulator.take_queued(lambda batch: True) if in_queue else []
            if in_flight:
                batches += [batch for batch in self._accumulator.incomplete() if batch.in_flight]
        records = 0
        for batch in batches:
            if batch.outcome.settled:
                continue
            records += batch.count
            # One that waits for its next try may be in the log, too.
            sent = batch.in_flight or batch.in_doubt
            error = PurgedInFlightError(_PURGED_SENT) if sent else PurgedError("purged before it was sent")
            self._spoil_transaction(error)
            self._give_up(batch, error)
        self._settle_sequences()
        return records

    def _expire(self, batch: ProducerBatch, now_ms: float, why: object) -> None:
        if batch.outcome.settled:
            return
        if why is None and self._metadata.leader(batch.tp) is None:
            why = self._metadata.no_leader(batch.tp)
        error = DeliveryTimeoutError(
            f"{batch.count} record(s) for {batch.tp} were not acknowledged within "
            f"{now_ms - batch.created_ms:.0f} ms ({batch.attempts + batch.in_flight} tries)"
            f"{'' if why is None else f': {why}'}"
        )
        self._spoil_transaction(error)
        self._give_up(batch, error)

    def _give_up(
        self, batch: ProducerBatch, error: Exception, per_record: dict[int, Exception] | None = None
    ) -> None:
        with self._lock:
            self._give_up_sequence(batch)
        self._settle(batch, error, per_record)

    def _give_up_sequence(self, batch: ProducerBatch, code: ErrorCode = ErrorCode.NONE) -> None:
        """Give up the batch's sequences. While it is on its way, nobody knows whether it will be written.

        Args:
            code: what the broker said at last.
        """
        if batch.in_flight:
            batch.in_doubt = True
        if self._accumulator.sequences is not None:
            self._accumulator.sequences.given_up(batch, code)

    def _spoil_transaction(self, error: OdradekError) -> None:
        if self._manager is not None:
            self._manager.batch_failed(error)

    def _written(self, batch: ProducerBatch, base_offset: int, append_time_ms: int) -> None:
        self.records_sent += batch.count
        self._release(batch)
        batch.outcome.succeed(base_offset, append_time_ms)
        _call_back(batch)

    def _release(self, batch: ProducerBatch) -> None:
        with self._lock:
            self._accumulator.release(batch)
            self._accumulator.unmute(batch.tp)
        self.freed = True

    def _settle(
        self, batch: ProducerBatch, error: Exception, per_record: dict[int, Exception] | None = None
    ) -> None:
        self._release(batch)
        outcome = batch.outcome
        if outcome.settled:
            return
        self.records_failed += batch.count
        for future in batch.callbacks:
            # Where a batch was split into this and others, this has the future look into its part.
            future._final()
            if reaches_application(future._callback):
                # Its callback will tell the application: the record does not count as unheard.
                outcome.hear(future._index)
        outcome.count = batch.count
        outcome.fail(error, per_record)
        if self._manager is None and not isinstance(error, PurgedError):
            # Of a transaction, the commit raises the error; who purges knows.
            outcome.count_unheard(self.undelivered)
        if self._on_failed is not None:
            self._on_failed(error)
        _call_back(batch)


def _call_back(batch: ProducerBatch) -> None:
    if batch.callbacks:
        report(batch.callbacks, RecordMetadata, partial(_callback_raised, batch.tp))
        batch.callbacks = []


def _callback_raised(tp: TopicPartition, problem: Exception) -> None:
    logger.error("a delivery callback for %s raised", tp, exc_info=problem)


def _sequences_lost(partitions: set[TopicPartition]) -> KafkaError:
    names = ", ".join(map(str, sorted(partitions)))
    return KafkaError(
        f"records for {names} were not acknowledged in time; nobody knows whether they are in the log"
    )
