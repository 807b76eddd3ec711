"""CreatePartitions: give topics more partitions (KIP-195)."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, boolean, int16, int32, string
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class CreatePartitionsAssignment(Struct):
    """An element of `CreatePartitionsTopic.assignments`."""

    broker_ids: list[int] = array(int32)


@struct
class CreatePartitionsTopic(Struct):
    """An element of `CreatePartitionsRequest.topics`."""

    name: str = string()
    count: int = int32()
    assignments: list[CreatePartitionsAssignment] | None = array(CreatePartitionsAssignment, nullable="0+")


@request(ApiKey.CREATE_PARTITIONS, versions="0-3", flexible="2+")
class CreatePartitionsRequest(Message):
    """Topics and their new counts."""

    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


@struct
class CreatePartitionsTopicResult(Struct):
    """An element of `CreatePartitionsResponse.results`."""

    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


@response(ApiKey.CREATE_PARTITIONS, versions="0-3", flexible="2+")
class CreatePartitionsResponse(Message):
    """Per topic, whether it has them."""

    throttle_time_ms: int = int32()
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)
