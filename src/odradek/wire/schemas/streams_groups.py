"""Keys and values of `__consumer_offsets` about streams groups (KIP-1071)."""

from __future__ import annotations

from odradek.wire.fields import array, int8, int16, int32, int64, nested, string, uint16
from odradek.wire.message import Data, Struct, record_key, record_value, struct


@record_key(record_type=17, versions="0")
class StreamsGroupMetadataKey(Data):
    """The key of a streams group."""

    group_id: str = string()


@struct
class LastAssignmentConfig(Struct):
    """An element of `StreamsGroupMetadataValue.last_assignment_configs`."""

    key: str = string()
    value: str = string()


@record_value(versions="0", flexible="0+")
class StreamsGroupMetadataValue(Data):
    """A streams group."""

    epoch: int = int32()
    metadata_hash: int = int64()
    validated_topology_epoch: int = int32(default=-1, tag=0)
    last_assignment_configs: list[LastAssignmentConfig] | None = array(
        LastAssignmentConfig, nullable="0+", tag=1
    )
    stored_description_topology_epoch: int = int32(default=-1, tag=2)
    failed_description_topology_epoch: int = int32(default=-1, tag=3)


@record_key(record_type=19, versions="0")
class StreamsGroupMemberMetadataKey(Data):
    """The key of a member of a streams group."""

    group_id: str = string()
    member_id: str = string()


@struct
class Endpoint(Struct):
    """The struct in `StreamsGroupMemberMetadataValue.user_endpoint`."""

    host: str = string()
    port: int = uint16()


@struct
class KeyValue(Struct):
    """An element of `StreamsGroupMemberMetadataValue.client_tags`."""

    key: str = string()
    value: str = string()


@record_value(versions="0", flexible="0+")
class StreamsGroupMemberMetadataValue(Data):
    """A member of a streams group."""

    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout_ms: int = int32(default=-1)
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: Endpoint | None = nested(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] = array(KeyValue)


@record_key(record_type=23, versions="0")
class StreamsGroupTopologyKey(Data):
    """The key of the topology of a streams group."""

    group_id: str = string()


@struct
class TopicConfig(Struct):
    """An element of `TopicInfo.topic_configs`."""

    key: str = string()
    value: str = string()


@struct
class TopicInfo(Struct):
    """An element of `Subtopology.state_changelog_topics`."""

    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: list[TopicConfig] = array(TopicConfig)


@struct
class CopartitionGroup(Struct):
    """An element of `Subtopology.copartition_groups`."""

    source_topics: list[int] = array(int16)
    source_topic_regex: list[int] = array(int16)
    repartition_source_topics: list[int] = array(int16)


@struct
class Subtopology(Struct):
    """An element of `StreamsGroupTopologyValue.subtopologies`."""

    subtopology_id: str = string()
    source_topics: list[str] = array(string)
    source_topic_regex: list[str] = array(string)
    state_changelog_topics: list[TopicInfo] = array(TopicInfo)
    repartition_sink_topics: list[str] = array(string)
    repartition_source_topics: list[TopicInfo] = array(TopicInfo)
    copartition_groups: list[CopartitionGroup] = array(CopartitionGroup)


@record_value(versions="0", flexible="0+")
class StreamsGroupTopologyValue(Data):
    """The topology of a streams group."""

    epoch: int = int32()
    subtopologies: list[Subtopology] = array(Subtopology)


@record_key(record_type=20, versions="0")
class StreamsGroupTargetAssignmentMetadataKey(Data):
    """The key of the target assignment of a streams group."""

    group_id: str = string()


@record_value(versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMetadataValue(Data):
    """The target assignment of a streams group."""

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(ignorable=True, tag=0)


@record_key(record_type=21, versions="0")
class StreamsGroupTargetAssignmentMemberKey(Data):
    """The key of what a member shall have of a streams group."""

    group_id: str = string()
    member_id: str = string()


@struct
class TargetTaskIds(Struct):
    """An element of `StreamsGroupTargetAssignmentMemberValue.active_tasks`."""

    subtopology_id: str = string()
    partitions: list[int] = array(int32)


@record_value(versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMemberValue(Data):
    """The tasks that a member shall have of a streams group."""

    active_tasks: list[TargetTaskIds] = array(TargetTaskIds)
    standby_tasks: list[TargetTaskIds] = array(TargetTaskIds)
    warmup_tasks: list[TargetTaskIds] = array(TargetTaskIds)


@record_key(record_type=22, versions="0")
class StreamsGroupCurrentMemberAssignmentKey(Data):
    """The key of what a member has of a streams group."""

    group_id: str = string()
    member_id: str = string()


@struct
class TaskIds(Struct):
    """An element of `StreamsGroupCurrentMemberAssignmentValue.active_tasks`."""

    subtopology_id: str = string()
    partitions: list[int] = array(int32)
    assignment_epochs: list[int] | None = array(int32, nullable="0+", tag=0)


@record_value(versions="0", flexible="0+")
class StreamsGroupCurrentMemberAssignmentValue(Data):
    """The tasks that a member has of a streams group."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    active_tasks: list[TaskIds] = array(TaskIds)
    standby_tasks: list[TaskIds] = array(TaskIds)
    warmup_tasks: list[TaskIds] = array(TaskIds)
    active_tasks_pending_revocation: list[TaskIds] = array(TaskIds)
    standby_tasks_pending_revocation: list[TaskIds] = array(TaskIds)
    warmup_tasks_pending_revocation: list[TaskIds] = array(TaskIds)
