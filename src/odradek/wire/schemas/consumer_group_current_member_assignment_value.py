"""__consumer_offsets: what a member has of a server-side consumer group."""

from __future__ import annotations

from odradek.wire.fields import array, int8, int32, uuid
from odradek.wire.message import Data, Struct, record_value, struct


@struct
class TopicPartitions(Struct):
    """An element of `ConsumerGroupCurrentMemberAssignmentValue.assigned_partitions`."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)
    assignment_epochs: list[int] | None = array(int32, nullable="0+", tag=0)


@record_value(versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue(Data):
    """What the member has."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
    partitions_pending_revocation: list[TopicPartitions] = array(TopicPartitions)
