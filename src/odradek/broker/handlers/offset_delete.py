"""OffsetDelete 0: forget how far a group has read in some partitions (KIP-496).

Topics that members of the group subscribe to are GROUP_SUBSCRIBED_TO_TOPIC; unknown partitions
UNKNOWN_TOPIC_OR_PARTITION. What is wrong with the group is said on top: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP
for one that has members and is no group of consumers, INVALID_GROUP_ID, NOT_COORDINATOR …
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.coordination.response_future import ResponseFuture
from odradek.broker.event_loop.slices import Steps, wait
from odradek.broker.requests.authorization import Operation
from odradek.broker.requests.authorization import group as group_resource
from odradek.broker.requests.authorization import topic as topic_resource
from odradek.errors import GroupAuthorizationError
from odradek.errors.codes import ErrorCode
from odradek.util.topic_partition import TopicPartition
from odradek.wire.api import ApiKey
from odradek.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext

PARTITIONS_AT_ONCE = 50
"""Partitions whose offsets are deleted before others get their turn."""


@handler(ApiKey.OFFSET_DELETE, versions=range(1))
def handle(context: RequestContext, request: OffsetDeleteRequest) -> Steps[OffsetDeleteResponse]:
    """Delete, and answer when the tombstones are committed to the log."""
    if not context.authorize(Operation.DELETE, group_resource(request.group_id)):
        raise GroupAuthorizationError
    answered: dict[str, OffsetDeleteResponseTopic] = {}
    valid = yield from _take_valid(context, request.topics, answered)
    # With nothing left the coordinator is asked all the same: whether there is such a group.
    for first in range(0, max(1, len(valid)), PARTITIONS_AT_ONCE):
        piece = OffsetDeleteRequest(group_id=request.group_id, topics=[])
        for name, index in valid[first : first + PARTITIONS_AT_ONCE]:
            if not piece.topics or piece.topics[-1].name != name:
                piece.topics.append(OffsetDeleteRequestTopic(name=name, partitions=[]))
            piece.topics[-1].partitions.append(OffsetDeleteRequestPartition(partition_index=index))
        answer: ResponseFuture[OffsetDeleteResponse] = ResponseFuture()
        context.broker.groups.coordinator.delete_offsets(piece, answer.deliver)
        response: OffsetDeleteResponse = yield from wait(answer.result(context.broker.loop))
        if response.error_code:
            return response
        for topic in response.topics:
            present = answered.setdefault(topic.name, topic)
            if present is not topic:
                present.partitions += topic.partitions
        yield
    return OffsetDeleteResponse(topics=list(answered.values()))


def _take_valid(
    context: RequestContext,
    topics: list[OffsetDeleteRequestTopic],
    refused: dict[str, OffsetDeleteResponseTopic],
) -> Steps[list[TopicPartition]]:
    """The partitions whose offsets may be deleted; what is answered of the others is put into `refused`."""
    valid: list[TopicPartition] = []
    for topic in topics:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        there: Container[int] = ()
        if not context.authorize(Operation.READ, topic_resource(topic.name)):
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        else:
            topic_image = context.broker.image.topic(topic.name)
            if topic_image is not None:
                there = topic_image.partitions
        for partition in topic.partitions:
            if partition.partition_index in there:
                valid.append((topic.name, partition.partition_index))
            else:
                present = refused.setdefault(topic.name, OffsetDeleteResponseTopic(name=topic.name))
                present.partitions.append(
                    OffsetDeleteResponsePartition(
                        partition_index=partition.partition_index, error_code=int(error)
                    )
                )
            yield
        yield
    return valid
