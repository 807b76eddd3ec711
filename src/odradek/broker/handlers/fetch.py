# compiled: mypyc
"""Fetch 0-18: read record batches, waiting for them if need be.

- 0-12 name topics, 13 and later have topic ids (UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID).
- Sessions from version 7: see `odradek.broker.fetch.sessions` (KIP-227). Of a session's partitions that have
  nothing new no answer is made: they cost one look each.
- A long poll: the answer comes when `min_bytes` are there, at the latest after `max_wait_ms`; at once when a
  partition has an error, has diverged, or goes on in a later segment. Each partition counts with what is
  visible, up to its `partition_max_bytes`, also where the response had no room for it (Kafka's DelayedFetch).
- `max_bytes` and `partition_max_bytes` are kept, except that the first batch of the response comes whole
  even when it is larger: a consumer must be able to go on (KIP-74).
- Leader epochs from version 9 (FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH), diverging epochs from 12
  (KIP-595), the current leader with NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH from 16 (KIP-951).
- A consumer that names its rack (version 11, KIP-392) is told of the nearest replica in place of records,
  where `replica.selector.class` wants that: `ReplicaManager.preferred_read_replica`.
- A follower that is not in sync gets no records of what is throttled while that is exceeded (KIP-73):
  `odradek.replication.replication_quota`.
- A consumer that has taken more than its quota lets it gets an empty answer, and waits:
  `odradek.broker.quotas.throttling`.
- zstd data needs version 10 where the topic is configured with it (UNSUPPORTED_COMPRESSION_TYPE).
- 0-3 get message sets, of magic 0 (0, 1) or at most 1 (2, 3), for which newer records are converted
  (`odradek.broker.conversion.fetch`; UNSUPPORTED_VERSION where `message.downconversion.enable` is false and
  the topic's format is newer). 4 and later get what is stored, old messages too. 0-2 know no `max_bytes`; a
  first message that is larger than `partition_max_bytes` they get cut off, by which consumers of their time
  know. 1 and later are told of throttling.

What a reader may see is said in `odradek.replication.reading`, for first reads, sessions and wake-ups alike;
`odradek.broker.fetch.reading` reads, `odradek.broker.fetch.response` puts what was read into a response.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from odradek.broker.apis.registry import handler
from odradek.broker.conversion.fetch import convert_answers
from odradek.broker.event_loop.slices import AT_ONCE, Steps, wait
from odradek.broker.fetch.reading import FetchReading
from odradek.broker.fetch.response import ResponseForm, error_answer
from odradek.broker.fetch.sessions import Answers, FetchContext, FetchedPartition, IdOrName
from odradek.util.futures import pass_on
from odradek.util.promise import Promise
from odradek.wire.api import ApiKey
from odradek.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from odradek.wire.primitives import ZERO_UUID

if TYPE_CHECKING:
    import asyncio

    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import Refused
    from odradek.wire.messages.fetch import ForgottenTopic

T = TypeVar("T")

MAX_WATCHED: Final = 10_000
"""A fetch of more partitions than this is not told when something arrives, but answered after `max_wait_ms`:
each arrival would otherwise have all of them looked at."""

_Response = FetchResponse | Promise[FetchResponse]


_BY_ID_FROM: Final = 13


def _error_response(refused: Refused[FetchRequest]) -> FetchResponse:
    # Kafka: `FetchRequest.getErrorResponse`. Before version 7 there is no error on top, and an answer without
    # partitions would say that there is nothing new.
    topics = refused.request.topics if refused.version < _BY_ID_FROM else []
    return FetchResponse(
        error_code=int(refused.error),
        session_id=refused.request.session_id,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                partitions=[
                    error_answer(partition.partition, refused.error, refused.version)
                    for partition in topic.partitions
                ],
            )
            for topic in topics
        ],
    )


@handler(ApiKey.FETCH, versions=range(19), error_response=_error_response)
def handle(context: RequestContext, request: FetchRequest) -> _Response | Steps[_Response]:
    """Read what there is; wait when it is too little."""
    topics = request.topics
    named = 0
    for topic in topics:
        named += 1 + len(topic.partitions)
    for gone in request.forgotten_topics_data:
        named += 1 + len(gone.partitions)
    fetch = _Fetch(context, request)
    if named > AT_ONCE:
        return fetch.start_in_steps()
    for topic in topics:
        fetch.want(topic, topic.partitions)
    for gone in request.forgotten_topics_data:
        fetch.forget(gone, gone.partitions)
    fetch.open()
    return fetch.go_on() if len(fetch.partitions) <= AT_ONCE else fetch.go_on_in_steps()


def _pieces(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield what there is in pieces that may be worked on without a pause.

    A piece takes half a millisecond where partitions have little, 3 ms where each has what is just read into
    memory.
    """
    for at in range(0, len(items), AT_ONCE):
        yield items[at : at + AT_ONCE]


class _Fetch:
    """One request on its way: read everything, answer or wait, read again and answer.

    What goes through all partitions has a loop of pieces `in_steps`, for many of them. Neither is made of the
    other: few partitions in steps took 8 % more instructions of a long poll, and after pauses another look is
    needed at what has come meanwhile. tests/broker/fetch/test_fetch_in_steps.py holds the two alike.

    Attributes:
        named_partitions, forgotten: what the request names.
        session: what the request's session fields mean.
        partitions: all that is to be read.
        reading: how, and what has been found.
        by_key: while the request waits, what it waits for.
    """

    __slots__ = (
        "broker",
        "by_id",
        "by_key",
        "context",
        "forgotten",
        "max_wait_ms",
        "min_bytes",
        "named_partitions",
        "partitions",
        "promise",
        "reading",
        "request",
        "session",
    )

    session: FetchContext
    partitions: list[FetchedPartition]
    promise: Promise[FetchResponse]

    def __init__(self, context: RequestContext, request: FetchRequest) -> None:
        self.context = context
        self.request = request
        self.broker = context.broker
        max_bytes = max(0, min(request.max_bytes, self.broker.config.fetch_max_bytes))
        throttle = self.broker.request_throttle
        if throttle is not None:
            max_bytes = throttle.most_fetched(context, request, max_bytes)
        self.min_bytes = min(request.min_bytes, max_bytes)
        self.max_wait_ms = request.max_wait_ms
        self.reading = FetchReading(context, request, max_bytes)
        self.by_id = context.api_version >= 13
        self.named_partitions: list[FetchedPartition] = []
        self.forgotten: list[IdOrName] = []
        self.by_key: dict[Hashable, FetchedPartition] = {}

    def want(self, topic: FetchTopic, partitions: Sequence[FetchPartition]) -> None:
        """Take up some partitions of a topic that the request names."""
        topic_id = topic.topic_id if self.by_id else ZERO_UUID
        name = self.broker.image.topic_name(topic_id) if self.by_id else topic.topic
        self.named_partitions += [FetchedPartition(name, topic_id, partition) for partition in partitions]

    def forget(self, topic: ForgottenTopic, indexes: Sequence[int]) -> None:
        """Take up some partitions that the session is to drop."""
        name: bytes | str = topic.topic_id if self.by_id else topic.topic
        self.forgotten += [(name, index) for index in indexes]

    def open(self) -> None:
        """Find the session, and with it all that is to be read."""
        self.session = self.broker.fetch_sessions.open(
            self.request.session_id,
            self.request.session_epoch,
            named_partitions=self.named_partitions,
            forgotten=self.forgotten,
            uses_topic_ids=self.by_id,
            privileged=self.reading.reader.replica_id >= 0,
            now_ms=self.context.now_ms,
        )
        self.partitions = self.reading.whole = self.session.partitions
        self.reading.incremental = self.session.session is not None

    def start_in_steps(self) -> Steps[_Response]:
        """As `handle`, where many partitions are named."""
        for topic in self.request.topics:
            for partitions in _pieces(topic.partitions):
                self.want(topic, partitions)
                yield
            yield
        for gone in self.request.forgotten_topics_data:
            for indexes in _pieces(gone.partitions):
                self.forget(gone, indexes)
                yield
            yield
        self.open()
        return (yield from self.go_on_in_steps())

    def go_on(self) -> _Response:
        """Read everything, and answer or wait."""
        reading = self.reading
        reading.read(self.partitions, first=True)
        if not self.may_wait() or reading.watch() >= self.min_bytes or reading.is_urgent:
            return self.respond()
        return self.wait()

    def go_on_in_steps(self) -> Steps[_Response]:
        """The same for many partitions."""
        reading = self.reading
        for piece in _pieces(self.partitions):
            before = len(reading.watched)
            reading.read(piece, first=True)
            reading.watch(before)
            yield
        if not self.may_wait():
            return (yield from self.respond_in_steps())
        if len(reading.watched) > MAX_WATCHED:
            reading.watched = []
        if self.has_enough():
            # It has come while others were read.
            return (yield from self.read_again_in_steps())
        return self.wait()

    # ------------------------------------------------------------------ waiting

    def may_wait(self) -> bool:
        """Return whether there is too little yet, and nothing that must be said at once."""
        reading = self.reading
        return (
            reading.total < self.min_bytes
            and self.max_wait_ms > 0
            and not reading.is_urgent
            and bool(reading.watched)
        )

    def wait(self) -> Promise[FetchResponse]:
        """Wait for more, or for the time to run out."""
        self.reading.begin()  # all is read again then; what was too little need not be kept until
        self.promise = Promise(self.broker.loop)
        self.by_key = {
            partition.replica.key: partition
            for partition in self.reading.watched
            if partition.replica is not None
        }
        operation = self.broker.purgatory.watch(
            self.by_key, self.try_complete, self.complete, self.max_wait_ms, by_key=True
        )
        self.context.on_disconnect = operation.cancel
        return self.promise

    def try_complete(self, key: Hashable) -> bool:
        """Answer soon if enough has arrived, judged without reading.

        In the loop's next turn: what other requests append in this one goes along, and a follower has less
        to fetch, and to answer for.
        """
        if self.min_bytes <= 1 and len(self.by_key) == len(self.reading.watched):
            # A single byte of any partition is enough: only the one that was checked needs a look.
            arrived = self.reading.has_arrived(self.by_key[key])
            if arrived is not None and arrived < self.min_bytes:
                return False
        elif not self.has_enough():
            return False
        self.broker.loop.call_soon(self.complete)
        return True

    def has_enough(self) -> bool:
        """Return whether enough has arrived in all that is watched, or something is to be said at once."""
        total = 0
        for partition in self.reading.watched:
            arrived = self.reading.has_arrived(partition)
            if arrived is None:
                return True
            total += arrived
        return bool(self.reading.watched) and total >= self.min_bytes

    def complete(self) -> None:
        """Read again, and answer with whatever is there."""
        promise = self.promise
        if promise.done():
            return
        response: _Response | asyncio.Future[FetchResponse]
        try:
            if len(self.partitions) > AT_ONCE:
                response = self.broker.slicer.run(self.read_again_in_steps())
            else:
                self.reading.begin()
                self.reading.read(self.partitions, first=False)
                response = self.respond()
        except Exception as error:
            promise.set_exception(error)
            return
        if isinstance(response, FetchResponse):
            promise.set_result(response)
        else:
            pass_on(response, promise)

    def read_again_in_steps(self) -> Steps[FetchResponse]:
        """As `complete`, for many partitions."""
        self.reading.begin()
        for piece in _pieces(self.partitions):
            self.reading.read(piece, first=False)
            yield
        response: FetchResponse = yield from wait((yield from self.respond_in_steps()))
        return response

    # ------------------------------------------------------------------ answering

    def respond(self) -> _Response:
        """Answer with what was read, when what has to be converted has been."""
        if (empty := self.throttled()) is not None:
            return empty
        if not self.reading.converting:
            return self.respond_at_once()
        response: _Response = convert_answers(
            self.broker, self.context.peer, self.reading.converting, self.respond_at_once
        )
        return response

    def throttled(self) -> FetchResponse | None:
        """Return what a consumer gets that has taken too much, in place of what was read; None for one that
        may have it.
        """
        throttle = self.broker.request_throttle
        if throttle is None or self.reading.reader.replica_id >= 0:
            return None
        return throttle.fetched(self.context, self.session, self.reading.answers)

    def respond_at_once(self) -> FetchResponse:
        """Let the session choose what is new, and put it in the response's form."""
        form, chosen = self.choose()
        form.add(chosen)
        return form.whole()

    def respond_in_steps(self) -> Steps[_Response]:
        """As `respond`, for many partitions."""
        if self.reading.converting:
            return self.respond()
        if (empty := self.throttled()) is not None:
            return empty
        form, chosen = self.choose()
        for piece in _pieces(chosen):
            form.add(piece)
            yield
        return form.whole()

    def choose(self) -> tuple[ResponseForm, Answers]:
        """The response to be, and what goes into it."""
        error, session_id, chosen = self.broker.fetch_sessions.finish(
            self.session, self.reading.answers, now_ms=self.context.now_ms
        )
        follower = self.reading.reader.replica_id
        return ResponseForm(self.context, error, session_id, follower), chosen
