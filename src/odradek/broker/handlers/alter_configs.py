"""AlterConfigs 0-2: replace all configs of topics or brokers; what is not named goes back to its default.

Replaced by IncrementalAlterConfigs (KIP-339), which changes only what is named. Each resource for itself: a
topic's bad config is INVALID_CONFIG, a broker's INVALID_REQUEST; a resource named twice, a config named
twice, a null value or another kind of resource is INVALID_REQUEST. Of a config that is named twice the last
value counts in releases before 3.2. With `validate_only` nothing is changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.config.changes import (
    change_configs,
    change_each,
    check_configs,
    is_before,
    kind_of,
    refuse_each,
)
from odradek.broker.metadata.controller_thread import on_controller_thread
from odradek.wire.api import ApiKey
from odradek.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import Refused


_ONCE_FROM = "3.2"


def _error_response(refused: Refused[AlterConfigsRequest]) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=refuse_each(
            refused.request.resources, refused.error, refused.message, AlterConfigsResourceResponse
        )
    )


@handler(ApiKey.ALTER_CONFIGS, versions=range(3), error_response=_error_response)
@on_controller_thread
def handle(context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Replace the configs of each resource."""
    return AlterConfigsResponse(
        responses=change_each(
            request.resources,
            lambda resource: _replace(context, resource, request.validate_only),
            AlterConfigsResourceResponse,
        )
    )


def _replace(context: RequestContext, resource: AlterConfigsResource, validate_only: bool) -> None:
    configs = resource.configs
    # Of a config that was named twice, older releases took the last.
    names = [] if is_before(context, _ONCE_FROM) else [c.name for c in configs]
    check_configs(names, [c.name for c in configs if c.value is None])
    new_values = {config.name: config.value for config in configs if config.value is not None}
    change_configs(
        context,
        kind_of(resource.resource_type),
        resource.resource_name,
        lambda _current, _keys: new_values,
        validate_only=validate_only,
    )
