"""ShareFetch: acquire records of a share group, and acknowledge earlier ones (KIP-932).

Version 0 was a preview; 2 brings acquire modes (KIP-1206) and renewals (KIP-1222).
"""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import (
    Records,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    nested,
    records,
    string,
    uuid,
)
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class AcknowledgementBatch(Struct):
    """An element of `FetchPartition.acknowledgement_batches`."""

    first_offset: int = int64()
    last_offset: int = int64()
    acknowledge_types: list[int] = array(int8)


@struct
class FetchPartition(Struct):
    """An element of `FetchTopic.partitions`."""

    partition_index: int = int32()
    partition_max_bytes: int = int32("0")
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch)


@struct
class FetchTopic(Struct):
    """An element of `ShareFetchRequest.topics`."""

    topic_id: bytes = uuid()
    partitions: list[FetchPartition] = array(FetchPartition)


@struct
class ForgottenTopic(Struct):
    """An element of `ShareFetchRequest.forgotten_topics_data`."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


@request(ApiKey.SHARE_FETCH, versions="0-2", flexible="0+")
class ShareFetchRequest(Message):
    """The partitions to acquire records of, and what was done with earlier ones."""

    group_id: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+")
    share_session_epoch: int = int32()
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=0x7FFFFFFF)
    max_records: int = int32("1+")
    batch_size: int = int32("1+")
    share_acquire_mode: int = int8("2+", ignorable=True)
    is_renew_ack: bool = boolean("2+")
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic)


@struct
class LeaderIdAndEpoch(Struct):
    """The struct in `PartitionData.current_leader`."""

    leader_id: int = int32()
    leader_epoch: int = int32()


@struct
class AcquiredRecords(Struct):
    """An element of `PartitionData.acquired_records`."""

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_count: int = int16()


@struct
class PartitionData(Struct):
    """An element of `ShareFetchableTopicResponse.partitions`."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    acknowledge_error_code: int = int16()
    acknowledge_error_message: str | None = string(nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = nested(LeaderIdAndEpoch)
    records: Records = records(nullable="0")
    acquired_records: list[AcquiredRecords] = array(AcquiredRecords)


@struct
class ShareFetchableTopicResponse(Struct):
    """An element of `ShareFetchResponse.responses`."""

    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@struct
class NodeEndpoint(Struct):
    """An element of `ShareFetchResponse.node_endpoints`."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)


@response(ApiKey.SHARE_FETCH, versions="0-2", flexible="0+")
class ShareFetchResponse(Message):
    """Records, and which of them were acquired."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32("1+")
    responses: list[ShareFetchableTopicResponse] = array(ShareFetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint)
