"""InitializeShareGroupState: begin to keep share state of partitions (KIP-932)."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, int16, int32, int64, string, uuid
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class PartitionData(Struct):
    """An element of `InitializeStateData.partitions`."""

    partition: int = int32()
    state_epoch: int = int32()
    start_offset: int = int64()


@struct
class InitializeStateData(Struct):
    """An element of `InitializeShareGroupStateRequest.topics`."""

    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@request(ApiKey.INITIALIZE_SHARE_GROUP_STATE, versions="0", flexible="0+")
class InitializeShareGroupStateRequest(Message):
    """The partitions."""

    group_id: str = string()
    topics: list[InitializeStateData] = array(InitializeStateData)


@struct
class PartitionResult(Struct):
    """An element of `InitializeStateResult.partitions`."""

    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


@struct
class InitializeStateResult(Struct):
    """An element of `InitializeShareGroupStateResponse.results`."""

    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


@response(ApiKey.INITIALIZE_SHARE_GROUP_STATE, versions="0", flexible="0+")
class InitializeShareGroupStateResponse(Message):
    """Per partition, whether it is kept."""

    results: list[InitializeStateResult] = array(InitializeStateResult)
