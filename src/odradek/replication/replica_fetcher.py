# compiled: mypyc
"""The fetcher of one leader: copies what that broker leads, one request at a time. No I/O, no clock.

    add ──► TRUNCATING ──OffsetForLeaderEpoch──► FETCHING ──OFFSET_OUT_OF_RANGE──► SEEKING_END
                ▲ an epoch it does not know ────┘   ▲                                   │ ListOffsets
                                                    └────────── SEEKING_START ◄─────────┘
    FENCED_LEADER_EPOCH, a disk that fails ──► FAILED, until `add` says a newer epoch

`next_request` gives what is to be sent, `take` gets its response, `broken` learns that none will come. An
error that may pass delays its partition by `replica.fetch.backoff.ms`; the others go on. A leader that has
not heard of its election yet is asked again sooner: whoever writes with acks=all waits for it. From
inter.broker.protocol.version 2.7 on a partition begins in FETCHING: Fetch itself says where the log has left
the leader's (KIP-595). The fetch session is in `wire.fetch_session_handler`. Fetches leave out what is
throttled and has not caught up while the throttle of copies is exceeded (KIP-73). Kafka:
`AbstractFetcherThread`, `ReplicaFetcherThread.shouldFollowerThrottle`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from odradek.cluster.inter_broker_versions import at_least, request_version, truncates_on_fetch
from odradek.errors import (
    CorruptRecordError,
    FencedLeaderEpochError,
    InvalidRecordError,
    KafkaError,
    OffsetOutOfRangeError,
)
from odradek.errors.codes import ErrorCode, error_name
from odradek.replication.fetched_replica import FetchedReplica, FetchState, Replica
from odradek.replication.following import pieces_of
from odradek.replication.lookups import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from odradek.wire.api import ApiKey
from odradek.wire.fetch_session_handler import NAMES_UNTIL, SESSION_LOST, FetchSessionHandler
from odradek.wire.messages.fetch import FetchRequest, ReplicaState
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.wire.primitives import ZERO_UUID

if TYPE_CHECKING:
    from odradek.replication.replication_quota import ReplicationQuota
    from odradek.util.topic_partition import TopicPartition
    from odradek.wire.messages.fetch import FetchResponse, PartitionData
    from odradek.wire.messages.list_offsets import ListOffsetsResponse
    from odradek.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochResponse

logger = logging.getLogger(__name__)

PIECE_BYTES = 64 * 1024
"""The fetcher appends about this much between two pauses, in which others have their turn."""

NOT_YET_MS = 20
"""The pause before a leader is asked again that seems not to have heard of its election; it grows twofold."""

# A broker answers these while the LeaderAndIsr that makes it the leader is still on its way to it.
_NOT_YET = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)

SHORTEST_PAUSE_MS = 50.0
"""A throttled partition is left out for this long at least: each return costs a fetch that names it."""

_FIRST_WITH_LAST_EPOCH = 12  # KIP-595
_FIRST_WITH_REPLICA_STATE = 15  # KIP-903


class FetchLimits(NamedTuple):
    """Kafka's `replica.fetch.*`.

    Attributes:
        max_bytes: of one partition (`replica.fetch.max.bytes`).
        response_max_bytes: of one response.
        wait_max_ms: how long a leader may hold a fetch.
        min_bytes: what a fetch waits for.
        backoff_ms: after an error.
    """

    max_bytes: int = 1048576
    response_max_bytes: int = 10485760
    wait_max_ms: int = 500
    min_bytes: int = 1
    backoff_ms: int = 1000


class NextRequest(NamedTuple):
    """The request to send next: a message, and in which version."""

    message: Any
    version: int


class _Asked(NamedTuple):
    """One partition's part of a request under way."""

    fetched: FetchedReplica
    offset: int


class ReplicaFetcher:
    """See the module's docstring.

    Attributes:
        leader_id: the broker that is fetched from.
        session: of the fetches.
    """

    def __init__(
        self,
        broker_id: int,
        leader_id: int,
        ibp: str,
        limits: FetchLimits | None = None,
        *,
        broker_epoch: Callable[[], int] = lambda: -1,
        quota: ReplicationQuota | None = None,
        on_copied: Callable[[TopicPartition, int], object] | None = None,
    ) -> None:
        """
        Args:
            broker_id: this broker.
            leader_id: the broker to fetch from.
            ibp: `inter.broker.protocol.version`.
            limits: how much is fetched, and how often.
            broker_epoch: of this broker, sent from Fetch 15 on.
            quota: the throttle, shared with this broker's other fetchers; None for none.
            on_copied: told how many bytes of a partition have come.
        """
        self.leader_id = leader_id
        self.session = FetchSessionHandler(leader_id)
        self._broker_id = broker_id
        self._ibp = ibp
        self._limits = limits or FetchLimits()
        self._broker_epoch = broker_epoch
        self._quota = quota
        self._on_copied = on_copied
        self._truncates_on_fetch = truncates_on_fetch(ibp)
        # From here on brokers answer OffsetForLeaderEpoch (KIP-101; `MetadataVersion` of Kafka up to 3.9).
        self._knows_epochs = at_least(ibp, "0.11.0-IV2")
        # In the order in which a full fetch names them: what gave data goes to the end.
        self._followed: dict[TopicPartition, FetchedReplica] = {}
        # The parts of the request under way that have not been answered yet; each request begins it anew. A
        # part whose replica `_followed` no longer holds (removed, or added in another epoch) counts no more.
        self._asked: dict[TopicPartition, _Asked] = {}

    def __len__(self) -> int:
        """Return how many partitions are followed, failed partitions included."""
        return len(self._followed)

    @property
    def followed(self) -> Iterable[FetchedReplica]:
        """Return the replicas that are followed."""
        return self._followed.values()

    @property
    def failed_count(self) -> int:
        """Return how many partitions wait for a newer leader epoch."""
        return sum(fetched.state is FetchState.FAILED for fetched in self._followed.values())

    @property
    def max_lag(self) -> int:
        """The largest lag of a partition, in records."""
        return max((fetched.lag or 0 for fetched in self._followed.values()), default=0)

    def add(self, replica: Replica, leader_epoch: int, topic_id: bytes = ZERO_UUID) -> None:
        """Follow a partition from now on. In an epoch in which it is followed already nothing changes."""
        followed = self._followed.get(replica.key)
        if followed is not None and followed.leader_epoch == leader_epoch and followed.replica is replica:
            # A topic of before Kafka 2.8 gets its id while it is followed, as by `maybeUpdateTopicIds`.
            followed.topic_id = topic_id
            return
        # A log of old messages knows no epoch that a fetch could name, so nothing would tell it where to cut:
        # it has to be cut to its high watermark first, as by Kafka's `AbstractFetcherThread`.
        on_fetch = self._truncates_on_fetch and replica.latest_epoch >= 0
        state = FetchState.FETCHING if on_fetch else FetchState.TRUNCATING
        self._followed[replica.key] = FetchedReplica(replica, leader_epoch, topic_id, state)

    def remove(self, key: TopicPartition) -> bool:
        """Follow a partition no more; returns whether it was followed."""
        return self._followed.pop(key, None) is not None

    def remove_all(self) -> None:
        """Follow nothing more. What is being taken of an answer counts no more, as after `remove`."""
        self._followed.clear()

    # ------------------------------------------------------------------ asking

    def next_request(self, now_ms: float) -> NextRequest | None:
        """Make the request that is to be sent now; None if there is none until `wait_ms` have passed or `add`
        has been called.

        Args:
            now_ms: monotonic.
        """
        self._asked = {}
        ready: list[FetchedReplica] = []
        others = 0
        # The leader holds the fetch until the next delayed partition is due, and no longer: nothing else is
        # asked meanwhile.
        wait_max_ms = float(self._limits.wait_max_ms)
        for fetched in self._followed.values():
            if fetched.state is FetchState.FAILED:
                continue
            if fetched.delayed_until_ms > now_ms:
                wait_max_ms = min(wait_max_ms, fetched.delayed_until_ms - now_ms)
            elif fetched.state is FetchState.FETCHING:
                ready.append(fetched)
            else:
                others += 1
        if others:
            # Before records, as in `AbstractFetcherThread.doWork`: such an answer comes at once, and a fetch
            # that left these partitions out might be held for its whole wait.
            request = self._ask_about_logs(ready, now_ms)
            if request is not None:
                return request
        fetching = self._within_quota(ready, now_ms)
        if len(fetching) < len(ready):
            wait_max_ms = min(wait_max_ms, self._throttled_ms())
        return self._ask_records(fetching, ceil(wait_max_ms))

    def _ask_about_logs(self, ready: list[FetchedReplica], now_ms: float) -> NextRequest | None:
        """Make the request about logs of partitions that cannot be fetched yet; None where all are ready.

        A partition that needs no answer is cut, and added to `ready`.
        """
        by_state: dict[FetchState, list[FetchedReplica]] = {state: [] for state in FetchState}
        for fetched in self._followed.values():
            if fetched.delayed_until_ms <= now_ms:
                by_state[fetched.state].append(fetched)
        asking = []
        for fetched in by_state[FetchState.TRUNCATING]:
            # Without an epoch the high watermark is all there is to cut by, as before KIP-101.
            if self._knows_epochs and fetched.replica.latest_epoch >= 0:
                asking.append(fetched)
            elif self._cut(fetched, fetched.replica.truncate_without_epochs):
                fetched.state = FetchState.FETCHING
                ready.append(fetched)
        if asking:
            return self._ask_epochs(asking)
        for state, timestamp in (
            (FetchState.SEEKING_END, LATEST_TIMESTAMP),
            (FetchState.SEEKING_START, EARLIEST_TIMESTAMP),
        ):
            if by_state[state]:
                return self._ask_offsets(by_state[state], timestamp)
        return None

    def wait_ms(self, now_ms: float) -> float | None:
        """Return how long until a delayed partition is due; None if there is none.

        Args:
            now_ms: monotonic.
        """
        due = [
            fetched.delayed_until_ms
            for fetched in self._followed.values()
            if fetched.state is not FetchState.FAILED
        ]
        return max(0.0, min(due) - now_ms) if due else None

    def _within_quota(self, ready: list[FetchedReplica], now_ms: float) -> list[FetchedReplica]:
        """Return the partitions to fetch now: all, or while the rate is exceeded those that are not throttled
        or have caught up. The others are delayed.
        """
        quota = self._quota
        if quota is None or quota.is_idle or not quota.is_exceeded:
            return ready
        until_ms = now_ms + self._throttled_ms()
        within = []
        for fetched in ready:
            # A copy that has caught up belongs to the ISR: held back, it would hold acks=all back (KIP-73).
            has_caught_up = fetched.lag is not None and fetched.lag <= 0
            if has_caught_up or not quota.is_throttled(fetched.replica.key):
                within.append(fetched)
            else:
                fetched.delayed_until_ms = until_ms
        return within

    def _throttled_ms(self) -> float:
        """Return for how long a throttled partition is left out."""
        pause_ms = SHORTEST_PAUSE_MS if self._quota is None else max(self._quota.pause_ms, SHORTEST_PAUSE_MS)
        # With a very low rate the pause could last for minutes, and a rate that was raised would go unseen.
        return min(pause_ms, self._limits.backoff_ms)

    def _ask_epochs(self, asking: list[FetchedReplica]) -> NextRequest:
        topics: dict[str, OffsetForLeaderTopic] = {}
        for fetched in asking:
            topic, index = self._note(fetched)
            topics.setdefault(topic, OffsetForLeaderTopic(topic=topic)).partitions.append(
                OffsetForLeaderPartition(
                    partition=index,
                    current_leader_epoch=fetched.leader_epoch,
                    leader_epoch=fetched.replica.latest_epoch,
                )
            )
        version = request_version(ApiKey.OFFSET_FOR_LEADER_EPOCH, self._ibp)
        message = OffsetForLeaderEpochRequest(replica_id=self._broker_id, topics=list(topics.values()))
        return NextRequest(message, version)

    def _ask_offsets(self, asking: list[FetchedReplica], timestamp: int) -> NextRequest:
        topics: dict[str, ListOffsetsTopic] = {}
        for fetched in asking:
            topic, index = self._note(fetched)
            topics.setdefault(topic, ListOffsetsTopic(name=topic)).partitions.append(
                ListOffsetsPartition(
                    partition_index=index, current_leader_epoch=fetched.leader_epoch, timestamp=timestamp
                )
            )
        version = request_version(ApiKey.LIST_OFFSETS, self._ibp)
        message = ListOffsetsRequest(replica_id=self._broker_id, topics=list(topics.values()))
        return NextRequest(message, version)

    def _note(self, fetched: FetchedReplica) -> TopicPartition:
        self._asked[fetched.replica.key] = _Asked(fetched, fetched.replica.log_end_offset)
        return fetched.replica.key

    def _ask_records(self, ready: list[FetchedReplica], wait_max_ms: int) -> NextRequest | None:
        version = request_version(ApiKey.FETCH, self._ibp)
        # A request names all of its topics in one way, so a single topic without an id keeps it below 13.
        if not all(fetched.topic_id != ZERO_UUID for fetched in ready):
            version = min(version, NAMES_UNTIL)
        has_last = self._truncates_on_fetch and version >= _FIRST_WITH_LAST_EPOCH
        limits, has_state = self._limits, version >= _FIRST_WITH_REPLICA_STATE
        builder = self.session.new_builder(version)
        for fetched in ready:
            replica = fetched.replica
            end = replica.log_end_offset
            self._asked[replica.key] = _Asked(fetched, end)
            builder.add(
                replica.key,
                fetched.topic_id,
                end,
                leader_epoch=fetched.leader_epoch,
                max_bytes=limits.max_bytes,
                last_epoch=replica.latest_epoch if has_last else -1,
                log_start_offset=replica.log_start_offset,
            )
        # Nothing ready alone does not say so: the leader may have to hear what its session is to forget.
        if builder.is_empty:
            return None
        message = FetchRequest(
            # From Fetch 15 on it stands in `replica_state`, beside the life of the broker (KIP-903).
            replica_id=-1 if has_state else self._broker_id,
            max_wait_ms=wait_max_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.response_max_bytes,
        )
        if has_state:
            message.replica_state = ReplicaState(
                replica_id=self._broker_id, replica_epoch=self._broker_epoch()
            )
        builder.build(message)
        return NextRequest(message, version)

    # ------------------------------------------------------------------ being answered

    def take(self, response: Any, now_ms: int, monotonic_ms: float) -> Generator[None, None, None]:
        """Take the response to the last request, with a pause wherever it may be long.

        Partitions may be added and removed in a pause; what the response says of a partition that was there
        before then counts no more.

        Args:
            response: the message.
            now_ms: wall clock.
            monotonic_ms: from where delays count.
        """
        api = response.API_KEY
        if api == ApiKey.FETCH:
            yield from self._take_records(response, now_ms, monotonic_ms)
        elif api == ApiKey.OFFSET_FOR_LEADER_EPOCH:
            yield from self._take_epochs(response, monotonic_ms)
        else:
            yield from self._take_offsets(response, monotonic_ms)

    def broken(self, monotonic_ms: float) -> None:
        """Give up a request that gets no response: all is asked again after the pause, in a new session."""
        self.session.handle_error()
        # All of them, not those of the request alone: it is the connection, or the broker behind it, that
        # failed. Kafka delays `partitionStates.partitionSet` too.
        for fetched in self._followed.values():
            if fetched.delayed_until_ms <= monotonic_ms:
                self._delay(fetched, monotonic_ms)
        self._asked = {}

    def given_up(self) -> None:
        """Forget the fetch under way, which was given up though nothing is wrong: all partitions are asked
        for again, without a pause and in a new session.
        """
        self.session.handle_error()
        self._asked = {}

    def _still(self, key: TopicPartition) -> FetchedReplica | None:
        """Return the replica that an answer is about; None where it was removed, added anew or cut since the
        request, so that the answer is about another log.
        """
        request = self._asked.pop(key, None)
        if request is None or self._followed.get(key) is not request.fetched:
            return None
        return request.fetched if request.fetched.replica.log_end_offset == request.offset else None

    def _take_epochs(
        self, response: OffsetForLeaderEpochResponse, monotonic_ms: float
    ) -> Generator[None, None, None]:
        for topic in response.topics:
            for answer in topic.partitions:
                fetched = self._still((topic.topic, answer.partition))
                if fetched is None or fetched.state is not FetchState.TRUNCATING:
                    continue
                if answer.error_code:
                    self._fail(fetched, answer.error_code, monotonic_ms)
                    continue
                self._truncate(fetched, answer.leader_epoch, answer.end_offset)
                yield
        self._delay_silent(monotonic_ms)

    def _truncate(self, fetched: FetchedReplica, epoch: int, end_offset: int) -> None:
        is_final = False

        def cut() -> None:
            nonlocal is_final
            is_final = fetched.replica.truncate_by_epoch(epoch, end_offset)

        if self._cut(fetched, cut):
            # A cut that is not final needs no second question where Fetch truncates: the next fetch names the
            # epoch that is now the log's last, and is told where that epoch diverges (KIP-595).
            done = is_final or (self._truncates_on_fetch and fetched.replica.latest_epoch >= 0)
            fetched.state = FetchState.FETCHING if done else FetchState.TRUNCATING

    def _cut(self, fetched: FetchedReplica, cut: Callable[[], None]) -> bool:
        """Cut a log; returns whether the disk allowed it."""
        try:
            cut()
        except KafkaError as error:
            logger.error("%s-%d cannot be cut, and is followed no more: %s", *fetched.replica.key, error)
            fetched.state = FetchState.FAILED
            return False
        return True

    def _take_offsets(
        self, response: ListOffsetsResponse, monotonic_ms: float
    ) -> Generator[None, None, None]:
        for topic in response.topics:
            for answer in topic.partitions:
                fetched = self._still((topic.name, answer.partition_index))
                if fetched is None:
                    continue
                if answer.error_code:
                    # The next fetch tells whether the offset is still out of range.
                    fetched.state = FetchState.FETCHING
                    self._fail(fetched, answer.error_code, monotonic_ms)
                    continue
                # ListOffsets 0, of ibp before 0.10.1, answers with a list.
                offset = answer.old_style_offsets[0] if answer.old_style_offsets else answer.offset
                if fetched.state is FetchState.SEEKING_END:
                    self._take_end(fetched, offset)
                elif fetched.state is FetchState.SEEKING_START:
                    self._take_start(fetched, offset)
                yield
        self._delay_silent(monotonic_ms)

    def _take_end(self, fetched: FetchedReplica, leader_end: int) -> None:
        # An end behind the leader's comes of an unclean election; Kafka: `fetchOffsetAndTruncate`.
        if leader_end >= fetched.replica.log_end_offset:
            # The fetch was out of range, and not behind the leader's end, so it was before the leader's
            # start. (Or the leader has grown past it since; then its start says that the log can stay.)
            fetched.state = FetchState.SEEKING_START
        elif self._cut(fetched, lambda: fetched.replica.truncate_to_leader_end(leader_end)):
            # The same end is not yet the same log: epochs say so, here or with the next fetch.
            fetched.state = FetchState.FETCHING if self._truncates_on_fetch else FetchState.TRUNCATING

    def _take_start(self, fetched: FetchedReplica, leader_start: int) -> None:
        # Only a log that ends before the leader's start has a gap that nothing can fill: it begins anew.
        if leader_start <= fetched.replica.log_end_offset or self._cut(
            fetched, lambda: fetched.replica.truncate_fully_and_start_at(leader_start)
        ):
            fetched.state = FetchState.FETCHING

    def _take_records(
        self, response: FetchResponse, now_ms: int, monotonic_ms: float
    ) -> Generator[None, None, None]:
        answers = self.session.handle_response(response)
        if answers is None:
            # A lost session is no fault of a partition: the full fetch that follows may go at once.
            if response.error_code not in SESSION_LOST:
                self._delay_silent(monotonic_ms)
            return
        for key, data in answers.items():
            fetched = self._still(key)
            if fetched is None or fetched.state is not FetchState.FETCHING:
                continue
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self._seek(fetched, monotonic_ms)
            elif data.error_code:
                self._fail(fetched, data.error_code, monotonic_ms)
            elif data.diverging_epoch.end_offset >= 0 and data.diverging_epoch.epoch >= 0:
                # What else the answer says, the high watermark too, is of a log that this one has left. It
                # comes again when this one is cut.
                self._truncate(fetched, data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
            else:
                yield from self._append(fetched, data, now_ms, monotonic_ms)
            yield

    def _seek(self, fetched: FetchedReplica, monotonic_ms: float) -> None:
        """Ask where the leader's log begins and ends, after a pause where that has led to nothing before."""
        fetched.state = FetchState.SEEKING_END
        fetched.out_of_range += 1
        if fetched.out_of_range > 1:
            self._delay(fetched, monotonic_ms)
        if fetched.out_of_range == 2:
            replica = fetched.replica
            logger.warning(
                "%s-%d: broker %d leads in epoch %d, and its log knows nothing of epoch %d, in which this one"
                " ends at %d: nothing is copied, and it is asked each %d ms. Leader epochs have gone back, as"
                " with a metadata store that was restored from an older backup: start this broker anew, which"
                " has them raised, or elect another leader",
                *replica.key,
                self.leader_id,
                fetched.leader_epoch,
                replica.latest_epoch,
                replica.log_end_offset,
                self._limits.backoff_ms,
            )

    def _append(
        self, fetched: FetchedReplica, data: PartitionData, now_ms: int, monotonic_ms: float
    ) -> Generator[None, None, None]:
        replica = fetched.replica
        key = replica.key
        records: Any = data.records or b""
        if len(records):
            # Also of what is in sync: the rate is for all copies together.
            if self._quota is not None and self._quota.is_throttled(key):
                self._quota.record(len(records))
            if self._on_copied is not None:
                self._on_copied(key, len(records))
        try:
            for piece in _pieces(records):
                replica.append_from_leader(
                    piece,
                    leader_epoch=fetched.leader_epoch,
                    leader_high_watermark=data.high_watermark,
                    leader_log_start_offset=data.log_start_offset,
                    now_ms=now_ms,
                )
                yield
                # Removed in the pause, or added in another epoch: the rest of the answer is about neither.
                if self._followed.get(key) is not fetched:
                    return
        except FencedLeaderEpochError:
            # The replica leads by now, or follows in another epoch, which comes with the next `add`.
            fetched.state = FetchState.FAILED
        except (CorruptRecordError, InvalidRecordError, OffsetOutOfRangeError) as error:
            # Bytes that were damaged on their way come whole next time: no reason to give up for good.
            logger.error("broker %d sent bad records of %s-%d: %s", self.leader_id, *key, error)
            self._delay(fetched, monotonic_ms)
        except KafkaError as error:
            logger.error("%s-%d cannot be appended to, and is followed no more: %s", *key, error)
            fetched.state = FetchState.FAILED
        else:
            fetched.not_yet = fetched.out_of_range = 0
            fetched.lag = max(0, data.high_watermark - replica.log_end_offset)
            if len(records):
                # A response is bounded as a whole, and filled in the order of the request: who has just got
                # records lets the others go first. Kafka: `PartitionStates.updateAndMoveToEnd`.
                self._followed[key] = self._followed.pop(key)

    # ------------------------------------------------------------------ errors

    def _fail(self, fetched: FetchedReplica, code: int, monotonic_ms: float) -> None:
        """Take a partition's error: a fenced epoch fails it until `add` brings a newer; others delay it."""
        if code == ErrorCode.FENCED_LEADER_EPOCH:
            logger.info("%s-%d: leader epoch %d is over", *fetched.replica.key, fetched.leader_epoch)
            fetched.state = FetchState.FAILED
            return
        logger.info(
            "%s-%d: broker %d answers %s",
            *fetched.replica.key,
            self.leader_id,
            error_name(code),
        )
        if code not in _NOT_YET:
            self._delay(fetched, monotonic_ms)
            return
        pause_ms = min(NOT_YET_MS * 2**fetched.not_yet, self._limits.backoff_ms)
        fetched.delayed_until_ms = monotonic_ms + pause_ms
        if pause_ms < self._limits.backoff_ms:
            fetched.not_yet += 1

    def _delay(self, fetched: FetchedReplica, monotonic_ms: float) -> None:
        fetched.delayed_until_ms = monotonic_ms + self._limits.backoff_ms

    def _delay_silent(self, monotonic_ms: float) -> None:
        """Delay the partitions that the leader was asked about and did not answer for."""
        for fetched, _ in self._asked.values():
            self._delay(fetched, monotonic_ms)


def _pieces(records: Any) -> Iterator[Any]:
    """Split records into pieces. Without records there is a single empty piece, because the high watermark
    and the log start of the answer are to be taken over all the same.
    """
    empty = True
    for piece in pieces_of(records, PIECE_BYTES):
        empty = False
        yield piece
    if empty:
        yield b""
