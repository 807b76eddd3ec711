"""OffsetCommit: store how far a group has read.

Version 0 stores in ZooKeeper, later ones in __consumer_offsets. 9 serves the server-side group protocol
(KIP-848), 10 names topics by id.
"""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, int16, int32, int64, string, uuid
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class OffsetCommitRequestPartition(Struct):
    """An element of `OffsetCommitRequestTopic.partitions`."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("6+", default=-1, ignorable=True)
    commit_timestamp: int = int64("1", default=-1)
    committed_metadata: str | None = string(nullable="0+")


@struct
class OffsetCommitRequestTopic(Struct):
    """An element of `OffsetCommitRequest.topics`."""

    name: str = string("0-9", ignorable=True)
    topic_id: bytes = uuid("10+", ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition)


@request(ApiKey.OFFSET_COMMIT, versions="0-10", flexible="8+")
class OffsetCommitRequest(Message):
    """Offsets of a group's partitions."""

    group_id: str = string()
    generation_id_or_member_epoch: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string("1+", ignorable=True)
    group_instance_id: str | None = string("7+", nullable="7+", default=None)
    retention_time_ms: int = int64("2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic)


@struct
class OffsetCommitResponsePartition(Struct):
    """An element of `OffsetCommitResponseTopic.partitions`."""

    partition_index: int = int32()
    error_code: int = int16()


@struct
class OffsetCommitResponseTopic(Struct):
    """An element of `OffsetCommitResponse.topics`."""

    name: str = string("0-9", ignorable=True)
    topic_id: bytes = uuid("10+", ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition)


@response(ApiKey.OFFSET_COMMIT, versions="0-10", flexible="8+")
class OffsetCommitResponse(Message):
    """Per partition, whether the offset was stored."""

    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic)
