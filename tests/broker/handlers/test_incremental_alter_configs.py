"""IncrementalAlterConfigs at every version."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from odradek.broker.requests.authorization import Operation
from odradek.cluster.configs.config_def import APPEND, DELETE, SET, SUBTRACT
from odradek.cluster.controller.topic_manager import NewTopic
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from ..admin_world import Denying, World

VERSIONS = range(2)
TOPIC, BROKER, LOGGER = 2, 4, 8

Operations = list[tuple[str, int, str | None]]


def _resource(kind: int, name: str, operations: Operations) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in operations
        ],
    )


def _alter(
    world: World, version: int, *resources: AlterConfigsResource, validate_only: bool = False
) -> list[Any]:
    request = IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    responses: list[Any] = world.call(request, version).responses
    return responses


@pytest.fixture
def world() -> World:
    world = World()
    world.controller.create_topic(NewTopic("t", configs={"retention.ms": "1", "segment.bytes": "999"}))
    return world


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("odradek.test_incremental")
    yield logger
    logger.setLevel(logging.NOTSET)


@pytest.mark.parametrize("version", VERSIONS)
def test_only_what_is_named_changes(world: World, version: int) -> None:
    (result,) = _alter(
        world,
        version,
        _resource(
            TOPIC,
            "t",
            [
                ("retention.ms", SET, "2"),
                ("segment.bytes", DELETE, None),
                ("cleanup.policy", APPEND, "compact"),
                ("leader.replication.throttled.replicas", SUBTRACT, "0:1"),
            ],
        ),
    )
    assert (result.error_code, result.error_message) == (0, None)
    assert world.image.topic_config("t") == {
        "retention.ms": "2",
        "cleanup.policy": "delete,compact",
        "leader.replication.throttled.replicas": "",
    }
    _alter(world, version, _resource(TOPIC, "t", [("cleanup.policy", SUBTRACT, "delete")]))
    assert world.image.topic_config("t")["cleanup.policy"] == "compact"


@pytest.mark.parametrize("version", VERSIONS)
def test_dynamic_broker_configs(world: World, version: int) -> None:
    _alter(world, version, _resource(BROKER, "", [("message.max.bytes", SET, "5")]))
    assert world.config.message_max_bytes == 5
    _alter(world, version, _resource(BROKER, "0", [("log.cleanup.policy", APPEND, "compact")]))
    assert world.config.log_cleanup_policy == ["delete", "compact"]
    _alter(world, version, _resource(BROKER, "", [("message.max.bytes", DELETE, None)]))
    assert world.config.message_max_bytes == 1048588


@pytest.mark.parametrize("version", VERSIONS)
def test_validate_only_changes_nothing(world: World, version: int, logger: logging.Logger) -> None:
    results = _alter(
        world,
        version,
        _resource(TOPIC, "t", [("retention.ms", SET, "2")]),
        _resource(LOGGER, "0", [(logger.name, SET, "ERROR")]),
        validate_only=True,
    )
    assert [r.error_code for r in results] == [0, 0]
    assert world.image.topic_config("t")["retention.ms"] == "1"
    assert logger.level == logging.NOTSET


@pytest.mark.parametrize("version", VERSIONS)
def test_levels_of_loggers(world: World, version: int, logger: logging.Logger) -> None:
    (result,) = _alter(world, version, _resource(LOGGER, "0", [(logger.name, SET, "ERROR")]))
    assert result.error_code == 0
    assert logger.level == logging.ERROR
    (result,) = _alter(world, version, _resource(LOGGER, "0", [(logger.name, DELETE, None)]))
    assert result.error_code == 0
    assert logger.level == logging.NOTSET


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("kind", "name", "operations", "error", "message"),
    [
        (
            TOPIC,
            "t",
            [("retention.ms", SET, "x")],
            ErrorCode.INVALID_CONFIG,
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        (
            TOPIC,
            "t",
            [("retention.ms", APPEND, "1")],
            ErrorCode.INVALID_CONFIG,
            "Config value append is not allowed for config key: retention.ms",
        ),
        (
            TOPIC,
            "t",
            [("retention.ms", SET, None)],
            ErrorCode.INVALID_REQUEST,
            "Null value not supported for : retention.ms",
        ),
        (
            TOPIC,
            "t",
            [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)],
            ErrorCode.INVALID_REQUEST,
            "Error due to duplicate config keys",
        ),
        (
            TOPIC,
            "t",
            [("retention.ms", 9, "1")],
            ErrorCode.INVALID_REQUEST,
            "Unknown operations type 9",
        ),
        (TOPIC, "absent", [], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'absent' does not exist."),
        (
            TOPIC,
            "a b",
            [],
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'",
        ),
        (
            BROKER,
            "0",
            [("num.partitions", SET, "2")],
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs dynamically: [num.partitions]",
        ),
        (BROKER, "7", [], ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 0, but received 7"),
        (
            LOGGER,
            "7",
            [("root", SET, "INFO")],
            ErrorCode.INVALID_REQUEST,
            "Unexpected broker id, expected 0, but received 7",
        ),
        (LOGGER, "0", [("nope", SET, "INFO")], ErrorCode.INVALID_CONFIG, "Logger nope does not exist!"),
        (
            LOGGER,
            "0",
            [("root", SET, "LOUD")],
            ErrorCode.INVALID_CONFIG,
            "Cannot set the log level of root to LOUD as it is not a supported log level. "
            "Valid log levels are FATAL, ERROR, WARN, INFO, DEBUG, TRACE",
        ),
        (
            LOGGER,
            "0",
            [("root", DELETE, None)],
            ErrorCode.INVALID_REQUEST,
            "Removing the log level of the root logger is not allowed",
        ),
        (
            LOGGER,
            "0",
            [("root", APPEND, "INFO")],
            ErrorCode.INVALID_REQUEST,
            "Operation APPEND is not allowed for the BROKER_LOGGER resource",
        ),
        (32, "g", [], ErrorCode.INVALID_REQUEST, "Unknown resource type 32"),
    ],
)
def test_what_cannot_be_changed(
    world: World,
    version: int,
    kind: int,
    name: str,
    operations: Operations,
    error: ErrorCode,
    message: str,
) -> None:
    before = world.image.configs
    bad, good = _alter(
        world,
        version,
        _resource(kind, name, operations),
        _resource(BROKER, "", [("message.max.bytes", SET, "6")]),
    )
    assert (bad.error_code, bad.error_message) == (error, message)
    assert good.error_code == 0
    assert {**world.image.configs, "brokers/<default>": {}} == {**before, "brokers/<default>": {}}


def test_a_resource_named_twice(world: World) -> None:
    one = _resource(TOPIC, "t", [("retention.ms", SET, "2")])
    results = _alter(world, 1, one, one)
    assert [r.error_code for r in results] == [ErrorCode.INVALID_REQUEST] * 2


def test_permissions(world: World, logger: logging.Logger) -> None:
    world.authorizer = Denying((Operation.ALTER_CONFIGS, "t"), (Operation.ALTER_CONFIGS, "kafka-cluster"))
    results = _alter(
        world,
        1,
        _resource(TOPIC, "t", []),
        _resource(BROKER, "0", []),
        _resource(LOGGER, "0", [(logger.name, SET, "ERROR")]),
    )
    assert [r.error_code for r in results] == [
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ]
    assert logger.level == logging.NOTSET


def test_old_notices_of_changes_are_removed(world: World) -> None:
    for value in ("2", "3"):
        _alter(world, 1, _resource(TOPIC, "t", [("retention.ms", SET, value)]))
    assert len(world.store.children("/config/changes")) == 2
    world.clock.advance(15 * 60 * 1000 + 1)
    _alter(world, 1, _resource(TOPIC, "t", [("retention.ms", SET, "4")]))
    assert world.store.children("/config/changes") == ["config_change_0000000002"]


def _as(release: str | None) -> World:
    world = World({} if release is None else {"odradek.kafka.version": release})
    world.controller.create_topic(NewTopic("t"))
    return world


@pytest.mark.parametrize(
    ("release", "error"),
    [
        (None, ErrorCode.INVALID_CONFIG),
        ("2.8", ErrorCode.INVALID_REQUEST),
        ("3.2", ErrorCode.INVALID_REQUEST),
        ("3.3", ErrorCode.INVALID_CONFIG),
        ("3.9-kraft", ErrorCode.INVALID_CONFIG),
        ("4.3", ErrorCode.INVALID_CONFIG),
    ],
)
@pytest.mark.parametrize(
    ("kind", "name", "config"), [(TOPIC, "t", "retention.ms"), (BROKER, "0", "log.retention.ms")]
)
def test_what_is_no_list_cannot_be_appended_to(
    kind: int, name: str, config: str, release: str | None, error: ErrorCode
) -> None:
    (result,) = _alter(_as(release), 1, _resource(kind, name, [(config, APPEND, "1")]))
    assert result.error_code == error
    assert result.error_message == f"Config value append is not allowed for config key: {config}"


@pytest.mark.parametrize("release", [None, "2.8", "3.1", "3.2", "3.9", "4.3"])
@pytest.mark.parametrize(
    ("name", "level", "message"),
    [
        ("no.such", "INFO", "Logger no.such does not exist!"),
        ("root", "LOUD", "Cannot set the log level of root"),
    ],
)
def test_loggers_that_cannot_be_set(name: str, level: str, message: str, release: str | None) -> None:
    named = release in ("2.8", "3.1")
    (result,) = _alter(_as(release), 1, _resource(LOGGER, "0", [(name, SET, level)]))
    prefix = (
        "Invalid config value for resource ConfigResource(type=BROKER_LOGGER, name='0'): " if named else ""
    )
    assert result.error_code == (ErrorCode.INVALID_REQUEST if named else ErrorCode.INVALID_CONFIG)
    assert result.error_message.startswith(prefix + message)
