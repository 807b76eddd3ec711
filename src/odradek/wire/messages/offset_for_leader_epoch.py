"""OffsetForLeaderEpoch: where a leader epoch ended (KIP-101, KIP-320)."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, int16, int32, int64, string
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class OffsetForLeaderPartition(Struct):
    """An element of `OffsetForLeaderTopic.partitions`."""

    partition: int = int32()
    current_leader_epoch: int = int32("2+", default=-1, ignorable=True)
    leader_epoch: int = int32()


@struct
class OffsetForLeaderTopic(Struct):
    """An element of `OffsetForLeaderEpochRequest.topics`."""

    topic: str = string()
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition)


@request(ApiKey.OFFSET_FOR_LEADER_EPOCH, versions="0-4", flexible="4+")
class OffsetForLeaderEpochRequest(Message):
    """The epochs that are asked for."""

    replica_id: int = int32("3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic)


@struct
class EpochEndOffset(Struct):
    """An element of `OffsetForLeaderTopicResult.partitions`."""

    error_code: int = int16()
    partition: int = int32()
    leader_epoch: int = int32("1+", default=-1, ignorable=True)
    end_offset: int = int64(default=-1)


@struct
class OffsetForLeaderTopicResult(Struct):
    """An element of `OffsetForLeaderEpochResponse.topics`."""

    topic: str = string()
    partitions: list[EpochEndOffset] = array(EpochEndOffset)


@response(ApiKey.OFFSET_FOR_LEADER_EPOCH, versions="0-4", flexible="4+")
class OffsetForLeaderEpochResponse(Message):
    """Their end offsets."""

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult)
