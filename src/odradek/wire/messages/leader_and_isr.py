"""LeaderAndIsr: the controller tells a broker which partitions it leads and follows.

Sent between the brokers of a ZooKeeper cluster only.
"""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, boolean, int8, int16, int32, int64, string, uuid
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class LeaderAndIsrPartitionState(Struct):
    """An element of `LeaderAndIsrRequest.ungrouped_partition_states`."""

    topic_name: str = string("0-1", ignorable=True)
    partition_index: int = int32()
    controller_epoch: int = int32()
    leader: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(int32)
    partition_epoch: int = int32()
    replicas: list[int] = array(int32)
    adding_replicas: list[int] = array(int32, "3+", ignorable=True)
    removing_replicas: list[int] = array(int32, "3+", ignorable=True)
    is_new: bool = boolean("1+", ignorable=True)
    leader_recovery_state: int = int8("6+")


@struct
class LeaderAndIsrTopicState(Struct):
    """An element of `LeaderAndIsrRequest.topic_states`."""

    topic_name: str = string("2+")
    topic_id: bytes = uuid("5+", ignorable=True)
    partition_states: list[LeaderAndIsrPartitionState] = array(LeaderAndIsrPartitionState, "2+")


@struct
class LeaderAndIsrLiveLeader(Struct):
    """An element of `LeaderAndIsrRequest.live_leaders`."""

    broker_id: int = int32()
    host_name: str = string()
    port: int = int32()


@request(ApiKey.LEADER_AND_ISR, versions="0-7", flexible="4+")
class LeaderAndIsrRequest(Message):
    """The partitions' state."""

    controller_id: int = int32()
    is_k_raft_controller: bool = boolean("7+")
    controller_epoch: int = int32()
    broker_epoch: int = int64("2+", default=-1, ignorable=True)
    type: int = int8("5+")
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = array(LeaderAndIsrPartitionState, "0-1")
    topic_states: list[LeaderAndIsrTopicState] = array(LeaderAndIsrTopicState, "2+")
    live_leaders: list[LeaderAndIsrLiveLeader] = array(LeaderAndIsrLiveLeader)


@struct
class LeaderAndIsrPartitionError(Struct):
    """An element of `LeaderAndIsrResponse.partition_errors`."""

    topic_name: str = string("0-4", ignorable=True)
    partition_index: int = int32()
    error_code: int = int16()


@struct
class LeaderAndIsrTopicError(Struct):
    """An element of `LeaderAndIsrResponse.topics`."""

    topic_id: bytes = uuid("5+")
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError, "5+")


@response(ApiKey.LEADER_AND_ISR, versions="0-7", flexible="4+")
class LeaderAndIsrResponse(Message):
    """Per partition, how the broker took it."""

    error_code: int = int16()
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError, "0-4")
    topics: list[LeaderAndIsrTopicError] = array(LeaderAndIsrTopicError, "5+")
