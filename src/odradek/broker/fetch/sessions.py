# compiled: mypyc
"""Incremental fetch sessions (KIP-227): the broker remembers what a consumer fetches, so that neither a
request nor a response has to name partitions about which nothing has changed.

A request's `(session_id, session_epoch)` chooses what happens:

    epoch  -1 (final)    any id   the named session is closed; a full, sessionless fetch
    epoch   0 (initial)  any id   the named session is closed; a full fetch that tries to open a session
    epoch   n            id       incremental, in session `id`, whose next epoch must be n
    otherwise                     FETCH_SESSION_ID_NOT_FOUND or INVALID_FETCH_SESSION_EPOCH

No socket, no clock: `now_ms` is handed in. Session ids come from the `random.Random` that is handed in.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, final

from odradek.errors.codes import ErrorCode

if TYPE_CHECKING:
    from odradek.replication.partition import Partition
    from odradek.wire.messages.fetch import FetchPartition, PartitionData

MAX_SESSION_PARTITIONS = 10_000
"""A fetch of more partitions than this gets no session, which every client knows how to take: each of the
session's fetches would look at all of them."""

# Kafka: `FetchMetadata`.
INVALID_SESSION_ID: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_MAX_EPOCH: Final = 0x7FFF_FFFF
_NONE: Final = ErrorCode.NONE


def next_epoch(epoch: int) -> int:
    """The session epoch after `epoch`; it wraps to 1, because 0 would mean a full fetch."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == _MAX_EPOCH else epoch + 1


IdOrName = tuple[bytes | str | None, int]
"""A topic as its requests name it (by id from version 13, by name before), and the partition's number."""


class FetchedPartition:
    """One partition of a fetch: of one request, or of all requests of a session.

    Attributes:
        topic: the topic's name; None while its id is not known here.
        topic_id: 16 bytes, zero when ids are not used.
        fetch_partition: what the last request that named the partition says of it.
        replica: what `topic` means on this broker, kept by whoever has looked it up.
        high_watermark, log_start_offset: what the session's last response said. The former is -1 after an
            error, and when the follower had to cut its log, so that the partition is sent again.
        found_bytes, appended_bytes, seen_end: of the request that waits: what was visible when it was read
            first, the replica's `appended_bytes` at that time, and the offset up to which it could see.
    """

    __slots__ = (
        "appended_bytes",
        "fetch_partition",
        "found_bytes",
        "high_watermark",
        "log_start_offset",
        "replica",
        "seen_end",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str | None, topic_id: bytes, fetch_partition: FetchPartition) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.fetch_partition = fetch_partition
        self.replica: Partition | None = None
        self.high_watermark = -1
        self.log_start_offset = -1
        self.found_bytes = 0
        self.appended_bytes = 0
        self.seen_end = -1

    def __repr__(self) -> str:
        return f"<FetchedPartition {self.topic or self.topic_id.hex()}-{self.fetch_partition.partition}>"

    def must_send(self, answer: PartitionData) -> bool:
        """Return whether an answer about this partition says anything new; remembers it.

        Kafka: `CachedPartition.maybeUpdateResponseData`.
        """
        changed = bool(answer.records)
        if self.high_watermark != answer.high_watermark:
            changed = True
            self.high_watermark = answer.high_watermark
        if self.log_start_offset != answer.log_start_offset:
            changed = True
            self.log_start_offset = answer.log_start_offset
        if answer.preferred_read_replica != -1:
            changed = True
        if answer.error_code != 0:
            # As in Kafka's `CachedPartition`: the next answer without an error is news, whatever it says.
            self.high_watermark = -1
            changed = True
        if _diverges(answer):
            # The follower cuts its log and takes nothing else from it: it has not been told.
            self.high_watermark = -1
            changed = True
        return changed


def _diverges(answer: PartitionData) -> bool:
    diverging = answer.diverging_epoch
    return diverging is not None and diverging.epoch >= 0


Answers = list[tuple[FetchedPartition, "PartitionData"]]
"""What is answered of which partition."""


class FetchSession:
    """One session.

    Attributes:
        id: what the client names it by.
        privileged: a follower's; evicted only by another follower.
        uses_topic_ids: whether its requests are of version 13 or later; a session cannot change that.
        epoch: the epoch that its next request must have.
        created_ms, last_used_ms: for eviction.
    """

    __slots__ = ("_partitions", "created_ms", "epoch", "id", "last_used_ms", "privileged", "uses_topic_ids")

    def __init__(self, session_id: int, *, privileged: bool, uses_topic_ids: bool, now_ms: int) -> None:
        self.id = session_id
        self.privileged = privileged
        self.uses_topic_ids = uses_topic_ids
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        # In the order in which partitions are served: one that gave data goes to the end, because KIP-74's
        # `max_bytes` may be used up before the last ones, which would starve otherwise.
        self._partitions: dict[IdOrName, FetchedPartition] = {}

    def __len__(self) -> int:
        """Return how many partitions it holds."""
        return len(self._partitions)

    def _key(self, partition: FetchedPartition) -> IdOrName:
        topic = partition.topic_id if self.uses_topic_ids else partition.topic
        return topic, partition.fetch_partition.partition

    @property
    def partitions(self) -> Mapping[IdOrName, FetchedPartition]:
        """The partitions in serving order."""
        return self._partitions

    def grown_by(self, named_partitions: Iterable[FetchedPartition]) -> int:
        """Return how many partitions it would hold with these, some of which it may hold already."""
        return len(self._partitions.keys() | set(map(self._key, named_partitions)))

    def update(self, named_partitions: Iterable[FetchedPartition], forgotten: Iterable[IdOrName]) -> None:
        """Add and change partitions as a request says, then forget some."""
        partitions = self._partitions
        for named in named_partitions:
            # What the last response said stays with the partition: only what is wanted of it changes.
            partition = partitions.setdefault(self._key(named), named)
            # A request may name a partition to say a new offset, which makes nothing of it news.
            partition.fetch_partition = named.fetch_partition
        for key in forgotten:
            partitions.pop(key, None)

    def add_answered(self, partition: FetchedPartition, answer: PartitionData) -> None:
        """Take in a partition of the full fetch that opened the session, with what was answered."""
        self._partitions[self._key(partition)] = partition
        partition.high_watermark = -1 if _diverges(answer) else answer.high_watermark
        partition.log_start_offset = answer.log_start_offset

    def select(self, answers: Answers) -> Answers:
        """Keep the answers that say something new, and move what gave data to the end of the order."""
        partitions = self._partitions
        chosen = []
        for answered in answers:
            partition, answer = answered
            key = self._key(partition)
            if key not in partitions:
                continue  # another request has forgotten it while this one waited
            if partition.must_send(answer):
                chosen.append(answered)
                if answer.records:
                    partitions[key] = partitions.pop(key)
        return chosen


@final
class FetchContext:
    """The way in which one fetch request is to be answered.

    Attributes:
        error: what is wrong with the request's session, else NONE; then nothing is fetched.
        partitions: what to fetch, in order.
        session: the session of an incremental fetch.
        opens_session: a full fetch that asks for a session.
        expected_epoch: of the session, unless another request of it is taken up meanwhile.
        privileged, uses_topic_ids: of a session that is opened.
    """

    __slots__ = (
        "error",
        "expected_epoch",
        "opens_session",
        "partitions",
        "privileged",
        "session",
        "uses_topic_ids",
    )

    def __init__(
        self,
        error: ErrorCode,
        partitions: list[FetchedPartition],
        session: FetchSession | None = None,
        opens_session: bool = False,
        expected_epoch: int = 0,
        privileged: bool = False,
        uses_topic_ids: bool = False,
    ) -> None:
        self.error = error
        self.partitions = partitions
        self.session = session
        self.opens_session = opens_session
        self.expected_epoch = expected_epoch
        self.privileged = privileged
        self.uses_topic_ids = uses_topic_ids

    @property
    def error_without_answers(self) -> tuple[ErrorCode, int]:
        """Error and session id of a response that has no answers, because the client is throttled: the
        session forgets nothing of what was told before, and a full fetch opens none."""
        session = self.session
        if session is None:
            return _NONE, INVALID_SESSION_ID
        if session.epoch != self.expected_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.id
        return _NONE, session.id


class FetchSessionCache:
    """All sessions of a broker, bounded in number.

    Attributes:
        evictions: how many sessions had to make room for others.
        total_partitions: in all sessions (`NumIncrementalFetchPartitionsCached`).
    """

    def __init__(
        self,
        *,
        max_sessions: int = 1000,
        max_partitions: int = 1_000_000,
        eviction_ms: int = 120_000,
        rng: random.Random | None = None,
    ) -> None:
        """
        Args:
            max_sessions: Kafka's `max.incremental.fetch.session.cache.slots`.
            max_partitions: in all sessions together; a fetch that would go beyond is answered without a
                session, which every client knows how to take.
            eviction_ms: a session unused for longer makes room for any other.
            rng: where session ids come from.
        """
        self._max = max_sessions
        self._max_partitions = max_partitions
        self._eviction_ms = eviction_ms
        self._rng = rng or random.Random()
        # Least recently used first: a touched session is moved to the end, so that `_evict` finds the oldest
        # without a search. At most `_max` of them.
        self._sessions: dict[int, FetchSession] = {}
        self.evictions = 0
        # The sum of the sessions' lengths: whoever adds, forgets or closes counts here as well.
        self.total_partitions = 0

    def __len__(self) -> int:
        """Return how many sessions there are (`NumIncrementalFetchSessions`)."""
        return len(self._sessions)

    def find(self, session_id: int) -> FetchSession | None:
        """Return a session as it is, without making use of it."""
        return self._sessions.get(session_id)

    def _close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.total_partitions -= len(session)

    def open(
        self,
        session_id: int,
        session_epoch: int,
        *,
        named_partitions: list[FetchedPartition],
        forgotten: list[IdOrName],
        uses_topic_ids: bool,
        privileged: bool,
        now_ms: int,
    ) -> FetchContext:
        """Find out what a request's session fields mean, and what it wants to fetch.

        Args:
            session_id, session_epoch: as in the request.
            named_partitions: the partitions that the request names.
            forgotten: those that an incremental request drops.
            uses_topic_ids: whether the request is of version 13 or later.
            privileged: whether a follower asks.
            now_ms: wall clock.
        """
        # Whoever names another's session closes it: ids are random, and a client that lost one begins anew.
        if session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._close(session_id)
            return FetchContext(
                _NONE,
                named_partitions,
                opens_session=session_epoch == INITIAL_EPOCH
                and len(named_partitions) <= MAX_SESSION_PARTITIONS,
                privileged=privileged,
                uses_topic_ids=uses_topic_ids,
            )
        session = self._sessions.get(session_id)
        if session is None:
            return FetchContext(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])
        if session.epoch != session_epoch:
            return FetchContext(ErrorCode.INVALID_FETCH_SESSION_EPOCH, [])
        if session.uses_topic_ids != uses_topic_ids:
            return FetchContext(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, [])
        # The sum first, as to look which of them are new takes a set of all.
        too_many = len(session) + len(named_partitions) > MAX_SESSION_PARTITIONS and session.grown_by(
            named_partitions
        ) > (MAX_SESSION_PARTITIONS)
        if not too_many:
            before = len(session)
            session.update(named_partitions, forgotten)
            self.total_partitions += len(session) - before
        # The client takes this for an eviction, and begins anew with a full fetch (KIP-227).
        if too_many or (named_partitions and self.total_partitions > self._max_partitions):
            self._close(session_id)
            return FetchContext(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])
        # As in Kafka's `FetchManager.newContext`: a session of nothing is not kept.
        if len(session) == 0:
            self._close(session_id)
            return FetchContext(_NONE, named_partitions)
        self._touch(session, now_ms)
        return FetchContext(
            _NONE,
            list(session.partitions.values()),
            session=session,
            expected_epoch=session.epoch,
        )

    def _touch(self, session: FetchSession, now_ms: int) -> None:
        """A request has been taken up in the session: the next one has the next epoch."""
        session.last_used_ms = now_ms
        # Taken out first: a dict keeps the place of a key that it has already.
        del self._sessions[session.id]
        self._sessions[session.id] = session
        session.epoch = next_epoch(session.epoch)

    def finish(
        self, context: FetchContext, answers: Answers, *, now_ms: int
    ) -> tuple[ErrorCode, int, Answers]:
        """Decide what of the answers goes into the response, and under which session id.

        Returns:
            `(error, session_id, answers to send)`.
        """
        if context.error is not _NONE:
            return context.error, INVALID_SESSION_ID, []
        session = context.session
        if session is not None:
            if session.epoch != context.expected_epoch:
                # Another request of the session was taken up while this one waited.
                return ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.id, []
            return _NONE, session.id, session.select(answers)
        if not context.opens_session:
            return _NONE, INVALID_SESSION_ID, answers
        created = self._create(context, len(answers), now_ms)
        if created is None:
            return _NONE, INVALID_SESSION_ID, answers
        for partition, answer in answers:
            created.add_answered(partition, answer)
        self.total_partitions += len(created)
        return _NONE, created.id, answers

    def _create(self, context: FetchContext, size: int, now_ms: int) -> FetchSession | None:
        if self.total_partitions + size > self._max_partitions:
            return None
        if len(self._sessions) >= self._max and not self._evict(context.privileged, size, now_ms):
            return None
        session_id = INVALID_SESSION_ID
        while session_id == INVALID_SESSION_ID or session_id in self._sessions:
            session_id = self._rng.randrange(1, 2**31)
        session = FetchSession(
            session_id, privileged=context.privileged, uses_topic_ids=context.uses_topic_ids, now_ms=now_ms
        )
        self._sessions[session_id] = session
        return session

    def _evict(self, privileged: bool, size: int, now_ms: int) -> bool:
        """Make room for a session of `size` partitions, as KIP-227 ranks them: a stale one goes first; else
        the smallest of those that are old enough (or, for a follower, any consumer's), if it is not worth
        more."""
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.last_used_ms > self._eviction_ms:
            victim = oldest
        else:
            candidates = [
                session
                for session in self._sessions.values()
                if now_ms - session.created_ms > self._eviction_ms or (privileged and not session.privileged)
            ]
            if not candidates:
                return False
            # Kafka's `EvictableKey`. A larger session is worth more: it saves more of each request.
            victim = min(candidates, key=lambda session: (session.privileged, len(session), session.id))
            if (privileged, size, 0) < (victim.privileged, len(victim), victim.id):
                return False
        self._close(victim.id)
        self.evictions += 1
        return True
