"""DescribeTopicPartitions 0: topics and their partitions in pages (KIP-966); all topics when none is named.

Topics come in the order of their names, their partitions by index, from the cursor on (which, with topics
named, must be at one of them: INVALID_REQUEST; so is a negative partition in it). A page holds
`response_partition_limit` partitions, at most `max.request.partition.size.limit` and at least one; a cursor
in the answer says where the next begins. Named topics that do not exist: UNKNOWN_TOPIC_OR_PARTITION,
INVALID_TOPIC_EXCEPTION; those that may not be seen come last, TOPIC_AUTHORIZATION_FAILED. There are no
eligible leaders beside the ISR: that is KRaft's.

A broker of a cluster of several that is not told of all topics within 10 s of a request answers with an empty
page when all are asked for, whose cursor is where the request began: whoever goes on asks again. Named topics
that it does not know are LEADER_NOT_AVAILABLE.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.event_loop.slices import Steps, in_order
from odradek.broker.metadata.waits import wait_for_cluster
from odradek.broker.requests.authorization import Operation
from odradek.broker.requests.authorization import topic as topic_resource
from odradek.broker.requests.untold import is_untold, unknown_topic
from odradek.cluster.controller import topics as topic_rules
from odradek.cluster.nodes import NO_LEADER
from odradek.errors import InvalidRequestError
from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from odradek.wire.primitives import ZERO_UUID

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import Refused
    from odradek.cluster.image import PartitionImage


_NAME = attrgetter("name")


def _error_response(refused: Refused[DescribeTopicPartitionsRequest]) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(
                error_code=int(refused.error), name=topic.name, partitions=[]
            )
            for topic in refused.request.topics
        ]
    )


@handler(ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions=range(1), error_response=_error_response)
def handle(
    context: RequestContext, request: DescribeTopicPartitionsRequest
) -> Steps[DescribeTopicPartitionsResponse]:
    """Describe one page."""
    yield from wait_for_cluster(context.broker)
    image = context.broker.image
    everything = not request.topics
    names = yield from _names(context, request)
    if everything and is_untold(context.broker):
        return DescribeTopicPartitionsResponse(topics=[], next_cursor=request.cursor or Cursor(topic_name=""))
    seen: dict[str, None] = {}
    for name in names:
        if context.authorize(Operation.DESCRIBE, topic_resource(name)):
            seen[name] = None
        yield
    most = context.broker.config.max_request_partition_size_limit
    remaining = max(min(most, request.response_partition_limit), 1)
    cursor = request.cursor
    response = DescribeTopicPartitionsResponse(topics=[], next_cursor=None)
    for name in seen:
        yield
        if remaining == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = image.topic(name)
        if topic is None:
            if not everything:
                response.topics.append(_unknown(context, name))
            continue
        start = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        indexes = sorted(index for index in topic.partitions if index >= start)
        described = _topic(context, name, ErrorCode.NONE, topic.topic_id)
        for index in indexes[:remaining]:
            described.partitions.append(_partition(context, index, topic.partitions[index]))
            yield
        response.topics.append(described)
        if len(indexes) > remaining:
            response.next_cursor = Cursor(topic_name=name, partition_index=indexes[remaining])
            break
        remaining -= len(indexes)
    if not everything:
        for name in names:
            if name not in seen:
                response.topics.append(_topic(context, name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            yield
    return response


def _names(context: RequestContext, request: DescribeTopicPartitionsRequest) -> Steps[list[str]]:
    cursor = request.cursor
    start = "" if cursor is None else cursor.topic_name
    chosen: dict[str, None] = {}
    for name in map(_NAME, request.topics) if request.topics else list(context.broker.image.topics):
        if name >= start:
            chosen[name] = None
        yield
    names = yield from in_order(list(chosen))
    if cursor is not None:
        if request.topics and cursor.topic_name not in chosen:
            raise InvalidRequestError(
                "DescribeTopicPartitionsRequest topic list should contain the cursor topic: "
                f"{cursor.topic_name}"
            )
        if cursor.partition_index < 0:
            raise InvalidRequestError(
                "DescribeTopicPartitionsRequest cursor partition must be valid: "
                f"{cursor.topic_name}, {cursor.partition_index}"
            )
    return names


def _unknown(context: RequestContext, name: str) -> DescribeTopicPartitionsResponseTopic:
    invalid = topic_rules.why_invalid(name) is not None
    error = ErrorCode.INVALID_TOPIC_EXCEPTION if invalid else unknown_topic(context.broker).code
    return _topic(context, name, error)


def _topic(
    context: RequestContext, name: str, error: ErrorCode, topic_id: bytes = ZERO_UUID
) -> DescribeTopicPartitionsResponseTopic:
    described = DescribeTopicPartitionsResponseTopic(
        error_code=int(error), name=name, topic_id=topic_id, partitions=[]
    )
    if error != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        described.is_internal = topic_rules.is_internal(name)
        described.topic_authorized_operations = context.authorized_operations(topic_resource(name))
    return described


def _partition(
    context: RequestContext, index: int, partition: PartitionImage
) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        partition_index=index,
        leader_id=partition.leader if _reachable(context, partition.leader) else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=[broker for broker in partition.replicas if not _reachable(context, broker)],
    )


def _reachable(context: RequestContext, broker_id: int) -> bool:
    broker = context.broker.image.brokers.get(broker_id)
    return broker is not None and broker.endpoint(context.listener_name) is not None
