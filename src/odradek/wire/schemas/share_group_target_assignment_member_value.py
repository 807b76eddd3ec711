"""__consumer_offsets: what a member shall have of a share group."""

from __future__ import annotations

from odradek.wire.fields import array, int32, uuid
from odradek.wire.message import Data, Struct, record_value, struct


@struct
class TopicPartition(Struct):
    """An element of `ShareGroupTargetAssignmentMemberValue.topic_partitions`."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


@record_value(versions="0", flexible="0+")
class ShareGroupTargetAssignmentMemberValue(Data):
    """What the member shall have."""

    topic_partitions: list[TopicPartition] = array(TopicPartition)
