"""Keys and values of `__consumer_offsets` about consumer groups of the newer protocol (KIP-848)."""

from __future__ import annotations

from odradek.wire.fields import array, blob, int8, int32, int64, nested, string, uuid
from odradek.wire.message import Data, Struct, record_key, record_value, struct


@record_key(record_type=3, versions="0")
class ConsumerGroupMetadataKey(Data):
    """The key of a server-side consumer group."""

    group_id: str = string()


@record_value(versions="0", flexible="0+")
class ConsumerGroupMetadataValue(Data):
    """A server-side consumer group."""

    epoch: int = int32()
    metadata_hash: int = int64(tag=0)


@record_key(record_type=5, versions="0")
class ConsumerGroupMemberMetadataKey(Data):
    """The key of a member of a server-side consumer group."""

    group_id: str = string()
    member_id: str = string()


@struct
class ClassicProtocol(Struct):
    """An element of `ClassicMemberMetadata.supported_protocols`."""

    name: str = string()
    metadata: bytes = blob()


@struct
class ClassicMemberMetadata(Struct):
    """The struct in `ConsumerGroupMemberMetadataValue.classic_member_metadata`."""

    session_timeout_ms: int = int32()
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol)


@record_value(versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue(Data):
    """A member of a server-side consumer group."""

    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = nested(
        ClassicMemberMetadata, nullable="0+", tag=0
    )


@record_key(record_type=16, versions="0")
class ConsumerGroupRegularExpressionKey(Data):
    """The key of a resolved regular expression of a server-side consumer group."""

    group_id: str = string()
    regular_expression: str = string()


@record_value(versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue(Data):
    """A resolved regular expression of a server-side consumer group."""

    topics: list[str] = array(string)
    version: int = int64()
    timestamp: int = int64()


@record_key(record_type=4, versions="0")
class ConsumerGroupPartitionMetadataKey(Data):
    """The key of partition counts of subscribed topics of a server-side consumer group."""

    group_id: str = string()


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
    """Partition counts of subscribed topics of a server-side consumer group."""

    topics: list[TopicMetadata] = array(TopicMetadata)


@record_key(record_type=6, versions="0")
class ConsumerGroupTargetAssignmentMetadataKey(Data):
    """The key of the target assignment of a server-side consumer group."""

    group_id: str = string()


@record_value(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue(Data):
    """The target assignment of a server-side consumer group."""

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(ignorable=True, tag=0)


@record_key(record_type=7, versions="0")
class ConsumerGroupTargetAssignmentMemberKey(Data):
    """The key of what a member shall have of a server-side consumer group."""

    group_id: str = string()
    member_id: str = string()


@struct
class TopicPartition(Struct):
    """An element of `ConsumerGroupTargetAssignmentMemberValue.topic_partitions`."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


@record_value(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue(Data):
    """The partitions that a member shall have of a server-side consumer group."""

    topic_partitions: list[TopicPartition] = array(TopicPartition)


@record_key(record_type=8, versions="0")
class ConsumerGroupCurrentMemberAssignmentKey(Data):
    """The key of what a member has of a server-side consumer group."""

    group_id: str = string()
    member_id: str = string()


@struct
class TopicPartitions(Struct):
    """An element of `ConsumerGroupCurrentMemberAssignmentValue.assigned_partitions`."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)
    assignment_epochs: list[int] | None = array(int32, nullable="0+", tag=0)


@record_value(versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue(Data):
    """The partitions that a member has of a server-side consumer group."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
    partitions_pending_revocation: list[TopicPartitions] = array(TopicPartitions)
