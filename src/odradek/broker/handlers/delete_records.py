"""DeleteRecords 0-2: move the log start of partitions forward.

Offset -1 means the high watermark. The answer waits until the new log starts are on the disk (Kafka's does
not: there, what was deleted may be back after a crash), KAFKA_STORAGE_ERROR where they cannot be written; and
until the replicas on all live brokers have moved, at most `timeout_ms` (REQUEST_TIMED_OUT). An offset beyond
the high watermark gets OFFSET_OUT_OF_RANGE, a topic whose cleanup.policy lacks `delete` POLICY_VIOLATION.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.event_loop.slices import Steps, wait
from odradek.broker.replicas.waiting import wait_for_replicas
from odradek.broker.requests.authorization import Operation
from odradek.broker.requests.authorization import topic as topic_resource
from odradek.errors import KafkaError
from odradek.errors.codes import ErrorCode
from odradek.util.futures import then
from odradek.util.promise import Promise, promised
from odradek.util.repeats import Repeats
from odradek.wire.api import ApiKey
from odradek.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import Refused
    from odradek.broker.upkeep.log_starts import Errors
    from odradek.replication.partition import Partition

logger = logging.getLogger(__name__)
repeats = Repeats(logger)

_Pending = tuple["Partition", int, DeleteRecordsPartitionResult]


def _error_response(refused: Refused[DeleteRecordsRequest]) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    _failed(partition.partition_index, refused.error) for partition in topic.partitions
                ],
            )
            for topic in refused.request.topics
        ]
    )


@handler(ApiKey.DELETE_RECORDS, versions=range(3), error_response=_error_response)
def handle(
    context: RequestContext, request: DeleteRecordsRequest
) -> Steps[DeleteRecordsResponse | Promise[DeleteRecordsResponse]]:
    """Move the log starts, and answer when all replicas have."""
    response = DeleteRecordsResponse(topics=[])
    moved: list[_Pending] = []
    for topic in request.topics:
        allowed = context.authorize(Operation.DELETE, topic_resource(topic.name))
        results = []
        for partition in topic.partitions:
            if not allowed:
                results.append(_failed(partition.partition_index, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            else:
                results.append(
                    _delete(context, topic.name, partition.partition_index, partition.offset, moved)
                )
            yield
        yield
        response.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
    if not moved:
        return response
    return _wait_for_disk(context, request.timeout_ms, response, moved)


def _wait_for_disk(
    context: RequestContext, timeout_ms: int, response: DeleteRecordsResponse, moved: list[_Pending]
) -> Promise[DeleteRecordsResponse]:
    written: asyncio.Future[Errors] = context.broker.loop.create_future()

    def on_written(errors: Errors) -> None:
        if not written.done():
            written.set_result(errors)

    def on_disconnect() -> None:
        # Nothing waits for replicas then.
        written.cancel()

    context.on_disconnect = on_disconnect

    def settle(errors: Errors) -> Steps[DeleteRecordsResponse]:
        pending = []
        for partition, offset, result in moved:
            yield
            if partition.log.directory.parent in errors:
                _fail(result, ErrorCode.KAFKA_STORAGE_ERROR)
            elif not _settle(partition, offset, result):
                pending.append((partition, offset, result))
        if pending:
            yield from wait(wait_for_replicas(context, timeout_ms, response, pending, _settle, _give_up))
        return response

    context.broker.log_starts.write(on_written)
    return promised(then(written, lambda errors: context.broker.slicer.run(settle(errors))))


def _delete(
    context: RequestContext, topic: str, index: int, offset: int, moved: list[_Pending]
) -> DeleteRecordsPartitionResult:
    try:
        partition = context.broker.replicas.get(topic, index)
        resolved = partition.delete_records_before(offset)
    except KafkaError as error:
        return _failed(index, error.code)
    except OSError as error:
        repeats.log(
            logging.ERROR,
            (topic, index),
            "records not deleted topic=%s partition=%d: %s",
            topic,
            index,
            error,
        )
        return _failed(index, ErrorCode.KAFKA_STORAGE_ERROR)
    result = DeleteRecordsPartitionResult(partition_index=index, low_watermark=partition.low_watermark)
    moved.append((partition, resolved, result))
    return result


def _failed(index: int, error: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=-1, error_code=int(error))


def _fail(result: DeleteRecordsPartitionResult, error: ErrorCode) -> None:
    result.error_code = int(error)
    result.low_watermark = -1


def _settle(partition: Partition, offset: int, result: DeleteRecordsPartitionResult) -> bool:
    if not partition.is_leader:
        _fail(result, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return True
    if partition.low_watermark < offset:
        return False
    result.low_watermark = partition.low_watermark
    return True


def _give_up(partition: Partition, result: DeleteRecordsPartitionResult) -> None:
    result.error_code = int(ErrorCode.REQUEST_TIMED_OUT)
    result.low_watermark = partition.low_watermark
