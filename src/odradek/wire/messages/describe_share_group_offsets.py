"""DescribeShareGroupOffsets: where share groups begin to read (KIP-932).

Version 1 tells the lag (KIP-1226).
"""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, int16, int32, int64, string, uuid
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class DescribeShareGroupOffsetsRequestTopic(Struct):
    """An element of `DescribeShareGroupOffsetsRequestGroup.topics`."""

    topic_name: str = string()
    partitions: list[int] = array(int32)


@struct
class DescribeShareGroupOffsetsRequestGroup(Struct):
    """An element of `DescribeShareGroupOffsetsRequest.groups`."""

    group_id: str = string()
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = array(
        DescribeShareGroupOffsetsRequestTopic, nullable="0+"
    )


@request(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsRequest(Message):
    """The groups and partitions."""

    groups: list[DescribeShareGroupOffsetsRequestGroup] = array(DescribeShareGroupOffsetsRequestGroup)


@struct
class DescribeShareGroupOffsetsResponsePartition(Struct):
    """An element of `DescribeShareGroupOffsetsResponseTopic.partitions`."""

    partition_index: int = int32()
    start_offset: int = int64()
    leader_epoch: int = int32()
    lag: int = int64("1+", default=-1, ignorable=True)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


@struct
class DescribeShareGroupOffsetsResponseTopic(Struct):
    """An element of `DescribeShareGroupOffsetsResponseGroup.topics`."""

    topic_name: str = string()
    topic_id: bytes = uuid()
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = array(
        DescribeShareGroupOffsetsResponsePartition
    )


@struct
class DescribeShareGroupOffsetsResponseGroup(Struct):
    """An element of `DescribeShareGroupOffsetsResponse.groups`."""

    group_id: str = string()
    topics: list[DescribeShareGroupOffsetsResponseTopic] = array(DescribeShareGroupOffsetsResponseTopic)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


@response(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsResponse(Message):
    """The offsets."""

    throttle_time_ms: int = int32()
    groups: list[DescribeShareGroupOffsetsResponseGroup] = array(DescribeShareGroupOffsetsResponseGroup)
