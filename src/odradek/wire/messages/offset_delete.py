"""OffsetDelete: forget a group's offsets of topics that it no longer reads (KIP-496)."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, int16, int32, string
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class OffsetDeleteRequestPartition(Struct):
    """An element of `OffsetDeleteRequestTopic.partitions`."""

    partition_index: int = int32()


@struct
class OffsetDeleteRequestTopic(Struct):
    """An element of `OffsetDeleteRequest.topics`."""

    name: str = string()
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition)


@request(ApiKey.OFFSET_DELETE, versions="0")
class OffsetDeleteRequest(Message):
    """The partitions."""

    group_id: str = string()
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic)


@struct
class OffsetDeleteResponsePartition(Struct):
    """An element of `OffsetDeleteResponseTopic.partitions`."""

    partition_index: int = int32()
    error_code: int = int16()


@struct
class OffsetDeleteResponseTopic(Struct):
    """An element of `OffsetDeleteResponse.topics`."""

    name: str = string()
    partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition)


@response(ApiKey.OFFSET_DELETE, versions="0")
class OffsetDeleteResponse(Message):
    """Per partition, whether it is forgotten."""

    error_code: int = int16()
    throttle_time_ms: int = int32(ignorable=True)
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic)
