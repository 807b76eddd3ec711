"""DescribeProducers: producers that are active on partitions (KIP-664)."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, int16, int32, int64, string
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class TopicRequest(Struct):
    """An element of `DescribeProducersRequest.topics`."""

    name: str = string()
    partition_indexes: list[int] = array(int32)


@request(ApiKey.DESCRIBE_PRODUCERS, versions="0", flexible="0+")
class DescribeProducersRequest(Message):
    """The partitions."""

    topics: list[TopicRequest] = array(TopicRequest)


@struct
class ProducerState(Struct):
    """An element of `PartitionResponse.active_producers`."""

    producer_id: int = int64()
    producer_epoch: int = int32()
    last_sequence: int = int32(default=-1)
    last_timestamp: int = int64(default=-1)
    coordinator_epoch: int = int32()
    current_txn_start_offset: int = int64(default=-1)


@struct
class PartitionResponse(Struct):
    """An element of `TopicResponse.partitions`."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    active_producers: list[ProducerState] = array(ProducerState)


@struct
class TopicResponse(Struct):
    """An element of `DescribeProducersResponse.topics`."""

    name: str = string()
    partitions: list[PartitionResponse] = array(PartitionResponse)


@response(ApiKey.DESCRIBE_PRODUCERS, versions="0", flexible="0+")
class DescribeProducersResponse(Message):
    """Their producers."""

    throttle_time_ms: int = int32()
    topics: list[TopicResponse] = array(TopicResponse)
