"""The engine of both producers: serializing, choosing partitions, appending, flushing."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from odradek.client.aio.cluster import Cluster
from odradek.client.aio.sender import Sender
from odradek.client.aio.statistics import Fields, Statistics
from odradek.client.aio.transactions import Transactions, no_transactions
from odradek.client.arguments import (
    TOO_LATE_MS,
    header_pairs,
    partition_number,
    record_timestamp,
    whole_number,
)
from odradek.client.config import ProducerConfig
from odradek.client.core.backoff import Backoff
from odradek.client.core.batches import Callback, SerializedRecord, record_size
from odradek.client.core.client_metrics import ClientMetrics
from odradek.client.core.delivery import BatchOutcome, DeliveryFuture, settles_here, wait_for_outcomes
from odradek.client.core.interceptors import Interceptors
from odradek.client.core.kernel import Gate, TopicLanes
from odradek.client.core.metadata import KnownTopic, KnownTopics, MetadataCache
from odradek.client.core.partitioners import StickyPartitions, resolve_partitioner
from odradek.client.core.record_accumulator import RecordAccumulator
from odradek.client.core.sequences import Sequences
from odradek.client.core.transactions.transaction_manager import TransactionManager
from odradek.client.errors import (
    ArgumentTypeError,
    BufferExhaustedError,
    ClientTimeoutError,
    ClosedError,
    IllegalArgumentError,
    MessageTooLargeError,
)
from odradek.client.serialization import resolve, to_bytes
from odradek.client.types import (
    HeadersLike,
    MetricName,
    PartitionInfo,
    ProducerRecord,
    TopicPartition,
)
from odradek.errors import KafkaError, OdradekError
from odradek.records.compression import Codec
from odradek.records.partitioner import partition_for_key

if TYPE_CHECKING:
    from odradek.client.arrow import ArrowPlan, Built


logger = logging.getLogger("odradek.client.producer")

INTERRUPTED_S = 2.0
"""How long closing waits for answers after Ctrl-C, or when the task was cancelled."""


def _transaction_manager(config: ProducerConfig) -> TransactionManager | None:
    if config.transactional_id is None:
        return None
    return TransactionManager(
        config.transactional_id,
        config.transaction_timeout_ms,
        two_phase_commit=config.transaction_two_phase_commit_enable,
    )


def _accumulator(
    config: ProducerConfig,
    sequences: Sequences | None,
    lock: Gate | None,
    manager: TransactionManager | None,
    metadata: MetadataCache,
) -> RecordAccumulator:
    return RecordAccumulator(
        batch_size=config.batch_size,
        linger_ms=config.linger_ms,
        buffer_memory=config.buffer_memory,
        delivery_timeout_ms=config.delivery_timeout_ms,
        codec=Codec.parse(config.compression_type),
        level=config.compression_level,
        backoff=Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms),
        sequences=sequences,
        one_in_flight=config.max_in_flight_requests_per_connection == 1,
        gate=lock,
        in_transaction=None if manager is None else manager.may_send,
        leader_epoch=metadata.leader_epoch,
        topic_id=metadata.topic_id,
    )


class ProducerEngine:
    """The engine of both producers. It is made in the event loop, and called there; `prepare`, `topic`,
    `knows_partition` and `try_append` may be called in other threads, too.

    Args:
        config: the producer's.
        lock: the gate that appending threads and the sender share, or None where only the loop's thread
            appends.
        wake: makes the sender look; called from the appending thread.
        in_loop: calls a function with arguments in the loop's thread, and returns what it returns; None: the
            caller is in that thread.

    Attributes:
        closed: no record is taken any more.
        appender: the short way of records; it is enabled only where a record needs nothing but its batch.
    """

    def __init__(
        self,
        config: ProducerConfig,
        lock: Gate | None,
        wake: Callable[[], None] | None = None,
        in_loop: Callable[..., Any] | None = None,
    ) -> None:
        self.config = config
        self._in_loop = in_loop
        self.lock: AbstractContextManager[Any] = contextlib.nullcontext() if lock is None else lock
        self.closed = False
        self.manager = _transaction_manager(config)
        self.sequences = (
            Sequences(transactional=self.manager is not None) if config.enable_idempotence else None
        )
        self.cluster = Cluster(config)
        self.accumulator = _accumulator(config, self.sequences, lock, self.manager, self.cluster.metadata)
        self.sender = Sender(
            config,
            self.cluster,
            self.accumulator,
            self.sequences,
            self.lock,
            self._memory_freed,
            self.manager,
        )
        self.metrics = ClientMetrics("producer", config.client_id)
        self._statistics = Statistics(
            "producer",
            self.cluster,
            config.stats_cb,
            config.statistics_interval_ms,
            partial(producer_statistics, self),
        )
        self._transactions: Transactions | None = None
        if self.manager is not None:
            self._transactions = Transactions(
                config, self.cluster, self.accumulator, self.manager, self.lock, self.sender.wake
            )
        # Appending threads call this one. The loop's own tasks call `sender.wake`, which needs no hand-over.
        self.wake = wake or self.sender.wake
        self._serialize_key = resolve(config.key_serializer, "serialize", "key.serializer")
        self._serialize_value = resolve(config.value_serializer, "serialize", "value.serializer")
        self._partitioner = resolve_partitioner(config.partitioner)
        self._sticky = StickyPartitions(
            config.batch_size,
            config.partitioner_adaptive_partitioning_enable,
            takes_records=self._takes_records if config.partitioner_availability_timeout_ms else None,
        )
        self._interceptors = Interceptors(config.interceptors, config)
        self._largest = min(config.max_request_size, config.buffer_memory)
        self._topics = KnownTopics(self.cluster.metadata)
        # Those in `when_memory`; as many as `accumulator.waiting_for_memory`.
        self._memory_waiters: list[Callable[[], None]] = []
        self.appender = self.accumulator.appender
        self.appender.largest = self._largest
        self.appender.ignore_keys = config.partitioner_ignore_keys
        self.appender.enabled = (
            self._serialize_key is None
            and self._serialize_value is None
            and self._partitioner is None
            and not self._interceptors
        )
        # Closing begins once, for all calls of it: `_closing` waits for answers, `_end` lets everything go.
        self._closing: asyncio.Task[None] | None = None
        self._end: asyncio.Task[None] | None = None
        self.cluster.on_update.append(self._drop_unused_topics)
        settles_here(self.accumulator.owes)
        self.sender.start()

    def _drop_unused_topics(self) -> None:
        with self.lock:
            # Records take the long way once, by which the topics' partitions become known anew.
            self.appender.forget()
            queued = self.accumulator.topics_queued
        # A topic that is written to rarely must not be dropped while a batch of it waits for a leader.
        self.cluster.want(queued)
        self.cluster.drop_unused(self.config.metadata_max_idle_ms)

    @property
    def transactions(self) -> Transactions:
        """Return the producer's transactions.

        Raises:
            IllegalStateError: the producer has no `transactional_id`.
        """
        if self._transactions is None:
            raise no_transactions()
        return self._transactions

    # Before a record has a partition

    def intercepted(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | datetime | None,
        headers: HeadersLike,
        on_delivery: Callback | None,
    ) -> tuple[Any, ...]:
        """Return the arguments of `prepare`: those of a record after interceptors.

        First of all, as interceptors may change everything (Kafka's KafkaProducer.send), and once, however
        often the record is prepared.

        Raises:
            ClosedError: the producer is closed.
        """
        if self.closed:
            raise ClosedError("the producer is closed")
        if not self._interceptors:
            return topic, value, key, partition, timestamp_ms, headers, on_delivery
        record = ProducerRecord(topic, value, key, partition, timestamp_ms, header_pairs(headers))
        record = ProducerRecord(*self._interceptors.changed("on_send", record))
        return (*record, self._interceptors.before(on_delivery, record.headers))

    def prepare(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | datetime | None,
        headers: HeadersLike,
        on_delivery: Callback | None,
    ) -> SerializedRecord:
        """Run serializers, and check sizes.

        Raises:
            SerializationError, MessageTooLargeError, IllegalArgumentError: this record cannot be sent.
            LookupNeeded: a serializer needs one.
        """
        if not isinstance(topic, str):
            raise ArgumentTypeError(f"a topic's name is text, not {type(topic).__name__}: {topic!r}")
        if not topic:
            raise IllegalArgumentError("a record needs a topic")
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        elif type(timestamp_ms) is not int or not 0 <= timestamp_ms < TOO_LATE_MS:
            timestamp_ms = record_timestamp(timestamp_ms)
        if partition is not None and (type(partition) is not int or partition < 0):
            partition = partition_number(partition)
        if key is not None or self._serialize_key is not None:
            key = to_bytes(self._serialize_key, topic, key, "key")
        if value is not None or self._serialize_value is not None:
            value = to_bytes(self._serialize_value, topic, value, "value")
        pairs = header_pairs(headers) if headers else ()
        size = record_size(key, value, pairs)
        # As in Kafka's KafkaProducer.ensureValidRecordSize: what could never leave is refused here.
        if size <= self._largest:
            return SerializedRecord(topic, partition, timestamp_ms, key, value, pairs, size, on_delivery)
        if size > self.config.max_request_size:
            raise MessageTooLargeError(
                f"the record for topic {topic!r} takes {size} bytes; "
                f"max.request.size is {self.config.max_request_size}"
            )
        raise MessageTooLargeError(
            f"the record for topic {topic!r} takes {size} bytes; buffer.memory is {self.config.buffer_memory}"
        )

    def refused(self, problem: Exception | asyncio.CancelledError, arguments: tuple[Any, ...] | None) -> None:
        """Tell interceptors that a record was not queued (Kafka's ProducerInterceptors.onSendError).

        Args:
            arguments: those of `prepare`; None where there are none.
        """
        if arguments is not None and self._interceptors:
            error = problem if isinstance(problem, Exception) else KafkaError("the send was cancelled")
            self._interceptors.acknowledged(None, error, ProducerRecord(*arguments[:-1]).headers)

    # Appending

    def topic(self, name: str) -> KnownTopic | None:
        """Return the known partitions of a topic; None if it is not in the metadata."""
        return self._topics.get(name)

    def batch_bound(self, topic: str) -> int | None:
        """Return from how many bytes before compression brokers refuse a topic's batches, if known."""
        return self.accumulator.bounds.unpacked_bound(topic)

    def knows_partition(self, record: SerializedRecord) -> bool:
        """Return whether the record's topic is in the metadata, and the partition if the record names it."""
        known_topic = self._topics.get(record.topic)
        return known_topic is not None and (record.partition is None or record.partition in known_topic.tps)

    def try_append(self, record: SerializedRecord) -> DeliveryFuture | None:
        """Append a record if nothing is to be waited for first.

        Returns: the record's future. None: the partition is not known (see `knows_partition`); or there is no
        room; or a transaction began or ended meanwhile, and the next try will do.

        Raises:
            ClosedError: the producer is closed.
            IllegalArgumentError: a partitioner chose a partition that the topic does not have.
            KafkaError: as `TransactionManager.add_partition`, outside a transaction or after one failed.
        """
        # Read first: what is looked at from here on may be out of date when the record is appended. Then
        # `append` sees another round, and nothing has happened.
        about = self.appender.round
        if self.closed:
            raise ClosedError("the producer is closed")
        accumulator = self.accumulator
        known_topic = self._topics.get(record.topic)
        if known_topic is None or not accumulator.has_room(record.size):
            return None
        partition = record.partition
        sticky = False
        if partition is None:
            if self._partitioner is not None:
                partition = self._partitioner(
                    record.topic, record.key, record.value, known_topic.numbers, known_topic.available
                )
                if partition is not None and type(partition) is not int:
                    partition = whole_number(partition, "what the partitioner gives")
            elif record.key is not None and not self.config.partitioner_ignore_keys:
                partition = partition_for_key(record.key, len(known_topic.numbers))
            if partition is None:
                sticky = True
                partition = self._sticky.current(record.topic, known_topic.available, self._queue_length)
        tp = known_topic.tps.get(partition)
        if tp is None:
            # The application may know of a partition before the metadata; a partitioner chooses from those.
            if record.partition is not None:
                return None
            raise IllegalArgumentError(
                f"topic {record.topic!r} has no partition {partition}: it has {len(known_topic.numbers)}"
            )
        if self.manager is not None:
            self._join_transaction(self.manager, tp)
        appended = accumulator.append(
            tp,
            record.timestamp,
            record.key,
            record.value,
            record.headers,
            record.callback,
            record.size,
            self.now_ms(),
            about=about,
            lanes=self._lanes(record.topic, known_topic) if self.appender.enabled else None,
        )
        if appended is None:
            return None
        future, look, closed = appended
        if sticky:
            self._sticky.appended(record.topic, partition, record.size, closed)
        if look:
            self.wake()
        return future

    def _join_transaction(self, manager: TransactionManager, tp: TopicPartition) -> None:
        if self._in_loop is None or manager.has_joined(tp):
            manager.add_partition(tp)
        else:
            # The manager belongs to the loop's thread, which makes requests of what has joined.
            self._in_loop(manager.add_partition, tp)

    def _lanes(self, topic: str, known_topic: KnownTopic) -> TopicLanes | None:
        """Return what is remembered of a topic, so that the next records may take the short way."""
        lanes = self.appender.topics.get(topic)
        # Lanes are a list by partition, so there are none for a topic with gaps in its numbers.
        if lanes is None and known_topic.numbers[-1] == len(known_topic.numbers) - 1:
            lanes = TopicLanes(
                len(known_topic.numbers), self._sticky.of(topic), self.accumulator.batch_size_of(topic)
            )
        return lanes

    def not_sent(self, problem: Exception) -> None:
        """Note that a `send` failed, or sent only part: the transaction that it belongs to cannot be
        committed any more. Not under `lock`; from any thread.
        """
        if self.manager is not None:
            error = problem if isinstance(problem, OdradekError) else KafkaError(repr(problem))
            if self._in_loop is None:
                self._spoil(self.manager, error)
            else:
                with contextlib.suppress(ClosedError):
                    self._in_loop(self._spoil, self.manager, error)

    def _spoil(self, manager: TransactionManager, error: OdradekError) -> None:
        with self.lock:
            manager.send_failed(error)
        self.sender.wake()

    def append_if_room(self, built: Built) -> BatchOutcome | None:
        """Queue a whole record batch if there is room; None if not.

        Raises:
            KafkaError: as `try_append`.
        """
        if self.closed:
            raise ClosedError("the producer is closed")
        with self.lock:
            if not self.accumulator.has_room(len(built.data)):
                return None
            outcome = self.append_built(built.tp, built.data, built.rows)
        self.sender.wake()
        return outcome

    def append_built(self, tp: TopicPartition, data: bytes | bytearray, rows: int) -> BatchOutcome:
        """Queue a whole record batch.

        Raises:
            KafkaError: as `try_append`.
        """
        if self.manager is not None:
            self.manager.add_partition(tp)
            # The batch gets its transactional bit and its checksum in place (`ProducerBatch.adopt`).
            data = data if isinstance(data, bytearray) else bytearray(data)
        return self.accumulator.append_built(tp, data, rows, self.now_ms())

    def _takes_records(self, topic: str, partition: int) -> bool:
        leader = self.cluster.metadata.leader(TopicPartition(topic, partition))
        return self.sender.latency.takes_records(leader)

    def _queue_length(self, topic: str, partition: int) -> int:
        return self.accumulator.queue_length(TopicPartition(topic, partition))

    @staticmethod
    def now_ms() -> float:
        """Return the time by the event loop's clock (monotonic milliseconds); from any thread."""
        return time.monotonic() * 1000

    # Memory

    def when_memory(self, waiter: Callable[[], None]) -> None:
        """Call `waiter` whenever some memory was freed. Until `no_longer_waiting`, batches do not linger."""
        self.accumulator.waiting_for_memory += 1
        self._memory_waiters.append(waiter)
        self.sender.wake()

    def no_longer_waiting(self, waiter: Callable[[], None]) -> None:
        """Take back a `when_memory`."""
        self.accumulator.waiting_for_memory -= 1
        with contextlib.suppress(ValueError):
            self._memory_waiters.remove(waiter)

    def _memory_freed(self) -> None:
        if self._memory_waiters:
            # A copy: a waiter that has its room takes itself out.
            for waiter in list(self._memory_waiters):
                waiter()

    def exhausted(self, record: SerializedRecord) -> BufferExhaustedError:
        """Return the error for a record that had no room within `max_block_ms`."""
        failure = self.cluster.last_failure
        return BufferExhaustedError(
            f"no room for {record.size} bytes within {self.config.max_block_ms} ms: buffer.memory "
            f"({self.config.buffer_memory} bytes) is full{f'; {failure}' if failure else ''}"
        )

    # Flushing and closing

    @contextlib.contextmanager
    def flushing(self) -> Iterator[list[BatchOutcome]]:
        """Let all batches leave without lingering while the block waits for them. Gives their outcomes."""
        with self.lock:
            self.accumulator.flushing += 1
            pending = [batch.outcome for batch in self.accumulator.incomplete()]
        self.sender.wake()
        try:
            yield pending
        finally:
            with self.lock:
                self.accumulator.flushing -= 1

    async def flush(self) -> None:
        """Send all that waits, and wait until its fate is known."""
        with self.flushing() as pending:
            await wait_for_outcomes(pending)

    def purge(self, in_queue: bool, in_flight: bool) -> int:
        """See `Producer.purge`."""
        records = self.sender.state.purge(in_queue=in_queue, in_flight=in_flight)
        self.sender.wake()
        return records

    def shut(self) -> None:
        """Take no more records."""
        self.closed = True
        self.appender.enabled = False

    def sends_waiting(self) -> int:
        """Return how many records have no answer yet."""
        return sum(batch.count for batch in self.accumulator.incomplete())

    async def finish(self) -> None:
        """Wait for all answers, and close."""
        await self.close_within(None)
        self.tell_undelivered(raises=False)

    async def close_within(self, timeout: float | None) -> None:
        """Wait for all answers, at most `timeout` seconds, and close.

        A second call waits for the same answers, and ends the waiting of both when its own time is over.
        """
        self.shut()
        if self._closing is None:
            self._closing = asyncio.create_task(self._last_answers())
        # Not wait_for: a caller that is cancelled must not end the closing for the others.
        done, _ = await asyncio.wait({self._closing}, timeout=timeout)
        if not done:
            self._closing.cancel()
        await self.close()

    async def _last_answers(self) -> None:
        # An abort drops batches, for which the flush then need not wait.
        if self._transactions is not None:
            await self._transactions.close()
        await self.flush()

    def tell_undelivered(self, *, raises: bool) -> None:
        """Tell of failed sends of which the application has not heard: by an exception, or in the log.

        Raises:
            UndeliveredError: there are such sends.
        """
        problem = self.sender.state.undelivered.take()
        if problem is None:
            return
        if raises:
            raise problem
        logger.error("%s", problem)

    async def close(self) -> None:
        """Stop, without waiting for anything."""
        if self._end is None:
            self._end = asyncio.create_task(self._stop())
        # Shielded, as a stop that is cut short would leave connections open.
        await asyncio.shield(self._end)

    async def _stop(self) -> None:
        self.shut()
        if self._closing is not None:
            self._closing.cancel()
            await asyncio.wait({self._closing})
        # Transactional calls that still wait get this error: no answer will come.
        if self.manager is not None:
            self.manager.close(ClosedError("the producer was closed"))
        self._statistics.stop()
        await self.sender.stop()
        await self.cluster.close()
        self._interceptors.tell("close")


def closing_timeout(timeout: float | None, failure: BaseException | None) -> float | None:
    """Return how long closing may wait (seconds): `INTERRUPTED_S` at most if an interrupt closes."""
    if isinstance(failure, KeyboardInterrupt | asyncio.CancelledError):
        return INTERRUPTED_S if timeout is None else min(timeout, INTERRUPTED_S)
    return timeout


async def wait_for_partition(
    engine: ProducerEngine, topic: str, partition: int | None, deadline: float
) -> None:
    """Wait until a topic (and, if given, a partition that it did not have) is in the metadata.

    Raises:
        KafkaError: as `Cluster.topic_partitions`.
    """
    numbers = await engine.cluster.look_for_partition(topic, partition, deadline - engine.now_ms())
    if partition is not None and partition not in numbers:
        raise ClientTimeoutError(
            f"partition {partition} of topic {topic!r} is not in the metadata: it has {len(numbers)}"
        )


async def look_up_plan(engine: ProducerEngine, plan: ArrowPlan, deadline: float) -> None:
    """Look up the topics and partitions that a plan names.

    Raises:
        KafkaError: as `Cluster.look_for_partition`.
    """
    for topic, partition in (*((topic, None) for topic in plan.topics), *plan.named):
        await engine.cluster.look_for_partition(topic, partition, deadline - engine.now_ms())


def partition_infos(engine: ProducerEngine, topic: str) -> list[PartitionInfo]:
    """Return the partitions of a known topic, ascending."""
    state = engine.cluster.metadata.topics.get(topic)
    return [] if state is None else [state.partitions[n].info() for n in sorted(state.partitions)]


def producer_metrics(engine: ProducerEngine) -> dict[MetricName, float]:
    """Return the metrics as of now."""
    accumulator, state, metrics = engine.accumulator, engine.sender.state, engine.metrics
    gauges = {
        metrics.name("buffer-total-bytes"): float(accumulator.buffer_memory),
        metrics.name("buffer-available-bytes"): float(accumulator.buffer_memory - accumulator.memory_used),
        metrics.name("waiting-threads"): float(accumulator.waiting_for_memory),
        metrics.name("requests-in-flight"): float(engine.sender.requests_in_flight),
    }
    totals = {
        metrics.name("record-send-total"): float(state.records_sent),
        metrics.name("record-error-total"): float(state.records_failed),
        metrics.name("record-retry-total"): float(state.records_retried),
    }
    return metrics.values(gauges, totals, engine.cluster.traffic())


def producer_statistics(engine: ProducerEngine) -> tuple[Fields, dict[TopicPartition, Fields]]:
    """Return a producer's fields of librdkafka's statistics, and those of its partitions."""
    partitions: dict[TopicPartition, Fields] = {}
    records = 0
    for batch in engine.accumulator.incomplete():
        records += batch.count
        fields = partitions.setdefault(batch.tp, {"msgq_cnt": 0, "msgq_bytes": 0, "msgs_inflight": 0})
        if batch.in_flight:
            fields["msgs_inflight"] += batch.count
        else:
            fields["msgq_cnt"] += batch.count
            fields["msgq_bytes"] += batch.memory
    own: Fields = {
        "msg_cnt": records,
        "msg_size": engine.accumulator.memory_used,
        "msg_size_max": engine.accumulator.buffer_memory,
        "txmsgs": engine.sender.state.records_sent,
    }
    sequences = engine.sequences
    if sequences is not None:
        own["eos"] = {"producer_id": sequences.producer_id, "producer_epoch": sequences.producer_epoch}
    return own, partitions
