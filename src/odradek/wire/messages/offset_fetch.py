"""OffsetFetch: how far a group has read.

Version 0 reads from ZooKeeper. From 2 on null asks for all topics; 7 may ask for stable offsets only
(KIP-447); 8 asks for several groups at once (KIP-709); 9 serves the server-side protocol (KIP-848); 10
names topics by id.
"""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, boolean, int16, int32, int64, string, uuid
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class OffsetFetchRequestTopic(Struct):
    """An element of `OffsetFetchRequest.topics`."""

    name: str = string("0-7")
    partition_indexes: list[int] = array(int32, "0-7")


@struct
class OffsetFetchRequestTopics(Struct):
    """An element of `OffsetFetchRequestGroup.topics`."""

    name: str = string("8-9", ignorable=True)
    topic_id: bytes = uuid("10+", ignorable=True)
    partition_indexes: list[int] = array(int32, "8+")


@struct
class OffsetFetchRequestGroup(Struct):
    """An element of `OffsetFetchRequest.groups`."""

    group_id: str = string("8+")
    member_id: str | None = string("9+", nullable="9+", default=None, ignorable=True)
    member_epoch: int = int32("9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = array(OffsetFetchRequestTopics, "8+", nullable="8+")


@request(ApiKey.OFFSET_FETCH, versions="0-10", flexible="6+")
class OffsetFetchRequest(Message):
    """The partitions that are asked for."""

    group_id: str = string("0-7")
    topics: list[OffsetFetchRequestTopic] | None = array(OffsetFetchRequestTopic, "0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, "8+")
    require_stable: bool = boolean("7+")


@struct
class OffsetFetchResponsePartition(Struct):
    """An element of `OffsetFetchResponseTopic.partitions`."""

    partition_index: int = int32("0-7")
    committed_offset: int = int64("0-7")
    committed_leader_epoch: int = int32("5-7", default=-1, ignorable=True)
    metadata: str | None = string("0-7", nullable="0-7")
    error_code: int = int16("0-7")


@struct
class OffsetFetchResponseTopic(Struct):
    """An element of `OffsetFetchResponse.topics`."""

    name: str = string("0-7")
    partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition, "0-7")


@struct
class OffsetFetchResponsePartitions(Struct):
    """An element of `OffsetFetchResponseTopics.partitions`."""

    partition_index: int = int32("8+")
    committed_offset: int = int64("8+")
    committed_leader_epoch: int = int32("8+", default=-1, ignorable=True)
    metadata: str | None = string("8+", nullable="8+")
    error_code: int = int16("8+")


@struct
class OffsetFetchResponseTopics(Struct):
    """An element of `OffsetFetchResponseGroup.topics`."""

    name: str = string("8-9", ignorable=True)
    topic_id: bytes = uuid("10+", ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions, "8+")


@struct
class OffsetFetchResponseGroup(Struct):
    """An element of `OffsetFetchResponse.groups`."""

    group_id: str = string("8+")
    topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics, "8+")
    error_code: int = int16("8+")


@response(ApiKey.OFFSET_FETCH, versions="0-10", flexible="6+")
class OffsetFetchResponse(Message):
    """Their offsets, -1 where there is none."""

    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: list[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, "0-7")
    error_code: int = int16("2-7", ignorable=True)
    groups: list[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, "8+")
