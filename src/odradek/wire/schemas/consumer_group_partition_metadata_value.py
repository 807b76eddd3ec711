"""__consumer_offsets: partition counts of subscribed topics of a server-side consumer group."""

from __future__ import annotations

from odradek.wire.fields import array, int32, string, uuid
from odradek.wire.message import Data, Struct, record_value, struct


@struct
class PartitionMetadata(Struct):
    """An element of `TopicMetadata.partition_metadata`."""

    partition: int = int32()
    racks: list[str] = array(string)


@struct
class TopicMetadata(Struct):
    """An element of `ConsumerGroupPartitionMetadataValue.topics`."""

    topic_id: bytes = uuid()
    topic_name: str = string()
    num_partitions: int = int32()
    partition_metadata: list[PartitionMetadata] = array(PartitionMetadata)


@record_value(versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue(Data):
    """The counts."""

    topics: list[TopicMetadata] = array(TopicMetadata)
