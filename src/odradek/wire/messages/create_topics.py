"""CreateTopics: create topics, or only check whether they could be.

Version 4 takes -1 for the broker's defaults (KIP-464), 5 answers with the topic's configs (KIP-525), 6 may
be throttled (KIP-599), 7 answers with the topic's id.
"""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, boolean, int8, int16, int32, string, uuid
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class CreatableReplicaAssignment(Struct):
    """An element of `CreatableTopic.assignments`."""

    partition_index: int = int32()
    broker_ids: list[int] = array(int32)


@struct
class CreatableTopicConfig(Struct):
    """An element of `CreatableTopic.configs`."""

    name: str = string()
    value: str | None = string(nullable="0+")


@struct
class CreatableTopic(Struct):
    """An element of `CreateTopicsRequest.topics`."""

    name: str = string()
    num_partitions: int = int32()
    replication_factor: int = int16()
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment)
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig)


@request(ApiKey.CREATE_TOPICS, versions="0-7", flexible="5+")
class CreateTopicsRequest(Message):
    """The topics to create."""

    topics: list[CreatableTopic] = array(CreatableTopic)
    timeout_ms: int = int32(default=60000)
    validate_only: bool = boolean("1+")


@struct
class CreatableTopicConfigs(Struct):
    """An element of `CreatableTopicResult.configs`."""

    name: str = string("5+")
    value: str | None = string("5+", nullable="5+")
    read_only: bool = boolean("5+")
    config_source: int = int8("5+", default=-1, ignorable=True)
    is_sensitive: bool = boolean("5+")


@struct
class CreatableTopicResult(Struct):
    """An element of `CreateTopicsResponse.topics`."""

    name: str = string()
    topic_id: bytes = uuid("7+", ignorable=True)
    error_code: int = int16()
    error_message: str | None = string("1+", nullable="1+", ignorable=True)
    topic_config_error_code: int = int16("5+", ignorable=True, tag=0)
    num_partitions: int = int32("5+", default=-1, ignorable=True)
    replication_factor: int = int16("5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = array(
        CreatableTopicConfigs, "5+", nullable="5+", ignorable=True
    )


@response(ApiKey.CREATE_TOPICS, versions="0-7", flexible="5+")
class CreateTopicsResponse(Message):
    """Per topic, what became of it."""

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[CreatableTopicResult] = array(CreatableTopicResult)
