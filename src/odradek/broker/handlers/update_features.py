"""UpdateFeatures 0-2: raise or lower levels of the cluster's features (KIP-584).

- Of the features that there are (`odradek.broker.metadata.features`) the level of `transaction.version` can
  be changed, at once and for transactions to come: INVALID_UPDATE_VERSION for a feature or a level that is
  not supported, or a lower one without saying that it may be lower. Version 0 cannot say that: its flag is
  not looked at.
- All or none are changed. One error tells of the first that cannot be (KIP-1022); versions 0 and 1 name what
  was granted. From 1 on the request may be only looked at. An empty request is granted.
- As a release before 4.0 the broker answers for each feature; as one with ZooKeeper it knows none, and says
  INVALID_REQUEST.
- NOT_CONTROLLER is told by any other broker, FEATURE_UPDATE_FAILED where the metadata store fails.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.metadata.features import CHANGEABLE, TRANSACTION_VERSION
from odradek.broker.requests.authorization import CLUSTER, Operation
from odradek.cluster.features import FeatureLevels
from odradek.errors import ClusterAuthorizationError
from odradek.errors.codes import ErrorCode
from odradek.util.promise import Promise, promised
from odradek.wire.api import ApiKey
from odradek.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from odradek.broker.kafka_versions.features import Feature
    from odradek.broker.requests.context import RequestContext

logger = logging.getLogger(__name__)

_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3
_NO_RESULTS_FROM = 2
_ONE_ERROR_RELEASE = "4.0"

_Refusal = tuple[ErrorCode, str]


@handler(ApiKey.UPDATE_FEATURES, versions=range(3))
def handle(
    context: RequestContext, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse | Promise[UpdateFeaturesResponse]:
    """Change the levels, or say of each feature why it cannot be."""
    if not context.authorize(Operation.ALTER, CLUSTER):
        raise ClusterAuthorizationError
    broker, version = context.broker, context.api_version
    broker.controller.check_active()
    features = {feature.name: feature for feature in broker.features.known()}
    with_zookeeper = broker.handlers.with_zookeeper
    results = {
        update.feature: _why_not_with_zookeeper(update, version)
        if with_zookeeper
        else _why_not(context, update, features.get(update.feature))
        for update in request.feature_updates
    }
    response = _response(context, results)
    levels = {
        update.feature: update.max_version_level
        for update in request.feature_updates
        if update.feature in CHANGEABLE
    }
    if request.validate_only or any(results.values()) or not levels:
        return response
    written = broker.controller.event_queue.run(lambda: broker.features.write(levels))
    if asyncio.isfuture(written):
        return promised(asyncio.ensure_future(_when_written(context, written, response)))
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
    logger.info("features changed %s=%d", TRANSACTION_VERSION, level)
    broker.transactions.set_version(level)


def _has_one_error(context: RequestContext) -> bool:
    release = context.broker.handlers.release
    return release is None or release.at_least(_ONE_ERROR_RELEASE)


def _response(context: RequestContext, results: dict[str, _Refusal | None]) -> UpdateFeaturesResponse:
    one_error, with_zookeeper = _has_one_error(context), context.broker.handlers.with_zookeeper
    refusal = next(filter(None, results.values()), None)
    if one_error and refusal is not None:
        why = f"The update failed for all features since the following feature had an error: {refusal[1]}"
        return UpdateFeaturesResponse(error_code=int(refusal[0]), error_message=why)
    names = list(results)
    response = UpdateFeaturesResponse(error_message=None)
    if not one_error and not with_zookeeper:
        names.sort()
        response.error_message = ""
    if context.api_version < _NO_RESULTS_FROM:
        response.results = [_result(name, results[name], "NONE" if one_error else None) for name in names]
    return response


def _result(feature: str, refusal: _Refusal | None, granted: str | None) -> UpdatableFeatureResult:
    code, message = (ErrorCode.NONE, granted) if refusal is None else refusal
    return UpdatableFeatureResult(feature=feature, error_code=int(code), error_message=message)


def _why_not(context: RequestContext, update: FeatureUpdateKey, feature: Feature | None) -> _Refusal | None:
    """Say as a KRaft controller does why a level cannot be had."""
    why = _why_no_such_level(context, update, feature)
    if why is None:
        return None
    return (
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Invalid update version {update.max_version_level} for feature {update.feature}. {why}",
    )


def _why_no_such_level(
    context: RequestContext, update: FeatureUpdateKey, feature: Feature | None
) -> str | None:
    broker_id = context.broker.controller.broker_id
    # A KRaft controller does not look at what version 0 says of downgrades.
    level, kind = update.max_version_level, update.upgrade_type
    if kind not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    if feature is None and level == 0:
        return f"Feature {update.feature} not found." if _has_one_error(context) else None
    if feature is None:
        return f"Local controller {broker_id} does not support this feature."
    if not feature.least <= level <= feature.most:
        return f"Local controller {broker_id} only supports versions {feature.least}-{feature.most}"
    if level < feature.level and kind == _UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
    if level > feature.level and kind != _UPGRADE:
        return "Can't downgrade to a newer version."
    if level != feature.level and feature.name not in CHANGEABLE:
        return "This broker cannot change its level."
    return None


def _why_not_with_zookeeper(update: FeatureUpdateKey, version: int) -> _Refusal:
    """Say as a controller with ZooKeeper does why a level cannot be had: it knows no features."""
    kind = update.upgrade_type
    if version == 0:
        kind = _SAFE_DOWNGRADE if update.allow_downgrade else _UPGRADE
    level = update.max_version_level
    if not update.feature:
        why = "Feature name can not be empty."
    elif kind not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        why = "Received unknown upgrade type."
    elif level < 1 and kind != _UPGRADE:
        why = "Can not delete non-existing finalized feature."
    elif level < 1:
        why = (
            f"Can not provide versionLevel: {level} less than 1 without setting the SAFE downgradeType in "
            "the request."
        )
    else:
        why = "Could not apply finalized feature update because the provided feature is not supported."
    return ErrorCode.INVALID_REQUEST, why
