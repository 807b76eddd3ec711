"""The controller's requests in every version: what they name, and the form of the answer to LeaderAndIsr."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from odradek.wire.epochs import NO_EPOCH
from odradek.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    LeaderAndIsrTopicState,
)
from odradek.wire.messages.update_metadata import UpdateMetadataResponse

if TYPE_CHECKING:
    from odradek.errors.codes import ErrorCode
    from odradek.wire.messages.leader_and_isr import LeaderAndIsrRequest
    from odradek.wire.messages.stop_replica import StopReplicaRequest

_BY_TOPIC_FROM = 2
_BY_ID_FROM = 5


def topic_states(request: LeaderAndIsrRequest, version: int) -> Sequence[LeaderAndIsrTopicState]:
    """The partitions of a LeaderAndIsr by topic, as it has them from version 2 on."""
    if version >= _BY_TOPIC_FROM:
        return request.topic_states
    topics: dict[str, LeaderAndIsrTopicState] = {}
    for state in request.ungrouped_partition_states:
        topic = topics.setdefault(state.topic_name, LeaderAndIsrTopicState(topic_name=state.topic_name))
        topic.partition_states.append(state)
    return list(topics.values())


def leader_and_isr_response(
    topics: Sequence[LeaderAndIsrTopicState],
    version: int,
    error: ErrorCode,
    error_of: Callable[[LeaderAndIsrTopicState, int], ErrorCode],
) -> LeaderAndIsrResponse:
    """The answer to a LeaderAndIsr.

    Args:
        topics: see `topic_states`.
        version: of the request.
        error: of the whole; unless it is NONE, it is that of each partition as well.
        error_of: of a topic's partition.
    """
    response = LeaderAndIsrResponse(error_code=int(error), partition_errors=[], topics=[])
    by_id = version >= _BY_ID_FROM
    for topic in topics:
        errors = [
            LeaderAndIsrPartitionError(
                topic_name="" if by_id else topic.topic_name,
                partition_index=state.partition_index,
                error_code=int(error or error_of(topic, state.partition_index)),
            )
            for state in topic.partition_states
        ]
        if by_id:
            response.topics.append(LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=errors))
        else:
            response.partition_errors += errors
    return response


def update_metadata_response(error: ErrorCode) -> UpdateMetadataResponse:
    """The answer to an UpdateMetadata."""
    return UpdateMetadataResponse(error_code=int(error))


def replicas_to_stop(request: StopReplicaRequest, version: int) -> Iterator[tuple[str, int, int, bool]]:
    """Yield what a StopReplica names: topic, partition, leader epoch, and whether to delete."""
    if version == 0:
        for partition in request.ungrouped_partitions:
            yield partition.topic_name, partition.partition_index, NO_EPOCH, request.delete_partitions
    elif version <= 2:
        for topic in request.topics:
            for index in topic.partition_indexes:
                yield topic.name, index, NO_EPOCH, request.delete_partitions
    else:
        for state in request.topic_states:
            for stop in state.partition_states:
                yield state.topic_name, stop.partition_index, stop.leader_epoch, stop.delete_partition
