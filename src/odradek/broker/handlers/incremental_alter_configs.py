"""IncrementalAlterConfigs 0-1: set (0), delete (1), append to (2) or subtract from (3) single configs
(KIP-339).

Appending and subtracting are for lists and start from the default where nothing is set. Each resource for
itself: a topic's bad config is INVALID_CONFIG, a broker's INVALID_REQUEST; a resource or config named twice,
a null value except for delete, or another kind of resource is INVALID_REQUEST. Levels of loggers are set and
deleted under BROKER_LOGGER (8) and do not outlive the broker (KIP-412). With `validate_only` nothing is
changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.config import loggers
from odradek.broker.config.changes import (
    ResourceKind,
    about,
    change_configs,
    change_each,
    check_broker_name,
    check_configs,
    kind_of,
    names_resources,
    refuse_each,
)
from odradek.broker.metadata.controller_thread import on_controller_thread
from odradek.broker.requests.authorization import CLUSTER, Operation
from odradek.cluster.configs.config_def import DELETE, incremental
from odradek.errors import ClusterAuthorizationError, InvalidConfigurationError, InvalidRequestError
from odradek.wire.api import ApiKey
from odradek.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import Refused

_OPERATIONS = range(4)


def _error_response(refused: Refused[IncrementalAlterConfigsRequest]) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=refuse_each(
            refused.request.resources, refused.error, refused.message, AlterConfigsResourceResponse
        )
    )


@handler(ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=range(2), error_response=_error_response)
@on_controller_thread
def handle(
    context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Change the configs of each resource."""
    return IncrementalAlterConfigsResponse(
        responses=change_each(
            request.resources,
            lambda resource: _change(context, resource, request.validate_only),
            AlterConfigsResourceResponse,
        )
    )


def _change(context: RequestContext, resource: AlterConfigsResource, validate_only: bool) -> None:
    configs = resource.configs
    nulls = [c.name for c in configs if c.value is None and c.config_operation != DELETE]
    check_configs((c.name for c in configs), nulls)
    operations = [(c.name, c.config_operation, c.value) for c in configs]
    for _name, operation, _value in operations:
        if operation not in _OPERATIONS:
            raise InvalidRequestError(f"Unknown operations type {operation}")
    kind, name = kind_of(resource.resource_type), resource.resource_name
    if kind is ResourceKind.BROKER_LOGGER:
        check_broker_name(context, name)
        if not context.authorize(Operation.ALTER_CONFIGS, CLUSTER):
            raise ClusterAuthorizationError
        try:
            loggers.check(operations)
        except InvalidConfigurationError as error:
            if not names_resources(context):
                raise
            raise InvalidRequestError(about(kind, name, error)) from error
        if not validate_only:
            loggers.change(operations)
        return
    change_configs(
        context,
        kind,
        name,
        lambda current, keys: incremental(current, operations, keys),
        validate_only=validate_only,
    )
