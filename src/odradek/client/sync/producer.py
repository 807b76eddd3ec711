"""`Producer`: records are appended by the calling thread; the background thread sends them."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import weakref
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack

from odradek.client.aio.producer_engine import (
    ProducerEngine,
    closing_timeout,
    look_up_plan,
    partition_infos,
    producer_metrics,
    wait_for_partition,
)
from odradek.client.config import ProducerConfig, build
from odradek.client.core.batches import Callback
from odradek.client.core.delivery import BatchOutcome, DeliveryFuture, left_behind
from odradek.client.core.kernel import Gate
from odradek.client.errors import ClientTimeoutError, ClosedError
from odradek.client.serialization import after_lookups
from odradek.client.sync.loop_thread import LoopThread
from odradek.client.sync.transaction import Transaction
from odradek.client.sync.unclosed import Unclosed
from odradek.client.type_variables import K_contra, V_contra
from odradek.client.types import (
    ConsumerGroupMetadata,
    HeadersLike,
    MetricName,
    Offsets,
    PartitionInfo,
    PreparedTxnState,
)
from odradek.errors import KafkaError
from odradek.util.interruptible import Bell

if TYPE_CHECKING:
    import pyarrow as pa

    from odradek.client.arrow import ArrowDelivery, Built
    from odradek.client.config_dicts import ProducerConfigs
    from odradek.client.core.batches import SerializedRecord


T = TypeVar("T")

logger = logging.getLogger("odradek.client.producer")


_GRACE_S = 5.0
"""Closing ends by itself in the background thread when its time is over. The caller waits so much longer, as
a callback of the application's may hold up the thread.
"""


class _Wake:
    """Wakes the sender from other threads. The engine keeps this, so it must not refer to the producer: that
    would never be collected.
    """

    def __init__(self, thread: LoopThread) -> None:
        self.engine: ProducerEngine | None = None
        self._thread = thread

    def __call__(self) -> None:
        # A sender that is going to look anyway looks at everything. Nothing is noted here: a signal's handler
        # may come between any two steps, and need to wake the sender itself.
        if self.engine is not None and not self.engine.sender.is_woken:
            self._thread.call_soon(self.engine.sender.wake)


class Producer(Generic[K_contra, V_contra]):
    """A producer for threads; may be shared by several, and called by signals' handlers.

        with Producer(bootstrap_servers="127.0.0.1:9092", linger_ms=5) as producer:
            future = producer.send("events", b"value", key=b"key")
            metadata = future.result(timeout=10)

    `send` appends to a batch and returns; batches leave when they are full, after `linger_ms`, or on `flush`.
    Leaving the `with` block flushes and closes.

    Args:
        configs: Kafka's producer configs under Python's names (`linger_ms`) or, in a mapping, Kafka's
            ('linger.ms'). `docs/client/configs.md` has the table.

    Raises:
        ConfigError: a config that cannot be used.
    """

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        /,
        **configs: Unpack[ProducerConfigs[K_contra, V_contra]],
    ) -> None:
        self._config = build(ProducerConfig, {**(config or {}), **configs})
        self._lock = Gate(threading.RLock())
        self._thread = LoopThread(f"odradek-{self._config.client_id}")
        self._wake = _Wake(self._thread)
        try:
            self._engine = self._thread.call(
                ProducerEngine, self._config, self._lock, self._wake, self._thread.call
            )
        except BaseException:
            self._thread.stop()
            raise
        # The engine had to have its wake before it was there.
        self._wake.engine = self._engine
        self._closed = False
        self._unclosed = Unclosed(
            self,
            f"producer {self._config.client_id!r}",
            self._thread,
            self._engine.finish,
            self._engine.sends_waiting,
        )
        self._try_send: Callable[..., Any] = self._engine.appender.try_send
        # Weak, as a producer that nobody closes is to be collected (`Unclosed`), and the thread lives on.
        self._thread.on_left = weakref.WeakMethod(self._be_left)

    def _run(self, coroutine: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        if self._closed and self._thread.left_in is None:
            coroutine.close()
            raise ClosedError("the producer is closed")
        # A finalizer or a signal's handler amid an append would wait for a loop that waits for the lock.
        if self._lock.is_inside():
            coroutine.close()
            self._lock.check_not_inside()
        return self._thread.run(coroutine, timeout)

    def _be_left(self) -> None:
        """Make `send` refuse in a process that was forked. The lock may have been held by a thread that does
        not exist there, and what becomes of the records sent before is known in the other process only.
        """

        def refuse(*_: Any) -> None:
            self._thread.check_process()

        self._try_send = refuse
        left_behind((batch.outcome for batch in self._engine.accumulator.incomplete()), os.getppid())

    @property
    def config(self) -> ProducerConfig:
        """The configs in effect."""
        return self._config

    def send(
        self,
        topic: str,
        value: V_contra | None = None,
        key: K_contra | None = None,
        partition: int | None = None,
        timestamp_ms: int | datetime | None = None,
        headers: HeadersLike = (),
        on_delivery: Callback | None = None,
    ) -> DeliveryFuture:
        """Queue a record; blocks only for metadata and for room, `max_block_ms` at most, and for schemas that
        a serializer has to look up.

        Args:
            value, key: bytes, str or None, or what the serializers take.
            partition: else chosen by key, or sticky without one.
            timestamp_ms: of the record, epoch milliseconds or a datetime (local time, if it has no time
                zone); now if None.
            headers: (name, value) pairs or a mapping.
            on_delivery: called with (metadata, None) or (None, error) from the background thread when the
                fate is known; it must not block.

        Returns: a future; `result(timeout)` gives the `RecordMetadata`.

        Raises:
            SerializationError, MessageTooLargeError, IllegalArgumentError: this record cannot be sent.
            ClientTimeoutError: no metadata, or (`BufferExhaustedError`) no room within `max_block_ms`.
            ClosedError: the producer is closed.
        """
        sent = self._try_send(topic, value, key, partition, timestamp_ms, headers, on_delivery)
        if sent is not None:
            return sent  # type: ignore[no-any-return]
        engine = self._engine
        arguments = None
        try:
            arguments = engine.intercepted(topic, value, key, partition, timestamp_ms, headers, on_delivery)
            record = after_lookups(lambda: engine.prepare(*arguments))
            deadline = 0.0
            while (future := engine.try_append(record)) is None:
                deadline = deadline or engine.now_ms() + self._config.max_block_ms
                self._wait_to_append(record, deadline)
            return future
        except Exception as problem:
            # As in Kafka's KafkaProducer.doSend: a refused argument, or a serializer that raises, leaves the
            # transaction as it is.
            if isinstance(problem, KafkaError):
                engine.not_sent(problem)
            engine.refused(problem, arguments)
            raise

    def _wait_to_append(self, record: SerializedRecord, deadline: float) -> None:
        engine = self._engine
        if not engine.knows_partition(record):
            self._run(wait_for_partition(engine, record.topic, record.partition, deadline))
        elif not engine.accumulator.has_room(record.size):
            self._wait_for_room(record, deadline)

    def _wait_for_room(self, record: SerializedRecord, deadline: float) -> None:
        engine = self._engine
        # A callback would wait for answers that the thread it runs in has to take.
        if self._thread.is_current:
            raise engine.exhausted(record)
        bell = Bell()
        self._thread.call(engine.when_memory, bell.ring)
        try:
            left_s = max(0.0, deadline - engine.now_ms()) / 1000
            # Asked again: there may have been room just before the bell was known.
            if not engine.accumulator.has_room(record.size) and not bell.wait(left_s):
                raise engine.exhausted(record)
        finally:
            self._thread.call_soon(engine.no_longer_waiting, bell.ring)
        # Closing settles all batches, and so rings.
        if self._closed:
            raise ClosedError("the producer is closed")

    def send_arrow(
        self,
        data: pa.Table | pa.RecordBatch,
        topic: str | None = None,
        *,
        key_column: str | None = "key",
        value_column: str = "value",
        topic_column: str = "topic",
        partition_column: str = "partition",
        timestamp_column: str = "timestamp",
        headers_column: str = "headers",
    ) -> ArrowDelivery:
        """Queue the rows of an Arrow table as records, column by column.

        Partitions are chosen as by `send`: the partition column where it is not null, else the key's hash,
        else sticky. Interceptors, serializers and a `partitioner` of one's own are not asked.

        Args:
            topic: for all rows; without it the topic column says.
            key_column, value_column: binary or string columns; the key's may be missing.
            topic_column, partition_column, timestamp_column, headers_column: used if the table has them:
                string, integer, timestamp or integer (epoch ms), list of struct<key, value>.

        Returns: an `ArrowDelivery`; `result(timeout)` waits and gives the number of rows.

        Raises:
            KafkaError: as `send`.
            IllegalArgumentError: columns are of other types.
        """
        from odradek.client.arrow import ArrowDelivery, plan_rows

        engine = self._engine
        if self._closed:
            raise ClosedError("the producer is closed")
        plan = plan_rows(
            engine,
            data,
            topic,
            key_column=key_column,
            value_column=value_column,
            topic_column=topic_column,
            partition_column=partition_column,
            timestamp_column=timestamp_column,
            headers_column=headers_column,
        )
        self._run(look_up_plan(engine, plan, engine.now_ms() + self._config.max_block_ms))
        try:
            outcomes = [self._append_built(built) for built in plan.batches()]
        except Exception as problem:
            # Some batches of the table may be queued already, whatever it is that failed.
            engine.not_sent(problem)
            raise
        return ArrowDelivery(outcomes, plan.rows)

    def _append_built(self, built: Built) -> BatchOutcome:
        engine = self._engine
        deadline = engine.now_ms() + self._config.max_block_ms
        while True:
            outcome: BatchOutcome | None = self._thread.call(engine.append_if_room, built)
            if outcome is not None:
                return outcome
            self._wait_for_room(built.as_record(), deadline)

    def flush(self, timeout: float | None = None) -> None:
        """Send all that waits and wait until its fate is known; failures stay with their futures.

        Args:
            timeout: seconds.

        Raises:
            ClientTimeoutError: `timeout` has passed.
            IllegalStateError: in a delivery callback, which what is flushed waits for (KIP-1118).
        """
        try:
            self._run(self._engine.flush(), timeout)
        except TimeoutError:
            raise ClientTimeoutError(f"flush: not all records were acknowledged within {timeout} s") from None

    def purge(self, *, in_queue: bool = True, in_flight: bool = True) -> int:
        """Give up records that are not acknowledged; their futures and callbacks get a `PurgedError`. A
        transaction that they are of can then only be aborted.

        Args:
            in_queue: those that wait to be sent, or to be sent again.
            in_flight: those that are on their way: they fail with `PurgedInFlightError`, and may be written.

        Returns: the number of records.
        """
        if self._closed:
            raise ClosedError("the producer is closed")
        self._lock.check_not_inside()
        return self._thread.call(self._engine.purge, in_queue, in_flight)

    # Transactions

    def init_transactions(self, keep_prepared: bool = False) -> PreparedTxnState:
        """Get a producer id, once, before the first transaction. The producer that had the `transactional_id`
        before is fenced, and its open transaction aborted.

        All transactional calls raise the same errors.

        Args:
            keep_prepared: a transaction that was prepared is left as it is, to be ended by
                `complete_transaction` (KIP-939).

        Returns: that transaction; empty if there is none.

        Raises:
            IllegalStateError: the producer has no `transactional_id`, or the call does not fit the call
                before.
            KafkaError: with `fatal`, the producer is to be closed (`ProducerFencedError`: another producer
                has the id now); with `requires_abort`, the transaction has to be aborted.
            UnsupportedByBrokerError: the broker is older than Kafka 0.11.0, or (`keep_prepared`) has no
                KIP-939.
            ClientTimeoutError: not done within `max_block_ms`. The same call may be repeated, and goes on.
        """
        return self._run(self._engine.transactions.init(keep_prepared))

    def begin_transaction(self) -> Transaction:
        """Begin a transaction, to which everything belongs that is sent until its end.

        Returns: a context manager that commits at the end of its block, or aborts if that raises:

            with producer.begin_transaction():
                producer.send("payments", b"…")

        The block may be left out: `commit_transaction` and `abort_transaction` do the same.
        """
        self._thread.call(self._engine.transactions.begin_now)
        return Transaction(self._leave_transaction)

    def _leave_transaction(self, failed: bool) -> None:
        self._run(self._engine.transactions.leave(failed))

    def send_offsets_to_transaction(
        self,
        offsets: Offsets,
        group: ConsumerGroupMetadata | str,
    ) -> None:
        """Commit a consumer's offsets with the transaction.

        Args:
            offsets: the next offset to read, by (topic, partition): the last one processed, plus one.
            group: what `Consumer.group_metadata()` gives; by it the coordinator refuses a consumer that was
                rebalanced out (KIP-447; brokers before 2.5 know the group alone). Or a group id.

        Raises:
            CommitFailedError: the group has moved on: abort, and read again from what is committed.
        """
        self._run(self._engine.transactions.send_offsets(offsets, group))

    def commit_transaction(self) -> None:
        """Wait for all records, and commit.

        Raises:
            KafkaError: the error of a record that could not be written: abort then.
        """
        self._run(self._engine.transactions.commit())

    def abort_transaction(self) -> None:
        """Abort the transaction: no read_committed consumer will see anything of it. Records that were not
        sent yet fail with `TransactionAbortedError`.
        """
        self._run(self._engine.transactions.abort())

    def prepare_transaction(self) -> PreparedTxnState:
        """Wait for all records; from then on the transaction can only be ended (KIP-939). With
        `transaction_two_phase_commit_enable` the coordinator keeps it open until it is ended, else for
        `transaction_timeout_ms` from its beginning.

        Returns: the transaction's name, to be kept with the decision and given to `complete_transaction`.
        """
        return self._run(self._engine.transactions.prepare(self._engine.flush))

    def complete_transaction(self, prepared: PreparedTxnState) -> bool:
        """End the prepared transaction: commit it if it is `prepared`, else abort it. Returns whether it was
        committed.
        """
        return self._run(self._engine.transactions.complete(prepared))

    def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """Return the partitions of a topic.

        Raises:
            KafkaError: as `send`.
        """
        self._run(self._engine.cluster.topic_partitions(topic, self._config.max_block_ms))
        return partition_infos(self._engine, topic)

    def metrics(self) -> dict[MetricName, float]:
        """Return the metrics as of now, under Kafka's names. A rate is one a second, over 30 s or more, or
        since the client began.
        """
        return producer_metrics(self._engine)

    def close(self, timeout: float | None = None) -> None:
        """Wait until all records are acknowledged, at most `timeout` seconds; then end. What is left
        fails. An open transaction is aborted, unless it was being committed.

        After an interrupt (Ctrl-C), `close` waits for 2 seconds at most. In a delivery callback it returns at
        once, and the rest is done in the background. Where it is called while another thread closes, or by a
        signal's handler amid another `close`, both end when the shorter time is over.

        Raises:
            UndeliveredError: sends have failed that have no callback, and whose future nobody looked at.
                While another exception is on its way, and with a `timeout` of 0, they are logged.
        """
        self._close(timeout, sys.exception())

    def _close(self, timeout: float | None, failure: BaseException | None) -> None:
        # In a process that was forked: the client is the other one's, and goes on.
        if self._thread.left_in is not None:
            return
        timeout = closing_timeout(timeout, failure)
        self._closed = True
        self._engine.shut()
        if self._thread.is_current or self._lock.is_inside():
            self._unclosed.close_in_background(partial(_close_in_background, self._engine, timeout))
            return
        self._unclosed.closed()
        try:
            self._end(timeout)
        except BaseException as problem:
            failure = problem
            raise
        finally:
            self._thread.stop()
            # The error that is on its way must not be hidden by this one.
            self._engine.tell_undelivered(raises=failure is None and timeout != 0)

    def _end(self, timeout: float | None) -> None:
        # An interrupt may come amid the handing over, too.
        try:
            closing = self._thread.submit(self._engine.close_within(timeout))
            closing.result(None if timeout is None else timeout + _GRACE_S)
        except ClosedError:
            return  # closed before, or meanwhile by another call, which had less time
        except TimeoutError:
            logger.warning("the producer's thread is held up (by a callback?); it is left as it is")
        except BaseException:
            # Ctrl-C amid the wait: sends that are left fail now, so that they can be told of.
            with contextlib.suppress(ClosedError, TimeoutError):
                self._thread.run(self._engine.close_within(0), _GRACE_S)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, failure: BaseException | None, *exc: object) -> None:
        self._close(None, failure)


async def _close_in_background(engine: ProducerEngine, timeout: float | None) -> None:
    await engine.close_within(timeout)
    engine.tell_undelivered(raises=False)
