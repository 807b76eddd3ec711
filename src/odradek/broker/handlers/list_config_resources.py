"""ListConfigResources 0-1: what has configs (KIP-1142).

Version 0 (ListClientMetricsResources) is about subscriptions to clients' metrics only. Version 1 asks for
types, none for all that there are: topics, brokers, their loggers, client metrics, groups. Groups have no
configs of their own here. Any other type is UNSUPPORTED_VERSION.

A broker of a cluster of several that is not told of all topics within 10 s of a request that asks for topics
or brokers answers LEADER_NOT_AVAILABLE: it cannot list them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.config.changes import ResourceKind, kind_of
from odradek.broker.event_loop.slices import Steps
from odradek.broker.metadata.waits import wait_for_cluster
from odradek.broker.requests.authorization import CLUSTER, Operation
from odradek.broker.requests.untold import is_untold, unknown_topic
from odradek.cluster.configs.client_metrics_config import subscriptions
from odradek.errors import ClusterAuthorizationError, UnsupportedVersionError
from odradek.wire.api import ApiKey
from odradek.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from odradek.broker.requests.context import RequestContext

_ALL = (
    ResourceKind.TOPIC,
    ResourceKind.BROKER,
    ResourceKind.BROKER_LOGGER,
    ResourceKind.CLIENT_METRICS,
    ResourceKind.GROUP,
)
_OF_THE_CLUSTER = frozenset({ResourceKind.TOPIC, ResourceKind.BROKER, ResourceKind.BROKER_LOGGER})
_TYPES_FROM = 1


@handler(ApiKey.LIST_CONFIG_RESOURCES, versions=range(2))
def handle(
    context: RequestContext, request: ListConfigResourcesRequest
) -> Steps[ListConfigResourcesResponse]:
    """List the resources of each type."""
    if not context.authorize(Operation.DESCRIBE_CONFIGS, CLUSTER):
        raise ClusterAuthorizationError
    if context.api_version < _TYPES_FROM:
        names = _names(context, ResourceKind.CLIENT_METRICS)
        return ListConfigResourcesResponse(
            config_resources=[ConfigResource(resource_name=name) for name in names]
        )
    kinds: Iterable[ResourceKind] = _ALL
    if request.resource_types:
        kinds = dict.fromkeys(map(kind_of, dict.fromkeys(request.resource_types)))
        if ResourceKind.UNKNOWN in kinds:
            raise UnsupportedVersionError
    if not _OF_THE_CLUSTER.isdisjoint(kinds):
        yield from wait_for_cluster(context.broker)
        if is_untold(context.broker):
            raise unknown_topic(context.broker)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=int(kind))
            for kind in kinds
            for name in _names(context, kind)
        ]
    )


def _names(context: RequestContext, kind: ResourceKind) -> Iterable[str]:
    image = context.broker.image
    if kind is ResourceKind.TOPIC:
        return [name for name in image.topics if name not in image.marked]
    if kind in (ResourceKind.BROKER, ResourceKind.BROKER_LOGGER):
        brokers = image.brokers.values()
        return [
            str(broker.broker_id) for broker in brokers if broker.endpoint(context.listener_name) is not None
        ]
    if kind is ResourceKind.CLIENT_METRICS:
        return subscriptions(image.configs)
    return ()
