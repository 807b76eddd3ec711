"""UpdateFeatures at each version."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.requests.authorization import Operation
from odradek.cluster.store.store import StoreUnavailable
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

from ..admin_world import Denying, World
from ..transactional import arena

UPGRADE, SAFE, UNSAFE = 1, 2, 3
UNKNOWN = "Local controller 0 does not support this feature."
CASES = [
    ("", 1, UPGRADE, UNKNOWN),
    ("metadata.version", 9, UPGRADE, UNKNOWN),
    ("metadata.version", 9, SAFE, UNKNOWN),
    ("metadata.version", 0, SAFE, "Feature metadata.version not found."),
    ("metadata.version", -1, UPGRADE, "A feature version cannot be less than 0."),
]
OF_ALL = "The update failed for all features since the following feature had an error: "


def request(version: int, feature: str, level: int, kind: int) -> UpdateFeaturesRequest:
    update = FeatureUpdateKey(feature=feature, max_version_level=level)
    if version == 0:
        update.allow_downgrade = kind != UPGRADE
    else:
        update.upgrade_type = kind
    return UpdateFeaturesRequest(feature_updates=[update])


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("release", [None, "4.3"])
@pytest.mark.parametrize(("feature", "level", "kind", "why"), CASES)
def test_other_features_cannot_be_updated(
    feature: str, level: int, kind: int, why: str, release: str | None, version: int
) -> None:
    if release is not None:
        feature, why = feature.replace("metadata", "no.such"), why.replace("metadata", "no.such")
    answer = world_of(release).call(request(version, feature, level, kind), version)
    assert (answer.error_code, answer.results) == (ErrorCode.INVALID_UPDATE_VERSION, [])
    assert answer.error_message == f"{OF_ALL}Invalid update version {level} for feature {feature}. {why}"


def world_of(release: str | None) -> World:
    return World({} if release is None else {"odradek.kafka.version": release})


@pytest.mark.parametrize("version", range(2))
@pytest.mark.parametrize(("feature", "level", "kind", "why"), CASES)
def test_before_4_0_each_feature_is_answered(
    feature: str, level: int, kind: int, why: str, version: int
) -> None:
    asked = request(version, feature.replace("metadata", "no.such"), level, kind)
    answer = world_of("3.9-kraft").call(asked, version)
    assert (answer.error_code, answer.error_message) == (0, "")
    (result,) = answer.results
    if level == 0:
        # What nobody knows can be at level 0.
        assert (result.error_code, result.error_message) == (0, None)
    else:
        assert result.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert result.error_message.endswith(why)


@pytest.mark.parametrize("version", range(1, 3))
@pytest.mark.parametrize(
    ("level", "kind", "why"),
    [
        (99, UPGRADE, "Local controller 0 only supports versions 7-30"),
        (0, SAFE, "Local controller 0 only supports versions 7-30"),
        (7, UPGRADE, "Can't downgrade the version of this feature without setting the upgrade type"),
        (7, UNSAFE, "cannot change its level"),
    ],
)
def test_the_metadata_s_level_of_a_release(level: int, kind: int, why: str, version: int) -> None:
    answer = world_of("4.3").call(request(version, "metadata.version", level, kind), version)
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert why in answer.error_message
    same = world_of("4.3").call(request(version, "metadata.version", 30, UPGRADE), version)
    assert same.error_code == 0


WITH_ZOOKEEPER = [
    ("", 1, UPGRADE, "Feature name can not be empty."),
    ("metadata.version", 9, UPGRADE, "the provided feature is not supported"),
    ("metadata.version", 9, SAFE, "the provided feature is not supported"),
    ("metadata.version", 0, SAFE, "Can not delete non-existing finalized feature."),
    ("metadata.version", 0, UPGRADE, "Can not provide versionLevel: 0 less than 1"),
]


@pytest.mark.parametrize("version", range(2))
@pytest.mark.parametrize(("feature", "level", "kind", "why"), WITH_ZOOKEEPER)
def test_with_zookeeper_there_are_no_features(
    feature: str, level: int, kind: int, why: str, version: int
) -> None:
    answer = world_of("3.9").call(request(version, feature, level, kind), version)
    assert (answer.error_code, answer.error_message) == (0, None)
    (result,) = answer.results
    assert (result.feature, result.error_code) == (feature, ErrorCode.INVALID_REQUEST)
    assert why in result.error_message


def test_an_update_of_no_known_kind() -> None:
    for version in (1, 2):
        answer = World().call(request(version, "x", 1, 9), version)
        assert answer.error_message.endswith("The controller does not support the given upgrade type.")
    answer = world_of("3.9").call(request(1, "x", 1, 9), 1)
    assert answer.results[0].error_message.endswith("Received unknown upgrade type.")


def test_what_is_granted_is_named() -> None:
    asked = request(1, "transaction.version", 2, UPGRADE)
    asked.validate_only = True
    answer = World().call(asked, 1)
    (result,) = answer.results
    assert (answer.error_code, answer.error_message) == (0, None)
    # The word stands there in Kafka's answers, too.
    assert (result.feature, result.error_code, result.error_message) == ("transaction.version", 0, "NONE")


def test_all_or_none_are_updated() -> None:
    world = World()
    asked = UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature="transaction.version", max_version_level=1, upgrade_type=SAFE),
            FeatureUpdateKey(feature="nope", max_version_level=1, upgrade_type=UPGRADE),
        ]
    )
    assert world.call(asked, 1).error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert world.features.level("transaction.version") == 2


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
    world.controller.context.is_active = False
    assert world.call(request(version, "x", 1, UPGRADE), version).error_code == ErrorCode.NOT_CONTROLLER


REFUSED = [
    (3, UPGRADE, "only supports versions 0-2"),
    (-1, UPGRADE, "cannot be less than 0"),
    (1, UPGRADE, "Can't downgrade the version of this feature without setting the upgrade type"),
]


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize(("level", "kind", "why"), REFUSED)
def test_levels_that_transactions_cannot_have(level: int, kind: int, why: str, version: int) -> None:
    answer = World().call(request(version, "transaction.version", level, kind), version)
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert why in answer.error_message


@pytest.mark.parametrize("version", range(3))
def test_levels_that_the_store_does_not_take(version: int) -> None:
    world = World()

    def refuse(path: str, data: bytes | None, version: int = -1) -> Any:
        raise StoreUnavailable(path)

    world.store.set = refuse  # type: ignore[method-assign]
    answer = world.call(request(version, "transaction.version", 2, UPGRADE), version)
    assert answer.error_code == ErrorCode.FEATURE_UPDATE_FAILED


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
            if version == 0:
                # It has a flag for this, and as in Kafka nobody looks at it.
                refused = await client.call(request(0, "transaction.version", 1, SAFE), 0)
                assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
            for level in (1, 0):
                later = max(1, version)
                answer = await client.call(request(later, "transaction.version", level, SAFE), later)
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
