"""DeleteRecords: move the start of partitions' logs (KIP-107)."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, int16, int32, int64, string
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class DeleteRecordsPartition(Struct):
    """An element of `DeleteRecordsTopic.partitions`."""

    partition_index: int = int32()
    offset: int = int64()


@struct
class DeleteRecordsTopic(Struct):
    """An element of `DeleteRecordsRequest.topics`."""

    name: str = string()
    partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition)


@request(ApiKey.DELETE_RECORDS, versions="0-2", flexible="2+")
class DeleteRecordsRequest(Message):
    """Per partition the new first offset, -1 for the high watermark."""

    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic)
    timeout_ms: int = int32()


@struct
class DeleteRecordsPartitionResult(Struct):
    """An element of `DeleteRecordsTopicResult.partitions`."""

    partition_index: int = int32()
    low_watermark: int = int64()
    error_code: int = int16()


@struct
class DeleteRecordsTopicResult(Struct):
    """An element of `DeleteRecordsResponse.topics`."""

    name: str = string()
    partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult)


@response(ApiKey.DELETE_RECORDS, versions="0-2", flexible="2+")
class DeleteRecordsResponse(Message):
    """The low watermarks."""

    throttle_time_ms: int = int32()
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult)
