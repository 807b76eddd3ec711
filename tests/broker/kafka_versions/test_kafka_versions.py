"""Be any Kafka: what each release lists, answers and refuses, against what the releases themselves say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.apis.registry import SERVED, Handlers
from odradek.broker.config.broker_config import BrokerConfig, ConfigSource
from odradek.broker.kafka_versions import features, release, report
from odradek.broker.kafka_versions.answers import older_code
from odradek.broker.kafka_versions.apis import RELEASES, versions_of
from odradek.broker.kafka_versions.defaults import defaults_of
from odradek.cluster.configs.config_def import ConfigError
from odradek.errors.codes import ErrorCode

GOLDEN = Path(__file__).parents[2] / "golden"
RECORDED: dict[str, list[dict[str, Any]]] = json.loads(
    (GOLDEN / "releases.json").read_text(encoding="utf-8")
)["releases"]
RAFT_BEFORE_RAFT = {52, 53, 54, 55}
"""In the classes of 2.7, and disabled there."""


@pytest.mark.parametrize(("name", "patch"), RELEASES.items())
@pytest.mark.parametrize("kraft", [False, True])
def test_the_table_is_what_the_releases_say(name: str, patch: str, kraft: bool) -> None:
    kind = "broker" if kraft else "zk_broker"
    expected = {
        one["key"]: range(one["min"], one["max"] + 1)
        for one in RECORDED[patch]
        if kind in one.get("listeners", [kind]) and not (name == "2.7" and one["key"] in RAFT_BEFORE_RAFT)
    }
    assert versions_of(name, kraft=kraft) == expected


def test_every_recorded_release_is_there() -> None:
    assert list(RECORDED) == list(RELEASES.values())


@pytest.mark.parametrize(
    ("text", "name", "kraft"),
    [
        ("2.2", "2.2", False),
        ("2.2.0", "2.2", False),
        ("0.8.2.1", "0.8.2", False),
        ("0.10.1", "0.10.1", False),
        ("0.11.0.3", "0.11", False),
        ("0.9.0.1", "0.9", False),
        ("3.9-kraft", "3.9", True),
        ("3.9", "3.9", False),
        ("4.0.1", "4.0", True),
        ("4.0-kraft", "4.0", True),
    ],
)
def test_a_release_is_found_by_any_of_its_names(text: str, name: str, kraft: bool) -> None:
    found = release.find(text)
    assert (found.name, found.kraft) == (name, kraft)


@pytest.mark.parametrize("text", ["", "2", "0.7", "2.9", "9.9", "2.2.x", "2.2.2.2.2", "2.7-kraft", "-kraft"])
def test_what_is_no_release_is_refused(text: str) -> None:
    with pytest.raises(release.UnknownReleaseError):
        release.find(text)
    with pytest.raises(ConfigError, match=r"odradek\.kafka\.version"):
        BrokerConfig({"odradek.kafka.version": text})


@pytest.mark.parametrize("name", RELEASES)
def test_what_is_listed_is_the_releases_and_ours(name: str) -> None:
    chosen = release.find(name)
    handlers = Handlers(release=chosen)
    listed = dict(handlers.versions())
    for key, versions in listed.items():
        assert set(versions) == set(chosen.advertised[key]) & set(SERVED[key].versions)
        handler = handlers.get(key)
        if handler is not None:
            assert set(handler.versions) == set(chosen.answered[key]) & set(SERVED[key].versions)
    assert listed.keys() == {
        key for key in SERVED if set(SERVED[key].versions) & set(chosen.advertised.get(key, ()))
    }


def test_produce_is_advertised_from_0_by_4_0_and_answered_from_3() -> None:
    chosen = release.find("4.0")
    assert (chosen.advertised[0], chosen.answered[0]) == (range(13), range(3, 13))


def test_telemetry_is_answered_and_not_advertised() -> None:
    chosen = release.find("4.4")
    assert {71, 72} <= chosen.answered.keys()
    assert not {71, 72} & chosen.advertised.keys()


def test_the_oldest_brokers_own_requests() -> None:
    oldest = release.find("0.8.2")
    assert {11, 12}.isdisjoint(oldest.answered)
    assert [oldest.answered[key] for key in (4, 5, 6, 7)] == [range(1)] * 4
    assert release.find("0.9").answered[7] == range(2)


def test_recorded_features_of_real_brokers() -> None:
    everything = set(range(100))
    newest = {
        one.name: (one.least, one.most, one.level)
        for one in features.features_of(release.find("4.4"), everything)
    }
    assert newest == {
        "group.version": (0, 1, 1),
        "kraft.version": (0, 1, 1),
        "metadata.version": (7, 33, 33),
        "share.version": (0, 2, 2),
        "streams.version": (0, 1, 1),
        "transaction.version": (0, 2, 2),
        "eligible.leader.replicas.version": (0, 1, 1),
    }
    zookeeper = release.find("3.9")
    assert features.features_of(zookeeper, everything) == []
    assert features.finalized_epoch(zookeeper) == 0
    assert features.finalized_epoch(release.find("2.6")) == -1


def test_features_of_what_is_not_served_are_not_told() -> None:
    names = {one.name for one in features.features_of(release.find("4.4"), {0, 1, 18})}
    assert names == {"metadata.version", "kraft.version", "eligible.leader.replicas.version"}


def test_error_codes_of_the_age() -> None:
    last = {name: release.find(name).last_error_code for name in RELEASES}
    assert list(last.values()) == sorted(last.values())
    assert last["4.4"] == max(ErrorCode)
    assert older_code(ErrorCode.INVALID_RECORD, last["2.3"]) == ErrorCode.CORRUPT_MESSAGE
    assert older_code(ErrorCode.INVALID_RECORD, last["2.4"]) == ErrorCode.INVALID_RECORD
    assert older_code(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, last["2.0"]) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert older_code(ErrorCode.INVALID_REQUEST, last["0.9"]) == ErrorCode.UNKNOWN_SERVER_ERROR
    for name, most in last.items():
        for code in ErrorCode:
            assert older_code(code, most) <= most, (name, code)


def test_defaults_of_the_age_are_defaults() -> None:
    config = BrokerConfig({"odradek.kafka.version": "0.10.2"})
    assert config.get("log.message.format.version") == "0.10.2-IV0"
    assert config.get("delete.topic.enable") is False
    assert config.topic_defaults()["max.message.bytes"] == 1000012
    assert config.topic_default_texts()["message.format.version"] == "0.10.2-IV0"
    assert not config.is_given("delete.topic.enable")
    (only,) = config.synonyms("delete.topic.enable")
    assert (only.value, only.source) == ("false", ConfigSource.DEFAULT_CONFIG)
    given = BrokerConfig({"odradek.kafka.version": "0.10.2", "delete.topic.enable": "true"})
    assert given.get("delete.topic.enable") is True
    assert [(one.value, one.source) for one in given.synonyms("delete.topic.enable")] == [
        ("true", ConfigSource.STATIC_BROKER_CONFIG),
        ("false", ConfigSource.DEFAULT_CONFIG),
    ]


def test_message_formats() -> None:
    formats = {n: defaults_of(release.find(n)).get("log.message.format.version") for n in RELEASES}
    assert formats["0.8.2"] == "0.8.2"
    assert formats["0.9"] == "0.9.0"
    assert formats["0.11"] == "0.11.0-IV2"
    assert formats["2.8"] == "2.8-IV1"
    assert formats["3.0"] is None
    assert defaults_of(release.find("3.9"))["inter.broker.protocol.version"] == "3.9-IV0"
    for name in RELEASES:
        BrokerConfig({"odradek.kafka.version": name})


def test_what_is_missing_is_computed() -> None:
    served = {0: range(3, 14), 18: range(6), 1: range(19)}
    lacking = report.missing(release.find("2.2"), served)
    assert lacking[0] == range(3)
    assert 1 not in lacking
    assert lacking[24] == range(2)
    assert report.missing_text(release.find("2.2"), served).startswith("Produce 0-2, ListOffsets, Metadata,")
    # Advertised by 4.0 and answered by nobody.
    assert 0 not in report.missing(release.find("4.0"), served)


def test_the_table_has_a_row_per_release() -> None:
    rows = report.table({key: entry.versions for key, entry in SERVED.items()}).splitlines()[2:]
    assert [row.split("`")[1] for row in rows if "kraft" not in row] == release.names()
    assert sum("-kraft" in row for row in rows) == 11
