"""__consumer_offsets: what a member has of a share group."""

from __future__ import annotations

from odradek.wire.fields import array, int8, int32, uuid
from odradek.wire.message import Data, Struct, record_value, struct


@struct
class TopicPartitions(Struct):
    """An element of `ShareGroupCurrentMemberAssignmentValue.assigned_partitions`."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


@record_value(versions="0", flexible="0+")
class ShareGroupCurrentMemberAssignmentValue(Data):
    """What the member has."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
