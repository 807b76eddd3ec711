"""OffsetForLeaderEpoch 0-4: where a leader epoch ended, so that a client or follower can find out whether its
log has diverged (KIP-101, KIP-320).

The answer is the largest known epoch that is not above the one asked for, and its end; -1 and -1 when nothing
is known. From version 2 the asker's own idea of the current epoch is checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.event_loop.slices import Steps
from odradek.broker.requests.authorization import CLUSTER, Operation
from odradek.broker.requests.authorization import topic as topic_resource
from odradek.errors import KafkaError
from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import Refused


def _error_response(refused: Refused[OffsetForLeaderEpochRequest]) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    EpochEndOffset(partition=partition.partition, error_code=int(refused.error))
                    for partition in topic.partitions
                ],
            )
            for topic in refused.request.topics
        ]
    )


@handler(ApiKey.OFFSET_FOR_LEADER_EPOCH, versions=range(5), error_response=_error_response)
def handle(
    context: RequestContext, request: OffsetForLeaderEpochRequest
) -> Steps[OffsetForLeaderEpochResponse]:
    """Look every partition's epoch up."""
    is_broker = context.authorize(Operation.CLUSTER_ACTION, CLUSTER, log_if_denied=False)
    topics = []
    for topic in request.topics:
        allowed = is_broker or context.authorize(Operation.DESCRIBE, topic_resource(topic.topic))
        result = OffsetForLeaderTopicResult(topic=topic.topic, partitions=[])
        topics.append(result)
        for partition in topic.partitions:
            result.partitions.append(
                _look_up(context, topic.topic, partition)
                if allowed
                else EpochEndOffset(
                    partition=partition.partition, error_code=int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                )
            )
            yield
        yield
    return OffsetForLeaderEpochResponse(topics=topics)


def _look_up(context: RequestContext, topic: str, partition: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        replica = context.broker.replicas.get(topic, partition.partition)
        replica.check_leader_epoch(partition.current_leader_epoch)
        replica.require_leader()
        epoch, end_offset = replica.end_offset_for_epoch(partition.leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(partition=partition.partition, error_code=int(error.code))
    return EpochEndOffset(partition=partition.partition, leader_epoch=epoch, end_offset=end_offset)
