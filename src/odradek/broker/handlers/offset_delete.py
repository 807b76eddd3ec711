"""OffsetDelete 0: forget how far a group has read in some partitions (KIP-496).

Topics that members of the group subscribe to are GROUP_SUBSCRIBED_TO_TOPIC; unknown partitions
UNKNOWN_TOPIC_OR_PARTITION. What is wrong with the group is said on top: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP
for one that has members and is no group of consumers, INVALID_GROUP_ID, NOT_COORDINATOR …
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from odradek.broker.authorization import Operation
from odradek.broker.authorization import group as group_resource
from odradek.broker.authorization import topic as topic_resource
from odradek.broker.coordination.answer import Answer
from odradek.broker.registry import handler
from odradek.errors import GroupAuthorizationError
from odradek.errors.codes import ErrorCode
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
    from odradek.broker.context import RequestContext


@handler(ApiKey.OFFSET_DELETE, versions=range(1))
def handle(
    context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | asyncio.Future[OffsetDeleteResponse]:
    """Delete, and answer when the tombstones are committed to the log."""
    if not context.authorize(Operation.DELETE, group_resource(request.group_id)):
        raise GroupAuthorizationError
    refused: dict[str, OffsetDeleteResponseTopic] = {}
    request.topics = [topic for topic in request.topics if _keep_valid(context, topic, refused)]
    answer: Answer[OffsetDeleteResponse] = Answer()

    def deliver(response: OffsetDeleteResponse) -> None:
        if not response.error_code:
            for topic in response.topics:
                present = refused.setdefault(topic.name, topic)
                if present is not topic:
                    present.partitions += topic.partitions
            response.topics = list(refused.values())
        answer.deliver(response)

    context.broker.groups.coordinator.delete_offsets(request, deliver)
    return answer.result(context.broker.loop)


def _keep_valid(
    context: RequestContext, topic: OffsetDeleteRequestTopic, refused: dict[str, OffsetDeleteResponseTopic]
) -> bool:
    """Move partitions that cannot be deleted to `refused`; says whether any are left."""
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    valid: list[OffsetDeleteRequestPartition] = []
    if not context.authorize(Operation.READ, topic_resource(topic.name)):
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    else:
        found = context.broker.image.topic(topic.name)
        if found is not None:
            valid = [one for one in topic.partitions if one.partition_index in found.partitions]
    known = {one.partition_index for one in valid}
    wrong = [
        OffsetDeleteResponsePartition(partition_index=one.partition_index, error_code=int(error))
        for one in topic.partitions
        if one.partition_index not in known
    ]
    if wrong:
        present = refused.setdefault(topic.name, OffsetDeleteResponseTopic(name=topic.name))
        present.partitions += wrong
    topic.partitions = valid
    return bool(valid)
