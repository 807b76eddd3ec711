"""DescribeQuorum: who votes on the metadata, and how far each is (KIP-595).

Version 1 answers with times (KIP-836), 2 with messages, directories and the controllers' addresses (KIP-853).
"""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, int16, int32, int64, string, uint16, uuid
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class DescribeQuorumPartition(Struct):
    """An element of `DescribeQuorumTopic.partitions`."""

    partition_index: int = int32()


@struct
class DescribeQuorumTopic(Struct):
    """An element of `DescribeQuorumRequest.topics`."""

    topic_name: str = string()
    partitions: list[DescribeQuorumPartition] = array(DescribeQuorumPartition)


@request(ApiKey.DESCRIBE_QUORUM, versions="0-2", flexible="0+")
class DescribeQuorumRequest(Message):
    """The topics to describe: partition 0 of `__cluster_metadata`."""

    MOST_ELEMENTS = 1_000

    topics: list[DescribeQuorumTopic] = array(DescribeQuorumTopic)


@struct
class ReplicaState(Struct):
    """An element of `DescribedQuorumPartition.current_voters` and `.observers`."""

    replica_id: int = int32()
    replica_directory_id: bytes = uuid("2+")
    log_end_offset: int = int64()
    last_fetch_timestamp: int = int64("1+", default=-1, ignorable=True)
    last_caught_up_timestamp: int = int64("1+", default=-1, ignorable=True)


@struct
class DescribedQuorumPartition(Struct):
    """An element of `DescribedQuorumTopic.partitions`."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string("2+", nullable="2+", ignorable=True)
    leader_id: int = int32()
    leader_epoch: int = int32()
    high_watermark: int = int64()
    current_voters: list[ReplicaState] = array(ReplicaState)
    observers: list[ReplicaState] = array(ReplicaState)


@struct
class DescribedQuorumTopic(Struct):
    """An element of `DescribeQuorumResponse.topics`."""

    topic_name: str = string()
    partitions: list[DescribedQuorumPartition] = array(DescribedQuorumPartition)


@struct
class QuorumListener(Struct):
    """An element of `QuorumNode.listeners`."""

    name: str = string("2+")
    host: str = string("2+")
    port: int = uint16("2+")


@struct
class QuorumNode(Struct):
    """An element of `DescribeQuorumResponse.nodes`."""

    node_id: int = int32("2+")
    listeners: list[QuorumListener] = array(QuorumListener, "2+")


@response(ApiKey.DESCRIBE_QUORUM, versions="0-2", flexible="0+")
class DescribeQuorumResponse(Message):
    """The quorum."""

    error_code: int = int16()
    error_message: str | None = string("2+", nullable="2+", ignorable=True)
    topics: list[DescribedQuorumTopic] = array(DescribedQuorumTopic)
    nodes: list[QuorumNode] = array(QuorumNode, "2+")
