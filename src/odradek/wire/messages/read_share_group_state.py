"""ReadShareGroupState: read share state (KIP-932)."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, int8, int16, int32, int64, string, uuid
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class PartitionData(Struct):
    """An element of `ReadStateData.partitions`."""

    partition: int = int32()
    leader_epoch: int = int32()


@struct
class ReadStateData(Struct):
    """An element of `ReadShareGroupStateRequest.topics`."""

    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@request(ApiKey.READ_SHARE_GROUP_STATE, versions="0", flexible="0+")
class ReadShareGroupStateRequest(Message):
    """The partitions."""

    group_id: str = string()
    topics: list[ReadStateData] = array(ReadStateData)


@struct
class StateBatch(Struct):
    """An element of `PartitionResult.state_batches`."""

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


@struct
class PartitionResult(Struct):
    """An element of `ReadStateResult.partitions`."""

    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    state_epoch: int = int32()
    start_offset: int = int64()
    state_batches: list[StateBatch] = array(StateBatch)


@struct
class ReadStateResult(Struct):
    """An element of `ReadShareGroupStateResponse.results`."""

    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


@response(ApiKey.READ_SHARE_GROUP_STATE, versions="0", flexible="0+")
class ReadShareGroupStateResponse(Message):
    """Their state."""

    results: list[ReadStateResult] = array(ReadStateResult)
