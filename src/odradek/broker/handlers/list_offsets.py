"""ListOffsets 0-11: an offset by time, or by one of the special timestamps.

| timestamp | meaning | from version |
|---|---|---|
| >= 0 | first offset whose timestamp is not before this one | 1 |
| -1 | latest: the high watermark, or the last stable offset for read_committed | 1 |
| -2 | earliest | 1 |
| -3 | offset of the largest timestamp (KIP-734) | 7 |
| -4 | earliest local: as -2, there is no remote storage (KIP-405) | 8 |
| -5 | latest in remote storage: none (KIP-1005) | 9 |
| -6 | earliest not yet in remote storage: none (KIP-1023) | 11 |

A special timestamp that the version does not have gets UNSUPPORTED_VERSION; a partition named twice
INVALID_REQUEST. OFFSET_NOT_AVAILABLE is LEADER_NOT_AVAILABLE before version 5.

Version 0 does not look into the records: it answers up to `max_num_offsets` offsets at which segments begin
that were last written to before the time, the newest first; -1 and -2 are the latest and the earliest.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.event_loop.slices import Steps, wait
from odradek.broker.requests.authorization import Operation
from odradek.broker.requests.authorization import topic as topic_resource
from odradek.errors import KafkaError
from odradek.errors.codes import ErrorCode
from odradek.replication.lookups import (
    CONSUMER_REPLICA_ID,
    DEBUGGING_REPLICA_ID,
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    OffsetLookup,
    Search,
    look_up_segments,
    looking_up,
)
from odradek.replication.reading import Isolation
from odradek.util.repeats import Repeats
from odradek.util.topic_partition import TopicPartition
from odradek.wire.api import ApiKey
from odradek.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import Refused
    from odradek.log.segments.timestamp_search import OffsetForTimestamp, Searched

logger = logging.getLogger(__name__)
repeats = Repeats(logger)


_FIRST_VERSION = {
    LATEST_TIMESTAMP: 1,
    EARLIEST_TIMESTAMP: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}
_NEVER = 2**15


def _error_response(refused: Refused[ListOffsetsRequest]) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    _failed(partition.partition_index, refused.error) for partition in topic.partitions
                ],
            )
            for topic in refused.request.topics
        ]
    )


@handler(ApiKey.LIST_OFFSETS, versions=range(12), error_response=_error_response)
def handle(context: RequestContext, request: ListOffsetsRequest) -> Steps[ListOffsetsResponse]:
    """Look every partition up, in steps: a search by time reads files."""
    twice = yield from _named_twice(request)
    response = ListOffsetsResponse(topics=[])
    for topic in request.topics:
        allowed = context.authorize(Operation.DESCRIBE, topic_resource(topic.name))
        answer = ListOffsetsTopicResponse(name=topic.name, partitions=[])
        response.topics.append(answer)
        for partition in topic.partitions:
            index = partition.partition_index
            if not allowed:
                result = _failed(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            elif context.api_version == 0:
                result = _look_up_segments(context, request, topic.name, partition)
            elif (topic.name, index) in twice:
                result = _failed(index, ErrorCode.INVALID_REQUEST)
            else:
                result = yield from _look_up(context, request, topic.name, partition)
            answer.partitions.append(result)
            yield
        yield
    return response


def _named_twice(request: ListOffsetsRequest) -> Steps[set[TopicPartition]]:
    seen: set[TopicPartition] = set()
    twice: set[TopicPartition] = set()
    for topic in request.topics:
        for partition in topic.partitions:
            key = (topic.name, partition.partition_index)
            (twice if key in seen else seen).add(key)
            yield
        yield
    return twice


def _look_up(
    context: RequestContext, request: ListOffsetsRequest, topic: str, partition: ListOffsetsPartition
) -> Steps[ListOffsetsPartitionResponse]:
    index, version = partition.partition_index, context.api_version
    if partition.timestamp < 0 and version < _FIRST_VERSION.get(partition.timestamp, _NEVER):
        return _failed(index, ErrorCode.UNSUPPORTED_VERSION)
    isolation = None
    if request.replica_id == CONSUMER_REPLICA_ID:
        isolation = int(
            Isolation.READ_COMMITTED if request.isolation_level == 1 else Isolation.READ_UNCOMMITTED
        )
    try:
        lookup = yield from _searched(
            context,
            looking_up(
                context.broker.replicas.get(topic, index),
                partition.timestamp,
                isolation=isolation,
                current_leader_epoch=partition.current_leader_epoch,
                only_leader=request.replica_id != DEBUGGING_REPLICA_ID,
            ),
        )
    except KafkaError as error:
        code = error.code
        if code == ErrorCode.OFFSET_NOT_AVAILABLE and version < 5:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        return _failed(index, code)
    except OSError as error:
        repeats.log(
            logging.ERROR,
            (topic, index),
            "offset lookup failed topic=%s partition=%d: %s",
            topic,
            index,
            error,
        )
        return _failed(index, ErrorCode.KAFKA_STORAGE_ERROR)
    return ListOffsetsPartitionResponse(
        partition_index=index,
        timestamp=lookup.timestamp,
        offset=lookup.offset,
        leader_epoch=lookup.leader_epoch if version >= 4 else -1,
    )


def _unpacked_bytes(searched: Searched | None) -> int:
    return 0 if searched is None else searched.unpacked_bytes


def _searched(context: RequestContext, search: Search) -> Steps[OffsetLookup]:
    """Search batch by batch; those that have to be unpacked in threads."""
    offset_for_timestamp: OffsetForTimestamp | None = None
    try:
        candidate = next(search)
        while True:
            if candidate.is_quick:
                offset_for_timestamp = candidate.search()
            else:
                running = context.broker.unpacking.run(
                    candidate.search_and_count, _unpacked_bytes, context.peer
                )
                offset_for_timestamp = (yield from wait(running)).offset_for_timestamp
            candidate = search.send(offset_for_timestamp)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def _look_up_segments(
    context: RequestContext, request: ListOffsetsRequest, topic: str, partition: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    index = partition.partition_index
    if partition.timestamp < EARLIEST_TIMESTAMP:
        return _failed(index, ErrorCode.UNSUPPORTED_VERSION)
    try:
        offsets = look_up_segments(
            context.broker.replicas.get(topic, index),
            partition.timestamp,
            partition.max_num_offsets,
            now_ms=context.now_ms,
            replica_id=request.replica_id,
        )
    except KafkaError as error:
        return _failed(index, error.code)
    return ListOffsetsPartitionResponse(partition_index=index, old_style_offsets=offsets)


def _failed(index: int, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=index, error_code=int(error))
