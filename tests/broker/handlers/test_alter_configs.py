"""AlterConfigs at every version."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.broker.requests.authorization import Operation
from odradek.cluster.controller.topic_manager import NewTopic
from odradek.cluster.store.store import StoreUnavailable
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource

from ..admin_world import Denying, World

VERSIONS = range(3)
TOPIC, BROKER, LOGGER = 2, 4, 8


def _resource(kind: int, name: str, configs: dict[str, str | None]) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[AlterableConfig(name=key, value=value) for key, value in configs.items()],
    )


def _alter(
    world: World, version: int, *resources: AlterConfigsResource, validate_only: bool = False
) -> list[Any]:
    request = AlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    responses: list[Any] = world.call(request, version).responses
    asked = [(r.resource_type, r.resource_name) for r in resources]
    assert [(r.resource_type, r.resource_name) for r in responses] == asked
    return responses


@pytest.fixture
def world() -> World:
    world = World()
    world.controller.create_topic(NewTopic("t", configs={"retention.ms": "1", "segment.bytes": "999"}))
    return world


@pytest.mark.parametrize("version", VERSIONS)
def test_all_configs_of_a_topic_are_replaced(world: World, version: int) -> None:
    (result,) = _alter(world, version, _resource(TOPIC, "t", {"retention.ms": "2"}))
    assert (result.error_code, result.error_message) == (0, None)
    assert world.image.topic_config("t") == {"retention.ms": "2"}
    assert world.deltas[-1].configs == {"topics/t": {"retention.ms": "2"}}
    (change,) = world.store.children("/config/changes")
    data = world.store.get(f"/config/changes/{change}")[0]
    assert data == b'{"version":2,"entity_path":"topics/t"}'
    _alter(world, version, _resource(TOPIC, "t", {}))
    assert world.image.topic_config("t") == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_store_that_fails_for_one_resource_keeps_no_other_back(world: World, version: int) -> None:
    for name in ("unlucky", "last"):
        world.controller.create_topic(NewTopic(name))
    read = world.store.get

    def get(path: str) -> Any:
        if path.endswith("/unlucky"):
            raise StoreUnavailable(path)
        return read(path)

    world.store.get = get  # type: ignore[method-assign]
    resources = [_resource(TOPIC, name, {"retention.ms": "2"}) for name in ("t", "unlucky", "last")]
    errors = [result.error_code for result in _alter(world, version, *resources)]
    assert errors == [0, ErrorCode.KAFKA_STORAGE_ERROR, 0]
    assert world.image.topic_config("t") == world.image.topic_config("last") == {"retention.ms": "2"}


@pytest.mark.parametrize("version", VERSIONS)
def test_configs_of_this_broker_and_of_all(world: World, version: int) -> None:
    results = _alter(
        world,
        version,
        _resource(BROKER, "0", {"message.max.bytes": "5000"}),
        _resource(BROKER, "", {"message.max.bytes": "4000", "log.retention.ms": "77"}),
    )
    assert [r.error_code for r in results] == [0, 0]
    assert world.config.message_max_bytes == 5000
    assert world.config.topic_defaults()["retention.ms"] == 77
    _alter(world, version, _resource(BROKER, "0", {}))
    assert world.config.message_max_bytes == 4000


@pytest.mark.parametrize("version", VERSIONS)
def test_validate_only_changes_nothing(world: World, version: int) -> None:
    results = _alter(
        world,
        version,
        _resource(TOPIC, "t", {"retention.ms": "2"}),
        _resource(TOPIC, "absent", {}),
        _resource(BROKER, "0", {"message.max.bytes": "1"}),
        validate_only=True,
    )
    assert [r.error_code for r in results] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
    assert world.image.topic_config("t")["retention.ms"] == "1"
    assert world.config.message_max_bytes == 1048588


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("kind", "name", "configs", "error", "message"),
    [
        (
            TOPIC,
            "t",
            {"retention.ms": "x"},
            ErrorCode.INVALID_CONFIG,
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        (TOPIC, "t", {"no.such": "1"}, ErrorCode.INVALID_CONFIG, "Unknown topic config name: no.such"),
        (TOPIC, "absent", {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'absent' does not exist."),
        (TOPIC, "", {}, ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed."),
        (
            TOPIC,
            "t",
            {"retention.ms": None},
            ErrorCode.INVALID_REQUEST,
            "Null value not supported for : retention.ms",
        ),
        (
            BROKER,
            "0",
            {"num.partitions": "2"},
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs dynamically: [num.partitions]",
        ),
        (
            BROKER,
            "",
            {"listeners": "PLAINTEXT://:1"},
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs at default cluster level, broker id must be specified: [listeners]",
        ),
        (
            BROKER,
            "0",
            {"message.max.bytes": "-1"},
            ErrorCode.INVALID_REQUEST,
            "Invalid value -1 for configuration message.max.bytes: Value must be at least 0",
        ),
        (BROKER, "7", {}, ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 0, but received 7"),
        (BROKER, "x", {}, ErrorCode.INVALID_REQUEST, "Broker id must be an integer, but it is: x"),
        (LOGGER, "0", {"root": "INFO"}, ErrorCode.INVALID_REQUEST, "Unknown resource type 8"),
        (99, "0", {}, ErrorCode.INVALID_REQUEST, "Unknown resource type 0"),
    ],
)
def test_what_cannot_be_changed(
    world: World,
    version: int,
    kind: int,
    name: str,
    configs: dict[str, str | None],
    error: ErrorCode,
    message: str,
) -> None:
    before = world.image.configs
    bad = _alter(world, version, _resource(kind, name, configs))[0]
    assert (bad.error_code, bad.error_message) == (error, message)
    assert world.image.configs == before


def test_a_resource_or_a_config_named_twice(world: World) -> None:
    one = _resource(TOPIC, "t", {"retention.ms": "2"})
    results = _alter(world, 2, one, _resource(TOPIC, "t", {}))
    assert [r.error_code for r in results] == [ErrorCode.INVALID_REQUEST] * 2
    assert results[0].error_message == "Each resource must appear at most once."
    one.configs.append(AlterableConfig(name="retention.ms", value="3"))
    assert _alter(world, 2, one)[0].error_message == "Error due to duplicate config keys"
    assert world.image.topic_config("t")["retention.ms"] == "1"


def test_permissions(world: World) -> None:
    world.authorizer = Denying((Operation.ALTER_CONFIGS, "t"), (Operation.ALTER_CONFIGS, "kafka-cluster"))
    topic, broker = _resource(TOPIC, "t", {}), _resource(BROKER, "0", {})
    assert [r.error_code for r in _alter(world, 2, topic, broker)] == [
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ]


DUPLICATE = [AlterableConfig(name="retention.ms", value="5"), AlterableConfig(name="retention.ms", value="6")]
BAD_TOPIC = "Invalid value x for configuration retention.ms: Not a number of type LONG"
BAD_BROKER = "Invalid value x for configuration log.retention.ms: Not a number of type LONG"


def _as(release: str | None) -> World:
    world = World({} if release is None else {"odradek.kafka.version": release})
    world.controller.create_topic(NewTopic("t"))
    return world


@pytest.mark.parametrize("release", ["2.2", "2.8", "3.1"])
def test_before_3_2_the_last_of_two_values_counts(release: str) -> None:
    world = _as(release)
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=DUPLICATE)
    (result,) = _alter(world, 0, resource)
    assert result.error_code == 0
    assert world.image.topic_config("t") == {"retention.ms": "6"}


@pytest.mark.parametrize("release", [None, "3.2", "3.9", "3.9-kraft", "4.3"])
def test_from_3_2_on_two_values_are_refused(release: str | None) -> None:
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=DUPLICATE)
    (result,) = _alter(_as(release), 1, resource)
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert result.error_message == "Error due to duplicate config keys"


@pytest.mark.parametrize(
    ("release", "error", "named"),
    [
        (None, ErrorCode.INVALID_CONFIG, False),
        ("2.2", ErrorCode.INVALID_REQUEST, True),
        ("2.8", ErrorCode.INVALID_REQUEST, True),
        ("3.2", ErrorCode.INVALID_REQUEST, True),
        ("3.3", ErrorCode.INVALID_CONFIG, True),
        ("3.9", ErrorCode.INVALID_CONFIG, True),
        ("3.9-kraft", ErrorCode.INVALID_CONFIG, False),
        ("4.3", ErrorCode.INVALID_CONFIG, False),
    ],
)
def test_a_bad_value_of_a_topic(release: str | None, error: ErrorCode, named: bool) -> None:
    (result,) = _alter(_as(release), 1, _resource(TOPIC, "t", {"retention.ms": "x"}))
    prefix = "Invalid config value for resource ConfigResource(type=TOPIC, name='t'): " if named else ""
    assert (result.error_code, result.error_message) == (error, prefix + BAD_TOPIC)
    (result,) = _alter(_as(release), 1, _resource(TOPIC, "t", {"no.such": "x"}))
    unknown = "Unknown topic config name: no.such"
    assert (result.error_code, result.error_message) == (ErrorCode.INVALID_CONFIG, unknown)


@pytest.mark.parametrize("release", [None, "2.2", "2.8", "3.1", "3.2", "3.9", "4.2", "4.3"])
@pytest.mark.parametrize("name", ["0", ""])
def test_a_bad_value_of_a_broker(name: str, release: str | None) -> None:
    named = release in ("2.2", "2.8", "3.1")
    prefix = (
        f"Invalid config value for resource ConfigResource(type=BROKER, name='{name}'): " if named else ""
    )
    fixed = "[log.dirs]" if release in (None, "4.3") else "Set(log.dirs)"
    for configs, message in (
        ({"log.retention.ms": "x"}, BAD_BROKER),
        ({"log.dirs": "/x"}, f"Cannot update these configs dynamically: {fixed}"),
    ):
        (result,) = _alter(_as(release), 1, _resource(BROKER, name, dict(configs)))
        assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, prefix + message)


@pytest.mark.parametrize(
    ("release", "name", "error"),
    [
        (None, "", ErrorCode.INVALID_REQUEST),
        ("2.2", "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("2.8", "", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("3.2", "", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("3.9", "", ErrorCode.INVALID_REQUEST),
        (None, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("2.2", "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("2.8", "a b", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("3.9", "a b", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("3.9-kraft", "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_topics_that_cannot_be(release: str | None, name: str, error: ErrorCode) -> None:
    (result,) = _alter(_as(release), 1, _resource(TOPIC, name, {"retention.ms": "1"}))
    assert result.error_code == error
