"""AlterPartitionReassignments: move replicas, or cancel a move (KIP-455)."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, boolean, int16, int32, string
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class ReassignablePartition(Struct):
    """An element of `ReassignableTopic.partitions`."""

    partition_index: int = int32()
    replicas: list[int] | None = array(int32, nullable="0+", default=None)


@struct
class ReassignableTopic(Struct):
    """An element of `AlterPartitionReassignmentsRequest.topics`."""

    name: str = string()
    partitions: list[ReassignablePartition] = array(ReassignablePartition)


@request(ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest(Message):
    """The partitions' new replicas; null cancels."""

    timeout_ms: int = int32(default=60000)
    allow_replication_factor_change: bool = boolean("1+", default=True)
    topics: list[ReassignableTopic] = array(ReassignableTopic)


@struct
class ReassignablePartitionResponse(Struct):
    """An element of `ReassignableTopicResponse.partitions`."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@struct
class ReassignableTopicResponse(Struct):
    """An element of `AlterPartitionReassignmentsResponse.responses`."""

    name: str = string()
    partitions: list[ReassignablePartitionResponse] = array(ReassignablePartitionResponse)


@response(ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse(Message):
    """Per partition, whether the move began."""

    throttle_time_ms: int = int32()
    allow_replication_factor_change: bool = boolean("1+", default=True, ignorable=True)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    responses: list[ReassignableTopicResponse] = array(ReassignableTopicResponse)
