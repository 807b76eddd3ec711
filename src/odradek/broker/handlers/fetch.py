"""Fetch 0-18: read record batches, waiting for them if need be.

- 0-12 name topics, 13 and later have topic ids (UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID).
- Sessions from version 7: see `odradek.broker.fetch_sessions` (KIP-227).
- A long poll: the answer comes when `min_bytes` are there, at the latest after `max_wait_ms`; at once when a
  partition has an error, or has diverged.
- `max_bytes` and `partition_max_bytes` are kept, except that the first batch of the response comes whole
  even when it is larger: a consumer must be able to go on (KIP-74).
- Leader epochs from version 9 (FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH), diverging epochs from 12
  (KIP-595), the current leader with NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH from 16 (KIP-951).
- zstd data needs version 10 where the topic is configured with it (UNSUPPORTED_COMPRESSION_TYPE).
- 0-3 get message sets, of magic 0 (0, 1) or at most 1 (2, 3), for which newer records are converted
  (`odradek.broker.conversion.fetch`; UNSUPPORTED_VERSION where `message.downconversion.enable` is false and
  the topic's format is newer). 4 and later get what is stored, old messages too. 0-2 know no `max_bytes`; a
  first message that is larger than `partition_max_bytes` they get cut off, by which consumers of their time
  know. 1 and later are told of throttling.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from odradek.broker.authorization import CLUSTER, Operation
from odradek.broker.authorization import topic as topic_resource
from odradek.broker.context import RequestContext
from odradek.broker.conversion.fetch import (
    ToConvert,
    convert_answers,
    cut_off,
    is_as_old,
    magic_for,
)
from odradek.broker.fast.fetch import RANGE_FROM_BYTES, FastFetch
from odradek.broker.fetch_sessions import FetchContext, FetchSpec, PartitionKey
from odradek.broker.leader_hints import LeaderHints
from odradek.broker.network.answer import Answer
from odradek.broker.registry import handler
from odradek.broker.slices import Steps, take_all, wait
from odradek.errors import KafkaError, UnknownTopicOrPartitionError
from odradek.errors.codes import ErrorCode
from odradek.log.storage.files import FileRange
from odradek.replication.partition import Partition
from odradek.replication.reading import Isolation
from odradek.util.repeats import Repeats
from odradek.wire.api import ApiKey
from odradek.wire.headers import decode_request_header, encode_response
from odradek.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

if TYPE_CHECKING:
    from odradek.broker.network.peer import Peer
    from odradek.broker.services import BrokerServices

log = logging.getLogger(__name__)
repeats = Repeats(log)

MAX_WATCHED = 10_000
"""A fetch of more partitions than this is not told when something arrives, but answered after `max_wait_ms`:
each arrival would otherwise have all of them looked at."""

_ZERO_ID = bytes(16)
_Answers = list[tuple[PartitionKey, PartitionData]]

_LEADER_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def _fast(broker: BrokerServices) -> FastFetch:
    def answer(peer: Peer, frame: Any, started_ms: float, session: FetchContext | None) -> Answer:
        return _answer_after_waiting(broker, peer, frame, started_ms, session)

    return FastFetch(broker, answer)


@handler(ApiKey.FETCH, versions=range(19), fast=_fast)
def handle(
    context: RequestContext, request: FetchRequest
) -> Steps[FetchResponse | asyncio.Future[FetchResponse]]:
    """Read what there is; wait when it is too little."""
    by_id = context.api_version >= 13
    wanted = yield from _wanted(request, by_id, context.broker.image)
    forgotten = yield from _forgotten(request, by_id)
    fetch = _Fetch(context, request, wanted=wanted, forgotten=forgotten)
    return (yield from fetch.start())


def _answer_after_waiting(
    broker: BrokerServices, peer: Peer, frame: Any, started_ms: float, session: FetchContext | None
) -> Answer:
    """Answer a frame that `FastFetch` has let wait, now, with whatever there is."""
    header, offset = decode_request_header(frame)
    version = header.api_version
    request, _ = FetchRequest.decode_from(frame, version, offset)
    context = RequestContext.of_frame(broker, header, peer)
    fetch = _Fetch(context, request, session)
    # Short frames and sessions are what comes here: no slices.
    response = take_all(fetch.read_and_respond())
    buffers = encode_response(ApiKey.FETCH, version, header.correlation_id, response)
    broker.metrics.requests.of("Fetch").observe(
        broker.clock.monotonic_ms() - started_ms, sum(map(len, buffers))
    )
    return Answer(buffers, False, any(isinstance(one, FileRange) for one in buffers))


class _Fetch:
    """One fetch request on its way."""

    __slots__ = (
        "broker",
        "context",
        "converting",
        "future",
        "isolation",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "only_leader",
        "replica_id",
        "session",
        "version",
        "wanted",
        "watched",
    )

    def __init__(
        self,
        context: RequestContext,
        request: FetchRequest,
        session: FetchContext | None = None,
        wanted: list[tuple[PartitionKey, FetchSpec]] | None = None,
        forgotten: list[PartitionKey] | None = None,
    ) -> None:
        self.context = context
        self.broker = context.broker
        self.version = context.api_version
        self.replica_id = request.replica_state.replica_id if self.version >= 15 else request.replica_id
        is_follower = self.replica_id >= 0
        self.max_bytes = max(0, min(request.max_bytes, self.broker.config.fetch_max_bytes))
        self.min_bytes = min(request.min_bytes, self.max_bytes)
        self.max_wait_ms = request.max_wait_ms
        if is_follower:
            self.isolation = int(Isolation.LOG_END)
        elif request.isolation_level == 1:
            self.isolation = int(Isolation.READ_COMMITTED)
        else:
            self.isolation = int(Isolation.READ_UNCOMMITTED)
        # From version 11 a consumer may read from a follower (KIP-392).
        self.only_leader = is_follower or self.version < 11
        image = self.broker.image
        by_id = self.version >= 13
        self.session = session or self.broker.fetch_sessions.open(
            request.session_id,
            request.session_epoch,
            wanted=take_all(_wanted(request, by_id, image)) if wanted is None else wanted,
            forgotten=take_all(_forgotten(request, by_id)) if forgotten is None else forgotten,
            uses_topic_ids=by_id,
            privileged=is_follower,
            names=image.topic_name,
            now_ms=context.now_ms,
        )
        self.wanted = self.session.wanted
        self.watched: list[tuple[Partition, int, int, int, int]] = []
        self.future: asyncio.Future[FetchResponse] | None = None
        self.converting: list[ToConvert] = []

    # ------------------------------------------------------------------ the three steps

    def start(self) -> Steps[FetchResponse | asyncio.Future[FetchResponse]]:
        if self.session.error or not self.wanted:
            return (yield from self.respond([]))
        answers, size, must_answer = yield from self.read_all(first=True)
        if must_answer or self.max_wait_ms <= 0 or size >= self.min_bytes:
            return (yield from self.respond_converted(answers))
        self.future = self.broker.loop.create_future()
        if len(self.watched) > MAX_WATCHED:
            self.watched = []
        operation = self.broker.purgatory.watch(
            [partition.key for partition, *_ in self.watched],
            self.try_complete,
            self.complete,
            self.max_wait_ms,
        )
        self.context.on_disconnect = operation.cancel
        return self.future

    def try_complete(self) -> bool:
        """Whether enough has arrived, judged without reading; then read and answer."""
        if not self.watched:
            return False
        arrived = 0
        for partition, offset, size_then, appended_then, limit in self.watched:
            if self.broker.replicas.find(partition.topic, partition.index) is not partition:
                break
            if self.only_leader and not partition.is_leader:
                break
            end = partition.readable_end(self.isolation)
            if end < offset:
                break
            if end > offset:
                arrived += min(limit, size_then + partition.appended_bytes - appended_then)
        else:
            if arrived < self.min_bytes:
                return False
        self.complete()
        return True

    def complete(self) -> None:
        """Read again, and answer with whatever is there."""
        future = self.future
        assert future is not None
        if future.done():
            return
        try:
            response = self.broker.slicer.run(self.read_and_respond())
        except Exception as error:
            future.set_exception(error)
            return
        if isinstance(response, asyncio.Future) or asyncio.isfuture(response):
            response.add_done_callback(self.finish)
        else:
            future.set_result(response)

    def read_and_respond(self) -> Steps[FetchResponse]:
        """Read what is there now, and answer with it."""
        answers, _, _ = yield from self.read_all(first=False)
        response: FetchResponse = yield from wait((yield from self.respond_converted(answers)))
        return response

    def finish(self, converted: asyncio.Future[FetchResponse]) -> None:
        """What was read after waiting has been converted."""
        future = self.future
        assert future is not None
        if future.done():
            return
        if converted.cancelled():
            future.cancel()
            return
        error = converted.exception()
        if error is None:
            future.set_result(converted.result())
        else:
            future.set_exception(error)

    # ------------------------------------------------------------------ reading

    def read_all(self, *, first: bool) -> Steps[tuple[_Answers, int, bool]]:
        """Read every partition that is wanted.

        Returns:
            The answers, the bytes read, and whether the answer must go out now.
        """
        answers: _Answers = []
        total = 0
        must_answer = False
        self.converting = []
        refused = self._refused_topics()
        for key, spec in self.wanted:
            yield
            topic = key.topic
            if topic is None:
                code = ErrorCode.UNKNOWN_TOPIC_ID
            else:
                code = refused.get(topic, ErrorCode.NONE)
            if code:
                # Kafka answers these at the end of the wait, not at once.
                answers.append((key, self._failed(key, code)))
                continue
            answer, size, urgent = self._read_one(key, spec, self.max_bytes - total, total == 0, first)
            answers.append((key, answer))
            total += size
            must_answer = must_answer or urgent
        if first and not self.watched:
            must_answer = True
        return answers, total, must_answer

    def _refused_topics(self) -> dict[str, ErrorCode]:
        context = self.context
        if self.broker.authorizer is None:
            return {}
        topics = {key.topic for key, _ in self.wanted if key.topic is not None}
        if self.replica_id >= 0:
            if context.authorize(Operation.CLUSTER_ACTION, CLUSTER):
                return {}
            return dict.fromkeys(topics, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return {
            topic: ErrorCode.TOPIC_AUTHORIZATION_FAILED
            for topic in topics
            if not context.authorize(Operation.READ, topic_resource(topic))
        }

    def _read_one(
        self, key: PartitionKey, spec: FetchSpec, room: int, nothing_yet: bool, first: bool
    ) -> tuple[PartitionData, int, bool]:
        topic = key.topic
        assert topic is not None
        metrics = self.broker.metrics.topics
        try:
            partition = self.broker.replicas.get(topic, key.partition)
            per_topic = metrics.of(topic)
            if first:
                per_topic.total_fetch_requests += 1
                metrics.all.total_fetch_requests += 1
            if key.topic_id != _ZERO_ID:
                partition.require_topic_id(key.topic_id)
            if self.replica_id >= 0 and first:
                partition.check_leader_epoch(spec.current_leader_epoch)
                partition.require_leader()
                partition.record_follower_fetch(
                    self.replica_id,
                    fetch_offset=spec.fetch_offset,
                    log_start_offset=spec.log_start_offset,
                    now_ms=self.context.now_ms,
                )
            appended = partition.appended_bytes
            limit = spec.partition_max_bytes
            result = partition.read(
                spec.fetch_offset,
                min(limit, room),
                isolation=self.isolation,
                min_one_batch=nothing_yet and self.version >= 3,
                current_leader_epoch=spec.current_leader_epoch,
                last_fetched_epoch=spec.last_fetched_epoch,
                only_leader=self.only_leader,
                range_from=RANGE_FROM_BYTES,
            )
        except UnknownTopicOrPartitionError as error:
            # Kafka lets these wait with the others, so that a consumer with old metadata does not spin.
            return self._failed(key, error.code), 0, False
        except KafkaError as error:
            return self._failed(key, error.code), 0, True
        except Exception as error:
            repeats.log(
                logging.ERROR,
                (topic, key.partition, type(error)),
                "fetch failed topic=%s partition=%d",
                topic,
                key.partition,
                exc_info=error,
            )
            metrics.all.failed_fetch_requests += 1
            metrics.of(topic).failed_fetch_requests += 1
            return self._failed(key, ErrorCode.UNKNOWN_SERVER_ERROR), 0, True
        records = result.records
        size = len(records)
        if size and self.version < 10 and partition.log.config.compression_type == "zstd":
            return self._failed(key, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), 0, True
        if first:
            if (
                self.isolation == Isolation.READ_COMMITTED
                and result.last_stable_offset < result.high_watermark
            ):
                # What is here already, behind the last stable offset, arrives when that moves.
                appended -= limit
            self.watched.append((partition, spec.fetch_offset, size, appended, limit))
        converts = False
        if self.version <= 3:
            magic = magic_for(self.version)
            config = partition.log.config
            enabled = config.message_downconversion_enable or self.replica_id >= 0
            if not enabled and config.record_magic > magic:
                return self._failed(key, ErrorCode.UNSUPPORTED_VERSION), 0, True
            try:
                if size:
                    converts = enabled and not is_as_old(records, magic)
                else:
                    records = self._cut_off(partition, spec.fetch_offset, min(limit, room), magic)
                    size = len(records)
            except KafkaError as error:
                return self._failed(key, error.code), 0, True
        answer = PartitionData(
            partition_index=key.partition,
            high_watermark=result.high_watermark,
            last_stable_offset=result.last_stable_offset,
            log_start_offset=result.log_start_offset,
            aborted_transactions=[
                AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset)
                for one in result.aborted_transactions
            ]
            if self.isolation == Isolation.READ_COMMITTED
            else None,
            records=records,
        )
        if converts:
            self.converting.append(ToConvert(answer, partition, spec.fetch_offset, magic))
        diverging = result.diverging_epoch
        if diverging is not None:
            answer.diverging_epoch = EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
            return answer, 0, True
        return answer, size, False

    def _cut_off(self, partition: Partition, offset: int, size: int, magic: int) -> Any:
        """The beginning of a first batch that is too large, for versions 0 to 2; nothing if there is none."""
        if self.version == 3 or size <= 0 or partition.readable_end(self.isolation) <= offset:
            return b""
        records = partition.read(
            offset,
            0,
            isolation=self.isolation,
            min_one_batch=True,
            only_leader=self.only_leader,
            range_from=RANGE_FROM_BYTES,
        ).records
        if len(records) <= size:
            return b""
        return cut_off(records, size, not is_as_old(records, magic))

    def _failed(self, key: PartitionKey, code: ErrorCode) -> PartitionData:
        if code == ErrorCode.KAFKA_STORAGE_ERROR and self.version <= 5:
            # Clients of that age do not know the code; this one makes them look for the leader and try again.
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return PartitionData(
            partition_index=key.partition,
            error_code=int(code),
            high_watermark=-1,
            aborted_transactions=None,
            records=b"",
        )

    # ------------------------------------------------------------------ answering

    def respond_converted(self, answers: _Answers) -> Steps[FetchResponse | asyncio.Future[FetchResponse]]:
        """As `respond`, when what has to be has been converted."""
        if not self.converting:
            return (yield from self.respond(answers))
        converted: FetchResponse | asyncio.Future[FetchResponse] = convert_answers(
            self.broker, self.converting, lambda: take_all(self.respond(answers))
        )
        return converted

    def respond(self, answers: _Answers) -> Steps[FetchResponse]:
        """Let the session choose what is new, and put it in the response's form."""
        error, session_id, chosen = self.broker.fetch_sessions.finish(
            self.session, answers, now_ms=self.context.now_ms
        )
        response = FetchResponse(error_code=int(error), session_id=session_id, responses=[])
        metrics = self.broker.metrics.topics
        last: FetchableTopicResponse | None = None
        topics: dict[Any, FetchableTopicResponse] = {}
        for key, answer in chosen:
            yield
            name = key.topic_id if self.version >= 13 else key.topic
            if last is None or name != (last.topic_id if self.version >= 13 else last.topic):
                last = topics.get(name)
                if last is None:
                    last = FetchableTopicResponse(topic=key.topic or "", topic_id=key.topic_id, partitions=[])
                    topics[name] = last
                    response.responses.append(last)
            last.partitions.append(answer)
            size = len(answer.records or b"")
            if size and key.topic is not None:
                metrics.of(key.topic).bytes_out += size
                metrics.all.bytes_out += size
        if self.version >= 16:
            yield from self._add_leaders(response, chosen)
        return response

    def _add_leaders(self, response: FetchResponse, chosen: _Answers) -> Steps[None]:
        hints = None
        for key, answer in chosen:
            yield
            if answer.error_code in _LEADER_ERRORS and key.topic is not None:
                hints = hints or LeaderHints(self.broker.image, self.context.listener_name)
                leader_id, epoch = hints.leader(key.topic, key.partition)
                answer.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch)
        if hints is not None:
            response.node_endpoints = [NodeEndpoint(**endpoint) for endpoint in hints.endpoints()]


def _wanted(request: FetchRequest, by_id: bool, image: Any) -> Steps[list[tuple[PartitionKey, FetchSpec]]]:
    wanted = []
    for topic in request.topics:
        name = image.topic_name(topic.topic_id) if by_id else topic.topic
        topic_id = topic.topic_id if by_id else _ZERO_ID
        for partition in topic.partitions:
            spec = FetchSpec(
                partition.fetch_offset,
                partition.partition_max_bytes,
                partition.current_leader_epoch,
                partition.log_start_offset,
                partition.last_fetched_epoch,
            )
            wanted.append((PartitionKey(name, topic_id, partition.partition), spec))
            yield
        yield
    return wanted


def _forgotten(request: FetchRequest, by_id: bool) -> Steps[list[PartitionKey]]:
    forgotten: list[PartitionKey] = []
    for topic in request.forgotten_topics_data:
        for index in topic.partitions:
            forgotten.append(
                PartitionKey(None if by_id else topic.topic, topic.topic_id if by_id else _ZERO_ID, index)
            )
            yield
        yield
    return forgotten
