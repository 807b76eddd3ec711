"""OffsetCommit 0-10: store how far a group has read.

- 0 keeps offsets in the metadata store (`broker.stored_offsets`), all others in the group's coordinator.
- 1 lets the client say when it committed, 2-4 for how long to keep it; from 5 on `offsets.retention.minutes`
  decides (KIP-211). 6 has leader epochs, 7 static members, 10 topic ids (UNKNOWN_TOPIC_ID).
- A partition that does not exist is refused by itself: UNKNOWN_TOPIC_OR_PARTITION; one whose note is longer
  than `offset.metadata.max.bytes` too: OFFSET_METADATA_TOO_LARGE.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.coordination.response_future import ResponseFuture
from odradek.broker.event_loop.slices import Steps
from odradek.broker.groups.committing import commit_in_pieces, take_refused
from odradek.broker.metadata.waits import wait_for_cluster
from odradek.broker.requests.authorization import Operation
from odradek.broker.requests.authorization import group as group_resource
from odradek.cluster.store.store import StoreError
from odradek.coordinators.groups.commit_answers import answer_topic, commit_error
from odradek.coordinators.groups.offsets import metadata_too_long
from odradek.errors import KafkaError
from odradek.errors.codes import ErrorCode
from odradek.util.promise import Promise
from odradek.util.repeats import Repeats
from odradek.wire.api import ApiKey
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
)

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import Refused

logger = logging.getLogger(__name__)
repeats = Repeats(logger)

FIRST_VERSION_WITH_TOPIC_IDS = 10


def _error_response(refused: Refused[OffsetCommitRequest]) -> OffsetCommitResponse:
    return commit_error(refused.request, refused.error)


@handler(ApiKey.OFFSET_COMMIT, versions=range(11), error_response=_error_response)
def handle(context: RequestContext, request: OffsetCommitRequest) -> Steps[OffsetCommitResponse]:
    """Commit, and answer when it is committed to the log."""
    if not context.authorize(Operation.READ, group_resource(request.group_id)):
        return commit_error(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if context.api_version == 0:
        # Any broker takes it, and no other would be asked.
        yield from wait_for_cluster(context.broker)
    by_id = context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
    refused = yield from take_refused(context, request.topics, by_id=by_id)
    if not request.topics:
        return OffsetCommitResponse(topics=refused)
    application = context.peer.application
    if application is not None:
        application.note_commit(request.group_id, [topic.name for topic in request.topics])

    def commit(piece: OffsetCommitRequest) -> OffsetCommitResponse | Promise[OffsetCommitResponse]:
        if context.api_version == 0:
            _ = context.broker.groups
            return context.broker.controller.event_queue.run(lambda: _commit_to_store(context, piece))  # type: ignore[no-any-return]
        answer: ResponseFuture[OffsetCommitResponse] = ResponseFuture()
        context.broker.groups.coordinator.commit_offsets(context.api_version, piece, answer.deliver)
        return answer.result(context.broker.loop)

    return OffsetCommitResponse(topics=(yield from commit_in_pieces(request, commit, refused)))


def _commit_to_store(context: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            answer_topic(
                topic,
                [
                    (partition.partition_index, _commit_one(context, request.group_id, topic.name, partition))
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _commit_one(
    context: RequestContext, group_id: str, topic: str, partition: OffsetCommitRequestPartition
) -> ErrorCode:
    groups = context.broker.groups
    if metadata_too_long(partition.committed_metadata, groups.coordinator.config.offset_metadata_max_bytes):
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    try:
        groups.stored_offsets.commit(group_id, topic, partition.partition_index, partition.committed_offset)
    except KafkaError as error:
        return error.code
    except StoreError as error:
        repeats.log(logging.WARNING, topic, "offset not stored group=%s topic=%s: %s", group_id, topic, error)
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return ErrorCode.NONE
