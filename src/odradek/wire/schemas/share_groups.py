"""Keys and values of `__consumer_offsets` about share groups (KIP-932)."""

from __future__ import annotations

from odradek.wire.fields import array, int8, int32, int64, string, uuid
from odradek.wire.message import Data, Struct, record_key, record_value, struct


@record_key(record_type=11, versions="0")
class ShareGroupMetadataKey(Data):
    """The key of a share group."""

    group_id: str = string()


@record_value(versions="0", flexible="0+")
class ShareGroupMetadataValue(Data):
    """A share group."""

    epoch: int = int32()
    metadata_hash: int = int64()


@record_key(record_type=10, versions="0")
class ShareGroupMemberMetadataKey(Data):
    """The key of a member of a share group."""

    group_id: str = string()
    member_id: str = string()


@record_value(versions="0", flexible="0+")
class ShareGroupMemberMetadataValue(Data):
    """A member of a share group."""

    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)


@record_key(record_type=15, versions="0")
class ShareGroupStatePartitionMetadataKey(Data):
    """The key of partitions with share state of a share group."""

    group_id: str = string()


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
    """Partitions with share state of a share group."""

    initializing_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    initialized_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    deleting_topics: list[TopicInfo] = array(TopicInfo)


@record_key(record_type=12, versions="0")
class ShareGroupTargetAssignmentMetadataKey(Data):
    """The key of the target assignment of a share group."""

    group_id: str = string()


@record_value(versions="0", flexible="0+")
class ShareGroupTargetAssignmentMetadataValue(Data):
    """The target assignment of a share group."""

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(ignorable=True, tag=0)


@record_key(record_type=13, versions="0")
class ShareGroupTargetAssignmentMemberKey(Data):
    """The key of what a member shall have of a share group."""

    group_id: str = string()
    member_id: str = string()


@struct
class TopicPartition(Struct):
    """An element of `ShareGroupTargetAssignmentMemberValue.topic_partitions`."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


@record_value(versions="0", flexible="0+")
class ShareGroupTargetAssignmentMemberValue(Data):
    """The partitions that a member shall have of a share group."""

    topic_partitions: list[TopicPartition] = array(TopicPartition)


@record_key(record_type=14, versions="0")
class ShareGroupCurrentMemberAssignmentKey(Data):
    """The key of what a member has of a share group."""

    group_id: str = string()
    member_id: str = string()


@struct
class TopicPartitions(Struct):
    """An element of `ShareGroupCurrentMemberAssignmentValue.assigned_partitions`."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


@record_value(versions="0", flexible="0+")
class ShareGroupCurrentMemberAssignmentValue(Data):
    """The partitions that a member has of a share group."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
