"""ListOffsets: offsets by timestamp.

-1 asks for the end of the log, -2 for its start, -3 for the largest timestamp (7, KIP-734), -4, -5 and -6
for the bounds of tiered storage (8, KIP-405; 9, KIP-1005; 11, KIP-1023). Version 0 answers with several
offsets.
"""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, int8, int16, int32, int64, string
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class ListOffsetsPartition(Struct):
    """An element of `ListOffsetsTopic.partitions`."""

    partition_index: int = int32()
    current_leader_epoch: int = int32("4+", default=-1, ignorable=True)
    timestamp: int = int64()
    max_num_offsets: int = int32("0", default=1)


@struct
class ListOffsetsTopic(Struct):
    """An element of `ListOffsetsRequest.topics`."""

    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


@request(ApiKey.LIST_OFFSETS, versions="0-11", flexible="6+")
class ListOffsetsRequest(Message):
    """The timestamps to look up."""

    replica_id: int = int32()
    isolation_level: int = int8("2+")
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = int32("10+", ignorable=True)


@struct
class ListOffsetsPartitionResponse(Struct):
    """An element of `ListOffsetsTopicResponse.partitions`."""

    partition_index: int = int32()
    error_code: int = int16()
    old_style_offsets: list[int] = array(int64, "0")
    timestamp: int = int64("1+", default=-1)
    offset: int = int64("1+", default=-1)
    leader_epoch: int = int32("4+", default=-1)


@struct
class ListOffsetsTopicResponse(Struct):
    """An element of `ListOffsetsResponse.topics`."""

    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


@response(ApiKey.LIST_OFFSETS, versions="0-11", flexible="6+")
class ListOffsetsResponse(Message):
    """The first offset whose timestamp is not earlier."""

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)
