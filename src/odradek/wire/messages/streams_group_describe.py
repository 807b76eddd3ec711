"""StreamsGroupDescribe: state and members of streams groups (KIP-1071)."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, boolean, int8, int16, int32, int64, nested, string, uint16
from odradek.wire.message import Message, Struct, request, response, struct


@request(ApiKey.STREAMS_GROUP_DESCRIBE, versions="0-1", flexible="0+")
class StreamsGroupDescribeRequest(Message):
    """The groups."""

    group_ids: list[str] = array(string)
    include_authorized_operations: bool = boolean()
    include_topology_description: bool = boolean("1+")


@struct
class KeyValue(Struct):
    """An element of `TopicInfo.topic_configs`."""

    key: str = string()
    value: str = string()


@struct
class TopicInfo(Struct):
    """An element of `Subtopology.state_changelog_topics`."""

    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: list[KeyValue] = array(KeyValue)


@struct
class Subtopology(Struct):
    """An element of `Topology.subtopologies`."""

    subtopology_id: str = string()
    source_topics: list[str] = array(string)
    repartition_sink_topics: list[str] = array(string)
    state_changelog_topics: list[TopicInfo] = array(TopicInfo)
    repartition_source_topics: list[TopicInfo] = array(TopicInfo)


@struct
class Topology(Struct):
    """The struct in `DescribedGroup.topology`."""

    epoch: int = int32()
    subtopologies: list[Subtopology] | None = array(Subtopology, nullable="0+", default=None)


@struct
class Endpoint(Struct):
    """The struct in `Member.user_endpoint`."""

    host: str = string()
    port: int = uint16()


@struct
class TaskOffset(Struct):
    """An element of `Member.task_offsets`."""

    subtopology_id: str = string()
    partition: int = int32()
    offset: int = int64()


@struct
class TaskIds(Struct):
    """An element of `Assignment.active_tasks`."""

    subtopology_id: str = string()
    partitions: list[int] = array(int32)


@struct
class Assignment(Struct):
    """The struct in `Member.assignment`."""

    active_tasks: list[TaskIds] = array(TaskIds)
    standby_tasks: list[TaskIds] = array(TaskIds)
    warmup_tasks: list[TaskIds] = array(TaskIds)


@struct
class Member(Struct):
    """An element of `DescribedGroup.members`."""

    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    client_id: str = string()
    client_host: str = string()
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: Endpoint | None = nested(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] = array(KeyValue)
    task_offsets: list[TaskOffset] = array(TaskOffset)
    task_end_offsets: list[TaskOffset] = array(TaskOffset)
    assignment: Assignment = nested(Assignment)
    target_assignment: Assignment = nested(Assignment)
    is_classic: bool = boolean()


@struct
class TopologyDescriptionNode(Struct):
    """An element of `TopologyDescriptionSubtopology.nodes`."""

    name: str = string("1+")
    node_type: int = int8("1+")
    source_topics: list[str] = array(string, "1+")
    sink_topic: str | None = string("1+", nullable="1+", default=None)
    stores: list[str] = array(string, "1+")
    successors: list[str] = array(string, "1+")


@struct
class TopologyDescriptionSubtopology(Struct):
    """An element of `TopologyDescription.subtopologies`."""

    subtopology_id: str = string("1+")
    nodes: list[TopologyDescriptionNode] = array(TopologyDescriptionNode, "1+")


@struct
class TopologyDescriptionGlobalStore(Struct):
    """An element of `TopologyDescription.global_stores`."""

    source: TopologyDescriptionNode = nested(TopologyDescriptionNode, "1+")
    processor: TopologyDescriptionNode = nested(TopologyDescriptionNode, "1+")


@struct
class TopologyDescription(Struct):
    """The struct in `DescribedGroup.topology_description`."""

    subtopologies: list[TopologyDescriptionSubtopology] = array(TopologyDescriptionSubtopology, "1+")
    global_stores: list[TopologyDescriptionGlobalStore] = array(TopologyDescriptionGlobalStore, "1+")


@struct
class DescribedGroup(Struct):
    """An element of `StreamsGroupDescribeResponse.groups`."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    topology: Topology | None = nested(Topology, nullable="0+", default=None)
    members: list[Member] = array(Member)
    authorized_operations: int = int32(default=-(2**31))
    topology_description: TopologyDescription | None = nested(
        TopologyDescription, "1+", nullable="1+", default=None
    )
    topology_description_status: int = int8("1+")
    assignor_name: str | None = string("1+", nullable="1+", default=None, ignorable=True)


@response(ApiKey.STREAMS_GROUP_DESCRIBE, versions="0-1", flexible="0+")
class StreamsGroupDescribeResponse(Message):
    """The groups as the coordinator knows them."""

    throttle_time_ms: int = int32()
    groups: list[DescribedGroup] = array(DescribedGroup)
