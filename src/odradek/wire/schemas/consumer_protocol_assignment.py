"""What the group's leader assigns to a consumer, inside SyncGroup."""

from __future__ import annotations

from odradek.wire.fields import array, blob, int32, string
from odradek.wire.message import Data, Struct, data, struct


@struct
class TopicPartition(Struct):
    """An element of `ConsumerProtocolAssignment.assigned_partitions`."""

    topic: str = string()
    partitions: list[int] = array(int32)


@data(versions="0-3")
class ConsumerProtocolAssignment(Data):
    """The partitions that the member shall read."""

    assigned_partitions: list[TopicPartition] = array(TopicPartition)
    user_data: bytes | None = blob(nullable="0+", default=None)
