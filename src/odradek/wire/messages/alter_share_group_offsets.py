"""AlterShareGroupOffsets: set where a share group begins to read (KIP-932)."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, int16, int32, int64, string, uuid
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class AlterShareGroupOffsetsRequestPartition(Struct):
    """An element of `AlterShareGroupOffsetsRequestTopic.partitions`."""

    partition_index: int = int32()
    start_offset: int = int64()


@struct
class AlterShareGroupOffsetsRequestTopic(Struct):
    """An element of `AlterShareGroupOffsetsRequest.topics`."""

    topic_name: str = string()
    partitions: list[AlterShareGroupOffsetsRequestPartition] = array(AlterShareGroupOffsetsRequestPartition)


@request(ApiKey.ALTER_SHARE_GROUP_OFFSETS, versions="0", flexible="0+")
class AlterShareGroupOffsetsRequest(Message):
    """The offsets."""

    group_id: str = string()
    topics: list[AlterShareGroupOffsetsRequestTopic] = array(AlterShareGroupOffsetsRequestTopic)


@struct
class AlterShareGroupOffsetsResponsePartition(Struct):
    """An element of `AlterShareGroupOffsetsResponseTopic.partitions`."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


@struct
class AlterShareGroupOffsetsResponseTopic(Struct):
    """An element of `AlterShareGroupOffsetsResponse.responses`."""

    topic_name: str = string()
    topic_id: bytes = uuid()
    partitions: list[AlterShareGroupOffsetsResponsePartition] = array(AlterShareGroupOffsetsResponsePartition)


@response(ApiKey.ALTER_SHARE_GROUP_OFFSETS, versions="0", flexible="0+")
class AlterShareGroupOffsetsResponse(Message):
    """Per partition, whether it was set."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = array(AlterShareGroupOffsetsResponseTopic)
