"""ReadShareGroupStateSummary: read share state without the deliveries (KIP-932).

Version 1 counts what was delivered (KIP-1226).
"""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, int16, int32, int64, string, uuid
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class PartitionData(Struct):
    """An element of `ReadStateSummaryData.partitions`."""

    partition: int = int32()
    leader_epoch: int = int32()


@struct
class ReadStateSummaryData(Struct):
    """An element of `ReadShareGroupStateSummaryRequest.topics`."""

    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@request(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryRequest(Message):
    """The partitions."""

    group_id: str = string()
    topics: list[ReadStateSummaryData] = array(ReadStateSummaryData)


@struct
class PartitionResult(Struct):
    """An element of `ReadStateSummaryResult.partitions`."""

    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32("1+", default=-1, ignorable=True)


@struct
class ReadStateSummaryResult(Struct):
    """An element of `ReadShareGroupStateSummaryResponse.results`."""

    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


@response(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryResponse(Message):
    """Their state in short."""

    results: list[ReadStateSummaryResult] = array(ReadStateSummaryResult)
