"""__consumer_offsets: partitions with share state of a share group."""

from __future__ import annotations

from odradek.wire.fields import array, int32, string, uuid
from odradek.wire.message import Data, Struct, record_value, struct


@struct
class TopicPartitionsInfo(Struct):
    """An element of `ShareGroupStatePartitionMetadataValue.initializing_topics`."""

    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


@struct
class TopicInfo(Struct):
    """An element of `ShareGroupStatePartitionMetadataValue.deleting_topics`."""

    topic_id: bytes = uuid()
    topic_name: str = string()


@record_value(versions="0", flexible="0+")
class ShareGroupStatePartitionMetadataValue(Data):
    """The partitions."""

    initializing_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    initialized_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    deleting_topics: list[TopicInfo] = array(TopicInfo)
