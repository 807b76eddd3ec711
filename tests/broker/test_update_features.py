"""UpdateFeatures at each version, where there are no features."""

from __future__ import annotations

import pytest

from odradek.broker.authorization import Operation
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

from .admin_world import Denying, World

UPGRADE, SAFE, UNSAFE = 1, 2, 3
CASES = [
    ("", 1, UPGRADE, "Feature name can not be empty."),
    ("metadata.version", 9, UPGRADE, "the provided feature is not supported"),
    ("metadata.version", 9, SAFE, "the provided feature is not supported"),
    ("metadata.version", 0, SAFE, "Can not delete non-existing finalized feature."),
    ("metadata.version", 0, UPGRADE, "Can not provide versionLevel: 0 less than 1"),
]


def request(version: int, feature: str, level: int, kind: int) -> UpdateFeaturesRequest:
    update = FeatureUpdateKey(feature=feature, max_version_level=level)
    if version == 0:
        update.allow_downgrade = kind != UPGRADE
    else:
        update.upgrade_type = kind
    return UpdateFeaturesRequest(feature_updates=[update])


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize(("feature", "level", "kind", "why"), CASES)
def test_no_feature_can_be_updated(feature: str, level: int, kind: int, why: str, version: int) -> None:
    answer = World().call(request(version, feature, level, kind), version)
    if version < 2:
        assert (answer.error_code, answer.error_message) == (0, None)
        (answer,) = answer.results
        assert answer.feature == feature
    else:
        assert answer.error_message.startswith("The update failed for all features")
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert why in answer.error_message


@pytest.mark.parametrize("version", [1, 2])
def test_an_update_of_no_known_kind(version: int) -> None:
    answer = World().call(request(version, "x", 1, 9), version)
    message = answer.error_message if version == 2 else answer.results[0].error_message
    assert message.endswith("Received unknown upgrade type.")


@pytest.mark.parametrize("version", range(3))
def test_nothing_to_update(version: int) -> None:
    answer = World().call(UpdateFeaturesRequest(), version)
    assert (answer.error_code, answer.results) == (0, [])


@pytest.mark.parametrize("version", range(3))
def test_who_may(version: int) -> None:
    world = World()
    world.authorizer = Denying((Operation.ALTER, "kafka-cluster"))
    answer = world.call(request(version, "x", 1, UPGRADE), version)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    world.authorizer = None
    world.controller.is_active = False
    assert world.call(request(version, "x", 1, UPGRADE), version).error_code == ErrorCode.NOT_CONTROLLER
