"""StreamsGroupHeartbeat: membership in a streams group (KIP-1071).

Version 1 may ask for a description of the topology (KIP-1331).
"""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, boolean, int8, int16, int32, int64, nested, string, uint16
from odradek.wire.message import Message, Struct, request, response, struct


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
class CopartitionGroup(Struct):
    """An element of `Subtopology.copartition_groups`."""

    source_topics: list[int] = array(int16)
    source_topic_regex: list[int] = array(int16)
    repartition_source_topics: list[int] = array(int16)


@struct
class Subtopology(Struct):
    """An element of `Topology.subtopologies`."""

    subtopology_id: str = string()
    source_topics: list[str] = array(string)
    source_topic_regex: list[str] = array(string)
    state_changelog_topics: list[TopicInfo] = array(TopicInfo)
    repartition_sink_topics: list[str] = array(string)
    repartition_source_topics: list[TopicInfo] = array(TopicInfo)
    copartition_groups: list[CopartitionGroup] = array(CopartitionGroup)


@struct
class Topology(Struct):
    """The struct in `StreamsGroupHeartbeatRequest.topology`."""

    epoch: int = int32()
    subtopologies: list[Subtopology] = array(Subtopology)


@struct
class TaskIds(Struct):
    """An element of `StreamsGroupHeartbeatRequest.active_tasks`."""

    subtopology_id: str = string()
    partitions: list[int] = array(int32)


@struct
class Endpoint(Struct):
    """The struct in `StreamsGroupHeartbeatRequest.user_endpoint`."""

    host: str = string()
    port: int = uint16()


@struct
class TaskOffset(Struct):
    """An element of `StreamsGroupHeartbeatRequest.task_offsets`."""

    subtopology_id: str = string()
    partition: int = int32()
    offset: int = int64()


@request(ApiKey.STREAMS_GROUP_HEARTBEAT, versions="0-1", flexible="0+")
class StreamsGroupHeartbeatRequest(Message):
    """The changes on the member's side."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    endpoint_information_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    topology: Topology | None = nested(Topology, nullable="0+", default=None)
    active_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    process_id: str | None = string(nullable="0+", default=None)
    user_endpoint: Endpoint | None = nested(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] | None = array(KeyValue, nullable="0+", default=None)
    task_offsets: list[TaskOffset] | None = array(TaskOffset, nullable="0+", default=None)
    task_end_offsets: list[TaskOffset] | None = array(TaskOffset, nullable="0+", default=None)
    shutdown_application: bool = boolean()


@struct
class Status(Struct):
    """An element of `StreamsGroupHeartbeatResponse.status`."""

    status_code: int = int8()
    status_detail: str = string()


@struct
class TopicPartition(Struct):
    """An element of `EndpointToPartitions.active_partitions`."""

    topic: str = string()
    partitions: list[int] = array(int32)


@struct
class EndpointToPartitions(Struct):
    """An element of `StreamsGroupHeartbeatResponse.partitions_by_user_endpoint`."""

    user_endpoint: Endpoint = nested(Endpoint)
    active_partitions: list[TopicPartition] = array(TopicPartition)
    standby_partitions: list[TopicPartition] = array(TopicPartition)


@response(ApiKey.STREAMS_GROUP_HEARTBEAT, versions="0-1", flexible="0+")
class StreamsGroupHeartbeatResponse(Message):
    """The tasks that the member shall run."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str = string()
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    acceptable_recovery_lag_legacy: int = int32("0")
    task_offset_interval_ms: int = int32()
    acceptable_recovery_lag: int = int64("1+", default=-1, ignorable=True)
    status: list[Status] | None = array(Status, nullable="0+")
    active_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    topology_description_required: bool = boolean("1+")
    endpoint_information_epoch: int = int32()
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = array(
        EndpointToPartitions, nullable="0+", default=None
    )
