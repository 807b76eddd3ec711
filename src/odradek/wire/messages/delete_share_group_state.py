"""DeleteShareGroupState: drop share state (KIP-932)."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, int16, int32, string, uuid
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class PartitionData(Struct):
    """An element of `DeleteStateData.partitions`."""

    partition: int = int32()


@struct
class DeleteStateData(Struct):
    """An element of `DeleteShareGroupStateRequest.topics`."""

    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@request(ApiKey.DELETE_SHARE_GROUP_STATE, versions="0", flexible="0+")
class DeleteShareGroupStateRequest(Message):
    """The partitions."""

    group_id: str = string()
    topics: list[DeleteStateData] = array(DeleteStateData)


@struct
class PartitionResult(Struct):
    """An element of `DeleteStateResult.partitions`."""

    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


@struct
class DeleteStateResult(Struct):
    """An element of `DeleteShareGroupStateResponse.results`."""

    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


@response(ApiKey.DELETE_SHARE_GROUP_STATE, versions="0", flexible="0+")
class DeleteShareGroupStateResponse(Message):
    """Per partition, whether it is gone."""

    results: list[DeleteStateResult] = array(DeleteStateResult)
