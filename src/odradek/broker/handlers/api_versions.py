"""ApiVersions 0-5: what this broker serves.

- Version 3 and later name the client's software; a name or version that is not
  `[a-zA-Z0-9](?:[a-zA-Z0-9\\-.]*[a-zA-Z0-9])?` gets INVALID_REQUEST (KIP-511).
- Version 5 may say which broker of which cluster the client believes to speak to: both or neither, else
  INVALID_REQUEST; wrong ones get REBOOTSTRAP_REQUIRED (KIP-1242).
- A version that is not served is answered by the dispatcher, in version 0.
- The features are those of `odradek.broker.metadata.features`: `metadata.version` and its like belong to
  KRaft. A broker that is told to be another release of Kafka lists what that one would, of what there is
  (`odradek.broker.kafka_versions`); to another broker of its cluster it lists all.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.interbroker.presence import watcher
from odradek.broker.requests.applications import forget_application
from odradek.broker.requests.authorization import CLUSTER, Operation
from odradek.broker.requests.between_brokers import purpose_of
from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from odradek.broker.apis.served_apis import ServedApis
    from odradek.broker.metadata.features import Features
    from odradek.broker.requests.context import RequestContext

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@handler(ApiKey.API_VERSIONS, versions=range(6))
def handle(context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Answer with the table of handlers."""
    error = _check(context, request)
    if error:
        return ApiVersionsResponse(error_code=error)
    _note_broker(context)
    if context.api_version >= 3:
        peer = context.peer
        peer.software = (request.client_software_name, request.client_software_version)
        # From the next request on it is an application with this software.
        forget_application(peer)
    response = ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=versions[0], max_version=versions[-1])
            for key, versions in _served(context).versions()
        ]
    )
    _tell_features(response, context.broker.features, context.api_version)
    return response


def _served(context: RequestContext) -> ServedApis:
    handlers = context.broker.handlers
    return handlers.between_brokers if purpose_of(context.client_id) is not None else handlers


def _tell_features(response: ApiVersionsResponse, features: Features, version: int) -> None:
    """The features (KIP-584); before version 4 clients stumble over a lowest level 0."""
    supported = features.known()
    response.supported_features = [
        SupportedFeatureKey(name=feature.name, min_version=feature.least, max_version=feature.most)
        for feature in supported
        if feature.least > 0 or version >= 4
    ]
    response.finalized_features = [
        FinalizedFeatureKey(
            name=feature.name, min_version_level=feature.level, max_version_level=feature.level
        )
        for feature in supported
        if feature.level > 0
    ]
    response.finalized_features_epoch = features.epoch


def _note_broker(context: RequestContext) -> None:
    """A broker that watches this one lives as long as it is connected; one of the two is the controller."""
    channels = context.broker.channels
    if channels is None:
        return
    broker_id = watcher(context.client_id)
    if broker_id is not None and context.authorize(
        Operation.CLUSTER_ACTION, CLUSTER, log_if_allowed=False, log_if_denied=False
    ):
        channels.presence.note(broker_id, context.peer)


def _check(context: RequestContext, request: ApiVersionsRequest) -> ErrorCode:
    if context.api_version >= 3 and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ErrorCode.INVALID_REQUEST
    if context.api_version >= 5:
        if (request.cluster_id is None) != (request.node_id == -1):
            return ErrorCode.INVALID_REQUEST
        if request.cluster_id is not None and (
            request.cluster_id != context.broker.cluster_id or request.node_id != context.broker.broker_id
        ):
            return ErrorCode.REBOOTSTRAP_REQUIRED
    return ErrorCode.NONE
