"""DescribeConfigs 0-4: configs of topics, of this broker, of all brokers (dynamic defaults), of its loggers.

| resource | name | answer |
|---|---|---|
| TOPIC (2) | topic | all topic configs; UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION |
| BROKER (4) | this broker's id | all broker configs; another id is INVALID_REQUEST |
| BROKER (4) | empty | the dynamic configs for all brokers |
| BROKER_LOGGER (8) | this broker's id | the level of each logger |
| CLIENT_METRICS (16) | a subscription | its configs; none for one that is not there |

Version 0 has `is_default` in place of the source; 1 adds synonyms when asked for; 3 adds types, and
documentation when asked for (KIP-569). Passwords never have a value. Other resources are INVALID_REQUEST.

A broker of a cluster of several that is not told of all topics within 10 s of a request says
LEADER_NOT_AVAILABLE of those that it does not know.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.config import loggers
from odradek.broker.config.broker_config import ConfigSource
from odradek.broker.config.changes import ResourceKind, check_broker_name, kind_of
from odradek.broker.config.description import (
    ConfigEntry,
    describe_broker_configs,
    describe_cluster_defaults,
    describe_topic_configs,
)
from odradek.broker.config.table import BROKER_DOCS
from odradek.broker.event_loop.slices import Steps
from odradek.broker.metadata.waits import wait_for_cluster
from odradek.broker.requests.authorization import CLUSTER, Operation
from odradek.broker.requests.authorization import topic as topic_resource
from odradek.broker.requests.untold import unknown_topic
from odradek.cluster.configs.client_metrics_config import CLIENT_METRICS_CONFIGS, entity_of
from odradek.cluster.configs.topic_config import TOPIC_DOCS
from odradek.cluster.controller.topics import check_name
from odradek.errors import (
    ClusterAuthorizationError,
    InvalidRequestError,
    KafkaError,
    TopicAuthorizationError,
)
from odradek.wire.api import ApiKey
from odradek.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import Refused


def _error_response(refused: Refused[DescribeConfigsRequest]) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                error_code=int(refused.error),
                error_message=refused.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=[],
            )
            for resource in refused.request.resources
        ]
    )


@handler(ApiKey.DESCRIBE_CONFIGS, versions=range(5), error_response=_error_response)
def handle(context: RequestContext, request: DescribeConfigsRequest) -> Steps[DescribeConfigsResponse]:
    """Describe each resource."""
    if any(kind_of(resource.resource_type) is ResourceKind.TOPIC for resource in request.resources):
        yield from wait_for_cluster(context.broker)
    results: list[DescribeConfigsResult] = []
    seen: set[tuple[int, str | int]] = set()
    for resource in request.resources:
        result = DescribeConfigsResult(
            error_code=0,
            error_message="",
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=[],
        )
        try:
            key = _identity(resource)
            if key in seen:
                raise InvalidRequestError("Each resource must appear at most once.")
            seen.add(key)
            entries = _entries(context, resource)
            result.configs = [_result(entry, request, context.api_version) for entry in entries]
            if request.include_documentation and context.api_version >= 3:
                _document(kind_of(resource.resource_type), result.configs)
        except KafkaError as error:
            result.error_code, result.error_message = int(error.code), error.message
        results.append(result)
        yield
    return DescribeConfigsResponse(results=results)


def _identity(resource: DescribeConfigsResource) -> tuple[int, str | int]:
    """Return a resource's type and name, however a broker's number is spelt."""
    name: str | int = resource.resource_name
    if kind_of(resource.resource_type) is not ResourceKind.TOPIC:
        with suppress(ValueError):
            name = int(name)
    return resource.resource_type, name


def _entries(context: RequestContext, resource: DescribeConfigsResource) -> Iterable[ConfigEntry]:
    kind, name = kind_of(resource.resource_type), resource.resource_name
    # An empty list of names asks for all, as null does.
    config_names = frozenset(resource.configuration_keys or ()) or None
    if kind is ResourceKind.TOPIC:
        if not context.authorize(Operation.DESCRIBE_CONFIGS, topic_resource(name)):
            raise TopicAuthorizationError
        check_name(name)
        image = context.broker.image
        if image.topic(name) is None:
            raise unknown_topic(context.broker)
        return describe_topic_configs(context.broker.config, image.topic_config(name), config_names)
    of_metrics = kind is ResourceKind.CLIENT_METRICS and not context.broker.handlers.with_zookeeper
    if kind not in (ResourceKind.BROKER, ResourceKind.BROKER_LOGGER) and not of_metrics:
        raise InvalidRequestError(f"Unsupported resource type: {resource.resource_type}")
    if not context.authorize(Operation.DESCRIBE_CONFIGS, CLUSTER):
        raise ClusterAuthorizationError
    if kind is ResourceKind.BROKER_LOGGER:
        if not name:
            raise InvalidRequestError("Broker id must not be empty")
        check_broker_name(context, name, "")
        return [
            ConfigEntry(logger, level, ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG, False, False, (), None)
            for logger, level in loggers.levels().items()
            if config_names is None or logger in config_names
        ]
    if of_metrics:
        return _subscription(context, name, config_names)
    if not name:
        return describe_cluster_defaults(context.broker.config, config_names)
    check_broker_name(context, name, " or empty string,")
    return describe_broker_configs(context.broker.config, config_names)


def _subscription(
    context: RequestContext, name: str, config_names: frozenset[str] | None
) -> Iterable[ConfigEntry]:
    """The configs of a subscription to clients' metrics; none where there is no such one, as in Kafka."""
    if not name:
        raise InvalidRequestError("Client metrics subscription name must not be empty")
    configs = context.broker.image.config(entity_of(name))
    return [
        ConfigEntry(
            config_name,
            value,
            ConfigSource.CLIENT_METRICS_CONFIG,
            False,
            False,
            (),
            CLIENT_METRICS_CONFIGS[config_name].type if config_name in CLIENT_METRICS_CONFIGS else None,
        )
        for config_name, value in configs.items()
        if config_names is None or config_name in config_names
    ]


def _result(
    entry: ConfigEntry, request: DescribeConfigsRequest, version: int
) -> DescribeConfigsResourceResult:
    synonyms: list[DescribeConfigsSynonym] = []
    if request.include_synonyms:
        synonyms = [
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=int(synonym.source))
            for synonym in entry.synonyms
        ]
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        is_default=version == 0 and entry.source is ConfigSource.DEFAULT_CONFIG,
        config_source=int(entry.source),
        is_sensitive=entry.sensitive,
        synonyms=synonyms,
        config_type=0 if entry.type is None else entry.type.value,
        documentation=None,
    )


def _document(kind: ResourceKind, configs: Iterable[DescribeConfigsResourceResult]) -> None:
    if kind in (ResourceKind.TOPIC, ResourceKind.BROKER):
        docs = TOPIC_DOCS if kind is ResourceKind.TOPIC else BROKER_DOCS
        for config in configs:
            config.documentation = docs.get(config.name)
