"""TxnOffsetCommit: commit a group's offsets inside a transaction.

Version 3 fences by the group's generation (KIP-447), 5 adds the group to the transaction by itself
(KIP-890), 6 names topics by id (KIP-1319).
"""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, int16, int32, int64, string, uuid
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class TxnOffsetCommitRequestPartition(Struct):
    """An element of `TxnOffsetCommitRequestTopic.partitions`."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("2+", default=-1, ignorable=True)
    committed_metadata: str | None = string(nullable="0+")


@struct
class TxnOffsetCommitRequestTopic(Struct):
    """An element of `TxnOffsetCommitRequest.topics`."""

    name: str = string("0-5", ignorable=True)
    topic_id: bytes = uuid("6+", ignorable=True)
    partitions: list[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition)


@request(ApiKey.TXN_OFFSET_COMMIT, versions="0-6", flexible="3+")
class TxnOffsetCommitRequest(Message):
    """The offsets."""

    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    generation_id_or_member_epoch: int = int32("3+", default=-1)
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic)


@struct
class TxnOffsetCommitResponsePartition(Struct):
    """An element of `TxnOffsetCommitResponseTopic.partitions`."""

    partition_index: int = int32()
    error_code: int = int16()


@struct
class TxnOffsetCommitResponseTopic(Struct):
    """An element of `TxnOffsetCommitResponse.topics`."""

    name: str = string("0-5", ignorable=True)
    topic_id: bytes = uuid("6+", ignorable=True)
    partitions: list[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition)


@response(ApiKey.TXN_OFFSET_COMMIT, versions="0-6", flexible="3+")
class TxnOffsetCommitResponse(Message):
    """Per partition, whether it was taken."""

    throttle_time_ms: int = int32()
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic)
