"""ListPartitionReassignments: the moves under way (KIP-455)."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, int16, int32, string
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class ListPartitionReassignmentsTopics(Struct):
    """An element of `ListPartitionReassignmentsRequest.topics`."""

    name: str = string()
    partition_indexes: list[int] = array(int32)


@request(ApiKey.LIST_PARTITION_REASSIGNMENTS, versions="0", flexible="0+")
class ListPartitionReassignmentsRequest(Message):
    """The partitions, null for all."""

    timeout_ms: int = int32(default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = array(
        ListPartitionReassignmentsTopics, nullable="0+", default=None
    )


@struct
class OngoingPartitionReassignment(Struct):
    """An element of `OngoingTopicReassignment.partitions`."""

    partition_index: int = int32()
    replicas: list[int] = array(int32)
    adding_replicas: list[int] = array(int32)
    removing_replicas: list[int] = array(int32)


@struct
class OngoingTopicReassignment(Struct):
    """An element of `ListPartitionReassignmentsResponse.topics`."""

    name: str = string()
    partitions: list[OngoingPartitionReassignment] = array(OngoingPartitionReassignment)


@response(ApiKey.LIST_PARTITION_REASSIGNMENTS, versions="0", flexible="0+")
class ListPartitionReassignmentsResponse(Message):
    """Replicas, those being added, those being removed."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    topics: list[OngoingTopicReassignment] = array(OngoingTopicReassignment)
