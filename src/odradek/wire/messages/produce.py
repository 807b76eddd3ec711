"""Produce: append record batches to partitions.

Up to version 2 the records are message sets, from 3 on batches v2; 7 allows zstd (KIP-110), 8 tells which
records were refused (KIP-467), 10 points to the new leader (KIP-951), 12 adds the partitions to the
transaction by itself (KIP-890), 13 names topics by id (KIP-516).
"""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import Records, array, int16, int32, int64, nested, records, string, uuid
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class PartitionProduceData(Struct):
    """An element of `TopicProduceData.partition_data`."""

    index: int = int32()
    records: Records = records(nullable="0+")


@struct
class TopicProduceData(Struct):
    """An element of `ProduceRequest.topic_data`."""

    name: str = string("0-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


@request(ApiKey.PRODUCE, versions="0-13", flexible="9+")
class ProduceRequest(Message):
    """Records for partitions; with `acks` 0 there is no response."""

    MOST_ELEMENTS = 20_000

    transactional_id: str | None = string("3+", nullable="3+", default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


@struct
class BatchIndexAndErrorMessage(Struct):
    """An element of `PartitionProduceResponse.record_errors`."""

    batch_index: int = int32("8+")
    batch_index_error_message: str | None = string("8+", nullable="8+", default=None)


@struct
class LeaderIdAndEpoch(Struct):
    """The struct in `PartitionProduceResponse.current_leader`."""

    leader_id: int = int32("10+", default=-1)
    leader_epoch: int = int32("10+", default=-1)


@struct
class PartitionProduceResponse(Struct):
    """An element of `TopicProduceResponse.partition_responses`."""

    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64("2+", default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, "8+", ignorable=True)
    error_message: str | None = string("8+", nullable="8+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = nested(LeaderIdAndEpoch, "10+", tag=0)


@struct
class TopicProduceResponse(Struct):
    """An element of `ProduceResponse.responses`."""

    name: str = string("0-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


@struct
class NodeEndpoint(Struct):
    """An element of `ProduceResponse.node_endpoints`."""

    node_id: int = int32("10+")
    host: str = string("10+")
    port: int = int32("10+")
    rack: str | None = string("10+", nullable="10+", default=None)


@response(ApiKey.PRODUCE, versions="0-13", flexible="9+")
class ProduceResponse(Message):
    """Per partition the offset given, or the error."""

    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32("1+", ignorable=True)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0)
