"""UpdateFeatures at each version."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.authorization import Operation
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

from .admin_world import Denying, World
from .transactional import arena

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
def test_other_features_cannot_be_updated(
    feature: str, level: int, kind: int, why: str, version: int
) -> None:
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


REFUSED = [
    (3, UPGRADE, "only supports versions 0-2"),
    (-1, UPGRADE, "cannot be less than 0"),
    (1, UPGRADE, "has to be asked for as a downgrade"),
]


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize(("level", "kind", "why"), REFUSED)
def test_levels_that_transactions_cannot_have(level: int, kind: int, why: str, version: int) -> None:
    answer = World().call(request(version, "transaction.version", level, kind), version)
    if version < 2:
        (answer,) = answer.results
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert why in answer.error_message


async def told(client: Any, version: int) -> tuple[Any, Any, int]:
    """What ApiVersions tells of features: supported, finalized, epoch."""
    who = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    answer = await client.call(who, version)
    return (
        [(one.name, one.min_version, one.max_version) for one in answer.supported_features],
        [(one.name, one.max_version_level) for one in answer.finalized_features],
        answer.finalized_features_epoch,
    )


@pytest.mark.parametrize("version", range(3))
def test_the_level_of_transactions_changes_and_stays(tmp_path: Path, version: int) -> None:
    async def run() -> None:
        async with arena(tmp_path) as here:
            client = await here.client()
            assert await told(client, 4) == ([("transaction.version", 0, 2)], [("transaction.version", 2)], 0)
            # Clients of before KIP-1022 could not take the 0.
            assert await told(client, 3) == ([], [("transaction.version", 2)], 0)
            transactions = here.broker.transactions
            assert transactions.coordinator.config.transaction_version == 2
            if version >= 1:
                look = request(version, "transaction.version", 1, SAFE)
                look.validate_only = True
                assert (await client.call(look, version)).error_code == 0
                assert (await told(client, 4))[1] == [("transaction.version", 2)]
            for level in (1, 0):
                asked = request(version, "transaction.version", level, SAFE)
                answer = await client.call(asked, version)
                assert answer.error_code == 0
                assert [one.error_code for one in answer.results] == ([] if version == 2 else [0])
                assert transactions.coordinator.config.transaction_version == level
            assert await told(client, 4) == ([("transaction.version", 0, 2)], [], 2)
        async with arena(tmp_path) as here:
            client = await here.client()
            assert here.broker.transactions.coordinator.config.transaction_version == 0
            asked = request(version, "transaction.version", 2, UPGRADE)
            assert (await client.call(asked, version)).error_code == 0
            assert (await told(client, 4))[1:] == ([("transaction.version", 2)], 3)
            assert here.broker.transactions.coordinator.config.transaction_version == 2

    asyncio.run(run())


def test_a_release_without_the_feature(tmp_path: Path) -> None:
    async def run() -> None:
        async with arena(tmp_path, odradek_kafka_version="3.9") as here:
            client = await here.client()
            assert (await told(client, 4))[:2] == ([], [])
            assert here.broker.transactions.coordinator.config.transaction_version == 0

    asyncio.run(run())
