"""WriteShareGroupState: write share state (KIP-932); version 1 counts what was delivered (KIP-1226)."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, int8, int16, int32, int64, string, uuid
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class StateBatch(Struct):
    """An element of `PartitionData.state_batches`."""

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


@struct
class PartitionData(Struct):
    """An element of `WriteStateData.partitions`."""

    partition: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32("1+", default=-1, ignorable=True)
    state_batches: list[StateBatch] = array(StateBatch)


@struct
class WriteStateData(Struct):
    """An element of `WriteShareGroupStateRequest.topics`."""

    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@request(ApiKey.WRITE_SHARE_GROUP_STATE, versions="0-1", flexible="0+")
class WriteShareGroupStateRequest(Message):
    """The state."""

    group_id: str = string()
    topics: list[WriteStateData] = array(WriteStateData)


@struct
class PartitionResult(Struct):
    """An element of `WriteStateResult.partitions`."""

    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


@struct
class WriteStateResult(Struct):
    """An element of `WriteShareGroupStateResponse.results`."""

    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


@response(ApiKey.WRITE_SHARE_GROUP_STATE, versions="0-1", flexible="0+")
class WriteShareGroupStateResponse(Message):
    """Per partition, whether it was written."""

    results: list[WriteStateResult] = array(WriteStateResult)
