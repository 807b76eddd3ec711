"""UpdateFeatures 0-2: raise or lower levels of the cluster's features (KIP-584).

- Of the features that there are (`odradek.broker.features`) the level of `transaction.version` can be
  changed, at once and for transactions to come: INVALID_UPDATE_VERSION for a level that is not supported, or
  a lower one without saying that it may be lower. Any other feature is INVALID_REQUEST.
- All or none are changed. Versions 0 and 1 answer for each feature; 2 has one error for all (KIP-1022). From
  1 on the request may be only looked at. An empty request is granted.
- NOT_CONTROLLER is told by any other broker.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from odradek.broker.authorization import CLUSTER, Operation
from odradek.broker.features import CHANGEABLE, TRANSACTION_VERSION
from odradek.broker.registry import handler
from odradek.cluster.features import FeatureLevels
from odradek.errors import ClusterAuthorizationError
from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from odradek.broker.context import RequestContext
    from odradek.broker.kafka_versions.features import Feature

log = logging.getLogger(__name__)

_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3
_ONE_ERROR_FROM = 2

_Refusal = tuple[ErrorCode, str]


@handler(ApiKey.UPDATE_FEATURES, versions=range(3))
def handle(
    context: RequestContext, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse | asyncio.Future[UpdateFeaturesResponse]:
    """Change the levels, or say of each feature why it cannot be."""
    if not context.authorize(Operation.ALTER, CLUSTER):
        raise ClusterAuthorizationError
    broker, version = context.broker, context.api_version
    broker.controller.check_active()
    known = {one.name: one for one in broker.features.known()}
    results = {one.feature: _why_not(one, known.get(one.feature), version) for one in request.feature_updates}
    response = _response(results, version)
    if request.validate_only or any(results.values()) or not results:
        return response
    levels = {one.feature: one.max_version_level for one in request.feature_updates}
    written = broker.controller.turns.run(lambda: broker.features.write(levels))
    if asyncio.isfuture(written):
        return asyncio.ensure_future(_when_written(context, written, response))
    _use(context, written)
    return response


async def _when_written(
    context: RequestContext, written: asyncio.Future[FeatureLevels], response: UpdateFeaturesResponse
) -> UpdateFeaturesResponse:
    _use(context, await written)
    return response


def _use(context: RequestContext, stored: FeatureLevels) -> None:
    broker = context.broker
    broker.features.use(stored)
    level = broker.features.level(TRANSACTION_VERSION)
    log.info("features changed %s=%d", TRANSACTION_VERSION, level)
    broker.transactions.set_version(level)


def _response(results: dict[str, _Refusal | None], version: int) -> UpdateFeaturesResponse:
    if version < _ONE_ERROR_FROM:
        return UpdateFeaturesResponse(
            error_message=None,
            results=[
                UpdatableFeatureResult(
                    feature=feature,
                    error_code=int(ErrorCode.NONE if refusal is None else refusal[0]),
                    error_message=None if refusal is None else refusal[1],
                )
                for feature, refusal in results.items()
            ],
        )
    for refusal in filter(None, results.values()):
        why = f"The update failed for all features since the following feature had an error: {refusal[1]}"
        return UpdateFeaturesResponse(error_code=int(refusal[0]), error_message=why)
    return UpdateFeaturesResponse(error_message=None)


def _why_not(update: FeatureUpdateKey, feature: Feature | None, version: int) -> _Refusal | None:
    kind = update.upgrade_type
    if version == 0:
        kind = _SAFE_DOWNGRADE if update.allow_downgrade else _UPGRADE
    level = update.max_version_level
    if not update.feature:
        return ErrorCode.INVALID_REQUEST, "Feature name can not be empty."
    if kind not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        return ErrorCode.INVALID_REQUEST, "Received unknown upgrade type."
    if feature is not None and feature.name in CHANGEABLE:
        why = _why_no_such_change(feature, level, kind)
        if why is None:
            return None
        name = feature.name
        return (
            ErrorCode.INVALID_UPDATE_VERSION,
            f"Invalid update version {level} for feature {name}. {why}",
        )
    if level < 1 and kind != _UPGRADE:
        return ErrorCode.INVALID_REQUEST, "Can not delete non-existing finalized feature."
    if level < 1:
        return (
            ErrorCode.INVALID_REQUEST,
            f"Can not provide versionLevel: {level} less than 1 without setting the SAFE downgradeType "
            "in the request.",
        )
    return (
        ErrorCode.INVALID_REQUEST,
        "Could not apply finalized feature update because the provided feature is not supported.",
    )


def _why_no_such_change(feature: Feature, level: int, kind: int) -> str | None:
    if level < 0:
        return "A feature version cannot be less than 0."
    if not feature.least <= level <= feature.most:
        return f"This broker only supports versions {feature.least}-{feature.most}."
    if level < feature.level and kind == _UPGRADE:
        return "A lower version has to be asked for as a downgrade, safe or unsafe."
    if level > feature.level and kind != _UPGRADE:
        return "A downgrade cannot lead to a newer version."
    return None
