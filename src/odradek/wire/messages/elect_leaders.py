"""ElectLeaders: elect preferred leaders (KIP-183) or, from version 1 on, unclean ones (KIP-460)."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, int8, int16, int32, string
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class TopicPartitions(Struct):
    """An element of `ElectLeadersRequest.topic_partitions`."""

    topic: str = string()
    partitions: list[int] = array(int32)


@request(ApiKey.ELECT_LEADERS, versions="0-2", flexible="2+")
class ElectLeadersRequest(Message):
    """The partitions, null for all."""

    election_type: int = int8("1+")
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, nullable="0+")
    timeout_ms: int = int32(default=60000)


@struct
class PartitionResult(Struct):
    """An element of `ReplicaElectionResult.partition_result`."""

    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@struct
class ReplicaElectionResult(Struct):
    """An element of `ElectLeadersResponse.replica_election_results`."""

    topic: str = string()
    partition_result: list[PartitionResult] = array(PartitionResult)


@response(ApiKey.ELECT_LEADERS, versions="0-2", flexible="2+")
class ElectLeadersResponse(Message):
    """Per partition, what became of it."""

    throttle_time_ms: int = int32()
    error_code: int = int16("1+")
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult)
