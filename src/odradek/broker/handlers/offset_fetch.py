"""OffsetFetch 0-10: how far groups have read.

- 0 reads the metadata store (`broker.stored_offsets`), all others the group's coordinator.
- 2 has a null list of topics for all of them, and an error on top instead of one per partition.
- 7 may ask for stable offsets only: UNSTABLE_OFFSET_COMMIT while a transaction is open (KIP-447).
- 8 asks for several groups at once (KIP-709; one that is named twice gets INVALID_REQUEST), 9 names a member
  of a server-side group, 10 has topic ids (UNKNOWN_TOPIC_ID).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from odradek.broker.authorization import Operation
from odradek.broker.authorization import group as group_resource
from odradek.broker.authorization import topic as topic_resource
from odradek.broker.coordination.answer import Answer
from odradek.broker.registry import handler
from odradek.cluster.store import StoreError
from odradek.coordinators.groups.coordinator import fetch_error
from odradek.errors import KafkaError
from odradek.errors.codes import ErrorCode
from odradek.util.repeats import Repeats
from odradek.wire.api import ApiKey
from odradek.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from odradek.broker.context import RequestContext

log = logging.getLogger(__name__)
repeats = Repeats(log)

FIRST_VERSION_WITH_ERROR_ON_TOP = 2
FIRST_VERSION_WITH_SEVERAL_GROUPS = 8
FIRST_VERSION_WITH_TOPIC_IDS = 10


def _error_response(
    request: OffsetFetchRequest, version: int, error: ErrorCode, message: str
) -> OffsetFetchResponse:
    return _response(request, version, [fetch_error(g.group_id, error) for g in _groups(request, version)])


@handler(ApiKey.OFFSET_FETCH, versions=range(11), error_response=_error_response)
def handle(
    context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse | asyncio.Future[OffsetFetchResponse]:
    """Answer with the offsets once whatever is being committed has been."""
    version = context.api_version
    groups = _groups(request, version)
    if version == 0:
        return _response(request, version, [_fetch_from_store(context, groups[0])])
    answer: Answer[OffsetFetchResponse] = Answer()
    found: dict[int, OffsetFetchResponseGroup] = {}

    def take(at: int, response: OffsetFetchResponseGroup) -> None:
        found[at] = response
        if len(found) == len(groups):
            answer.deliver(_response(request, version, [found[at] for at in range(len(groups))]))

    times = Counter(group.group_id for group in groups)
    for at, group in enumerate(groups):
        if times[group.group_id] > 1:
            take(at, fetch_error(group.group_id, ErrorCode.INVALID_REQUEST))
        else:
            _fetch_group(context, group, request.require_stable, partial(take, at))
    if not groups:
        return OffsetFetchResponse()
    return answer.result(context.broker.loop)


def _groups(request: OffsetFetchRequest, version: int) -> list[OffsetFetchRequestGroup]:
    if version >= FIRST_VERSION_WITH_SEVERAL_GROUPS:
        return request.groups
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=t.name, partition_indexes=t.partition_indexes)
            for t in request.topics
        ]
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)]


def _response(
    request: OffsetFetchRequest, version: int, groups: list[OffsetFetchResponseGroup]
) -> OffsetFetchResponse:
    if version >= FIRST_VERSION_WITH_SEVERAL_GROUPS:
        return OffsetFetchResponse(groups=groups)
    (only,) = groups
    if version < FIRST_VERSION_WITH_ERROR_ON_TOP and only.error_code:
        for topic in request.topics or ():
            only.topics.append(_refused(topic.name, b"\0" * 16, topic.partition_indexes, only.error_code))
    return OffsetFetchResponse(
        error_code=only.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=p.partition_index,
                        committed_offset=p.committed_offset,
                        committed_leader_epoch=p.committed_leader_epoch,
                        metadata=p.metadata,
                        error_code=p.error_code,
                    )
                    for p in topic.partitions
                ],
            )
            for topic in only.topics
        ],
    )


def _refused(name: str, topic_id: bytes, partitions: list[int], error: int) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=name, topic_id=topic_id, partitions=[_partition(p, error) for p in partitions]
    )


def _partition(index: int, error: int, offset: int = -1) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=offset, metadata="", error_code=error
    )


def _fetch_group(
    context: RequestContext,
    group: OffsetFetchRequestGroup,
    require_stable: bool,
    deliver: Callable[[OffsetFetchResponseGroup], None],
) -> None:
    if not context.authorize(Operation.DESCRIBE, group_resource(group.group_id)):
        deliver(fetch_error(group.group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED))
        return
    refused: list[OffsetFetchResponseTopics] = []
    everything = group.topics is None
    if group.topics is not None:
        group.topics = [topic for topic in group.topics if _may_fetch(context, topic, refused)]

    def finish(response: OffsetFetchResponseGroup) -> None:
        if not response.error_code:
            if everything:
                response.topics = _visible(context, response.topics)
            response.topics += refused
        deliver(response)

    context.broker.groups.coordinator.fetch_offsets(group, finish, require_stable=require_stable)


def _may_fetch(
    context: RequestContext, topic: OffsetFetchRequestTopics, refused: list[OffsetFetchResponseTopics]
) -> bool:
    error = None
    if context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS:
        name = context.broker.image.topic_name(topic.topic_id)
        topic.name = name or ""
        if name is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID
    if error is None and not context.authorize(Operation.DESCRIBE, topic_resource(topic.name)):
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if error is None:
        return True
    refused.append(_refused(topic.name, topic.topic_id, topic.partition_indexes, error))
    return False


def _visible(
    context: RequestContext, topics: list[OffsetFetchResponseTopics]
) -> list[OffsetFetchResponseTopics]:
    """Of all topics of a group, those that the client may see and that its version can name."""
    seen = [t for t in topics if context.authorize(Operation.DESCRIBE, topic_resource(t.name))]
    if context.api_version < FIRST_VERSION_WITH_TOPIC_IDS:
        return seen
    image = context.broker.image
    for topic in seen:
        topic.topic_id = image.topic_id(topic.name)
    return [topic for topic in seen if any(topic.topic_id)]


def _fetch_from_store(context: RequestContext, group: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
    allowed = context.authorize(Operation.DESCRIBE, group_resource(group.group_id))
    topics = []
    for topic in group.topics or ():
        if not allowed:
            error = ErrorCode.GROUP_AUTHORIZATION_FAILED
        elif not context.authorize(Operation.DESCRIBE, topic_resource(topic.name)):
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        else:
            topics.append(
                OffsetFetchResponseTopics(
                    name=topic.name,
                    partitions=[
                        _stored(context, group.group_id, topic.name, p) for p in topic.partition_indexes
                    ],
                )
            )
            continue
        topics.append(_refused(topic.name, topic.topic_id, topic.partition_indexes, error))
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


def _stored(context: RequestContext, group_id: str, topic: str, index: int) -> OffsetFetchResponsePartitions:
    if context.broker.image.partition(topic, index) is None:
        return _partition(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    try:
        offset = context.broker.groups.stored_offsets.fetch(group_id, topic, index)
    except KafkaError as error:
        return _partition(index, error.code)
    except StoreError as error:
        repeats.log(
            logging.WARNING, topic, "stored offset not read group=%s topic=%s: %s", group_id, topic, error
        )
        return _partition(index, ErrorCode.UNKNOWN_SERVER_ERROR)
    if offset is None:
        # Version 0 knows no other way to say that there is none.
        return _partition(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return _partition(index, ErrorCode.NONE, offset)
