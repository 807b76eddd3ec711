"""The admin client's requests, from plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from odradek.client.errors import IllegalArgumentError
from odradek.client.types import NewTopic
from odradek.wire.messages import alter_configs, incremental_alter_configs
from odradek.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
_OPERATIONS = {"set": SET, "delete": DELETE, "append": APPEND, "subtract": SUBTRACT}


def create_topics_request(
    topics: Iterable[NewTopic], timeout_ms: int, validate_only: bool
) -> CreateTopicsRequest:
    """See `AsyncAdmin.create_topics`."""
    return CreateTopicsRequest(
        timeout_ms=timeout_ms,
        validate_only=validate_only,
        topics=[
            CreatableTopic(
                name=topic.name,
                num_partitions=-1 if topic.replica_assignment else topic.num_partitions,
                replication_factor=-1 if topic.replica_assignment else topic.replication_factor,
                assignments=[
                    CreatableReplicaAssignment(partition_index=partition, broker_ids=list(brokers))
                    for partition, brokers in (topic.replica_assignment or {}).items()
                ],
                configs=[
                    CreatableTopicConfig(name=name, value=None if value is None else str(value))
                    for name, value in topic.configs.items()
                ],
            )
            for topic in topics
        ],
    )


def delete_topics_request(names: list[str], timeout_ms: int, version: int) -> DeleteTopicsRequest:
    """Version 6 names topics in another place."""
    if version >= 6:
        return DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name) for name in names], timeout_ms=timeout_ms
        )
    return DeleteTopicsRequest(topic_names=names, timeout_ms=timeout_ms)


def create_partitions_request(
    counts: Mapping[str, int],
    assignments: Mapping[str, list[list[int]]],
    timeout_ms: int,
    validate_only: bool,
) -> CreatePartitionsRequest:
    """See `AsyncAdmin.create_partitions`."""
    topics = []
    for name, count in counts.items():
        assignment = assignments.get(name)
        replicas = (
            None if assignment is None else [CreatePartitionsAssignment(broker_ids=ids) for ids in assignment]
        )
        topics.append(CreatePartitionsTopic(name=name, count=count, assignments=replicas))
    return CreatePartitionsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=validate_only)


def describe_configs_request(
    keys: Iterable[tuple[int, str]],
    names: list[str] | None,
    synonyms: bool,
    documentation: bool,
    version: int,
) -> DescribeConfigsRequest:
    """Return the request without what the version cannot ask for (synonyms before 1, texts before 3)."""
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=names)
            for kind, name in keys
        ],
        include_synonyms=synonyms and version >= 1,
        include_documentation=documentation and version >= 3,
    )


def alter_configs_request(
    configs: Mapping[tuple[int, str], Mapping[str, Any]], validate_only: bool
) -> alter_configs.AlterConfigsRequest:
    """See `AsyncAdmin.alter_configs`."""
    return alter_configs.AlterConfigsRequest(
        validate_only=validate_only,
        resources=[
            alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    alter_configs.AlterableConfig(name=key, value=None if value is None else str(value))
                    for key, value in values.items()
                ],
            )
            for (kind, name), values in configs.items()
        ],
    )


def incremental_alter_configs_request(
    changes: Mapping[tuple[int, str], Mapping[str, Any]], validate_only: bool
) -> incremental_alter_configs.IncrementalAlterConfigsRequest:
    """See `AsyncAdmin.incremental_alter_configs`.

    Raises:
        IllegalArgumentError: an operation is not known.
    """
    resources = []
    for (kind, name), values in changes.items():
        configs = []
        for key, value in values.items():
            operation = SET
            if isinstance(value, tuple):
                word, value = value
                if isinstance(word, str) and word not in _OPERATIONS:
                    raise IllegalArgumentError(
                        f"{word!r} is no operation on a config: {', '.join(_OPERATIONS)}"
                    )
                operation = _OPERATIONS[word] if isinstance(word, str) else word
            elif value is None:
                operation = DELETE
            configs.append(
                incremental_alter_configs.AlterableConfig(
                    name=key, config_operation=operation, value=None if value is None else str(value)
                )
            )
        resources.append(
            incremental_alter_configs.AlterConfigsResource(
                resource_type=kind, resource_name=name, configs=configs
            )
        )
    return incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=resources, validate_only=validate_only
    )
