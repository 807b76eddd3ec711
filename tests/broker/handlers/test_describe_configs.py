"""DescribeConfigs at every version."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from odradek.broker.config.table import BROKER_CONFIGS, INTERNAL_CONFIGS
from odradek.broker.kafka_versions.config_names import BROKER_SINCE, TOPIC_SINCE
from odradek.broker.requests.authorization import Operation
from odradek.cluster.configs.topic_config import TOPIC_CONFIGS
from odradek.cluster.controller.topic_manager import NewTopic
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

from ..admin_world import Denying, World

VERSIONS = range(5)
TOPIC, BROKER, LOGGER = 2, 4, 8


def _describe(
    *resources: tuple[int, str], keys: list[str] | None = None, **fields: bool
) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
            for kind, name in resources
        ],
        **fields,
    )


def _one(world: World, version: int, kind: int, name: str, **more: Any) -> dict[str, Any]:
    (result,) = world.call(_describe((kind, name), **more), version).results
    assert result.error_code == 0, result.error_message
    assert (result.resource_type, result.resource_name) == (kind, name)
    return {config.name: config for config in result.configs}


GONE_TOPIC_CONFIGS = {
    "message.downconversion.enable",
    "message.format.version",
    "message.timestamp.difference.max.ms",
}
"""Listed by a broker that is an older release, and of topics that have them."""

SINCE_4_4 = frozenset(f"{BROKER_SINCE['4.4']} {TOPIC_SINCE['4.4']}".split())
"""Listed by a broker that is 4.4."""


def test_what_4_3_has_no_more_is_listed_where_it_is_given() -> None:
    world = World({"log.message.downconversion.enable": "false"})
    world.controller.create_topic(NewTopic("t", configs={"message.format.version": "0.10.2"}))
    topic = _one(world, 4, TOPIC, "t", include_synonyms=True)
    assert set(topic) & GONE_TOPIC_CONFIGS == {"message.format.version"}
    assert topic["message.format.version"].value == "0.10.2"
    assert _one(world, 4, BROKER, "0")["log.message.downconversion.enable"].value == "false"


@pytest.fixture
def world() -> World:
    world = World(
        {"log.retention.hours": "1", "num.partitions": "3", "ssl.key.password": "hunter2", "no.such": "1"}
    )
    world.controller.create_topic(
        NewTopic("t", configs={"cleanup.policy": " compact , delete", "max.message.bytes": "7"})
    )
    return world


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic(world: World, version: int) -> None:
    configs = _one(world, version, TOPIC, "t")
    assert set(configs) == set(TOPIC_CONFIGS) - GONE_TOPIC_CONFIGS - SINCE_4_4
    assert configs["cleanup.policy"].value == "compact,delete"
    assert configs["retention.ms"].value == "3600000"
    assert configs["segment.bytes"].value == "1073741824"
    assert not any(config.read_only or config.is_sensitive for config in configs.values())
    if version == 0:
        assert not configs["cleanup.policy"].is_default
        assert configs["segment.bytes"].is_default
    else:
        assert configs["cleanup.policy"].config_source == 1
        assert configs["segment.bytes"].config_source == 5
        assert all(config.synonyms == [] for config in configs.values())
    if version >= 3:
        assert configs["cleanup.policy"].config_type == 7
        assert configs["max.message.bytes"].config_type == 3
        assert configs["retention.ms"].config_type == 5
        assert all(config.documentation is None for config in configs.values())


@pytest.mark.parametrize("version", range(1, 5))
def test_synonyms(world: World, version: int) -> None:
    world.controller.alter_config("brokers/<default>", {"message.max.bytes": "9"})
    world.controller.alter_config("brokers/0", {"message.max.bytes": "8"})
    configs = _one(world, version, TOPIC, "t", include_synonyms=True)
    assert [(s.name, s.value, s.source) for s in configs["max.message.bytes"].synonyms] == [
        ("max.message.bytes", "7", 1),
        ("message.max.bytes", "8", 2),
        ("message.max.bytes", "9", 3),
        ("message.max.bytes", "1048588", 5),
    ]
    # As in Kafka, what only a weaker name gives is not listed.
    assert configs["retention.ms"].synonyms == []
    broker = _one(world, version, BROKER, "0", include_synonyms=True)
    assert [(s.name, s.value, s.source) for s in broker["message.max.bytes"].synonyms] == [
        ("message.max.bytes", "8", 2),
        ("message.max.bytes", "9", 3),
        ("message.max.bytes", "1048588", 5),
    ]
    assert (broker["message.max.bytes"].value, broker["message.max.bytes"].config_source) == ("8", 2)


@pytest.mark.parametrize("version", VERSIONS)
def test_this_broker(world: World, version: int) -> None:
    configs = _one(world, version, BROKER, "0")
    assert set(configs) == (set(BROKER_CONFIGS) - INTERNAL_CONFIGS - SINCE_4_4) | {"no.such"}
    assert (configs["num.partitions"].value, configs["num.partitions"].read_only) == ("3", True)
    assert (configs["message.max.bytes"].value, configs["message.max.bytes"].read_only) == ("1048588", False)
    assert (configs["log.retention.ms"].value, configs["log.retention.hours"].value) == (None, "1")
    for hidden in ("ssl.key.password", "no.such"):
        assert (configs[hidden].value, configs[hidden].is_sensitive) == (None, True)
    if version >= 1:
        assert configs["num.partitions"].config_source == 4
        assert configs["broker.id"].config_source == 4
        assert configs["num.network.threads"].config_source == 5
    if version >= 3:
        assert configs["ssl.key.password"].config_type == 9
        assert configs["no.such"].config_type == 0


def test_a_password_is_in_no_answer(world: World) -> None:
    for version in range(1, 5):
        for kind, name in ((BROKER, "0"), (BROKER, ""), (TOPIC, "t")):
            response = world.call(_describe((kind, name), include_synonyms=True), version)
            assert b"hunter2" not in response.encode(version)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_dynamic_configs_for_all_brokers(world: World, version: int) -> None:
    # One of them is there from the start.
    assert set(_one(world, version, BROKER, "")) == {"min.insync.replicas"}
    world.controller.alter_config("brokers/<default>", {"log.segment.bytes": " 1000", "custom": "x"})
    configs = _one(world, version, BROKER, "")
    assert set(configs) == {"min.insync.replicas", "log.segment.bytes", "custom"}
    assert configs["log.segment.bytes"].value == "1000"
    assert (configs["custom"].value, configs["custom"].is_sensitive) == (None, True)
    if version >= 1:
        assert configs["log.segment.bytes"].config_source == 3


@pytest.mark.parametrize("version", VERSIONS)
def test_only_what_is_asked_for(world: World, version: int) -> None:
    assert set(_one(world, version, TOPIC, "t", keys=["retention.ms", "no.such"])) == {"retention.ms"}
    assert set(_one(world, version, BROKER, "0", keys=["num.partitions"])) == {"num.partitions"}
    assert len(_one(world, version, TOPIC, "t", keys=[])) == len(
        set(TOPIC_CONFIGS) - GONE_TOPIC_CONFIGS - SINCE_4_4
    )


@pytest.mark.parametrize("version", [3, 4])
def test_documentation_when_asked_for(world: World, version: int) -> None:
    for kind, name in ((TOPIC, "t"), (BROKER, "0")):
        configs = _one(world, version, kind, name, include_documentation=True)
        assert all(config.documentation for config in configs.values() if config.name != "no.such")


@pytest.mark.parametrize("version", VERSIONS)
def test_loggers(world: World, version: int) -> None:
    logger = logging.getLogger("odradek.test_describe_configs")
    logger.setLevel(logging.WARNING)
    levels = _one(world, version, LOGGER, "0")
    assert levels["odradek.test_describe_configs"].value == "WARN"
    assert "root" in levels
    if version >= 1:
        assert {config.config_source for config in levels.values()} == {6}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("kind", "name", "error", "message"),
    [
        (TOPIC, "absent", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "topic or partition"),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION, "empty string is not allowed"),
        (BROKER, "7", ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 0 or empty string"),
        (BROKER, "x", ErrorCode.INVALID_REQUEST, "Broker id must be an integer, but it is: x"),
        (LOGGER, "", ErrorCode.INVALID_REQUEST, "Broker id must not be empty"),
        (LOGGER, "1", ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 0 but received 1"),
        (0, "t", ErrorCode.INVALID_REQUEST, "Unsupported resource type"),
        (16, "", ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"),
        (32, "g", ErrorCode.INVALID_REQUEST, "Unsupported resource type"),
        (-1, "t", ErrorCode.INVALID_REQUEST, "Unsupported resource type"),
    ],
)
def test_what_cannot_be_described(
    world: World, version: int, kind: int, name: str, error: ErrorCode, message: str
) -> None:
    bad, good = world.call(_describe((kind, name), (TOPIC, "t")), version).results
    assert bad.error_code == error
    assert message in bad.error_message
    assert bad.configs == []
    assert good.error_code == 0


def test_permissions(world: World) -> None:
    world.authorizer = Denying(
        (Operation.DESCRIBE_CONFIGS, "t"), (Operation.DESCRIBE_CONFIGS, "kafka-cluster")
    )
    response = world.call(_describe((TOPIC, "t"), (BROKER, "0"), (LOGGER, "0")), 4)
    assert [result.error_code for result in response.results] == [
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ]
