"""`AsyncProducer`: records in, futures out."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Self, Unpack

from odradek.client.aio.cluster import check_loop
from odradek.client.aio.lookups import Lookups
from odradek.client.aio.producer_engine import (
    ProducerEngine,
    closing_timeout,
    look_up_plan,
    partition_infos,
    producer_metrics,
    wait_for_partition,
)
from odradek.client.aio.unclosed import Unclosed
from odradek.client.config import ProducerConfig, build
from odradek.client.core.batches import Callback, SerializedRecord
from odradek.client.core.delivery import BatchOutcome, DeliveryFuture
from odradek.client.errors import (
    ClientTimeoutError,
    ClosedError,
)
from odradek.client.type_variables import K_contra, V_contra
from odradek.client.types import (
    ColumnNames,
    ConsumerGroupMetadata,
    HeadersLike,
    MetricName,
    Offsets,
    PartitionInfo,
    PreparedTxnState,
    RecordMetadata,
)
from odradek.errors import KafkaError

if TYPE_CHECKING:
    import pyarrow as pa

    from odradek.client.arrow import ArrowDelivery, ArrowPlan
    from odradek.client.config_dicts import ProducerConfigs


logger = logging.getLogger("odradek.client.producer")


class AsyncTransaction:
    """The result of `AsyncProducer.begin_transaction`; awaiting it is allowed, and does nothing."""

    def __init__(self, leave: Callable[[bool], Awaitable[None]]) -> None:
        self._leave = leave

    def __await__(self) -> Generator[Any, None, AsyncTransaction]:
        return self
        yield

    async def __aenter__(self) -> AsyncTransaction:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        await self._leave(kind is not None)


class AsyncProducer(Generic[K_contra, V_contra]):
    """A producer for coroutines.

        async with AsyncProducer(bootstrap_servers="127.0.0.1:9092") as producer:
            delivery = await producer.send("events", b"value", key=b"key")
            metadata = await delivery

    Args:
        configs: Kafka's producer configs under Python's names (`linger_ms`) or, in a mapping, Kafka's.

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
        self._engine: ProducerEngine | None = None
        self._unclosed: Unclosed | None = None
        self._closed = False
        self._lookups = Lookups()

    @property
    def config(self) -> ProducerConfig:
        """The configs in effect."""
        return self._config

    def _started(self) -> ProducerEngine:
        if self._closed:
            raise ClosedError("the producer is closed")
        if self._engine is None:
            self._engine = engine = ProducerEngine(self._config, None)
            client_name = f"producer {self._config.client_id!r}"
            self._unclosed = Unclosed(client_name, engine.finish, engine.close, engine.sends_waiting)
        else:
            check_loop(self._engine.cluster)
        return self._engine

    async def start(self) -> Self:
        """Begin; the first `send` does so too."""
        self._started()
        return self

    async def send(
        self,
        topic: str,
        value: V_contra | None = None,
        key: K_contra | None = None,
        partition: int | None = None,
        timestamp_ms: int | datetime | None = None,
        headers: HeadersLike = (),
        on_delivery: Callback | None = None,
    ) -> DeliveryFuture:
        """Queue a record; waits only for metadata and for room, `max_block_ms` at most, and for schemas that
        a serializer has to look up.

        Args:
            value, key: bytes, str or None, or what the serializers take.
            partition: else chosen by key, or sticky without one.
            timestamp_ms: of the record, epoch milliseconds or a datetime (local time, if it has no time
                zone); now if None.
            headers: (name, value) pairs or a mapping.
            on_delivery: called with (metadata, None) or (None, error) from the loop when the fate is known.

        Returns: a future; `await` it for the `RecordMetadata`, or leave it.

        Raises:
            SerializationError, MessageTooLargeError, IllegalArgumentError: this record cannot be sent.
            ClientTimeoutError: no metadata, or (`BufferExhaustedError`) no room within `max_block_ms`.
            ClosedError: the producer is closed.
        """
        engine = self._engine
        if engine is not None:
            sent = engine.appender.try_send(topic, value, key, partition, timestamp_ms, headers, on_delivery)
            if sent is not None:
                return sent  # type: ignore[no-any-return]
        engine = self._started()
        arguments = None
        try:
            arguments = engine.intercepted(topic, value, key, partition, timestamp_ms, headers, on_delivery)
            # `prepare` says of a topic what is wrong with it; here it need only be a key.
            record = await self._lookups.done(str(arguments[0]), lambda: engine.prepare(*arguments))
            deadline = 0.0
            while (future := engine.try_append(record)) is None:
                deadline = deadline or engine.now_ms() + self._config.max_block_ms
                await self._wait_to_append(engine, record, deadline)
            return future
        except (Exception, asyncio.CancelledError) as problem:
            if isinstance(problem, KafkaError):
                engine.not_sent(problem)
            engine.refused(problem, arguments)
            raise

    async def _wait_to_append(
        self, engine: ProducerEngine, record: SerializedRecord, deadline: float
    ) -> None:
        if not engine.knows_partition(record):
            await wait_for_partition(engine, record.topic, record.partition, deadline)
        elif not engine.accumulator.has_room(record.size):
            await self._wait_for_room(engine, record, deadline)

    async def _wait_for_room(self, engine: ProducerEngine, record: SerializedRecord, deadline: float) -> None:
        freed = asyncio.Event()
        engine.when_memory(freed.set)
        try:
            async with asyncio.timeout(max(0.0, deadline - engine.now_ms()) / 1000):
                await freed.wait()
        except TimeoutError:
            raise engine.exhausted(record) from None
        finally:
            engine.no_longer_waiting(freed.set)
        if self._closed:
            raise ClosedError("the producer is closed")

    async def send_and_wait(
        self,
        topic: str,
        value: V_contra | None = None,
        key: K_contra | None = None,
        partition: int | None = None,
        timestamp_ms: int | datetime | None = None,
        headers: HeadersLike = (),
        on_delivery: Callback | None = None,
    ) -> RecordMetadata:
        """`send`, and wait for the acknowledgement. The arguments are those of `send`."""
        return await (await self.send(topic, value, key, partition, timestamp_ms, headers, on_delivery))

    async def send_arrow(
        self, data: pa.Table | pa.RecordBatch, topic: str | None = None, **columns: Unpack[ColumnNames]
    ) -> ArrowDelivery:
        """Queue the rows of an Arrow table; see `odradek.client.Producer.send_arrow`."""
        from odradek.client.arrow import ArrowDelivery, plan_rows

        engine = self._started()
        outcomes: list[BatchOutcome] = []
        deadline = engine.now_ms() + self._config.max_block_ms
        plan = plan_rows(engine, data, topic, **columns)
        await look_up_plan(engine, plan, deadline)
        try:
            await self._append_built(engine, plan, outcomes, deadline)
        except Exception as problem:
            engine.not_sent(problem)
            raise
        return ArrowDelivery(outcomes, plan.rows)

    async def _append_built(
        self, engine: ProducerEngine, plan: ArrowPlan, outcomes: list[BatchOutcome], deadline: float
    ) -> None:
        for built in plan.batches():
            while (outcome := engine.append_if_room(built)) is None:
                await self._wait_for_room(engine, built.as_record(), deadline)
            outcomes.append(outcome)
            deadline = engine.now_ms() + self._config.max_block_ms

    async def flush(self, timeout: float | None = None) -> None:
        """Send all that waits and wait until its fate is known; failures stay with their futures.

        Args:
            timeout: seconds.

        Raises:
            ClientTimeoutError: `timeout` has passed.
        """
        engine = self._started()
        try:
            async with asyncio.timeout(timeout):
                await engine.flush()
        except TimeoutError:
            raise ClientTimeoutError(f"flush: not all records were acknowledged within {timeout} s") from None

    async def purge(self, *, in_queue: bool = True, in_flight: bool = True) -> int:
        """Give up records that are not acknowledged; their futures and callbacks get a `PurgedError`. A
        transaction that they are of can then only be aborted.

        Args:
            in_queue: those that wait to be sent, or to be sent again.
            in_flight: those that are on their way: they fail with `PurgedInFlightError`, and may be written.

        Returns: the number of records.
        """
        return self._started().purge(in_queue, in_flight)

    # Transactions: see `odradek.client.Producer`.

    async def init_transactions(self, keep_prepared: bool = False) -> PreparedTxnState:
        """Get a producer id, and fence whoever had the `transactional_id` before.

        Args:
            keep_prepared: see `Producer.init_transactions`, also for what is returned and raised.
        """
        return await self._started().transactions.init(keep_prepared)

    def begin_transaction(self) -> AsyncTransaction:
        """Begin a transaction, at once. `async with` its result commits at the end of the block, or
        aborts.
        """
        transactions = self._started().transactions
        transactions.begin_now()
        return AsyncTransaction(transactions.leave)

    async def send_offsets_to_transaction(
        self,
        offsets: Offsets,
        group: ConsumerGroupMetadata | str,
    ) -> None:
        """Commit a consumer's offsets with the transaction.

        Args:
            offsets, group: see `Producer.send_offsets_to_transaction`.
        """
        await self._started().transactions.send_offsets(offsets, group)

    async def commit_transaction(self) -> None:
        """Wait for all records, and commit."""
        await self._started().transactions.commit()

    async def abort_transaction(self) -> None:
        """Abort."""
        await self._started().transactions.abort()

    async def prepare_transaction(self) -> PreparedTxnState:
        """Wait for all records; then only the end is open (KIP-939)."""
        return await self._started().transactions.prepare(self.flush)

    async def complete_transaction(self, prepared: PreparedTxnState) -> bool:
        """End the prepared transaction: commit it if it is `prepared`, else abort it."""
        return await self._started().transactions.complete(prepared)

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The partitions of a topic.

        Raises:
            KafkaError: as `send`.
        """
        engine = self._started()
        await engine.cluster.topic_partitions(topic, self._config.max_block_ms)
        return partition_infos(engine, topic)

    def metrics(self) -> dict[MetricName, float]:
        """Return the metrics as of now, under Kafka's names. A rate is one a second, over 30 s or more, or
        since the client began.
        """
        return producer_metrics(self._started())

    async def close(self, timeout: float | None = None) -> None:
        """Wait until all records are acknowledged, at most `timeout` seconds; then end. What is left
        fails. An open transaction is aborted, unless it was being committed. See `Producer.close`.

        Raises:
            UndeliveredError: sends failed of which the application has not heard.
        """
        await self._close(timeout, sys.exception())

    async def _close(self, timeout: float | None, failure: BaseException | None) -> None:
        engine = self._engine
        self._closed = True
        if engine is None:
            return
        check_loop(engine.cluster)
        if self._unclosed is not None:
            await self._unclosed.closed()
        try:
            await engine.close_within(closing_timeout(timeout, failure))
        except BaseException as problem:
            failure = problem
            await engine.close()
            raise
        finally:
            engine.tell_undelivered(raises=failure is None and timeout != 0)

    def __del__(self) -> None:
        unclosed = getattr(self, "_unclosed", None)
        if unclosed is not None:
            unclosed.let_go()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, kind: object, failure: BaseException | None, *exc: object) -> None:
        await self._close(None, failure)
