"""UpdateFeatures 0-2: raise or lower levels of the cluster's features (KIP-584).

There are none: features belong to KRaft. So every update is INVALID_REQUEST: deleting one that is not there,
a level below 1, and any other because the feature is not supported. Versions 0 and 1 say so of each feature;
2 has one error for all (KIP-1022). An empty request is granted. NOT_CONTROLLER is told by any other broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.authorization import CLUSTER, Operation
from odradek.broker.registry import handler
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

_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3
_ONE_ERROR_FROM = 2


@handler(ApiKey.UPDATE_FEATURES, versions=range(3))
def handle(context: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """Say of each feature why it cannot be updated."""
    if not context.authorize(Operation.ALTER, CLUSTER):
        raise ClusterAuthorizationError
    context.broker.controller.check_active()
    refusals = {one.feature: _why_not(one, context.api_version) for one in request.feature_updates}
    code = int(ErrorCode.INVALID_REQUEST)
    if context.api_version < _ONE_ERROR_FROM:
        return UpdateFeaturesResponse(
            error_message=None,
            results=[
                UpdatableFeatureResult(feature=feature, error_code=code, error_message=message)
                for feature, message in refusals.items()
            ],
        )
    for message in refusals.values():
        first = f"The update failed for all features since the following feature had an error: {message}"
        return UpdateFeaturesResponse(error_code=code, error_message=first)
    return UpdateFeaturesResponse(error_message=None)


def _why_not(update: FeatureUpdateKey, version: int) -> str:
    kind = update.upgrade_type
    if version == 0:
        kind = _SAFE_DOWNGRADE if update.allow_downgrade else _UPGRADE
    level = update.max_version_level
    if not update.feature:
        return "Feature name can not be empty."
    if kind not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        return "Received unknown upgrade type."
    if level < 1 and kind != _UPGRADE:
        return "Can not delete non-existing finalized feature."
    if level < 1:
        return (
            f"Can not provide versionLevel: {level} less than 1 without setting the SAFE downgradeType "
            "in the request."
        )
    return "Could not apply finalized feature update because the provided feature is not supported."
