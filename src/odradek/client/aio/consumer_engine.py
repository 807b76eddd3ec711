"""The engine of both consumers: polling, positions, commits; in one event loop."""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from odradek.client.aio.cluster import Cluster
from odradek.client.aio.consumer_coordinator import ConsumerCoordinator, Invoke
from odradek.client.aio.fetcher import Fetcher
from odradek.client.aio.lookups import look_up
from odradek.client.aio.offsets import list_offsets, retry
from odradek.client.aio.resolver import PositionResolver
from odradek.client.aio.statistics import Fields, Statistics
from odradek.client.aio.topic_states import metadata_request, names_in
from odradek.client.arguments import names_of, offsets_of, partitions_of, times_of, topic_partition
from odradek.client.config import ConsumerConfig
from odradek.client.core.assignors import resolve_assignors
from odradek.client.core.client_metrics import ClientMetrics
from odradek.client.core.fetch_buffer import FetchBuffer
from odradek.client.core.interceptors import Interceptors
from odradek.client.core.made_records import MadeRecords
from odradek.client.core.subscription_state import Position, Subscribing, SubscriptionState
from odradek.client.errors import (
    ClosedError,
    IllegalArgumentError,
    IllegalStateError,
)
from odradek.client.serialization import LookupNeeded, resolve
from odradek.client.type_variables import K_co, V_co
from odradek.client.types import (
    ByPartition,
    ConsumerRebalanceListener,
    ConsumerRecord,
    MetricName,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Offsets,
    PartitionInfo,
    TopicPartition,
    TopicPartitionLike,
)
from odradek.errors import ErrorCode, OdradekError, error_for
from odradek.wire.api import ApiKey

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger("odradek.client.consumer")

T = TypeVar("T")
CommitCallback = Callable[[Mapping[TopicPartition, OffsetAndMetadata], Exception | None], object]

CLOSE_TIMEOUT_MS = 30_000
"""How long taking leave of the group may take, by default (Kafka's DEFAULT_CLOSE_TIMEOUT_MS)."""

listening: ContextVar[Any] = ContextVar("odradek_listening", default=None)
"""The engine whose listener runs in this task."""

_FETCHES = "consumer-fetch-manager-metrics"

_NO_OFFSET = -1001
"""librdkafka's RD_KAFKA_OFFSET_INVALID, by which its statistics say that there is none."""

_TOPIC_FATAL = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION)


class ConsumerEngine:
    """The engine of both consumers; it lives in the event loop.

    `take`, `hand_out` and `ready` may be called by the application's thread, too: see `FetchBuffer`.

    Args:
        config: the consumer's.
        invoke: calls a listener's method; None calls it here and awaits what it returns.

    Attributes:
        closing, closed: `close` has begun, has ended.
        positions: the subscription, and the position in each assigned partition.
        buffer: the records that were fetched and not yet given out.
        group: None for a consumer without a group id.
    """

    def __init__(self, config: ConsumerConfig, invoke: Invoke | None = None) -> None:
        self.config = config
        # `closing` is set first and stays: a consumer that is `closed` is `closing`.
        self.closed = self.closing = False
        # Further calls of `close`, which return with the first.
        self._close_waiters: list[asyncio.Future[None]] = []
        self.positions = SubscriptionState(
            config.auto_offset_reset, stores=not config.enable_auto_offset_store
        )
        self.buffer = FetchBuffer(
            config.check_crcs,
            resolve(config.key_deserializer, "deserialize", "key.deserializer"),
            resolve(config.value_deserializer, "deserialize", "value.deserializer"),
        )
        self._made = MadeRecords(lambda tp: self.positions.assigned.get(tp))
        self.cluster = Cluster(
            config,
            allow_auto_create=config.allow_auto_create_topics,
            may_wait_ms=config.fetch_max_wait_ms,
        )
        # Set by all that may end a wait: records, errors, metadata, the group. A wait clears it before it
        # looks, so that nothing that comes between the look and the wait is missed.
        self._news = asyncio.Event()
        self.fetcher = Fetcher(config, self.cluster, self.positions, self.buffer, self._news.set)
        self.group: ConsumerCoordinator | None = None
        assignors = resolve_assignors(config.partition_assignment_strategy)
        if config.group_id is not None:
            self.group = ConsumerCoordinator(
                config,
                self.cluster,
                self.positions,
                assignors,
                invoke or self._call,
                self._group_changed,
                self.buffer.iteration_moved,
            )
        self.resolver = PositionResolver(config, self.cluster, self.positions, self.group, self._resolved)
        self.interceptors = Interceptors(config.interceptors, config)
        if self.group is not None:
            self.group.commits.on_commit = partial(self.interceptors.tell, "on_commit")
        self._metrics = ClientMetrics("consumer", config.client_id)
        self._statistics = Statistics(
            "consumer",
            self.cluster,
            config.stats_cb,
            config.statistics_interval_ms,
            self._statistics_fields,
        )
        # When the next automatic commit is due; 0: at once.
        self._next_commit_ms = 0.0
        self._commit_timer: asyncio.TimerHandle | None = None
        self._commit_later()
        # `FetchBuffer.used` when the fetcher was told last: while they differ there is room for more.
        self._used_seen = 0
        # The buffer's round that the last `something_to_take` began: an iteration of an older one ends.
        self._round = 0
        # Topics that have been logged as missing, and still are.
        self._told_missing: set[str] = set()
        self.cluster.on_update.append(self._metadata_updated)

    async def _call(self, method: Callable[..., Any], partitions: tuple[TopicPartition, ...]) -> None:
        # So that a `poll` or `close` out of the listener is recognised, which would wait for the listener.
        before = listening.set(self)
        try:
            result = method(partitions)
            if inspect.isawaitable(result):
                await result
        finally:
            listening.reset(before)

    def _group_changed(self) -> None:
        self.buffer.interrupt()
        self.fetcher.wake()
        self._news.set()

    def _resolved(self) -> None:
        self.buffer.interrupt()
        self.fetcher.wake()
        self._news.set()

    def _metadata_updated(self) -> None:
        for position in self.positions:
            self.positions.topic_seen(position, self.cluster.metadata.topic_id(position.tp.topic))
            self.positions.leader_changed(position.tp, self.cluster.metadata.leader_epoch(position.tp))
        self.fetcher.wake()
        self.buffer.interrupt()
        self._tell_missing()
        self._news.set()

    def _tell_missing(self) -> None:
        """Log topics that are to be read and do not exist, each once until it does."""
        topics = self.positions.topics | {tp.topic for tp in self.positions.assigned}
        errors = self.cluster.metadata.errors
        missing = {t for t in topics if errors.get(t) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        for topic in sorted(missing - self._told_missing):
            logger.warning("topic %r does not exist; it is read as soon as it does", topic)
        self._told_missing = missing

    # Polling

    def need_open(self) -> None:
        """Check that the consumer is open.

        Raises:
            ClosedError: it is closed.
        """
        if self.closed:
            raise ClosedError("the consumer is closed")

    def _need_not_closing(self) -> None:
        if self.closing or self.closed:
            raise ClosedError("the consumer was closed")

    def ready(self, now_ms: float) -> bool:
        """Return whether `take` may be called without anything else to be done first."""
        return not (
            self.closing
            or self.closed
            or self.fetcher.failure is not None
            or self.resolver.failure is not None
            or (self.group is not None and self.positions.is_group_managed and self.group.needs_poll)
            or (self.config.enable_auto_commit and now_ms >= self._next_commit_ms)
        )

    async def poll(self, timeout_ms: float, take: Callable[[], list[T]]) -> list[T]:
        """Do what is due, then `take`; wait for something to take until the time is over, and for lookups."""
        deadline = self.cluster.now_ms() + timeout_ms
        while await self.something_to_take(deadline):
            try:
                out = take()
            except LookupNeeded as needed:
                await look_up(needed)
                continue
            self.after_take()
            if out or self.cluster.now_ms() >= deadline:
                return out
        return []

    async def something_to_take(self, deadline: float) -> bool:
        """Do what is due, then wait until there is something to take, until `deadline` (monotonic ms).

        What there is may turn out to be nothing that the application may see.

        Raises:
            KafkaError: as `AsyncConsumer.poll`.
        """
        self._need_not_closing()
        if self.positions.how is Subscribing.NOT:
            raise IllegalStateError("the consumer is neither subscribed to topics nor assigned partitions")
        self._round = self.buffer.come_back()
        while True:
            self._news.clear()
            self._raise_failures()
            if self.group is not None and self.positions.is_group_managed:
                self.group.polled()
                await self._join(deadline)
                self._need_not_closing()
            self._auto_commit()
            self.resolver.start()
            # After the group, which may just have taken away what is buffered.
            if self._takeable:
                return True
            left = (deadline - self.cluster.now_ms()) / 1000
            if left <= 0:
                return False
            self.fetcher.wake()
            await self._wait(left)
            self._need_not_closing()

    async def _join(self, deadline: float) -> None:
        assert self.group is not None
        if self.group.needs_poll:
            metadata = self.cluster.metadata
            topics = self.positions.topics
            if metadata.version == 0 or any(
                t not in metadata.topics and t not in metadata.errors for t in topics
            ):
                # Joining before the topics are known would only mean to join again.
                await self.cluster.wait_update(max(0.0, deadline - self.cluster.now_ms()))
                if metadata.version == 0:
                    return
            await self.group.ensure_active(deadline)

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return

    def _raise_failures(self) -> None:
        self.fetcher.raise_failure()
        self.resolver.raise_failure()
        errors = self.cluster.metadata.errors
        for topic in self.positions.topics:
            error = errors.get(topic)
            if error in _TOPIC_FATAL:
                # Raised once for each answer that has it: the topic is asked for again, as the permission may
                # come.
                del errors[topic]
                self.cluster.request_update()
                raise error_for(error, f"topic {topic!r}: {error.message}")

    def after_take(self) -> bool:
        """Fetch more if something was used up. Returns whether that was so."""
        if self.buffer.used == self._used_seen:
            return False
        self._used_seen = self.buffer.used
        self.fetcher.wake()
        return True

    @property
    def used_up(self) -> bool:
        """Return whether `after_take` has something to do; for the other thread."""
        return self.buffer.used != self._used_seen

    def take_only(self, partitions: Iterable[TopicPartition]) -> None:
        """Take, and fetch, records of these partitions alone; none: of all again.

        Raises:
            IllegalStateError: a partition is not assigned.
        """
        self.positions.take_only(partitions)
        self.fetcher.wake()

    def take(self, limit: int) -> list[ConsumerRecord[Any, Any]]:
        """Take records that have been fetched."""
        if made := self._made.take(limit):
            return made
        records = self.buffer.take(limit)
        if records and self.interceptors:
            records = self.interceptors.changed("on_consume", records)
        return records

    def take_one(self) -> list[ConsumerRecord[Any, Any]]:
        """Take the next record, if there is one. What interceptors make of it beside the first waits."""
        if made := self._made.take(1):
            return made
        records = self.buffer.take(1)
        if not records or not self.interceptors:
            return records
        tp = TopicPartition(records[0].topic, records[0].partition)
        position = self.positions.assigned.get(tp)
        turn = -1 if position is None else position.turn
        made = list(self.interceptors.changed("on_consume", records))
        if position is not None:
            self._made.keep(position, turn, made[1:])
        return made[:1]

    def take_columns(
        self, limit: int, with_headers: bool, options: dict[str, Any]
    ) -> list[tuple[Position, pa.RecordBatch]]:
        """Take records as columns, of which interceptors are not asked: what they have made is dropped."""
        self._made.clear()
        return self.buffer.take_columns(limit, with_headers, options)

    @property
    def _takeable(self) -> bool:
        return self._made.takeable or self.buffer.takeable

    def hand_out(
        self,
        used: Callable[[], Any],
        *,
        looked: bool = False,
        guard: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> Iterator[ConsumerRecord[Any, Any]]:
        """Yield records that have been fetched, one by one, until something else has to be done first.

        The positions move with each record; see `FetchBuffer.hand_out`.

        Args:
            used: called when there is room to fetch more.
            looked: `something_to_take` has just done what it could; a rebalance that goes on does not hold up
                what this consumer keeps.
            guard: see `FetchBuffer.hand_out`.
        """
        while self._takeable:
            if not looked:
                # Before the look at `ready`, so that an interrupt after it ends this round.
                self._round = self.buffer.come_back()
                if not self.ready(time.monotonic() * 1000):
                    return
            looked = False
            self.polled()
            while made := self._made.take(1):
                yield from made
            records = self.buffer.hand_out(self.config.max_poll_records, used, self._round, guard)
            if self.interceptors:
                for record in records:
                    yield from self.interceptors.changed("on_consume", [record])
            else:
                yield from records

    def polled(self) -> None:
        """Note that the application asks for records: it is alive (`max.poll.interval.ms`)."""
        if self.group is not None:
            self.group.polled()

    def _commit_later(self) -> None:
        """Plan the next automatic commit; an iteration gives way to it."""
        interval = self.config.auto_commit_interval_ms
        self._next_commit_ms = self.cluster.now_ms() + interval
        if self.config.enable_auto_commit and self.group is not None:
            loop = asyncio.get_running_loop()
            self._commit_timer = loop.call_later(interval / 1000, self._commit_due)

    def _commit_due(self) -> None:
        # The loop's timers are coarse, and may come a little before the time that was reckoned.
        self._next_commit_ms = 0.0
        self.buffer.interrupt()

    def _auto_commit(self) -> None:
        now = self.cluster.now_ms()
        if not self.config.enable_auto_commit or now < self._next_commit_ms or self.group is None:
            return
        self._commit_later()
        # A commit under way would have to give up, if the coordinator cannot take it yet.
        busy = self.group.commits.under_way
        offsets = {tp: at for tp, at in self.positions.consumed().items() if tp not in busy}
        if not offsets or (self.positions.is_group_managed and self.group.member.generation.number < 0):
            return  # no member at present: Kafka's client does not commit without a generation, either
        self.group.commits.commit_in_background(offsets, self._committed)

    def _committed(self, _: Mapping[TopicPartition, OffsetAndMetadata], error: Exception | None) -> None:
        if error is not None:
            logger.warning("offsets could not be committed automatically: %s", error)
            # Soon again, as in Kafka's ConsumerCoordinator.autoCommitOffsetsAsync.
            self._next_commit_ms = self.cluster.now_ms() + self.config.retry_backoff_ms

    # Subscription and assignment

    async def subscribe(
        self, topics: Iterable[str] | None, pattern: str | re.Pattern[str] | None, listener: Any
    ) -> None:
        """See `AsyncConsumer.subscribe`."""
        self.need_open()
        if self.group is None:
            raise IllegalStateError("to subscribe, a consumer needs a group.id; use assign without one")
        if (topics is None) == (pattern is None):
            raise IllegalArgumentError("give topics or a pattern, one of the two")
        if topics is not None:
            names = names_of(topics, "topics")
            if not names:
                # As in Kafka's KafkaConsumer.subscribe.
                await self.unsubscribe()
                return
            if not all(name.strip() for name in names):
                raise IllegalArgumentError("a topic's name is text that is not empty")
            changed = self.positions.subscribe(names)
            self.cluster.all_topics = False
            self.cluster.want_only(names)
        else:
            assert pattern is not None
            # The topics that match are known when metadata of all topics has come.
            self.positions.subscribe_pattern(_compiled(pattern))
            self.cluster.all_topics = changed = True
        self.group.listener = _as_listener(listener)
        if changed:
            self.group.member.request_rejoin()
        self.cluster.request_update()
        self._news.set()

    def assign(self, partitions: Iterable[TopicPartitionLike]) -> None:
        """See `AsyncConsumer.assign`."""
        self.need_open()
        tps = partitions_of(partitions)
        self.positions.assign(tps)
        self.buffer.interrupt()
        self.buffer.drop_except(lambda position: self.positions.assigned.get(position.tp) is position)
        self.cluster.want_only({tp.topic for tp in tps})
        self.cluster.request_update()
        self.resolver.start()

    def incremental_assign(self, partitions: Iterable[TopicPartitionLike]) -> None:
        """See `AsyncConsumer.incremental_assign`."""
        added = dict.fromkeys(partitions_of(partitions))
        for tp in added:
            if tp in self.positions.assigned:
                raise IllegalStateError(f"{tp} is assigned to this consumer already")
        self.assign([*self.positions.assigned, *added])

    def incremental_unassign(self, partitions: Iterable[TopicPartitionLike]) -> None:
        """See `AsyncConsumer.incremental_unassign`."""
        taken = {self.positions[tp].tp for tp in partitions_of(partitions)}
        self.assign([tp for tp in self.positions.assigned if tp not in taken])

    async def unsubscribe(self, *, failed: bool = False) -> None:
        """See `AsyncConsumer.unsubscribe`; `failed` as with `close`."""
        self.need_open()
        if self.group is not None and self.positions.is_group_managed:
            # Before leaving: without a generation the coordinator takes no commit.
            if self.config.enable_auto_commit:
                await self._commit_at_the_end(failed=failed, tell=logging.WARNING)
            await self.group.unsubscribed()
        self.positions.unsubscribe()
        self.buffer.interrupt()
        self.buffer.drop_except(lambda position: False)
        self.cluster.all_topics = False
        self.cluster.want_only(())

    # Positions

    def seek(self, tp: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        """See `AsyncConsumer.seek`."""
        self.need_open()
        if offset < 0:
            raise IllegalArgumentError(f"offset is {offset}: it cannot be negative")
        self.positions[tp].seek(offset, leader_epoch)
        self.buffer.interrupt()
        self.fetcher.wake()

    def seek_to(self, timestamp: int, partitions: Iterable[TopicPartitionLike]) -> None:
        """Let positions go to the beginning or the end; which offset that is, is asked for next."""
        self.need_open()
        chosen = [self.positions[topic_partition(tp)] for tp in partitions] or list(self.positions)
        for position in chosen:
            position.want_reset(timestamp)
        self.buffer.interrupt()
        self.resolver.start()

    async def position(self, tp: TopicPartition, timeout_ms: float | None) -> int:
        """See `AsyncConsumer.position`."""
        self.need_open()
        position = self.positions[tp]
        timeout = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        deadline = self.cluster.now_ms() + timeout
        while (offset := position.offset) is None or position.validate:
            self._news.clear()
            self.resolver.raise_failure()
            self.resolver.start()
            left = (deadline - self.cluster.now_ms()) / 1000
            if left <= 0:
                raise self.cluster.timeout_error(f"the position of {tp} is not known", timeout)
            await self._wait(left)
            self.need_open()
        return offset

    def set_paused(self, paused: bool, partitions: Iterable[TopicPartitionLike]) -> None:
        """Pause or resume."""
        self.need_open()
        for tp in partitions:
            self.positions[topic_partition(tp)].paused = paused
        self.buffer.interrupt()
        if not paused:
            # Records of the partition may be in the buffer already.
            self._news.set()
        self.fetcher.wake()

    # Commits

    def offsets_to_commit(self, offsets: Offsets | None) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets that the application gave, or the positions."""
        self.need_open()
        self.group_needed()
        if offsets is None:
            to_commit = self.positions.consumed()
        else:
            to_commit = offsets_of(offsets)
        # Before the answer: the application is done with these records, whatever becomes of the commit.
        self.buffer.committed(to_commit)
        return to_commit

    def store_offsets(self, offsets: Offsets | ConsumerRecord[object, object]) -> None:
        """See `AsyncConsumer.store_offsets`."""
        self.need_open()
        if self.config.enable_auto_offset_store:
            raise IllegalStateError("store_offsets needs enable.auto.offset.store=false")
        if isinstance(offsets, ConsumerRecord):
            tp = TopicPartition(offsets.topic, offsets.partition)
            stored = {tp: OffsetAndMetadata(offsets.offset + 1, "", offsets.leader_epoch)}
        else:
            stored = offsets_of(offsets)
        # First all are looked up: a partition that is not assigned leaves the others as they were.
        for position, offset in [(self.positions[tp], offset) for tp, offset in stored.items()]:
            position.stored = offset

    def group_needed(self) -> ConsumerCoordinator:
        """Return the group.

        Raises:
            IllegalStateError: there is none.
        """
        if self.group is None:
            raise IllegalStateError("committed offsets belong to a group: configure group.id")
        return self.group

    def enforce_rebalance(self) -> None:
        """See `Consumer.enforce_rebalance`."""
        self.need_open()
        group = self.group_needed()
        if not self.positions.is_group_managed:
            raise IllegalStateError("partitions are assigned by hand: there is nothing to be rebalanced")
        group.member.request_rejoin()
        self._group_changed()

    async def commit(self, offsets: Offsets | None, timeout_ms: float | None) -> None:
        """See `AsyncConsumer.commit`."""
        to_commit = self.offsets_to_commit(offsets)
        timeout = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        await self.group_needed().commits.commit(to_commit, timeout)

    async def _commit_at_the_end(self, *, failed: bool = False, tell: int = logging.INFO) -> None:
        assert self.group is not None
        # An older commit that came later would take this one back.
        await self.group.commits.background_done()
        offsets = self.positions.consumed()
        if failed and self.config.enable_auto_offset_store:
            # docs/decisions/what-a-failing-consumer-commits.md; only ever back, never past the position.
            back = {tp: at for tp, at in self.buffer.unprocessed().items() if tp in offsets}
            back = {tp: at for tp, at in back.items() if at.offset < offsets[tp].offset}
            offsets |= back
            if back:
                logger.log(
                    tell,
                    "closed while an exception is handled: the records given out last may not be processed, "
                    "and are not committed: %s; commit() before close() if they are",
                    ", ".join(f"{tp} from {at.offset} on" for tp, at in sorted(back.items())),
                )
        if not offsets or (self.positions.is_group_managed and self.group.member.generation.number < 0):
            return
        # Bounded, as `close` may have to leave the group in what is left of its time.
        try:
            await self.group.commits.commit(offsets, min(5_000, self.config.default_api_timeout_ms))
        except OdradekError as problem:
            logger.warning("the last offsets could not be committed: %s", problem)

    # Questions

    async def offsets(
        self, timestamps: ByPartition[int], timeout_ms: float | None
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Ask for offsets by time (ListOffsets), or by EARLIEST and LATEST."""
        self.need_open()
        timeout = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        times = {topic_partition(tp): timestamp for tp, timestamp in timestamps.items()}
        return await list_offsets(self.cluster, times, self.config.isolation, timeout)

    async def offsets_for_times(
        self, timestamps: ByPartition[int | datetime], timeout_ms: float | None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """See `AsyncConsumer.offsets_for_times`."""
        times = times_of(timestamps)
        for tp, timestamp in times.items():
            if timestamp < 0:
                # To brokers negative times mean the beginning, the end and others; Kafka's client refuses
                # them, too.
                raise IllegalArgumentError(
                    f"the time for {tp} is {timestamp}: it cannot be negative "
                    "(beginning_offsets and end_offsets give the ends)"
                )
        # A broker answers -1 where no record is that new; Kafka's client gives null for it.
        entries = await self.offsets(times, timeout_ms)
        return {tp: entry if entry.offset >= 0 else None for tp, entry in entries.items()}

    async def partitions_for(self, topic: str, timeout_ms: float | None) -> list[PartitionInfo]:
        """Return the partitions of a topic."""
        self.need_open()
        timeout = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        await self.cluster.topic_partitions(topic, timeout)
        state = self.cluster.metadata.topics.get(topic)
        return [] if state is None else [state.partitions[n].info() for n in sorted(state.partitions)]

    async def topics(self, timeout_ms: float | None) -> set[str]:
        """See `AsyncConsumer.topics`."""
        self.need_open()
        timeout = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms

        async def step() -> Any:
            connection = await self.cluster.any_connection()
            version = connection.pick(ApiKey.METADATA)
            return await connection.send(metadata_request(None, version), version)

        response = await retry(self.cluster, "topics", timeout, step)
        return names_in(response, internal=not self.config.exclude_internal_topics)

    def lag(self, tp: TopicPartition) -> int | None:
        """Return how many records are between the position and the end, as of the last fetch."""
        position = self.positions[tp]
        offset = position.offset
        # Records of open transactions cannot be read yet (Kafka's SubscriptionState.partitionLag).
        end = position.last_stable_offset if self.config.isolation else position.high_watermark
        return None if offset is None or end < 0 else max(0, end - offset)

    def metrics(self) -> dict[MetricName, float]:
        """Return the metrics as of now."""
        metrics, fetches, group = self._metrics, _FETCHES, "consumer-coordinator-metrics"
        lags = {p.tp: lag for p in self.positions if (lag := self.lag(p.tp)) is not None}
        gauges = {
            metrics.name("records-lag-max", fetches): float(max(lags.values(), default=-1)),
            metrics.name("assigned-partitions", group): float(len(self.positions.assigned)),
        }
        for tp, lag in lags.items():
            tags = {"topic": tp.topic, "partition": str(tp.partition)}
            gauges[metrics.name("records-lag", fetches, **tags)] = float(lag)
        totals = {
            metrics.name("records-consumed-total", fetches): float(self.buffer.records_given_out),
            metrics.name("bytes-consumed-total", fetches): float(self.fetcher.bytes_fetched),
            metrics.name("fetch-total", fetches): float(self.fetcher.fetches),
            metrics.name("rebalance-total", group): float(self.group.rebalances if self.group else 0),
        }
        return metrics.values(gauges, totals, self.cluster.traffic())

    def _statistics_fields(self) -> tuple[Fields, dict[TopicPartition, Fields]]:
        """Return a consumer's fields of librdkafka's statistics, and those of its partitions."""
        own: Fields = {"rxmsgs": self.buffer.records_given_out, "rxmsg_bytes": self.fetcher.bytes_fetched}
        if self.group is not None:
            own["cgrp"] = {
                "state": self.group.member.state.name.lower(),
                "rebalance_cnt": self.group.rebalances,
                "assignment_size": len(self.positions.assigned),
            }
        return own, {
            p.tp: {
                "fetch_state": "active" if p.fetchable else "stopped" if p.paused else "offset-query",
                "next_offset": p.fetch_offset,
                "app_offset": _NO_OFFSET if (offset := p.offset) is None else offset,
                "stored_offset": _NO_OFFSET if p.stored is None else p.stored.offset,
                "lo_offset": p.log_start_offset,
                "hi_offset": p.high_watermark,
                "ls_offset": p.last_stable_offset,
                "consumer_lag": -1 if (lag := self.lag(p.tp)) is None else lag,
                "leader_epoch": p.leader_epoch,
            }
            for p in self.positions
        }

    async def close(self, timeout_ms: float, *, failed: bool, tell: int = logging.INFO) -> None:
        """See `AsyncConsumer.close`.

        Args:
            failed: an exception is on its way: what the application was given last may not be processed.
            tell: the log level of the line that names those records.
        """
        if self.closed:
            return
        if self.closing:
            # A listener of this consumer may call it while the first `close` waits for that listener: if this
            # call waited in turn, neither would return.
            if listening.get() is not self:
                ended = asyncio.get_running_loop().create_future()
                self._close_waiters.append(ended)
                await ended
            return
        # Ends the waits of `poll` and of an iteration in other threads or tasks.
        self.closing = True
        self.buffer.interrupt()
        self._news.set()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                if self.group is not None:
                    if self.config.enable_auto_commit:
                        await self._commit_at_the_end(failed=failed, tell=tell)
                    await self.group.close("the consumer is being closed")
        except TimeoutError:
            logger.warning("the consumer could not take leave of its group within %d ms", timeout_ms)
        finally:
            # Whatever has become of the commit and the group: no task, timer or connection stays behind.
            self.closed = True
            if self._commit_timer is not None:
                self._commit_timer.cancel()
            self._statistics.stop()
            self.fetcher.stop()
            self._news.set()
            await self.cluster.close()
            self.interceptors.tell("close")
            for ended in self._close_waiters:
                if not ended.done():
                    ended.set_result(None)


def _compiled(pattern: str | re.Pattern[str]) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except (re.error, TypeError) as problem:
        raise IllegalArgumentError(f"pattern {pattern!r}: {problem}") from None


def records_by_partition(
    records: Iterable[ConsumerRecord[K_co, V_co]],
) -> dict[TopicPartition, list[ConsumerRecord[K_co, V_co]]]:
    """Return records by partition, in their order."""
    sorted_out: dict[TopicPartition, list[ConsumerRecord[K_co, V_co]]] = {}
    for record in records:
        sorted_out.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
    return sorted_out


def at_least_one(limit: int) -> int:
    """Return how many records to take.

    Raises:
        IllegalArgumentError: that is none.
    """
    if limit < 1:
        raise IllegalArgumentError(f"at most {limit} records: take one at least")
    return limit


class _Listener(ConsumerRebalanceListener):
    # An object with some of the methods is enough; those that it lacks do as the base class says, which has
    # `on_partitions_lost` call `on_partitions_revoked`.
    def __init__(self, listener: Any) -> None:
        self._listener = listener

    def __getattribute__(self, name: str) -> Any:
        if name in ("on_partitions_revoked", "on_partitions_assigned", "on_partitions_lost"):
            own = getattr(object.__getattribute__(self, "_listener"), name, None)
            if own is not None:
                return own
        return object.__getattribute__(self, name)


def _as_listener(listener: Any) -> ConsumerRebalanceListener | None:
    if listener is None or isinstance(listener, ConsumerRebalanceListener):
        return listener
    return _Listener(listener)
