"""`Consumer`: the engine of `AsyncConsumer` in a background thread, records taken by the calling one.

`ConsumerThread` is the passage between the two threads, and knows who may call amid whom.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack

from odradek.client.aio.consumer_engine import (
    CLOSE_TIMEOUT_MS,
    CommitCallback,
    ConsumerEngine,
    at_least_one,
    records_by_partition,
)
from odradek.client.arguments import names_of, partitions_of, topic_partition
from odradek.client.config import ConsumerConfig, build, split_mapping
from odradek.client.core.assignors import resolve_assignors
from odradek.client.core.fetch_requests import EARLIEST, LATEST
from odradek.client.core.handled import Handled
from odradek.client.errors import IllegalStateError
from odradek.client.serialization import LookupNeeded, after_lookups
from odradek.client.sync.consumer_thread import ConsumerThread
from odradek.client.sync.unclosed import Unclosed
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

T = TypeVar("T")


async def _let_go(engine: ConsumerEngine) -> None:
    """Close for an application that is gone, and may not have processed the records given out last."""
    await _close_in_background(engine, CLOSE_TIMEOUT_MS, True, logging.INFO)


async def _close_in_background(engine: ConsumerEngine, timeout_ms: float, failed: bool, tell: int) -> None:
    if engine.group is not None:
        engine.group.listener = None  # no thread of the application's is there to call it
    await engine.close(timeout_ms, failed=failed, tell=tell)


class Consumer(Generic[K_co, V_co]):
    """A consumer for one thread at a time.

        with Consumer("events", group_id="g", bootstrap_servers="127.0.0.1:9092") as consumer:
            for record in consumer:
                ...

    With a group, `poll` (or iteration) must go on at least every `max_poll_interval_ms`: rebalances happen,
    listeners are called and offsets are committed there. Heartbeats and fetching go on in the background.

    Of the calls that wait, or change something, one is under way at a time. `wakeup` and `close` may be
    called from anywhere, and end a call that waits. A listener, a callback or a signal's handler may make
    calls that take no records; amid the taking of records (deserializers, interceptors) only calls that ask.

    Args:
        topics: to subscribe to; none: call `subscribe` or `assign`. A mapping of configs may stand in front.
        config, configs: Kafka's consumer configs under Python's names (`group_id`) or, in a mapping, Kafka's
            ('group.id'). `docs/client/configs.md` has the table.

    Raises:
        ConfigError: a config that cannot be used.
        ConcurrentModificationError: by such a call from a second thread.
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
        self._thread = thread = ConsumerThread(f"odradek-{self._config.client_id}")
        # By it `close` knows whether an exception may be about the records given out last.
        self._handled = Handled()
        try:
            self._engine = thread.loop_thread.call(ConsumerEngine, self._config, thread.invoke)
            if names:
                self.subscribe(names)
        except BaseException:
            thread.loop_thread.stop()
            raise
        client_name = f"consumer {self._config.client_id!r}"
        self._unclosed = Unclosed(self, client_name, thread.loop_thread, partial(_let_go, self._engine))

    @property
    def config(self) -> ConsumerConfig:
        """The configs in effect."""
        return self._config

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

        Raises:
            IllegalStateError: there is no group id, or partitions are assigned by hand.
        """
        # Read in this thread: an iterator of the application's must not run in the other one.
        if topics is not None:
            topics = names_of(topics, "topics")
        # An empty list unsubscribes, and so takes records back: not amid a call that takes some.
        ends = topics == []
        with self._thread.entering("subscribe([])" if ends else "subscribe", nested=not ends, changes=True):
            self._thread.run(self._engine.subscribe(topics, pattern, listener))

    def assign(self, partitions: Iterable[TopicPartitionLike]) -> None:
        """Read exactly these, without the group's help.

        Args:
            partitions: (topic, number) pairs.

        Raises:
            IllegalStateError: the consumer is subscribed.
        """
        with self._thread.entering("assign", changes=True):
            self._thread.call(self._engine.assign, partitions_of(partitions))

    def incremental_assign(self, partitions: Iterable[TopicPartitionLike]) -> None:
        """Read these, too, beside what is assigned by hand; that keeps its positions.

        Args:
            partitions: (topic, number) pairs.

        Raises:
            IllegalStateError: one is assigned already, or the consumer is subscribed.
        """
        with self._thread.entering("incremental_assign", changes=True):
            self._thread.call(self._engine.incremental_assign, partitions_of(partitions))

    def incremental_unassign(self, partitions: Iterable[TopicPartitionLike]) -> None:
        """Read these no more; what else is assigned by hand keeps its positions.

        Args:
            partitions: (topic, number) pairs.

        Raises:
            IllegalStateError: one is not assigned, or the consumer is subscribed.
        """
        with self._thread.entering("incremental_unassign", changes=True):
            self._thread.call(self._engine.incremental_unassign, partitions_of(partitions))

    def unsubscribe(self) -> None:
        """Give up everything and leave the group. Commits (with auto-commit) what `close` would."""
        with self._thread.entering("unsubscribe", nested=False):
            self._thread.run(self._engine.unsubscribe(failed=self._handled.new_one()))

    def subscription(self) -> set[str]:
        """Return the topics subscribed to."""
        return set(self._engine.positions.topics)

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions assigned."""
        return set(self._engine.positions.assigned)

    # Records

    def poll(
        self, timeout_ms: float = 1_000, max_records: int | None = None
    ) -> list[ConsumerRecord[K_co, V_co]]:
        """Return records, at most `max_records` (default `max_poll_records`); none if none come within
        `timeout_ms`.

        Raises:
            WakeupError: `wakeup` was called.
            ClosedError: the consumer is closed, or was meanwhile.
            NoOffsetForPartitionError, OffsetOutOfRangeError, LogTruncationError: with auto_offset_reset
                'none'.
            SerializationError: a deserializer refused the next record.
            KafkaError: not authorized, fenced, damaged data, ….
        """
        limit = at_least_one(self._config.max_poll_records if max_records is None else max_records)
        engine = self._engine
        return self._poll("poll", timeout_ms, lambda: engine.take(limit))

    def getone(self, *partitions: TopicPartitionLike) -> ConsumerRecord[K_co, V_co]:
        """Wait for the next record, without end; `wakeup` and `close` end it.

        Args:
            partitions: assigned ones, of which the record is to be; none: of any.

        Raises:
            IllegalStateError: a partition is not assigned.
            KafkaError: as `poll`.
        """
        engine = self._engine
        timeout_ms = self._config.request_timeout_ms
        while not (records := self._taken("getone", partitions, timeout_ms, engine.take_one)):
            pass
        return records[0]

    def getmany(
        self, *partitions: TopicPartitionLike, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[K_co, V_co]]]:
        """Return records as `poll` does, by partition.

        Args:
            partitions: assigned ones, of which records are to be; none: of all.
            timeout_ms: milliseconds to wait for the first of them.
            max_records: default `max_poll_records`.

        Raises:
            IllegalStateError: a partition is not assigned.
            KafkaError: as `poll`.
        """
        engine = self._engine
        limit = at_least_one(self._config.max_poll_records if max_records is None else max_records)
        taken = self._taken("getmany", partitions, timeout_ms, lambda: engine.take(limit))
        return records_by_partition(taken)

    def _taken(
        self,
        name: str,
        partitions: Iterable[TopicPartitionLike],
        timeout_ms: float,
        take: Callable[[], list[ConsumerRecord[Any, Any]]],
    ) -> list[ConsumerRecord[K_co, V_co]]:
        engine, thread = self._engine, self._thread
        if not partitions:
            return self._poll(name, timeout_ms, take)
        with thread.entering(name, nested=False):
            thread.call(engine.take_only, partitions_of(partitions))
            try:
                return self._poll_entered(timeout_ms, take)
            finally:
                # Not waited for: an interrupt amid the wait would cost the records that were taken.
                thread.loop_thread.call_soon(engine.take_only, ())

    def _poll(self, name: str, timeout_ms: float, take: Callable[[], list[T]]) -> list[T]:
        """Take in this thread: an interrupt (Ctrl-C) while waiting leaves all records where they are."""
        with self._thread.entering(name, nested=False):
            return self._poll_entered(timeout_ms, take)

    def _poll_entered(self, timeout_ms: float, take: Callable[[], list[T]]) -> list[T]:
        thread = self._thread
        # In a fork: records that the other process has fetched are given out there alone.
        thread.check()
        thread.check_wakeup()
        engine = self._engine
        self._handled.note()
        now_ms = time.monotonic() * 1000
        # Records that are there already are taken without asking the other thread.
        if not engine.buffer.empty and engine.ready(now_ms):
            engine.polled()
            out = self._take(take)
            if out:
                return out
        deadline = now_ms + timeout_ms
        # Again, as what was fetched may hold nothing for the application: aborted records, markers.
        while thread.run(engine.something_to_take(deadline), wakes=True):
            out = self._take(take)
            if out or time.monotonic() * 1000 >= deadline:
                return out
        return []

    def _take(self, take: Callable[[], list[T]]) -> list[T]:
        # Deserializers and interceptors run in it, and must not move the positions that it moves.
        def taken() -> list[T]:
            with self._thread.taking():
                return take()

        out = after_lookups(taken)
        self._fetch_on()
        return out

    def _fetch_on(self) -> None:
        if self._engine.used_up:
            self._thread.loop_thread.call_soon(self._engine.after_take)

    def poll_arrow(
        self,
        timeout_ms: float = 1_000,
        max_rows: int | None = None,
        *,
        with_headers: bool = True,
        **columns: Unpack[RecordColumns],
    ) -> pa.Table:
        """As `poll`, as an Arrow table, without a Python object per record.

        Columns and types are those of odradek's Spark source: key, value (binary), topic, partition (int32),
        offset (int64), timestamp (timestamp[us, UTC]), timestampType (int32) and headers (list of
        struct<key, value>, null without). Deserializers and interceptors are not asked; what these have made
        of a record, and `getone` has not given out, is dropped.

        Args:
            timeout_ms: milliseconds to wait for the first rows.
            with_headers: False: there is no column for them.
            max_rows: default 100,000.
            columns: `timestamp_unit` ("us"), `as_timestamp` (True; False: int64), `nullable_headers` (True)
                of `odradek.records.columns.ColumnDecoder`.
        """
        from odradek.client.arrow_read import as_spark, empty_table, to_table

        options = as_spark(columns)
        engine = self._engine
        limit = at_least_one(100_000 if max_rows is None else max_rows)
        parts = self._poll(
            "poll_arrow", timeout_ms, lambda: engine.take_columns(limit, with_headers, options)
        )
        return to_table(parts) if parts else empty_table(with_headers, options)

    def __iter__(self) -> Iterator[ConsumerRecord[K_co, V_co]]:
        """Hand out records one by one, without end; the position is always behind the last of them."""
        engine, thread = self._engine, self._thread
        looked = False

        # Not held while the application has a record: between two records it may make any call.
        def guard() -> AbstractContextManager[Any]:
            thread.check_wakeup()
            return thread.entering("iteration", nested=False)

        while True:
            with guard():
                thread.check()
                self._handled.note()
            try:
                yield from engine.hand_out(self._fetch_on, looked=looked, guard=guard)
            except LookupNeeded as needed:
                needed.load()
                looked = False
                continue
            with guard():
                # Any time would do, as the loop goes on when it is over.
                deadline = time.monotonic() * 1000 + self._config.request_timeout_ms
                looked = thread.run(engine.something_to_take(deadline), wakes=True)

    def __next__(self) -> ConsumerRecord[K_co, V_co]:
        """Return the next record, as `getone`."""
        return self.getone()

    def wakeup(self) -> None:
        """End the call that waits (`poll`, an iteration, `commit`, `position`, questions to brokers) with
        `WakeupError`; where no call waits, the next that takes records or waits. May be called from anywhere:
        another thread, a signal's handler, a callback.
        """
        if not self._thread.closed:
            self._thread.wake_up()
            self._engine.buffer.interrupt()

    # Positions

    def seek(self, partition: TopicPartitionLike, offset: int, leader_epoch: int = -1) -> None:
        """Go on at `offset`.

        Args:
            partition: (topic, number).
            leader_epoch: of the record before it, by which a cut log is noticed (KIP-320); -1: unknown.

        Raises:
            IllegalStateError: the partition is not assigned.
        """
        with self._thread.entering("seek", changes=True):
            self._thread.call(self._engine.seek, topic_partition(partition), offset, leader_epoch)

    def seek_to_beginning(self, *partitions: TopicPartitionLike) -> None:
        """Go on at the first offset; without arguments all assigned partitions."""
        with self._thread.entering("seek_to_beginning", changes=True):
            self._thread.call(self._engine.seek_to, EARLIEST, partitions)

    def seek_to_end(self, *partitions: TopicPartitionLike) -> None:
        """Go on after the last offset; without arguments all assigned partitions."""
        with self._thread.entering("seek_to_end", changes=True):
            self._thread.call(self._engine.seek_to, LATEST, partitions)

    def position(self, partition: TopicPartitionLike, timeout_ms: float | None = None) -> int:
        """Return the offset of the next record.

        Args:
            partition: (topic, number).
            timeout_ms: how long it may take, milliseconds; None: `default_api_timeout_ms`.

        Raises:
            ClientTimeoutError: it is not known in time.
        """
        with self._thread.entering("position"):
            return self._thread.run(self._engine.position(topic_partition(partition), timeout_ms), wakes=True)

    def pause(self, *partitions: TopicPartitionLike) -> None:
        """Give out no records of these until `resume`; heartbeats go on."""
        with self._thread.entering("pause", changes=True):
            self._thread.call(self._engine.set_paused, True, partitions)

    def resume(self, *partitions: TopicPartitionLike) -> None:
        """Give out records of these again."""
        with self._thread.entering("resume", changes=True):
            self._thread.call(self._engine.set_paused, False, partitions)

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        return {p.tp for p in self._engine.positions if p.paused}

    # Commits

    def commit(self, offsets: Offsets | None = None, timeout_ms: float | None = None) -> None:
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
        with self._thread.entering("commit", changes=True):
            self._thread.run(self._engine.commit(offsets, timeout_ms), wakes=True)

    def commit_async(
        self,
        offsets: Offsets | None = None,
        callback: CommitCallback | None = None,
    ) -> None:
        """As `commit`, without waiting; `callback(offsets, error)` is called from the background thread. A
        commit that the coordinator cannot take now is given up when a later one of the same partition begins,
        which it would undo.
        """
        engine = self._engine
        with self._thread.entering("commit_async", changes=True):
            self._thread.check()
            # In this thread, which alone knows which records it has handed out.
            to_commit = engine.offsets_to_commit(offsets)
            self._thread.call(engine.group_needed().commits.commit_in_background, to_commit, callback)

    def store_offsets(self, offsets: Offsets | ConsumerRecord[object, object]) -> None:
        """Say what is processed. With `enable_auto_offset_store=False`, automatic commits, `commit()` and
        `close` commit what was stored last, and not the positions.

        Args:
            offsets: (topic, number) → the next offset to read; or the record that is processed.

        Raises:
            IllegalStateError: `enable_auto_offset_store` is on, or a partition is not assigned.
        """
        with self._thread.entering("store_offsets"):
            self._engine.store_offsets(offsets)

    def committed(
        self, partitions: Iterable[TopicPartitionLike], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets; None where there is none.

        Args:
            partitions: (topic, number) pairs.
            timeout_ms: how long it may take, milliseconds; None: `default_api_timeout_ms`.
        """
        timeout = self._config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        group = self._engine.group_needed()
        tps = partitions_of(partitions)
        with self._thread.entering("committed"):
            return self._thread.run(group.commits.committed(tps, timeout), wakes=True)

    # Questions

    def beginning_offsets(
        self, partitions: Iterable[TopicPartitionLike], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition.

        Args:
            partitions: (topic, number) pairs.
            timeout_ms: how long it may take, milliseconds; None: `default_api_timeout_ms`.
        """
        with self._thread.entering("beginning_offsets"):
            begins = self._thread.run(
                self._engine.offsets(dict.fromkeys(partitions_of(partitions), EARLIEST), timeout_ms),
                wakes=True,
            )
        return {tp: entry.offset for tp, entry in begins.items()}

    def end_offsets(
        self, partitions: Iterable[TopicPartitionLike], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset after the last record that can be read, of each partition.

        Args:
            partitions: (topic, number) pairs.
            timeout_ms: how long it may take, milliseconds; None: `default_api_timeout_ms`.
        """
        with self._thread.entering("end_offsets"):
            ends = self._thread.run(
                self._engine.offsets(dict.fromkeys(partitions_of(partitions), LATEST), timeout_ms), wakes=True
            )
        return {tp: entry.offset for tp, entry in ends.items()}

    def offsets_for_times(
        self, timestamps_ms: ByPartition[int | datetime], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first offset at or after a time (epoch ms), of each; None where no record is that new.

        Args:
            timestamps_ms: (topic, number) → epoch milliseconds, or a datetime (without a time zone: local).
            timeout_ms: how long it may take, milliseconds; None: `default_api_timeout_ms`.

        Raises:
            IllegalArgumentError: a time is negative.
        """
        with self._thread.entering("offsets_for_times"):
            return self._thread.run(self._engine.offsets_for_times(timestamps_ms, timeout_ms), wakes=True)

    def partitions_for(self, topic: str, timeout_ms: float | None = None) -> list[PartitionInfo]:
        """Return the partitions of a topic.

        Args:
            topic: its name.
            timeout_ms: how long it may take, milliseconds; None: `default_api_timeout_ms`.
        """
        with self._thread.entering("partitions_for"):
            return self._thread.run(self._engine.partitions_for(topic, timeout_ms), wakes=True)

    def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int]:
        """Return the numbers of a topic's partitions; see `partitions_for`."""
        with self._thread.entering("partitions_for_topic"):
            infos = self._thread.run(self._engine.partitions_for(topic, timeout_ms), wakes=True)
        return {info.partition for info in infos}

    def topics(self, timeout_ms: float | None = None) -> set[str]:
        """Return the names of all topics that there are; internal ones if `exclude_internal_topics` is off.

        Args:
            timeout_ms: how long it may take, milliseconds; None: `default_api_timeout_ms`.
        """
        with self._thread.entering("topics"):
            return self._thread.run(self._engine.topics(timeout_ms), wakes=True)

    def lag(self, partition: TopicPartitionLike) -> int | None:
        """Return how many records are between position and end as of the last fetch; None before the first.

        Args:
            partition: (topic, number).
        """
        return self._engine.lag(topic_partition(partition))

    def metrics(self) -> dict[MetricName, float]:
        """Return the metrics as of now, under Kafka's names. A rate is one a second, over 30 s or more, or
        since the client began.
        """
        return self._engine.metrics()

    def enforce_rebalance(self) -> None:
        """Let the next `poll` join the group anew (KIP-568).

        Raises:
            IllegalStateError: the consumer is not subscribed.
        """
        with self._thread.entering("enforce_rebalance", changes=True):
            self._thread.call(self._engine.enforce_rebalance)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the argument of `Producer.send_offsets_to_transaction` (KIP-447).

        Raises:
            IllegalStateError: there is no group.
        """
        return self._engine.group_needed().metadata()

    def group_generation(self) -> tuple[int, str]:
        """Return (generation, member id); (-1, '') outside the group."""
        member = self._engine.group_needed().member
        return member.generation.number, member.member_id

    def close(self, timeout_ms: float = CLOSE_TIMEOUT_MS) -> None:
        """Commit (with auto-commit), leave the group, close.

        While an exception is on its way, or handled, the records given out last are not committed, as they
        may not have been processed: those of the last `poll`, or the record that an iteration handed out
        last. A line in the log names them. An exception that was handled already when they were given out
        does not count, nor do records for which `commit` was called.

        May be called from anywhere. A call that waits in another thread, or is interrupted by the signal
        whose handler closes, ends with `ClosedError`; if it has records to give, it gives them. A call that
        does not end (a listener) is waited for no longer than `timeout_ms`. In a commit's callback `close`
        returns at once, and the rest is done in the background.

        Args:
            timeout_ms: how long the leave may take, milliseconds.
        """
        self._close(timeout_ms, failed=self._handled.new_one(), tell=logging.WARNING)

    def _close(self, timeout_ms: float, *, failed: bool, tell: int) -> None:
        thread = self._thread
        # In a fork the client is the other process's, and goes on.
        if thread.loop_thread.left_in is not None or not thread.begin_close(timeout_ms / 1000):
            return
        # The thread cannot wait for itself.
        if thread.loop_thread.is_current:
            self._unclosed.close_in_background(
                partial(_close_in_background, self._engine, timeout_ms, failed, tell)
            )
            thread.end_close()
            return
        try:
            thread.run_close(self._engine.close(timeout_ms, failed=failed, tell=tell), timeout_ms / 1000)
        finally:
            self._unclosed.closed()
            thread.end_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        self._close(CLOSE_TIMEOUT_MS, failed=kind is not None, tell=logging.INFO)
