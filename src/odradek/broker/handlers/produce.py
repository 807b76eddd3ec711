"""Produce 0-13: append one record batch, or a message set, per partition.

- 0-12 name topics, 13 has topic ids (UNKNOWN_TOPIC_ID).
- acks 0: no answer; an error closes the connection, which is all that such a producer can notice. 1: the
  leader has it. -1: all in-sync replicas have it, else REQUEST_TIMED_OUT after `timeout_ms`; anything else:
  INVALID_REQUIRED_ACKS.
- A partition that is named twice gets INVALID_REQUEST each time, and nothing is appended.
- A request of more than 20,000 topics and partitions closes its connection.
- From 3 on exactly one batch, of magic 2; zstd from version 7.
- 0-2 hold message sets, of magic 0 (0, 1) or 1 (2), which are converted to the topic's format; an empty one
  is answered as done, with the offset -1. 1 and later are told of throttling, 2 and later the append time.
  Likewise batches are converted for topics of an older format (`message.format.version`), which take neither
  idempotent producers nor headers (UNSUPPORTED_FOR_MESSAGE_FORMAT). What takes long is converted in another
  thread (`odradek.broker.conversion.produce`); what comes for the same partition meanwhile waits for it.
- Transactional batches: see `odradek.broker.transactions.produce`.
- Error messages and record errors from 8; the current leader with NOT_LEADER_OR_FOLLOWER from 10 (KIP-951).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from odradek.broker.append_errors import append_failed, closing_without_acks
from odradek.broker.authorization import Operation
from odradek.broker.authorization import topic as topic_resource
from odradek.broker.conversion.produce import (
    PreparedRecords,
    partitions_of,
    partitions_of_topic,
    prepare_all,
    takes_long,
)
from odradek.broker.fast.produce import FastProduce
from odradek.broker.leader_hints import LeaderHints
from odradek.broker.registry import handler
from odradek.broker.slices import Steps, take_all, wait
from odradek.broker.transactions.produce import admit_produce, require_admitted
from odradek.broker.waiting import wait_for_replicas
from odradek.cluster.image import INTERNAL_TOPICS
from odradek.errors import (
    InvalidRecordError,
    InvalidTopicError,
    KafkaError,
    TopicAuthorizationError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from odradek.errors.codes import ErrorCode
from odradek.records.batch import MAGIC_AT
from odradek.records.validate import record_errors
from odradek.util.futures import then
from odradek.wire.api import ApiKey
from odradek.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from odradek.broker.context import RequestContext
    from odradek.broker.transactions.gate import Admission
    from odradek.log.partition.format_conversion import Prepared
    from odradek.replication.partition import Partition

PARTITIONS_AT_ONCE = 64
"""A request that names more topics and partitions than this is worked on in slices."""

ADMIN_CLIENT_ID = "__admin_client"

_Pending = tuple["Partition", int, PartitionProduceResponse]
"""A partition, the offset that must be committed, and the response that waits for it."""


def _error_response(
    request: ProduceRequest, version: int, error: ErrorCode, message: str
) -> ProduceResponse | None:
    if request.acks == 0:
        return None
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    _failed(partition.index, error, message) for partition in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


@handler(ApiKey.PRODUCE, versions=range(14), error_response=_error_response, fast=FastProduce)
def handle(context: RequestContext, request: ProduceRequest) -> Any:
    """Append, and answer when as many replicas have it as `acks` asks for."""
    topics = request.topic_data
    if len(topics) + sum(len(topic.partition_data) for topic in topics) > PARTITIONS_AT_ONCE:
        return _handle_in_steps(context, request)
    if request.acks not in (-1, 0, 1):
        return _error_response(request, context.api_version, ErrorCode.INVALID_REQUIRED_ACKS, "")
    try:
        admission = admit_produce(context, request)
    except KafkaError as error:
        context.close_connection = request.acks == 0
        return _error_response(request, context.api_version, error.code, error.message)
    if isinstance(admission, asyncio.Future):
        return _append_after_admission(context, request, admission)
    return _append_admitted(context, request, admission)


def _handle_in_steps(
    context: RequestContext, request: ProduceRequest
) -> Steps[ProduceResponse | asyncio.Future[Any] | None]:
    """As `handle`. The connection's next request begins when everything has been appended."""
    yield
    if request.acks not in (-1, 0, 1):
        return _error_response(request, context.api_version, ErrorCode.INVALID_REQUIRED_ACKS, "")
    try:
        admission = yield from wait(admit_produce(context, request))
    except KafkaError as error:
        context.close_connection = request.acks == 0
        return _error_response(request, context.api_version, error.code, error.message)
    items: list[tuple[Partition, tuple[str, int], Any]] = []
    for topic in request.topic_data:
        for item in partitions_of_topic(context, topic):
            items.append(item)
            yield
        yield
    conversions = context.broker.conversions
    keys = [key for _, key, _ in items]
    prepared: PreparedRecords = {}
    if conversions.is_busy(keys) or any(takes_long(partition, records) for partition, _, records in items):
        version, now_ms = context.api_version, context.now_ms
        prepared = yield from wait(
            conversions.run_in_order(keys, lambda: prepare_all(items, now_ms, version))
        )
    return (yield from _append_all(context, request, prepared, admission))


def _append_after_admission(
    context: RequestContext, request: ProduceRequest, admission: asyncio.Future[Admission]
) -> asyncio.Future[Any]:
    return then(admission, lambda admitted: _append_admitted(context, request, admitted))


def _append_admitted(
    context: RequestContext, request: ProduceRequest, admission: Admission | None
) -> ProduceResponse | asyncio.Future[Any] | None:
    items = list(partitions_of(context, request))
    conversions = context.broker.conversions
    keys = [key for _, key, _ in items]
    if conversions.is_busy(keys) or any(takes_long(partition, records) for partition, _, records in items):
        return _append_after_conversion(context, request, items, keys, admission)
    return take_all(_append_all(context, request, {}, admission))


def _append_after_conversion(
    context: RequestContext,
    request: ProduceRequest,
    items: list[tuple[Partition, tuple[str, int], Any]],
    keys: list[tuple[str, int]],
    admission: Admission | None,
) -> asyncio.Future[ProduceResponse | None]:
    version, now_ms = context.api_version, context.now_ms
    converted = context.broker.conversions.run_in_order(keys, lambda: prepare_all(items, now_ms, version))
    return then(converted, lambda prepared: take_all(_append_all(context, request, prepared, admission)))


def _append_all(
    context: RequestContext,
    request: ProduceRequest,
    prepared: PreparedRecords,
    admission: Admission | None,
) -> Steps[ProduceResponse | asyncio.Future[ProduceResponse] | None]:
    response = ProduceResponse(responses=[])
    pending: list[_Pending] = []
    twice = yield from _named_twice(request)
    for topic in request.topic_data:
        response.responses.append(
            (yield from _append_topic(context, request, topic, twice, prepared, admission, pending))
        )
        yield
    if request.acks == 0:
        _close_on_error(context, response)
        return None
    if context.api_version >= 10:
        _add_leaders(context, response)
    if not pending:
        return response
    # The records are in the log: while acks are waited for, the frame need not be kept.
    for topic in request.topic_data:
        for data in topic.partition_data:
            data.records = None
            yield
        yield
    return wait_for_replicas(context, request.timeout_ms, response, pending, _settle, _give_up)


_Key = tuple[str, bytes, int]


def _named_twice(request: ProduceRequest) -> Steps[set[_Key]]:
    """Partitions for which there is more than one batch. Kafka appends the last and acknowledges all."""
    seen: set[_Key] = set()
    twice: set[_Key] = set()
    topics = request.topic_data
    if len(topics) > 1 or (topics and len(topics[0].partition_data) > 1):
        for topic in topics:
            for data in topic.partition_data:
                key = (topic.name, topic.topic_id, data.index)
                (twice if key in seen else seen).add(key)
                yield
            yield
    return twice


def _append_topic(
    context: RequestContext,
    request: ProduceRequest,
    topic: TopicProduceData,
    twice: set[_Key],
    prepared: PreparedRecords,
    admission: Admission | None,
    pending: list[_Pending],
) -> Steps[TopicProduceResponse]:
    name: str | None = topic.name
    if context.api_version >= 13:
        name = context.broker.image.topic_name(topic.topic_id)
    refusal = _refusal(context, name)
    answers: list[PartitionProduceResponse] = []
    for data in topic.partition_data:
        yield
        if refusal is not None:
            answers.append(_failed(data.index, refusal.code, refusal.message))
        elif twice and (topic.name, topic.topic_id, data.index) in twice:
            answers.append(_failed(data.index, ErrorCode.INVALID_REQUEST, "the partition is named twice"))
        else:
            assert name is not None
            made = prepared.get((name, data.index))
            answers.append(
                _append(context, request, name, data.index, data.records, made, admission, pending)
            )
    return TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)


def _refusal(context: RequestContext, name: str | None) -> KafkaError | None:
    """Why nothing may be appended to a topic."""
    if name is None:
        return UnknownTopicIdError()
    if not context.authorize(Operation.WRITE, topic_resource(name)):
        return TopicAuthorizationError(f"not authorized to write to {name}")
    if name in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT_ID:
        if context.broker.image.topic(name) is None:
            return UnknownTopicOrPartitionError()
        return InvalidTopicError(f"clients cannot write to the internal topic {name}")
    return None


def _append(
    context: RequestContext,
    request: ProduceRequest,
    topic: str,
    index: int,
    records: Any,
    prepared: Prepared | KafkaError | None,
    admission: Admission | None,
    pending: list[_Pending],
) -> PartitionProduceResponse:
    broker = context.broker
    totals = broker.metrics.topics.all
    metrics = None
    try:
        partition = broker.replicas.get(topic, index)
        metrics = broker.metrics.topics.of(topic)
        metrics.total_produce_requests += 1
        totals.total_produce_requests += 1
        if records is None:
            raise InvalidRecordError("a record batch is missing")
        size = len(records)
        if admission is not None:
            require_admitted(admission, (topic, index), partition, records, context.api_version)
        if isinstance(prepared, KafkaError):
            partition.require_leader()
            raise prepared
        info = partition.append(
            records,
            required_acks=request.acks,
            now_ms=context.now_ms,
            produce_version=context.api_version,
            prepared=prepared,
        )
    except KafkaError as error:
        if metrics is not None:
            _count_refused(metrics, totals, records)
        append_failed(topic, index, error)
        return _failed_append(index, error)
    except Exception as error:
        append_failed(topic, index, error)
        if metrics is not None:
            _count_refused(metrics, totals, records)
        return _failed(index, ErrorCode.UNKNOWN_SERVER_ERROR, "")
    if not info.duplicate and info.first_offset >= 0:
        count = info.last_offset - info.first_offset + 1
        metrics.messages_in += count
        totals.messages_in += count
        metrics.bytes_in += size
        totals.bytes_in += size
        if records[MAGIC_AT] != partition.log.config.record_magic:
            metrics.produce_message_conversions += count
            totals.produce_message_conversions += count
    answer = PartitionProduceResponse(
        index=index,
        base_offset=info.first_offset,
        log_append_time_ms=info.log_append_time_ms,
        log_start_offset=info.log_start_offset,
    )
    if request.acks == -1 and info.first_offset >= 0:
        done, code = partition.committed(info.last_offset + 1)
        if not done:
            pending.append((partition, info.last_offset + 1, answer))
        elif code:
            answer.error_code = int(code)
    return answer


def _count_refused(metrics: Any, totals: Any, records: Any) -> None:
    size = 0 if records is None else len(records)
    for counters in (metrics, totals):
        counters.failed_produce_requests += 1
        counters.bytes_rejected += size


def _failed_append(index: int, error: KafkaError) -> PartitionProduceResponse:
    answer = _failed(index, error.code, error.message)
    answer.record_errors = [
        BatchIndexAndErrorMessage(batch_index=one.batch_index, batch_index_error_message=one.message)
        for one in record_errors(error)
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
    done, code = partition.committed(offset)
    if done and code:
        answer.error_code = int(code)
        answer.base_offset = -1
    return done


def _give_up(partition: Partition, answer: PartitionProduceResponse) -> None:
    answer.error_code = int(ErrorCode.REQUEST_TIMED_OUT)
