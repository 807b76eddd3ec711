"""LeaderAndIsr 0-7, StopReplica 0-4, UpdateMetadata 0-8: what a controller tells the brokers of its cluster.

A broker that is the controller itself needs to be told nothing: it takes leaderships and metadata from its
own image, and nobody may give it others. So:

- a broker epoch before the present one is STALE_BROKER_EPOCH (LeaderAndIsr from 2, StopReplica from 1,
  UpdateMetadata from 5 on say one);
- any sender but the controller that the metadata store names, at its epoch, is STALE_CONTROLLER_EPOCH. Kafka
  believes in a higher epoch without asking; here the store knows better;
- what is left tells what is known already. LeaderAndIsr: STALE_CONTROLLER_EPOCH for a partition whose leader
  epoch is no news, as in Kafka, INCONSISTENT_TOPIC_ID for another topic of the same name,
  UNKNOWN_TOPIC_OR_PARTITION for one that is not assigned to this broker. StopReplica: FENCED_LEADER_EPOCH for
  a partition that is, nothing to be done for any other. UpdateMetadata: no error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from odradek.broker.authorization import CLUSTER, Operation
from odradek.broker.registry import handler
from odradek.cluster.nodes import NO_TOPIC_ID
from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    LeaderAndIsrTopicState,
)
from odradek.wire.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from odradek.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

if TYPE_CHECKING:
    from odradek.broker.context import RequestContext

_UNKNOWN_EPOCH = -1
_LEADER_AND_ISR_BY_ID_FROM = 5


@handler(ApiKey.LEADER_AND_ISR, versions=range(8))
def leader_and_isr(context: RequestContext, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
    """Answer for each partition; a refusal as a whole is repeated for each."""
    error = _check_sender(context, request)
    topics = request.topic_states if context.api_version >= 2 else _grouped(request)
    response = LeaderAndIsrResponse(error_code=int(error), partition_errors=[], topics=[])
    for topic in topics:
        by_id = context.api_version >= _LEADER_AND_ISR_BY_ID_FROM
        errors = [
            LeaderAndIsrPartitionError(
                topic_name="" if by_id else topic.topic_name,
                partition_index=one.partition_index,
                error_code=int(error or _partition_error(context, topic, one.partition_index)),
            )
            for one in topic.partition_states
        ]
        if by_id:
            response.topics.append(LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=errors))
        else:
            response.partition_errors += errors
    return response


def _grouped(request: LeaderAndIsrRequest) -> list[LeaderAndIsrTopicState]:
    topics: dict[str, LeaderAndIsrTopicState] = {}
    for one in request.ungrouped_partition_states:
        topic = topics.setdefault(one.topic_name, LeaderAndIsrTopicState(topic_name=one.topic_name))
        topic.partition_states.append(one)
    return list(topics.values())


def _partition_error(context: RequestContext, topic: LeaderAndIsrTopicState, index: int) -> ErrorCode:
    image = context.broker.image
    known = image.partition(topic.topic_name, index)
    if known is None or context.broker.broker_id not in known.replicas:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    known_id = image.topic_id(topic.topic_name)
    if NO_TOPIC_ID not in (topic.topic_id, known_id) and topic.topic_id != known_id:
        return ErrorCode.INCONSISTENT_TOPIC_ID
    return ErrorCode.STALE_CONTROLLER_EPOCH


@handler(ApiKey.STOP_REPLICA, versions=range(5))
def stop_replica(context: RequestContext, request: StopReplicaRequest) -> StopReplicaResponse:
    """Stop nothing that the metadata assigns to this broker."""
    error = _check_sender(context, request)
    response = StopReplicaResponse(error_code=int(error), partition_errors=[])
    if error:
        return response
    image, own = context.broker.image, context.broker.broker_id
    for name, index in _partitions_to_stop(request, context.api_version):
        known = image.partition(name, index)
        assigned = known is not None and own in known.replicas
        response.partition_errors.append(
            StopReplicaPartitionError(
                topic_name=name,
                partition_index=index,
                error_code=int(ErrorCode.FENCED_LEADER_EPOCH if assigned else ErrorCode.NONE),
            )
        )
    return response


def _partitions_to_stop(request: StopReplicaRequest, version: int) -> Iterator[tuple[str, int]]:
    if version == 0:
        yield from ((one.topic_name, one.partition_index) for one in request.ungrouped_partitions)
    elif version <= 2:
        yield from ((topic.name, index) for topic in request.topics for index in topic.partition_indexes)
    else:
        yield from (
            (topic.topic_name, one.partition_index)
            for topic in request.topic_states
            for one in topic.partition_states
        )


@handler(ApiKey.UPDATE_METADATA, versions=range(9))
def update_metadata(context: RequestContext, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
    """Take note of nothing new."""
    return UpdateMetadataResponse(error_code=int(_check_sender(context, request)))


def _check_sender(
    context: RequestContext, request: LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest
) -> ErrorCode:
    if not context.authorize(Operation.CLUSTER_ACTION, CLUSTER):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    image = context.broker.image
    own = image.brokers.get(context.broker.broker_id)
    if request.broker_epoch != _UNKNOWN_EPOCH and own is not None and request.broker_epoch < own.epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    if (request.controller_id, request.controller_epoch) != (image.controller_id, image.controller_epoch):
        return ErrorCode.STALE_CONTROLLER_EPOCH
    return ErrorCode.NONE
