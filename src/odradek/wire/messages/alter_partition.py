"""AlterPartition: a leader asks the controller to change the ISR (KIP-497).

Version 1 carries the recovery of unclean leaders (KIP-704), 2 topic ids (KIP-841), 3 the replicas' broker
epochs (KIP-903).
"""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, int8, int16, int32, int64, string, uuid
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class BrokerState(Struct):
    """An element of `PartitionData.new_isr_with_epochs`."""

    broker_id: int = int32("3+")
    broker_epoch: int = int64("3+", default=-1)


@struct
class PartitionData(Struct):
    """An element of `TopicData.partitions`."""

    partition_index: int = int32()
    leader_epoch: int = int32()
    new_isr: list[int] = array(int32, "0-2")
    new_isr_with_epochs: list[BrokerState] = array(BrokerState, "3+")
    leader_recovery_state: int = int8("1+")
    partition_epoch: int = int32()


@struct
class TopicData(Struct):
    """An element of `AlterPartitionRequest.topics`."""

    topic_name: str = string("0-1", ignorable=True)
    topic_id: bytes = uuid("2+", ignorable=True)
    partitions: list[PartitionData] = array(PartitionData)


@request(ApiKey.ALTER_PARTITION, versions="0-3", flexible="0+")
class AlterPartitionRequest(Message):
    """The ISRs as the leader wants them."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    topics: list[TopicData] = array(TopicData)


@struct
class ResponsePartitionData(Struct):
    """An element of `ResponseTopicData.partitions`."""

    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(int32)
    leader_recovery_state: int = int8("1+", ignorable=True)
    partition_epoch: int = int32()


@struct
class ResponseTopicData(Struct):
    """An element of `AlterPartitionResponse.topics`."""

    topic_name: str = string("0-1", ignorable=True)
    topic_id: bytes = uuid("2+", ignorable=True)
    partitions: list[ResponsePartitionData] = array(ResponsePartitionData)


@response(ApiKey.ALTER_PARTITION, versions="0-3", flexible="0+")
class AlterPartitionResponse(Message):
    """The state as the controller has it."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    topics: list[ResponseTopicData] = array(ResponseTopicData)
