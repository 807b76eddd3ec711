# compiled: mypyc
"""Produce 0-13: append one record batch, or a message set, per partition.

- 0-12 name topics, 13 has topic ids (UNKNOWN_TOPIC_ID).
- acks 0: no answer; an error closes the connection, which is all that such a producer can notice. 1: the
  leader has it. -1: all in-sync replicas have it, else REQUEST_TIMED_OUT after `timeout_ms`; anything else:
  INVALID_REQUIRED_ACKS.
- An error after the append (NOT_ENOUGH_REPLICAS_AFTER_APPEND, REQUEST_TIMED_OUT, a leadership that is lost)
  leaves the offset in the answer, as in Kafka: the records are in the log.
- A partition that is named twice gets INVALID_REQUEST each time, and nothing is appended.
- A request of more than 20,000 topics and partitions closes its connection.
- From 3 on exactly one batch, of magic 2; zstd from version 7.
- 0-2 hold message sets, of magic 0 (0, 1) or 1 (2), which are converted to the topic's format; an empty one
  is answered as done, with the offset -1. 1 and later are told of throttling, 2 and later the append time.
  Likewise batches are converted for topics of an older format (`message.format.version`), which take neither
  idempotent producers nor headers (UNSUPPORTED_FOR_MESSAGE_FORMAT).
- What takes long to convert, and a batch that unpacks to much, is looked at in another thread
  (`odradek.broker.conversion.preparation`), right before it is appended; the connection's next requests wait
  for that.
- Transactional batches: see `odradek.broker.transactions.produce`.
- What one connection produces is appended in the order in which it came, whatever each request waits for
  (`odradek.broker.requests.append_turn`).
- Error messages and record errors from 8; the current leader with NOT_LEADER_OR_FOLLOWER from 10 (KIP-951).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

from mypy_extensions import mypyc_attr

from odradek.broker.apis.registry import handler
from odradek.broker.conversion.packed import accept_quickly, has_packed
from odradek.broker.conversion.preparation import Preparation
from odradek.broker.conversion.produce import PreparedRecords, converts, converts_long, topic_name
from odradek.broker.event_loop.slices import AT_ONCE, Steps, take_or_wait, wait
from odradek.broker.metadata.leader_hints import LeaderHints
from odradek.broker.replicas.append_errors import append_failed, closing_without_acks
from odradek.broker.replicas.waiting import wait_for_replicas
from odradek.broker.requests.append_turn import AppendTurn
from odradek.broker.requests.handler_types import Handled, Refused
from odradek.broker.requests.untold import unknown_topic
from odradek.broker.transactions.produce import admit_produce, require_admitted
from odradek.errors import (
    CorruptRecordError,
    InvalidTopicError,
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
    TopicAuthorizationError,
    UnknownTopicIdError,
    UnsupportedCompressionTypeError,
)
from odradek.errors.codes import ErrorCode
from odradek.records.validate import InvalidProduceRequestError, record_errors
from odradek.util.promise import Promise
from odradek.wire.api import ApiKey
from odradek.wire.internal_topics import INTERNAL_TOPICS
from odradek.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.transactions.gate import Admission
    from odradek.log.partition.appending import AppendInfo
    from odradek.replication.partition import Partition

ADMIN_CLIENT_ID = "__admin_client"
"""The client id that may write to internal topics, as in Kafka (`AdminUtils.ADMIN_CLIENT_ID`)."""

# What no log is asked about (Kafka's `ProduceRequest.validateRecords`).
_BEFORE_THE_LOG = (InvalidProduceRequestError, UnsupportedCompressionTypeError)

# Foreseen, and so no failure in the metrics (Kafka's `ReplicaManager.appendToLocalLog`).
_FORESEEN = (
    CorruptRecordError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
)

_Pending = tuple["Partition", int, PartitionProduceResponse]
"""A partition, the offset that must be committed, and the response that waits for it."""


def _error_response(refused: Refused[ProduceRequest]) -> ProduceResponse | None:
    if refused.request.acks == 0:
        return None
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    _failed(partition.index, refused.error, refused.message)
                    for partition in topic.partition_data
                ],
            )
            for topic in refused.request.topic_data
        ]
    )


@handler(ApiKey.PRODUCE, versions=range(14), error_response=_error_response)
def handle(context: RequestContext, request: ProduceRequest) -> Handled[ProduceResponse]:
    """Append, and answer when as many replicas have it as `acks` asks for.

    The frame may be used again as soon as this has returned: see `own_records`.
    """
    # Before anything is looked up, and for all partitions: `ReplicaManager.isValidRequiredAcks`.
    if request.acks not in (-1, 0, 1):
        context.has_errors = True
        return _error_response(Refused(request, context.api_version, ErrorCode.INVALID_REQUIRED_ACKS, ""))
    topics: list[TopicProduceData] = request.topic_data
    size = len(topics)
    for topic in topics:
        size += len(topic.partition_data)
    # One question to the coordinator for all partitions, asked before anything is waited for (KIP-890).
    try:
        admission = admit_produce(context, request)
    except KafkaError as error:
        return _refused(context, request, error)
    if size > AT_ONCE:
        # The connection's next request begins when everything has been appended.
        own_records(request)
        return _produce_in_steps(context, request, admission, _turn(context), in_slices=True)
    # Nearly every request waits for nothing, and is spared a generator (docs/decisions/the-walk-compiled.md).
    if (
        (admission is None or not isinstance(admission, asyncio.Future))
        and context.peer.unappended is None
        and not converts(context, request)
    ):
        prepared = accept_quickly(context, request)
        if prepared is not None:
            work = _Appends(context, request, admission, prepared)
            return work.answer([work.append_topic(topic) for topic in topics])
    elif not has_packed(request) and not converts_long(context, request):
        # It waits for others, or converts little. Meanwhile the connection's next request is taken up, and
        # only its append comes later (`AppendTurn`): else a producer that pipelines would stand still.
        return take_or_wait(_produce_in_steps(context, request, admission, _turn(context), in_slices=False))
    # What goes to a thread holds the connection, too: its requests are appended as they came.
    own_records(request)
    return _produce_in_steps(context, request, admission, _turn(context), in_slices=True)


def _turn(context: RequestContext) -> AppendTurn:
    """Take the turn to append of a request that may have to wait."""
    return AppendTurn(context.peer, context.broker.loop)


def own_records(request: ProduceRequest) -> None:
    """Copy a request's records where something is waited for before they are appended.

    They come as views into the frame, whose memory the connection may use again unless the frame is kept
    (`FrameReceiver.own`). What nobody can change is not copied.
    """
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if records is None or records.__class__ is bytes:
                continue
            if not isinstance(records, memoryview) or not records.readonly:
                data.records = bytes(records)


def _refused(context: RequestContext, request: ProduceRequest, error: KafkaError) -> ProduceResponse | None:
    # Nobody reads an answer to acks=0: to be closed is all that such a producer can notice.
    context.close_connection = request.acks == 0
    context.has_errors = True
    return _error_response(Refused(request, context.api_version, error.code, error.message))


def _produce_in_steps(
    context: RequestContext,
    request: ProduceRequest,
    admission: Admission | asyncio.Future[Admission] | None,
    turn: AppendTurn,
    *,
    in_slices: bool,
) -> Steps[ProduceResponse | Promise[ProduceResponse] | None]:
    """Wait for what has to be waited for before anything is appended; with pauses in slices."""
    try:
        admitted: Admission | None
        if isinstance(admission, asyncio.Future):
            own_records(request)
            try:
                admitted = yield from wait(admission)
            except KafkaError as error:
                return _refused(context, request, error)
        else:
            admitted = admission
        if in_slices:
            # A turn for others before this request's records are looked at, which is the longest part.
            yield
        if turn.has_to_wait:
            own_records(request)
            yield from turn.come()
        if in_slices:
            return (yield from _append_in_slices(context, request, admitted))
        if context.broker.conversions.latest:
            yield from _come_to_each(context, request)
        work = _Appends(context, request, admitted, {})
        return work.answer([work.append_topic(topic) for topic in request.topic_data])
    finally:
        # However it ends: the connection's later requests would wait for this one for ever.
        turn.end()


def _append_in_slices(
    context: RequestContext, request: ProduceRequest, admission: Admission | None
) -> Steps[ProduceResponse | Promise[ProduceResponse] | None]:
    """Look at a few partitions' records, append them, and so on."""
    preparation = Preparation(context)
    work = _Appends(context, request, admission, preparation.prepared)
    responses: list[TopicProduceResponse] = []
    try:
        for topic in request.topic_data:
            answers: list[PartitionProduceResponse] = []
            responses.append(_topic_response(topic, answers))
            partitions = topic.partition_data
            at = 0
            while at < len(partitions):
                end = yield from preparation.look(topic, at, work.twice)
                answers += work.append(topic, partitions[at:end])
                preparation.appended()
                at = end
                yield
            yield
    finally:
        preparation.appended()
    return work.answer(responses)


def _come_to_each(context: RequestContext, request: ProduceRequest) -> Steps[None]:
    """Wait until nothing is converted for any of a request's partitions."""
    own_records(request)
    conversions = context.broker.conversions
    # Looked up again after each wait: another request may have begun to convert for one of them meanwhile.
    key = _converted_now(context, request)
    while key is not None:
        yield from conversions.come(key)
        key = _converted_now(context, request)


def _converted_now(context: RequestContext, request: ProduceRequest) -> tuple[str, int] | None:
    """Return a partition of a request for which something is converted; None where there is none."""
    latest = context.broker.conversions.latest
    for topic in request.topic_data:
        name = topic_name(context, topic)
        if name is not None:
            for data in topic.partition_data:
                if (name, data.index) in latest:
                    return name, data.index
    return None


def _topic_response(topic: TopicProduceData, answers: list[PartitionProduceResponse]) -> TopicProduceResponse:
    return TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)


_Key = tuple[str, bytes, int]


def _named_twice(topics: list[TopicProduceData]) -> set[_Key]:
    """Partitions for which there is more than one batch. Kafka appends the last and acknowledges all."""
    if len(topics) == 1:
        partitions: list[PartitionProduceData] = topics[0].partition_data
        if len(partitions) == 1 or len({data.index for data in partitions}) == len(partitions):
            return set()
    keys = [(topic.name, topic.topic_id, data.index) for topic in topics for data in topic.partition_data]
    if len(set(keys)) == len(keys):
        return set()
    return {key for key, times in Counter(keys).items() if times > 1}


# A free list of one: mostly an instance dies before the next is made, which then takes its memory.
@mypyc_attr(free_list_len=1)
class _Appends:
    """The appends of one request.

    Attributes:
        pending: what the replicas are still to follow, with acks=all.
        failed: whether a partition was refused.
        twice: what is refused because the request names it twice.
    """

    __slots__ = (
        "_acks",
        "_admission",
        "_context",
        "_prepared",
        "_request",
        "_version",
        "failed",
        "pending",
        "twice",
    )

    def __init__(
        self,
        context: RequestContext,
        request: ProduceRequest,
        admission: Admission | None,
        prepared: PreparedRecords,
    ) -> None:
        self.failed = False
        self.pending: list[_Pending] = []
        self._acks: int = request.acks
        self._admission = admission
        self._context = context
        self._prepared = prepared
        self._request = request
        self.twice = _named_twice(request.topic_data)
        self._version = context.api_version

    def append_topic(self, topic: TopicProduceData) -> TopicProduceResponse:
        """Append to all partitions that a request has of a topic."""
        return _topic_response(topic, self.append(topic, topic.partition_data))

    def append(
        self, topic: TopicProduceData, partitions: list[PartitionProduceData]
    ) -> list[PartitionProduceResponse]:
        """Append to some partitions of a topic; returns their answers."""
        context = self._context
        name = topic_name(context, topic)
        refusal = _refusal(context, name)
        if refusal is not None or name is None:
            self.failed = True
            refusal = refusal or UnknownTopicIdError()
            if name is not None and isinstance(refusal, InvalidTopicError):
                # Kafka's `appendToLocalLog` refuses it, after it has counted.
                topics = context.broker.metrics.topics
                topics.of(name).total_produce_requests += len(partitions)
                topics.all.total_produce_requests += len(partitions)
            return [_failed(data.index, refusal.code, refusal.message) for data in partitions]
        twice = self.twice
        if not twice:
            return self._append_each(name, partitions)
        answers: list[PartitionProduceResponse] = []
        for data in partitions:
            if (topic.name, topic.topic_id, data.index) in twice:
                self.failed = True
                answers.append(_failed(data.index, ErrorCode.INVALID_REQUEST, "the partition is named twice"))
            else:
                answers += self._append_each(name, [data])
        return answers

    def _append_each(
        self, name: str, partitions: list[PartitionProduceData]
    ) -> list[PartitionProduceResponse]:
        """Append to partitions of a topic that may be written to, and count that."""
        broker = self._context.broker
        replicas = broker.replicas
        here: dict[int, Partition] = replicas.by_topic.get(name) or {}
        answers: list[PartitionProduceResponse] = []
        attempts = messages = size = converted = failed = rejected_bytes = 0
        for data in partitions:
            index: int = data.index
            records = data.records
            partition = here.get(index)
            try:
                if partition is None:
                    # It may be taken up now; else this says why it is not here.
                    partition = replicas.get(name, index)
                info = self._append(name, index, partition, records)
                answers.append(self._answered(partition, index, info))
            except Exception as error:
                # Of this partition alone, also where it is a bug: the others of the request are in the log.
                append_failed(name, index, error)
                answers.append(_failed_append(index, error))
                self.failed = True
                if self._log_was_asked(name, index, error):
                    attempts += 1
                    if isinstance(error, RecordTooLargeError):
                        rejected_bytes += len(records)
                    elif not isinstance(error, _FORESEEN):
                        failed += 1
            else:
                attempts += 1
                # A batch that was sent again was counted the first time; an empty message set has no offset.
                if not info.duplicate and info.first_offset >= 0:
                    count = info.last_offset - info.first_offset + 1
                    messages += count
                    size += len(records)
                    if info.converted:
                        converted += count
        if attempts:
            topics = broker.metrics.topics
            of_topic = topics.of(name)
            of_topic.count_produced(attempts, messages, size, converted)
            topics.all.count_produced(attempts, messages, size, converted)
            application = self._context.peer.application
            if messages and application is not None:
                application.count_produced(name, messages, size, self._context.now_ms)
            if failed or rejected_bytes:
                of_topic.count_refused(failed, rejected_bytes)
                topics.all.count_refused(failed, rejected_bytes)
        return answers

    def _log_was_asked(self, name: str, index: int, error: Exception) -> bool:
        """Return whether Kafka counts a partition that was refused: whether its `KafkaApis`, and the
        transaction's coordinator, let it come to `appendToLocalLog`.
        """
        if isinstance(error, _BEFORE_THE_LOG):
            return False
        if self._admission is not None and (name, index) in self._admission.errors:
            return False
        return self._context.broker.image.partition(name, index) is not None

    def _append(self, name: str, index: int, partition: Partition, records: Any) -> AppendInfo:
        """Append to a partition.

        Raises:
            KafkaError: the records are refused, or could not be written; nothing was appended.
        """
        if records is None:
            raise InvalidProduceRequestError("a record batch is missing")
        # Right before the append: since its coordinator answered the transaction may have ended (KIP-890).
        if self._admission is not None:
            require_admitted(self._admission, partition, records, self._version)
        prepared = None
        if self._prepared:
            outcome = self._prepared.get((name, index))
            if isinstance(outcome, Exception):
                # A producer that came to the wrong broker is to hear that first, as in Kafka.
                partition.require_leader()
                raise outcome
            prepared = outcome
        return partition.append(
            records,
            required_acks=self._acks,
            now_ms=self._context.now_ms,
            produce_version=self._version,
            prepared=prepared,
        )

    def _answered(self, partition: Partition, index: int, info: AppendInfo) -> PartitionProduceResponse:
        answer = PartitionProduceResponse(
            index=index,
            base_offset=info.first_offset,
            log_append_time_ms=info.log_append_time_ms,
            log_start_offset=info.log_start_offset,
        )
        # With one replica in sync, and for a batch that was sent again, all may be committed already.
        if (
            self._acks == -1
            and info.first_offset >= 0
            and not _settle(partition, info.last_offset + 1, answer)
        ):
            self.pending.append((partition, info.last_offset + 1, answer))
        return answer

    def answer(
        self, responses: list[TopicProduceResponse]
    ) -> ProduceResponse | Promise[ProduceResponse] | None:
        """Return the responses, with everything appended or refused."""
        context = self._context
        response = ProduceResponse(responses=responses)
        if self._acks == 0:
            if self.failed:
                _close_on_error(context, response)
            return None
        # Where replicas are waited for, nobody knows yet.
        context.has_errors = self.failed or bool(self.pending)
        if not self.pending:
            if self.failed and self._version >= 10:
                _add_leaders(context, response)
            return response
        return _wait(context, self._request, response, self.pending)


def _wait(
    context: RequestContext, request: ProduceRequest, response: ProduceResponse, pending: list[_Pending]
) -> Promise[ProduceResponse]:
    """Answer when the replicas have followed."""
    # The records are in the log: while acks are waited for, the frame need not be kept.
    for topic in request.topic_data:
        for data in topic.partition_data:
            data.records = None
    waiting = wait_for_replicas(context, request.timeout_ms, response, pending, _settle, _give_up)
    if context.api_version >= 10:
        # The leadership may go to another broker meanwhile. This is called before the response is encoded.
        if waiting.done():
            _add_leaders(context, response)
        else:
            # What fails here the loop logs: the response goes without the hints.
            waiting.add_done_callback(lambda _: _add_leaders(context, response))
    return waiting


def _refusal(context: RequestContext, name: str | None) -> KafkaError | None:
    """Return why nothing may be appended to a topic."""
    if name is None:
        return UnknownTopicIdError()
    if not context.may_write(name):
        return TopicAuthorizationError(f"not authorized to write to {name}")
    if name in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT_ID:
        # In Kafka's order: `KafkaApis` looks whether the topic is there before `appendToLocalLog` refuses it.
        if context.broker.image.topic(name) is None:
            return unknown_topic(context.broker)
        return InvalidTopicError(f"clients cannot write to the internal topic {name}")
    return None


def _failed_append(index: int, error: Exception) -> PartitionProduceResponse:
    if not isinstance(error, KafkaError):
        return _failed(index, ErrorCode.UNKNOWN_SERVER_ERROR, "")
    answer = _failed(index, error.code, error.message)
    answer.record_errors = [
        BatchIndexAndErrorMessage(
            batch_index=record_error.batch_index, batch_index_error_message=record_error.message
        )
        for record_error in record_errors(error)
    ]
    return answer


def _failed(index: int, error: ErrorCode, message: str) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index, error_code=int(error), base_offset=-1, error_message=message or None
    )


def _close_on_error(context: RequestContext, response: ProduceResponse) -> None:
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code:
                closing_without_acks(
                    context.client_id, context.client_host, topic.name, answer.index, answer.error_code
                )
                context.close_connection = True
                return


def _add_leaders(context: RequestContext, response: ProduceResponse) -> None:
    """Tell a producer that came to the wrong broker where to go (KIP-951)."""
    hints = None
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                hints = hints or LeaderHints(context.broker.image, context.listener_name)
                name = topic.name or context.broker.image.topic_name(topic.topic_id) or ""
                leader_id, epoch = hints.leader(name, answer.index)
                answer.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch)
    if hints is not None:
        response.node_endpoints = [NodeEndpoint(**endpoint) for endpoint in hints.endpoints()]


def _settle(partition: Partition, offset: int, answer: PartitionProduceResponse) -> bool:
    """Return whether a partition is done. The offset stays in the answer: the log has the records there."""
    # Kafka: `Partition.checkEnoughReplicasReachOffset`.
    done, code = partition.committed(offset)
    if done and code:
        answer.error_code = int(code)
    return done


def _give_up(_partition: Partition, answer: PartitionProduceResponse) -> None:
    answer.error_code = int(ErrorCode.REQUEST_TIMED_OUT)
