"""The consumer's fetching: one request at a time to each broker, answered into the buffer ahead of `poll`.

A broker is asked again when each of its partitions has at most one chunk waiting, and then for all of them:
asking for some only would park the request at the broker while the others run dry.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from odradek.client.aio.cluster import Cluster
from odradek.client.config import ConsumerConfig
from odradek.client.core.chunk import Chunk
from odradek.client.core.fetch_buffer import FetchBuffer
from odradek.client.core.fetch_requests import FetchAt, fetch_ceiling, fetch_request
from odradek.client.core.fetched import batch_too_large, end_of_fetched
from odradek.client.core.subscription_state import Position, SubscriptionState
from odradek.client.errors import ClosedError, NoOffsetForPartitionError, TopicRecreatedError
from odradek.client.types import TopicPartition
from odradek.errors import ErrorCode, KafkaError, OdradekError, error_for
from odradek.errors.codes import to_code
from odradek.wire.api import ApiKey
from odradek.wire.fetch_session_handler import SESSION_LOST, FetchSessionHandler

logger = logging.getLogger("odradek.client.consumer")

FETCH = "fetch"
"""The purpose of the fetcher's connections: what waits for records holds up nothing else."""

_LOOK_ELSEWHERE = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""Errors after which the leader is looked for, as in Kafka's FetchCollector.handleInitializeErrors: it may
have moved, or the partition may just be made."""


class Fetcher:
    """Fetches for one consumer. Runs in the client's loop.

    Args:
        config: the consumer's.
        cluster: connections and metadata.
        positions: what is assigned, and where it stands.
        buffer: where chunks go.
        changed: called when records or errors have come.

    Attributes:
        failure: the newest failure that `poll` has not raised yet.
        bytes_fetched, fetches: for the metrics; they only grow.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        cluster: Cluster,
        positions: SubscriptionState,
        buffer: FetchBuffer,
        changed: Callable[[], None],
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._positions = positions
        self._buffer = buffer
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        # By broker. The epochs of a session follow each other (KIP-227), hence `_busy`.
        self._sessions: dict[int, FetchSessionHandler] = {}
        # Brokers with a Fetch on its way, or about to leave: one at most for each.
        self._busy: set[int] = set()
        self._timer: asyncio.TimerHandle | None = None
        # When `_timer` fires, in the loop's seconds; infinite while there is no timer.
        self._timer_at = float("inf")
        # From a `wake` to the look that it asked for, so that many of them in a turn make one look.
        self._wake_scheduled = False
        self.failure: OdradekError | None = None
        self.bytes_fetched = 0
        self.fetches = 0
        cluster.on_update.append(self.wake)

    def wake(self) -> None:
        """Look soon which brokers can be asked, as something has changed. Call from the loop."""
        if not self._wake_scheduled and not self._cluster.closed:
            self._wake_scheduled = True
            self._loop.call_soon(self._send_fetches)

    def _wake_later(self, delay_ms: float) -> None:
        when = self._loop.time() + max(0.0, delay_ms) / 1000
        # One timer for all that wait, as each look sees all.
        if self._timer is not None:
            if self._timer_at <= when:
                return
            self._timer.cancel()
        self._timer_at = when
        self._timer = self._loop.call_at(when, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        self._timer_at = float("inf")
        self.wake()

    def _send_fetches(self) -> None:
        self._wake_scheduled = False
        if self._cluster.closed:
            return
        now = self._cluster.now_ms()
        by_node: dict[int, list[Position]] = {}
        full: set[int] = set()
        leaderless: list[TopicPartition] = []
        waiting = self._buffer.counts()
        for position in self._positions:
            if not position.fetchable:
                continue
            if position.made_anew:
                self._begin_anew(position, waiting, now)
                continue
            node = self._node_for(position, now)
            if node is None:
                leaderless.append(position.tp)
                continue
            if position.not_before_ms > now:
                self._wake_later(position.not_before_ms - now)
                continue
            by_node.setdefault(node, []).append(position)
            # One chunk being read and one ahead: more would only fill the memory.
            if waiting.get(id(position), 0) > 1:
                full.add(node)
        if leaderless:
            self._cluster.request_update()
            self._cluster.tell_leaderless(leaderless)
        for node, positions in by_node.items():
            if node in self._busy or node in full:
                continue
            # Else the task would end at once, and wake this again without a pause.
            wait = self._cluster.backoff_left_ms(node, FETCH)
            if wait > 0 and self._cluster.open_connection(node, FETCH) is None:
                self._wake_later(wait)
                continue
            self._busy.add(node)
            self._cluster.spawn(self._fetch(node, positions))

    def _begin_anew(self, position: Position, waiting: dict[int, int], now: float) -> None:
        if waiting.get(id(position)):
            return  # records of the old topic are good, and given out first
        if position.not_before_ms > now:
            self._wake_later(position.not_before_ms - now)
            return
        try:
            self._positions.begin_anew(position)
        except TopicRecreatedError as problem:
            # Only the application can go on, by a seek: raised again now and then until it does.
            position.not_before_ms = now + self._config.retry_backoff_max_ms
            self._fail(problem)
        self._changed()

    def _node_for(self, position: Position, now: float) -> int | None:
        if position.preferred_replica >= 0:
            # The leader named a nearer replica (KIP-392). As in Kafka's SubscriptionState it is asked for the
            # maximum age of metadata, then the leader again.
            if (
                now < position.preferred_until_ms
                and position.preferred_replica in self._cluster.metadata.brokers
            ):
                return position.preferred_replica
            position.preferred_replica = -1
        return self._cluster.metadata.leader(position.tp)

    async def _fetch(self, node: int, positions: list[Position]) -> None:
        session = self._sessions.setdefault(node, FetchSessionHandler(node))
        try:
            connection = await self._cluster.connection(node, FETCH)
            for p in positions:
                self._positions.leader_changed(p.tp, self._cluster.metadata.leader_epoch(p.tp))
            # While the connection was made, another broker may have become leader. This one may follow in the
            # new epoch, lag behind, and call an offset out of range that is not.
            now = self._cluster.now_ms()
            positions = [
                p
                for p in positions
                if p.fetchable
                and not p.made_anew
                and self._positions.assigned.get(p.tp) is p
                and self._node_for(p, now) == node
            ]
            if not positions:
                return
            # `fetch_request` lists neighbours of one topic under one heading.
            positions.sort(key=lambda p: p.tp.topic)
            metadata = self._cluster.metadata
            ids = {p.tp.topic: metadata.topic_id(p.tp.topic) for p in positions}
            version = connection.pick(ApiKey.FETCH, at_most=fetch_ceiling(ids.values()))
            requested = {p.tp: (p, p.turn, p.fetch_offset) for p in positions}
            config = self._config
            request = fetch_request(
                session,
                version,
                [
                    FetchAt(p.tp, p.fetch_offset, p.leader_epoch, config.max_partition_fetch_bytes)
                    for p in positions
                ],
                ids,
                max_wait_ms=config.fetch_max_wait_ms,
                min_bytes=config.fetch_min_bytes,
                max_bytes=config.fetch_max_bytes,
                isolation=config.isolation,
                rack=config.client_rack,
            )
            response = await connection.send(request, version)
        except ClosedError:
            return
        except OdradekError as problem:
            logger.debug("fetch from broker %d failed: %s", node, problem)
            session.handle_error()
            for p in positions:
                # The nearest replica may be gone for long: its leader is asked, which may name another.
                if p.preferred_replica == node:
                    p.preferred_replica = -1
            self._cluster.request_update()
            self._wake_later(self._config.retry_backoff_ms)
            # No version of Fetch in common: that does not pass.
            if isinstance(problem, KafkaError) and problem.code == ErrorCode.UNSUPPORTED_VERSION:
                self._fail(problem)
            return
        else:
            self._answered(session, response, requested)
        finally:
            self._busy.discard(node)
            self.wake()

    def _answered(
        self,
        session: FetchSessionHandler,
        response: Any,
        requested: dict[TopicPartition, tuple[Position, int, int]],
    ) -> None:
        self.fetches += 1
        answers = session.handle_response(response)
        if answers is None:
            code = to_code(response.error_code)
            # A topic id may have changed (KIP-516).
            if code.refreshes_metadata or code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR:
                self._cluster.request_update()
            # A lost session is opened anew at once; any other error of a whole answer is not the session's.
            if code not in SESSION_LOST:
                not_before_ms = self._cluster.now_ms() + self._config.retry_backoff_ms
                for position, _, _ in requested.values():
                    position.not_before_ms = not_before_ms
            return
        came = False
        refused: dict[TopicPartition, str] = {}
        for key, data in answers.items():
            position, turn, offset = requested[TopicPartition(*key)]
            # The position has changed meanwhile, by a seek or a reset: these records are not the next.
            if position.turn != turn or position.fetch_offset != offset:
                continue
            code = to_code(data.error_code)
            if code.retriable:
                refused[position.tp] = f"{code.name}: {code.message}"
            came = self._take(position, data, response.node_endpoints) or came
        stuck = self._cluster.stuck
        if stuck:
            # An answer within a session names only partitions with news: the others went well, too (KIP-227).
            stuck.went_well(requested.keys() - refused.keys(), self._cluster.now_ms())
        if refused:
            stuck.failed(refused, self._cluster.now_ms())
        if came:
            self._changed()

    def _take(self, position: Position, data: Any, endpoints: Any) -> bool:
        """Take one partition's part of an answer. Returns whether there is news for `poll`."""
        code = to_code(data.error_code)
        if code != ErrorCode.NONE:
            return self._refused(position, code, data, endpoints)
        position.high_watermark = data.high_watermark
        position.last_stable_offset = data.last_stable_offset
        position.log_start_offset = data.log_start_offset
        if data.preferred_read_replica >= 0:
            position.preferred_replica = data.preferred_read_replica
            position.preferred_until_ms = self._cluster.now_ms() + self._config.metadata_max_age_ms
        records = data.records
        if records is None or not len(records):
            return False
        self.bytes_fetched += len(records)
        try:
            next_offset = end_of_fetched(records, position.fetch_offset)
        except KafkaError as problem:
            self._fail(problem)
            return True
        # Records, but not one whole batch: since KIP-74 brokers send the first batch in full.
        if next_offset == position.fetch_offset:
            self._fail(batch_too_large(position.tp, next_offset))
            return True
        position.fetch_offset = next_offset
        self._buffer.add(
            Chunk(position, records, data.aborted_transactions if self._config.isolation else None)
        )
        return True

    def _refused(self, position: Position, code: ErrorCode, data: Any, endpoints: Any) -> bool:
        logger.debug("fetch of %s at %d: %s", position.tp, position.fetch_offset, code.name)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if position.preferred_replica >= 0:
                # A follower may lag behind the leader, whose answer alone resets a position (KIP-392).
                position.preferred_replica = -1
                return False
            if self._buffer.counts().get(id(position)):
                # Records in the buffer are good; the range is looked at again when they are used up.
                position.not_before_ms = self._cluster.now_ms() + self._config.retry_backoff_ms
                return False
            return self._out_of_range(position)
        if code in _LOOK_ELSEWHERE or code.retriable:
            leader = data.current_leader
            position.preferred_replica = -1
            position.not_before_ms = self._cluster.now_ms() + self._config.retry_backoff_ms
            # KIP-951: the answer may name the new leader, which is asked without a pause.
            if self._cluster.metadata.update_leader(
                position.tp, leader.leader_id, leader.leader_epoch, endpoints
            ):
                position.not_before_ms = 0.0
                self._positions.leader_changed(position.tp, leader.leader_epoch)
            else:
                self._cluster.request_update()
            return position.validate
        # Such as a missing permission, which only an operator can mend: asked again after the longest pause.
        self._fail(error_for(code, f"{position.tp}: {code.message}"))
        position.not_before_ms = self._cluster.now_ms() + self._config.retry_backoff_max_ms
        return True

    def _out_of_range(self, position: Position) -> bool:
        try:
            self._positions.apply_policy(position)
        except NoOffsetForPartitionError:
            self._fail(
                error_for(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"{position.tp}: offset {position.fetch_offset} is out of range, and "
                    "auto.offset.reset is 'none'",
                )
            )
            position.not_before_ms = self._cluster.now_ms() + self._config.retry_backoff_max_ms
            return True
        logger.info("%s: offset %d is out of range; resetting", position.tp, position.fetch_offset)
        return True

    def _fail(self, problem: OdradekError) -> None:
        """Let the next `poll` raise an error."""
        self.failure = problem

    def raise_failure(self) -> None:
        """Raise what went wrong since the last call, if anything."""
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure

    def stop(self) -> None:
        """End the timer; looks that come after the cluster's end do nothing."""
        if self._timer is not None:
            self._timer.cancel()
