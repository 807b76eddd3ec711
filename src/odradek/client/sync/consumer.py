"""`Consumer`: the engine of `AsyncConsumer` in a background thread, records taken by the calling one.

Listeners run in the application's thread: while `poll` waits for the background thread, it does what that
asks.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import re
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from odradek.client.aio.consumer_engine import (
    CLOSE_TIMEOUT_MS,
    CommitCallback,
    ConsumerEngine,
    at_least_one,
)
from odradek.client.config import ConsumerConfig, build, split_mapping
from odradek.client.core.assignors import resolve_assignors
from odradek.client.core.fetch_requests import EARLIEST, LATEST
from odradek.client.core.handled import Handled
from odradek.client.errors import ClosedError, IllegalStateError
from odradek.client.sync.loop_thread import LoopThread
from odradek.client.sync.unclosed import Unclosed
from odradek.client.types import (
    ConsumerGroupMetadata,
    ConsumerRebalanceListener,
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionInfo,
    TopicPartition,
)
from odradek.util.interruptible import next_of

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
TopicPartitionLike = TopicPartition | tuple[str, int]


class _Invocation:
    """A listener's call that the background thread wants made; its result goes back to the loop."""

    def __init__(
        self, method: Callable[..., Any], partitions: tuple[TopicPartition, ...], done: asyncio.Future[None]
    ) -> None:
        self._method = method
        self._partitions = partitions
        self._done = done

    def run(self) -> None:
        loop = self._done.get_loop()
        try:
            self._method(self._partitions)
        except BaseException as problem:
            loop.call_soon_threadsafe(_settle, self._done, problem)
            if not isinstance(problem, Exception):
                raise
        else:
            loop.call_soon_threadsafe(_settle, self._done, None)


async def _invoke(
    todo: queue.SimpleQueue[Any], method: Callable[..., Any], partitions: tuple[TopicPartition, ...]
) -> None:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    todo.put(_Invocation(method, partitions, done))
    await done


async def _let_go(engine: ConsumerEngine) -> None:
    """Close for an application that is gone, and may not have processed what it was given last."""
    if engine.group is not None:
        engine.group.listener = None
    await engine.close(CLOSE_TIMEOUT_MS, failed=True)


def _settle(future: asyncio.Future[None], problem: BaseException | None) -> None:
    if future.done():
        return
    if problem is None:
        future.set_result(None)
    else:
        future.set_exception(problem)


class Consumer:
    """A consumer for one thread.

        with Consumer("events", group_id="g", bootstrap_servers="127.0.0.1:9092") as consumer:
            for record in consumer:
                ...

    With a group, `poll` (or iteration) must go on at least every `max_poll_interval_ms`: rebalances happen,
    listeners are called and offsets are committed there. Heartbeats and fetching go on in the background.

    Args:
        topics: to subscribe to; none: call `subscribe` or `assign`. A mapping of configs may stand in front.
        config, configs: Kafka's consumer configs under Python's names (`group_id`) or, in a mapping, Kafka's
            ('group.id'). `docs/client.md` has the table.

    Raises:
        ConfigError: a config that cannot be used.
    """

    def __init__(
        self, *topics: str | Mapping[str, Any], config: Mapping[str, Any] | None = None, **configs: Any
    ) -> None:
        names, in_front = split_mapping(topics)
        self._config = build(ConsumerConfig, {**in_front, **(config or {}), **configs})
        resolve_assignors(self._config.partition_assignment_strategy)
        if names and self._config.group_id is None:
            raise IllegalStateError("to subscribe, a consumer needs a group.id; use assign without one")
        self._thread = LoopThread(f"odradek-{self._config.client_id}")
        self._todo: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._closed = False
        self._handled = Handled()
        try:
            self._engine = self._thread.call(ConsumerEngine, self._config, partial(_invoke, self._todo))
            if names:
                self.subscribe(names)
        except BaseException:
            self._thread.stop()
            raise
        what = f"consumer {self._config.client_id!r}"
        self._unclosed = Unclosed(self, what, self._thread, partial(_let_go, self._engine))

    @property
    def config(self) -> ConsumerConfig:
        """The configs in effect."""
        return self._config

    # The two threads

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run in the loop; meanwhile do here what the loop asks for."""
        if self._closed:
            coroutine.close()
            raise ClosedError("the consumer is closed")
        if self._thread.is_current:
            coroutine.close()
            raise IllegalStateError(
                "a blocking call from the consumer's own I/O thread (a callback) would never return"
            )
        future = self._thread.submit(coroutine)
        future.add_done_callback(self._todo.put)
        try:
            while True:
                item = next_of(self._todo)
                if item is future:
                    result: T = future.result()
                    return result
                if isinstance(item, _Invocation):
                    item.run()
        except BaseException:
            future.cancel()
            raise

    def _call(self, function: Callable[..., T], *args: Any) -> T:
        async def run() -> T:
            return function(*args)

        return self._run(run())

    # Subscription and assignment

    def subscribe(
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

        Raises `IllegalStateError`: no group id, or partitions are assigned by hand.
        """
        self._run(self._engine.subscribe(topics, pattern, listener))

    def assign(self, partitions: Iterable[TopicPartitionLike]) -> None:
        """Read exactly these, without the group's help. Raises `IllegalStateError` if subscribed.

        Args:
            partitions: (topic, number) pairs.
        """
        self._call(self._engine.assign, list(partitions))

    def unsubscribe(self) -> None:
        """Give up everything and leave the group. Commits (with auto-commit) what `close` would."""
        self._run(self._engine.unsubscribe(failed=self._handled.new_one()))

    def subscription(self) -> set[str]:
        """The topics subscribed to."""
        return set(self._engine.positions.topics)

    def assignment(self) -> set[TopicPartition]:
        """The partitions assigned."""
        return set(self._engine.positions.assigned)

    # Records

    def poll(self, timeout_ms: float = 1_000, max_records: int | None = None) -> list[ConsumerRecord]:
        """Records, at most `max_records` (default `max_poll_records`); none when `timeout_ms` passes without.

        Raises:
            NoOffsetForPartitionError, OffsetOutOfRangeError, LogTruncationError: with auto_offset_reset
                'none'.
            SerializationError: a deserializer refused the next record.
            KafkaError: not authorized, fenced, damaged data, ….
        """
        limit = at_least_one(self._config.max_poll_records if max_records is None else max_records)
        engine = self._engine
        return self._poll(timeout_ms, lambda: engine.take(limit))

    def _poll(self, timeout_ms: float, take: Callable[[], list[T]]) -> list[T]:
        """Take in this thread: an interrupt (Ctrl-C) while waiting leaves all records where they are."""
        # What the other process has fetched is given out there.
        self._thread.check_process()
        engine = self._engine
        self._handled.note()
        now_ms = time.monotonic() * 1000
        # What is there already is taken without asking the other thread.
        if not engine.buffer.empty and engine.ready(now_ms):
            engine.polled()
            out = take()
            self._fetch_on()
            if out:
                return out
        deadline = now_ms + timeout_ms
        while self._run(engine.something_to_take(deadline)):
            out = take()
            self._fetch_on()
            if out or time.monotonic() * 1000 >= deadline:
                return out
        return []

    def _fetch_on(self) -> None:
        if self._engine.used_up:
            self._thread.call_soon(self._engine.after_take)

    def poll_arrow(
        self,
        timeout_ms: float = 1_000,
        max_rows: int | None = None,
        *,
        with_headers: bool = True,
        **columns: Any,
    ) -> pa.Table:
        """As `poll`, as an Arrow table, without a Python object per record.

        Columns and types are those of odradek's Spark source: key, value (binary), topic, partition (int32),
        offset (int64), timestamp (timestamp[us, UTC]), timestampType (int32) and headers (list of
        struct<key, value>, null without). Deserializers and interceptors are not asked.

        Args:
            timeout_ms: milliseconds to wait for the first rows.
            with_headers: False: there is no column for them.
            max_rows: default 100,000.
            columns: `timestamp_unit` ("us"), `as_timestamp` (True; False: int64), `nullable_headers` (True)
                of `odradek.records.columns.ColumnDecoder`.
        """
        from odradek.client.arrow_read import as_spark, empty_table, to_table

        columns = as_spark(columns)
        engine = self._engine
        limit = at_least_one(100_000 if max_rows is None else max_rows)
        parts = self._poll(timeout_ms, lambda: engine.buffer.take_columns(limit, with_headers, columns))
        return to_table(parts) if parts else empty_table(with_headers, columns)

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Hand out records one by one, without end; the position is always that after the last one."""
        engine = self._engine
        looked = False
        while True:
            self._thread.check_process()
            self._handled.note()
            yield from engine.hand_out(self._fetch_on, looked=looked)
            deadline = time.monotonic() * 1000 + self._config.request_timeout_ms
            looked = self._run(engine.something_to_take(deadline))

    # Positions

    def seek(self, partition: TopicPartitionLike, offset: int, leader_epoch: int = -1) -> None:
        """Go on at `offset`. Raises `IllegalStateError` if the partition is not assigned.

        Args:
            partition: (topic, number).
            leader_epoch: of the record before it, by which a cut log is noticed (KIP-320); -1: unknown.
        """
        self._call(self._engine.seek, TopicPartition(*partition), offset, leader_epoch)

    def seek_to_beginning(self, *partitions: TopicPartitionLike) -> None:
        """Go on at the first offset; without arguments all assigned partitions."""
        self._call(self._engine.seek_to, EARLIEST, partitions)

    def seek_to_end(self, *partitions: TopicPartitionLike) -> None:
        """Go on after the last offset; without arguments all assigned partitions."""
        self._call(self._engine.seek_to, LATEST, partitions)

    def position(self, partition: TopicPartitionLike, timeout_ms: float | None = None) -> int:
        """The offset of the next record. Raises `ClientTimeoutError`.

        Args:
            partition: (topic, number).
            timeout_ms: how long it may take, milliseconds; None: `default_api_timeout_ms`.
        """
        return self._run(self._engine.position(TopicPartition(*partition), timeout_ms))

    def pause(self, *partitions: TopicPartitionLike) -> None:
        """Give out no records of these until `resume`; heartbeats go on."""
        self._call(self._engine.set_paused, True, partitions)

    def resume(self, *partitions: TopicPartitionLike) -> None:
        """The end of `pause`."""
        self._call(self._engine.set_paused, False, partitions)

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        return {p.tp for p in self._engine.positions if p.paused}

    # Commits

    def commit(self, offsets: Mapping[Any, Any] | None = None, timeout_ms: float | None = None) -> None:
        """Commit positions, or the given {partition: offset or OffsetAndMetadata}, and wait.

        Args:
            offsets: (topic, number) → the next offset to read; None: all positions.
            timeout_ms: how long it may take, milliseconds; None: `default_api_timeout_ms`.

        Raises:
            CommitFailedError: the partitions belong to another member by now.
            KafkaError, ClientTimeoutError.
        """
        self._run(self._engine.commit(offsets, timeout_ms))

    def commit_async(
        self, offsets: Mapping[Any, Any] | None = None, callback: CommitCallback | None = None
    ) -> None:
        """As `commit`, without waiting; `callback(offsets, error)` is called from the background thread."""
        engine = self._engine
        wanted = engine.offsets_to_commit(offsets)
        self._call(engine.group_needed().commits.commit_in_background, wanted, callback)

    def committed(
        self, partitions: Iterable[TopicPartitionLike], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The group's committed offsets, None where there is none.

        Args:
            partitions: (topic, number) pairs.
            timeout_ms: how long it may take, milliseconds; None: `default_api_timeout_ms`.
        """
        timeout = self._config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        group = self._engine.group_needed()
        return self._run(group.commits.committed([TopicPartition(*tp) for tp in partitions], timeout))

    # Questions

    def beginning_offsets(
        self, partitions: Iterable[TopicPartitionLike], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each.

        Args:
            partitions: (topic, number) pairs.
            timeout_ms: how long it may take, milliseconds; None: `default_api_timeout_ms`.
        """
        found = self._run(self._engine.offsets(dict.fromkeys(partitions, EARLIEST), timeout_ms))
        return {tp: entry.offset for tp, entry in found.items()}

    def end_offsets(
        self, partitions: Iterable[TopicPartitionLike], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset after the last record that can be read of each.

        Args:
            partitions: (topic, number) pairs.
            timeout_ms: how long it may take, milliseconds; None: `default_api_timeout_ms`.
        """
        found = self._run(self._engine.offsets(dict.fromkeys(partitions, LATEST), timeout_ms))
        return {tp: entry.offset for tp, entry in found.items()}

    def offsets_for_times(
        self, timestamps_ms: Mapping[Any, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first offset at or after a time (epoch ms) of each, None where no record is that new.

        Args:
            timestamps_ms: (topic, number) → time, epoch milliseconds.
            timeout_ms: how long it may take, milliseconds; None: `default_api_timeout_ms`.
        """
        found = self._run(self._engine.offsets(timestamps_ms, timeout_ms))
        return {tp: entry if entry.offset >= 0 else None for tp, entry in found.items()}

    def partitions_for(self, topic: str, timeout_ms: float | None = None) -> list[PartitionInfo]:
        """The partitions of a topic.

        Args:
            topic: its name.
            timeout_ms: how long it may take, milliseconds; None: `default_api_timeout_ms`.
        """
        return self._run(self._engine.partitions_for(topic, timeout_ms))

    def lag(self, partition: TopicPartitionLike) -> int | None:
        """Records between the position and the end as of the last fetch; None before the first.

        Args:
            partition: (topic, number).
        """
        return self._engine.lag(TopicPartition(*partition))

    def metrics(self) -> dict[str, float]:
        """A few of Kafka's consumer metrics, as of now."""
        return self._engine.metrics()

    def enforce_rebalance(self) -> None:
        """The next `poll` joins the group anew (KIP-568). Raises `IllegalStateError` unless subscribed."""
        self._call(self._engine.enforce_rebalance)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the argument of `Producer.send_offsets_to_transaction` (KIP-447).

        Raises `IllegalStateError` without a group.
        """
        return self._engine.group_needed().metadata()

    def group_generation(self) -> tuple[int, str]:
        """(generation, member id); (-1, '') outside the group."""
        member = self._engine.group_needed().member
        return member.generation.number, member.member_id

    def close(self, timeout_ms: float = CLOSE_TIMEOUT_MS) -> None:
        """Commit (with auto-commit), leave the group, close.

        While an exception is on its way, or handled, the records given out last are not committed, as they
        may not have been processed: those of the last `poll`, or the one that an iteration handed out last. A
        line in the log names them. An exception that was handled already when they were given out does not
        count, nor do records count that `commit` was called for.

        Args:
            timeout_ms: how long the leave may take, milliseconds.
        """
        self._close(timeout_ms, failed=self._handled.new_one(), tell=logging.WARNING)

    def _close(self, timeout_ms: float, *, failed: bool, tell: int) -> None:
        if self._closed or self._thread.left_in is not None:
            return
        self._unclosed.closed()
        try:
            self._run(self._engine.close(timeout_ms, failed=failed, tell=tell))
        finally:
            self._closed = True
            self._thread.stop()

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        self._close(CLOSE_TIMEOUT_MS, failed=kind is not None, tell=logging.INFO)
