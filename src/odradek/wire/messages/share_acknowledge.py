"""ShareAcknowledge: acknowledge records of a share group (KIP-932).

Version 0 was a preview; 2 lets acquisitions be renewed (KIP-1222).
"""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, boolean, int8, int16, int32, int64, nested, string, uuid
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class AcknowledgementBatch(Struct):
    """An element of `AcknowledgePartition.acknowledgement_batches`."""

    first_offset: int = int64()
    last_offset: int = int64()
    acknowledge_types: list[int] = array(int8)


@struct
class AcknowledgePartition(Struct):
    """An element of `AcknowledgeTopic.partitions`."""

    partition_index: int = int32()
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch)


@struct
class AcknowledgeTopic(Struct):
    """An element of `ShareAcknowledgeRequest.topics`."""

    topic_id: bytes = uuid()
    partitions: list[AcknowledgePartition] = array(AcknowledgePartition)


@request(ApiKey.SHARE_ACKNOWLEDGE, versions="0-2", flexible="0+")
class ShareAcknowledgeRequest(Message):
    """The records that were done with, and how."""

    group_id: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+")
    share_session_epoch: int = int32()
    is_renew_ack: bool = boolean("2+")
    topics: list[AcknowledgeTopic] = array(AcknowledgeTopic)


@struct
class LeaderIdAndEpoch(Struct):
    """The struct in `PartitionData.current_leader`."""

    leader_id: int = int32()
    leader_epoch: int = int32()


@struct
class PartitionData(Struct):
    """An element of `ShareAcknowledgeTopicResponse.partitions`."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = nested(LeaderIdAndEpoch)


@struct
class ShareAcknowledgeTopicResponse(Struct):
    """An element of `ShareAcknowledgeResponse.responses`."""

    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@struct
class NodeEndpoint(Struct):
    """An element of `ShareAcknowledgeResponse.node_endpoints`."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)


@response(ApiKey.SHARE_ACKNOWLEDGE, versions="0-2", flexible="0+")
class ShareAcknowledgeResponse(Message):
    """Per partition, whether it was noted."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32("2+", ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse] = array(ShareAcknowledgeTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint)
