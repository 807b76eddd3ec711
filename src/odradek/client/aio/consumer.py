"""`AsyncConsumer`: records of topics, alone or as a member of a group."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack

from odradek.client.aio.cluster import check_loop
from odradek.client.aio.consumer_engine import (
    CLOSE_TIMEOUT_MS,
    CommitCallback,
    ConsumerEngine,
    at_least_one,
    listening,
    records_by_partition,
)
from odradek.client.aio.lookups import look_up
from odradek.client.aio.unclosed import Unclosed
from odradek.client.arguments import names_of, partitions_of, topic_partition
from odradek.client.config import ConsumerConfig, build, split_mapping
from odradek.client.core.assignors import resolve_assignors
from odradek.client.core.fetch_requests import EARLIEST, LATEST
from odradek.client.core.handled import Handled
from odradek.client.core.ownership import Ownership
from odradek.client.core.subscription_state import Position
from odradek.client.errors import IllegalStateError
from odradek.client.serialization import LookupNeeded
from odradek.client.type_variables import K_co, V_co
from odradek.client.types import (
    ByPartition,
    ConsumerGroupMetadata,
    ConsumerRebalanceListener,
    ConsumerRecord,
    MetricName,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Offsets,
    PartitionInfo,
    RecordColumns,
    TopicPartition,
    TopicPartitionLike,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from odradek.client.config_dicts import ConsumerConfigs

logger = logging.getLogger("odradek.client.consumer")

T = TypeVar("T")


async def _let_go(engine: ConsumerEngine, timeout_ms: float) -> None:
    """Close for an application that is gone, and may not have processed the records given out last."""
    if engine.group is not None:
        engine.group.listener = None
    await engine.close(timeout_ms, failed=True)


class AsyncConsumer(Generic[K_co, V_co]):
    """A consumer for coroutines.

        async with AsyncConsumer("events", group_id="g", bootstrap_servers="127.0.0.1:9092") as consumer:
            async for record in consumer:
                ...

    One task takes records at a time, or unsubscribes, and no listener does. All other calls, and `close`, may
    be made beside it. With a group, `poll` must be called at least every `max_poll_interval_ms`; rebalances
    go on, listeners are called and offsets are committed while it runs.

    Args:
        topics: to subscribe to; none: call `subscribe` or `assign`. A mapping of configs may stand in front.
        config, configs: Kafka's consumer configs under Python's names (`group_id`) or, in a mapping, Kafka's.

    Raises:
        ConfigError: a config that cannot be used.
        ConcurrentModificationError: a second task takes records, or unsubscribes.
        IllegalStateError: a listener does so.
    """

    def __init__(
        self,
        *topics: str | Mapping[str, object],
        config: Mapping[str, object] | None = None,
        **configs: Unpack[ConsumerConfigs[K_co, V_co]],
    ) -> None:
        names, in_front = split_mapping(topics)
        self._config = build(ConsumerConfig, {**in_front, **(config or {}), **configs})
        resolve_assignors(self._config.partition_assignment_strategy)
        if names and self._config.group_id is None:
            raise IllegalStateError("to subscribe, a consumer needs a group.id; use assign without one")
        self._topics = names
        self._handled = Handled()
        self._ownership = Ownership("this AsyncConsumer")
        self._engine: ConsumerEngine | None = None
        self._unclosed: Unclosed | None = None

    @property
    def config(self) -> ConsumerConfig:
        """The configs in effect."""
        return self._config

    async def _started(self) -> ConsumerEngine:
        if self._engine is None:
            self._engine = engine = ConsumerEngine(self._config)
            client_name = f"consumer {self._config.client_id!r}"
            finish, stop = partial(_let_go, engine, CLOSE_TIMEOUT_MS), partial(_let_go, engine, 0)
            self._unclosed = Unclosed(client_name, finish, stop)
            if self._topics:
                await self._engine.subscribe(self._topics, None, None)
        else:
            check_loop(self._engine.cluster)
        return self._engine

    def _alone(self, name: str) -> AbstractContextManager[Any]:
        if listening.get() is self._engine is not None:
            raise IllegalStateError(f"{name} in a rebalance listener: only after that has returned")
        return self._ownership.enter(name, asyncio.current_task(), nested=False)

    async def start(self) -> Self:
        """Begin; every other call does so too."""
        await self._started()
        return self

    async def subscribe(
        self,
        topics: Iterable[str] | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Let the group assign partitions of these topics, or of all whose whole name matches `pattern`.

        Topics that come to match later are found within `metadata_max_age_ms`. An empty list unsubscribes.

        Args:
            topics: their names.
            pattern: a regular expression, in place of names.
            listener: is told of partitions that come and go, within `poll`.

        Raises:
            IllegalStateError: there is no group id, or partitions are assigned by hand.
        """
        engine = await self._started()
        if topics is not None:
            topics = names_of(topics, "topics")
        with self._alone("subscribe([])") if topics == [] else nullcontext():
            await engine.subscribe(topics, pattern, listener)

    async def assign(self, partitions: Iterable[TopicPartitionLike]) -> None:
        """Read exactly these, without the group's help.

        Args:
            partitions: (topic, number) pairs.

        Raises:
            IllegalStateError: the consumer is subscribed.
        """
        (await self._started()).assign(partitions)

    async def incremental_assign(self, partitions: Iterable[TopicPartitionLike]) -> None:
        """Read these, too, beside what is assigned by hand; that keeps its positions.

        Args:
            partitions: (topic, number) pairs.

        Raises:
            IllegalStateError: one is assigned already, or the consumer is subscribed.
        """
        (await self._started()).incremental_assign(partitions)

    async def incremental_unassign(self, partitions: Iterable[TopicPartitionLike]) -> None:
        """Read these no more; what else is assigned by hand keeps its positions.

        Args:
            partitions: (topic, number) pairs.

        Raises:
            IllegalStateError: one is not assigned, or the consumer is subscribed.
        """
        (await self._started()).incremental_unassign(partitions)

    async def unsubscribe(self) -> None:
        """Give up everything and leave the group. Commits (with auto-commit) what `close` would."""
        failed = self._handled.new_one()
        engine = await self._started()
        with self._alone("unsubscribe"):
            await engine.unsubscribe(failed=failed)

    async def subscription(self) -> set[str]:
        """The topics subscribed to."""
        return set((await self._started()).positions.topics)

    async def assignment(self) -> set[TopicPartition]:
        """The partitions assigned."""
        return set((await self._started()).positions.assigned)

    async def poll(
        self, timeout_ms: float = 1_000, max_records: int | None = None
    ) -> list[ConsumerRecord[K_co, V_co]]:
        """Records, at most `max_records` (default `max_poll_records`); none when `timeout_ms` passes without.

        Raises:
            NoOffsetForPartitionError, OffsetOutOfRangeError, LogTruncationError: with auto_offset_reset
                'none'.
            SerializationError: a deserializer refused the next record.
            KafkaError: not authorized, fenced, damaged data, ….
        """
        engine = await self._started()
        limit = at_least_one(self._config.max_poll_records if max_records is None else max_records)
        with self._alone("poll"):
            self._handled.note()
            return await engine.poll(timeout_ms, lambda: engine.take(limit))

    async def getone(self, *partitions: TopicPartitionLike) -> ConsumerRecord[K_co, V_co]:
        """Wait for the next record, without end.

        Args:
            partitions: assigned ones, of which the record is to be; none: of any.

        Raises:
            IllegalStateError: a partition is not assigned.
            KafkaError: as `poll`.
        """
        engine = await self._started()
        timeout_ms = self._config.request_timeout_ms
        while not (records := await self._taken("getone", partitions, timeout_ms, engine.take_one)):
            pass
        return records[0]

    async def getmany(
        self, *partitions: TopicPartitionLike, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[K_co, V_co]]]:
        """Records as `poll` gives them, by partition.

        Args:
            partitions: assigned ones, of which records are to be; none: of all.
            timeout_ms: milliseconds to wait for the first of them.
            max_records: default `max_poll_records`.

        Raises:
            IllegalStateError: a partition is not assigned.
            KafkaError: as `poll`.
        """
        engine = await self._started()
        limit = at_least_one(self._config.max_poll_records if max_records is None else max_records)
        taken = await self._taken("getmany", partitions, timeout_ms, lambda: engine.take(limit))
        return records_by_partition(taken)

    async def _taken(
        self,
        name: str,
        partitions: Iterable[TopicPartitionLike],
        timeout_ms: float,
        take: Callable[[], list[ConsumerRecord[Any, Any]]],
    ) -> list[ConsumerRecord[K_co, V_co]]:
        engine = await self._started()
        with self._alone(name):
            self._handled.note()
            if partitions:
                engine.take_only(partitions_of(partitions))
            try:
                return await engine.poll(timeout_ms, take)
            finally:
                if partitions:
                    engine.take_only(())

    async def poll_arrow(
        self,
        timeout_ms: float = 1_000,
        max_rows: int | None = None,
        *,
        with_headers: bool = True,
        **columns: Unpack[RecordColumns],
    ) -> pa.Table:
        """As `poll`, as an Arrow table; see `odradek.client.Consumer.poll_arrow`."""
        from odradek.client.arrow_read import as_spark, empty_table, to_table

        options = as_spark(columns)
        engine = await self._started()
        limit = at_least_one(100_000 if max_rows is None else max_rows)
        with self._alone("poll_arrow"):
            self._handled.note()
            parts: list[tuple[Position, Any]] = await engine.poll(
                timeout_ms, lambda: engine.take_columns(limit, with_headers, options)
            )
        return to_table(parts) if parts else empty_table(with_headers, options)

    def __aiter__(self) -> AsyncIterator[ConsumerRecord[K_co, V_co]]:
        return self._iterate()

    async def __anext__(self) -> ConsumerRecord[K_co, V_co]:
        """The next record, as `getone`: for `anext(consumer)`."""
        return await self.getone()

    async def _iterate(self) -> AsyncIterator[ConsumerRecord[K_co, V_co]]:
        engine = await self._started()
        looked = False
        while True:
            self._handled.note()
            try:
                for record in engine.hand_out(engine.after_take, looked=looked):
                    yield record
            except LookupNeeded as needed:
                await look_up(needed)
                looked = False
                continue
            deadline = engine.cluster.now_ms() + self._config.request_timeout_ms
            with self._alone("iteration"):
                looked = await engine.something_to_take(deadline)

    async def seek(self, partition: TopicPartitionLike, offset: int, leader_epoch: int = -1) -> None:
        """Go on at `offset`.

        Args:
            partition: (topic, number).
            leader_epoch: of the record before it, by which a cut log is noticed (KIP-320); -1: unknown.

        Raises:
            IllegalStateError: the partition is not assigned.
        """
        (await self._started()).seek(topic_partition(partition), offset, leader_epoch)

    async def seek_to_beginning(self, *partitions: TopicPartitionLike) -> None:
        """Go on at the first offset; without arguments all assigned partitions."""
        (await self._started()).seek_to(EARLIEST, partitions)

    async def seek_to_end(self, *partitions: TopicPartitionLike) -> None:
        """Go on after the last offset; without arguments all assigned partitions."""
        (await self._started()).seek_to(LATEST, partitions)

    async def position(self, partition: TopicPartitionLike, timeout_ms: float | None = None) -> int:
        """The offset of the next record.

        Args:
            partition: (topic, number).
            timeout_ms: how long it may take, milliseconds; None: `default_api_timeout_ms`.

        Raises:
            ClientTimeoutError: it is not known in time.
        """
        return await (await self._started()).position(topic_partition(partition), timeout_ms)

    async def pause(self, *partitions: TopicPartitionLike) -> None:
        """Give out no records of these until `resume`; heartbeats go on."""
        (await self._started()).set_paused(True, partitions)

    async def resume(self, *partitions: TopicPartitionLike) -> None:
        """The end of `pause`."""
        (await self._started()).set_paused(False, partitions)

    async def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        return {p.tp for p in (await self._started()).positions if p.paused}

    async def commit(self, offsets: Offsets | None = None, timeout_ms: float | None = None) -> None:
        """Commit positions, or the given {partition: offset or OffsetAndMetadata}, and wait.

        Args:
            offsets: (topic, number) → the next offset to read; None: all positions.
            timeout_ms: how long it may take, milliseconds; None: `default_api_timeout_ms`.

        Raises:
            CommitFailedError: the partitions belong to another member by now.
            KafkaError: what the coordinator says when it cannot be retried: also when a later commit of one
                of the partitions has begun, which it would undo.
            ClientTimeoutError: not done in time.
        """
        await (await self._started()).commit(offsets, timeout_ms)

    async def commit_async(
        self,
        offsets: Offsets | None = None,
        callback: CommitCallback | None = None,
    ) -> None:
        """As `commit`, without waiting; `callback(offsets, error)` is called in the end. A commit that the
        coordinator cannot take now is given up when a later one of the same partition begins, which it would
        undo.
        """
        engine = await self._started()
        engine.group_needed().commits.commit_in_background(engine.offsets_to_commit(offsets), callback)

    async def store_offsets(self, offsets: Offsets | ConsumerRecord[object, object]) -> None:
        """Say what is processed. With `enable_auto_offset_store=False`, automatic commits, `commit()` and
        `close` commit what was stored last, and not the positions.

        Args:
            offsets: (topic, number) → the next offset to read; or the record that is processed.

        Raises:
            IllegalStateError: `enable_auto_offset_store` is on, or a partition is not assigned.
        """
        (await self._started()).store_offsets(offsets)

    async def committed(
        self, partitions: Iterable[TopicPartitionLike], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The group's committed offsets, None where there is none.

        Args:
            partitions: (topic, number) pairs.
            timeout_ms: how long it may take, milliseconds; None: `default_api_timeout_ms`.
        """
        engine = await self._started()
        timeout = self._config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        return await engine.group_needed().commits.committed(partitions_of(partitions), timeout)

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartitionLike], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each.

        Args:
            partitions: (topic, number) pairs.
            timeout_ms: how long it may take, milliseconds; None: `default_api_timeout_ms`.
        """
        begins = await (await self._started()).offsets(
            dict.fromkeys(partitions_of(partitions), EARLIEST), timeout_ms
        )
        return {tp: entry.offset for tp, entry in begins.items()}

    async def end_offsets(
        self, partitions: Iterable[TopicPartitionLike], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset after the last record that can be read of each.

        Args:
            partitions: (topic, number) pairs.
            timeout_ms: how long it may take, milliseconds; None: `default_api_timeout_ms`.
        """
        ends = await (await self._started()).offsets(
            dict.fromkeys(partitions_of(partitions), LATEST), timeout_ms
        )
        return {tp: entry.offset for tp, entry in ends.items()}

    async def offsets_for_times(
        self, timestamps_ms: ByPartition[int | datetime], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first offset at or after a time (epoch ms) of each, None where no record is that new.

        Args:
            timestamps_ms: (topic, number) → epoch milliseconds, or a datetime (without a time zone: local).
            timeout_ms: how long it may take, milliseconds; None: `default_api_timeout_ms`.

        Raises:
            IllegalArgumentError: a time is negative.
        """
        return await (await self._started()).offsets_for_times(timestamps_ms, timeout_ms)

    async def partitions_for(self, topic: str, timeout_ms: float | None = None) -> list[PartitionInfo]:
        """The partitions of a topic.

        Args:
            topic: its name.
            timeout_ms: how long it may take, milliseconds; None: `default_api_timeout_ms`.
        """
        return await (await self._started()).partitions_for(topic, timeout_ms)

    async def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int]:
        """The numbers of a topic's partitions; see `partitions_for`."""
        return {info.partition for info in await self.partitions_for(topic, timeout_ms)}

    async def topics(self, timeout_ms: float | None = None) -> set[str]:
        """The names of all topics that there are; internal ones if `exclude_internal_topics` is off.

        Args:
            timeout_ms: how long it may take, milliseconds; None: `default_api_timeout_ms`.
        """
        return await (await self._started()).topics(timeout_ms)

    async def lag(self, partition: TopicPartitionLike) -> int | None:
        """Records between the position and the end as of the last fetch; None before the first.

        Args:
            partition: (topic, number).
        """
        return (await self._started()).lag(topic_partition(partition))

    async def metrics(self) -> dict[MetricName, float]:
        """Return the metrics as of now, under Kafka's names. A rate is one a second, over 30 s or more, or
        since the client began.
        """
        return (await self._started()).metrics()

    async def enforce_rebalance(self) -> None:
        """The next `poll` joins the group anew (KIP-568).

        Raises:
            IllegalStateError: the consumer is not subscribed.
        """
        (await self._started()).enforce_rebalance()

    async def group_metadata(self) -> ConsumerGroupMetadata:
        """Return what `AsyncProducer.send_offsets_to_transaction` needs (KIP-447).

        Raises:
            IllegalStateError: there is no group.
        """
        return (await self._started()).group_needed().metadata()

    async def group_generation(self) -> tuple[int, str]:
        """(generation, member id); (-1, '') outside the group."""
        member = (await self._started()).group_needed().member
        return member.generation.number, member.member_id

    async def close(self, timeout_ms: float = CLOSE_TIMEOUT_MS) -> None:
        """Commit (with auto-commit), leave the group, close. See `Consumer.close`.

        Args:
            timeout_ms: how long the leave may take, milliseconds.
        """
        await self._close(timeout_ms, failed=self._handled.new_one(), tell=logging.WARNING)

    async def _close(self, timeout_ms: float, *, failed: bool, tell: int) -> None:
        if self._engine is not None:
            check_loop(self._engine.cluster)
            if self._unclosed is not None:
                await self._unclosed.closed()
            await self._engine.close(timeout_ms, failed=failed, tell=tell)

    def __del__(self) -> None:
        unclosed = getattr(self, "_unclosed", None)
        if unclosed is not None:
            unclosed.let_go()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        await self._close(CLOSE_TIMEOUT_MS, failed=kind is not None, tell=logging.INFO)
