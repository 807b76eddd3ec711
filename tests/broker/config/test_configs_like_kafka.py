"""DescribeConfigs beside what real Kafkas of each release have answered (`tests/golden/configs`).

Our broker is given the same properties and the release's name. Name, value, source, type, whether it is
read-only or a secret, and all synonyms are compared, entry by entry in their order. What differs on purpose
is named here, and nothing else may.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.kafka_versions.release import find
from odradek.cluster.controller.topic_manager import NewTopic
from odradek.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

from ..admin_world import World

GOLDEN = Path(__file__).parents[2] / "golden" / "configs"
RELEASES = sorted(path.name.removesuffix(".json.gz") for path in GOLDEN.glob("*.json.gz"))
TOPIC, BROKER = 2, 4
RESOURCES = ((TOPIC, "plain"), (BROKER, "1"), (BROKER, ""))
"""The last are the dynamic configs for all brokers, which there are from 1.1 on."""
OURS = "odradek.kafka.version"

EXCEPTIONS = {
    # The protocol TRACE, which nothing spoke.
    "0.11.0.3": {"listener.security.protocol.map"},
}
"""By release the configs that differ on purpose."""


@cache
def golden(release: str) -> dict[str, Any]:
    with gzip.open(GOLDEN / f"{release}.json.gz", "rt", encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


@cache
def world(release: str) -> World:
    """Our broker as that release, with the properties of the recorded one."""
    made = World({**golden(release)["properties"], OURS: release}, broker_id=1)
    made.controller.create_topic(NewTopic("plain"))
    return made


def described(release: str, kind: int, name: str, names: list[str] | None = None) -> list[dict[str, Any]]:
    version = golden(release)["version"]
    request = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=names)],
        include_synonyms=version >= 1,
    )
    (result,) = world(release).call(request, version).to_json(version)["results"]
    assert result["errorCode"] == 0
    return [one for one in result["configs"] if one["name"] != OURS]


def recorded(release: str, kind: int, name: str) -> list[dict[str, Any]]:
    (result,) = (
        one
        for one in golden(release)["results"]
        if (one["resourceType"], one["resourceName"]) == (kind, name)
    )
    configs: list[dict[str, Any]] = result["configs"]
    return configs


def test_releases_are_recorded() -> None:
    assert {"2.2.2", "2.8.2", "3.9.1", "3.9.1-kraft", "4.3.1", "4.4.0"} <= set(RELEASES)


@pytest.mark.parametrize(
    ("release", "kind", "name"),
    [(one, *of) for one in RELEASES for of in RESOURCES if of != (BROKER, "") or find(one).at_least("1.1")],
)
def test_the_same_configs(release: str, kind: int, name: str) -> None:
    theirs = {one["name"]: one for one in recorded(release, kind, name)}
    ours = {one["name"]: one for one in described(release, kind, name)}
    assert sorted(ours) == sorted(theirs)
    for config in theirs.keys() - EXCEPTIONS.get(release, set()):
        assert ours[config] == theirs[config]


@pytest.mark.parametrize(("kind", "name"), [(TOPIC, "plain"), (BROKER, "1")])
@pytest.mark.parametrize("release", [one for one in RELEASES if find(one).at_least("2.6")])
def test_the_same_order(release: str, kind: int, name: str) -> None:
    """Before 2.6 the order of those whose hashes fall together is that of a table that we do not have."""
    theirs = [one["name"] for one in recorded(release, kind, name)]
    assert [one["name"] for one in described(release, kind, name)] == theirs


@pytest.mark.parametrize(("kind", "name"), [(TOPIC, "plain"), (BROKER, "1")])
@pytest.mark.parametrize("release", RELEASES)
def test_the_same_order_of_what_is_asked_for(release: str, kind: int, name: str) -> None:
    theirs = golden(release)["named"][str(kind)]
    assert [one["name"] for one in described(release, kind, name, sorted(theirs))] == theirs


def test_a_broker_that_is_no_release_lists_what_4_3_does() -> None:
    properties = golden("4.3.1")["properties"]
    plain = World(properties, broker_id=1)
    plain.controller.create_topic(NewTopic("plain"))
    for kind, name in RESOURCES:
        request = DescribeConfigsRequest(
            resources=[DescribeConfigsResource(resource_type=kind, resource_name=name)], include_synonyms=True
        )
        (result,) = plain.call(request, 4).to_json(4)["results"]
        assert result["configs"] == recorded("4.3.1", kind, name)
