"""StopReplica: the controller tells a broker to stop, and perhaps delete, replicas.

Sent between the brokers of a ZooKeeper cluster only.
"""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, boolean, int16, int32, int64, string
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class StopReplicaPartitionV0(Struct):
    """An element of `StopReplicaRequest.ungrouped_partitions`."""

    topic_name: str = string("0")
    partition_index: int = int32("0")


@struct
class StopReplicaTopicV1(Struct):
    """An element of `StopReplicaRequest.topics`."""

    name: str = string("1-2")
    partition_indexes: list[int] = array(int32, "1-2")


@struct
class StopReplicaPartitionState(Struct):
    """An element of `StopReplicaTopicState.partition_states`."""

    partition_index: int = int32("3+")
    leader_epoch: int = int32("3+", default=-1)
    delete_partition: bool = boolean("3+")


@struct
class StopReplicaTopicState(Struct):
    """An element of `StopReplicaRequest.topic_states`."""

    topic_name: str = string("3+")
    partition_states: list[StopReplicaPartitionState] = array(StopReplicaPartitionState, "3+")


@request(ApiKey.STOP_REPLICA, versions="0-4", flexible="2+")
class StopReplicaRequest(Message):
    """The replicas to stop."""

    controller_id: int = int32()
    is_k_raft_controller: bool = boolean("4+")
    controller_epoch: int = int32()
    broker_epoch: int = int64("1+", default=-1, ignorable=True)
    delete_partitions: bool = boolean("0-2")
    ungrouped_partitions: list[StopReplicaPartitionV0] = array(StopReplicaPartitionV0, "0")
    topics: list[StopReplicaTopicV1] = array(StopReplicaTopicV1, "1-2")
    topic_states: list[StopReplicaTopicState] = array(StopReplicaTopicState, "3+")


@struct
class StopReplicaPartitionError(Struct):
    """An element of `StopReplicaResponse.partition_errors`."""

    topic_name: str = string()
    partition_index: int = int32()
    error_code: int = int16()


@response(ApiKey.STOP_REPLICA, versions="0-4", flexible="2+")
class StopReplicaResponse(Message):
    """Per partition, whether it was stopped."""

    error_code: int = int16()
    partition_errors: list[StopReplicaPartitionError] = array(StopReplicaPartitionError)
