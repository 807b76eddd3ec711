"""CreateTopics at every version."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.broker.requests.authorization import Operation
from odradek.cluster.controller.topic_manager import NewTopic
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.wire.primitives import ZERO_UUID

from ..admin_world import Denying, World

VERSIONS = range(8)


def _topic(
    name: str,
    partitions: int = 1,
    factor: int = 1,
    assignment: dict[int, list[int]] | None = None,
    **configs: str | None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in (assignment or {}).items()
        ],
        configs=[
            CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()
        ],
    )


def _create(*topics: CreatableTopic, **fields: Any) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), **fields)


def _errors(response: Any) -> dict[str, int]:
    return {topic.name: topic.error_code for topic in response.topics}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_is_created_and_has_leaders(version: int) -> None:
    world = World(others=(1, 2))
    response = world.call(_create(_topic("t", 3, 2, retention_ms="5")), version)
    (result,) = response.topics
    assert (result.name, result.error_code) == ("t", 0)
    topic = world.image.topic("t")
    assert topic is not None
    assert len(topic.partitions) == 3
    assert all(len(p.replicas) == 2 and p.leader == p.replicas[0] for p in topic.partitions.values())
    assert world.image.topic_config("t") == {"retention.ms": "5"}
    if version >= 1:
        assert result.error_message is None
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (3, 2)
        configs = {config.name: config for config in result.configs}
        assert len(configs) == 33
        assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("5", 1)
        assert (configs["segment.bytes"].value, configs["segment.bytes"].config_source) == ("1073741824", 5)
        assert not any(config.read_only or config.is_sensitive for config in result.configs)
        assert result.topic_config_error_code == 0
    if version >= 7:
        assert result.topic_id == topic.topic_id != ZERO_UUID


@pytest.mark.parametrize("version", VERSIONS)
def test_minus_one_means_the_brokers_defaults(version: int) -> None:
    world = World({"num.partitions": "4", "default.replication.factor": "2"}, others=(1,))
    world.call(_create(_topic("t", -1, -1)), version)
    assert [len(p.replicas) for p in world.image.topics["t"].partitions.values()] == [2] * 4


@pytest.mark.parametrize("version", range(1, 8))
def test_validate_only_changes_nothing(version: int) -> None:
    world = World()
    request = _create(_topic("t"), _topic("u", 1, 9), validate_only=True)
    response = world.call(request, version)
    assert _errors(response) == {"t": 0, "u": ErrorCode.INVALID_REPLICATION_FACTOR}
    assert world.image.topics == {}
    if version >= 7:
        assert response.topics[0].topic_id != ZERO_UUID
        assert response.topics[1].topic_id == ZERO_UUID
        assert response.topics[0].num_partitions == 1


@pytest.mark.parametrize(("release", "has_id"), [("4.3", True), ("3.9-kraft", True), ("3.9", False)])
def test_what_is_only_validated_has_an_id_with_kraft(release: str, has_id: bool) -> None:
    """As with real 3.9.1 and 4.3.1."""
    world = World({"odradek.kafka.version": release})
    response = world.call(_create(_topic("t"), validate_only=True), 7)
    assert (response.topics[0].topic_id != ZERO_UUID) is has_id
    assert world.image.topics == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_each_topic_fails_for_itself(version: int) -> None:
    world = World(others=(1,))
    world.controller.create_topic(NewTopic("there"))
    world.controller.create_topic(NewTopic("a.b"))
    cases = {
        "there": (_topic("there"), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'there' already exists."),
        "a_b": (
            _topic("a_b"),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic 'a_b' collides with existing topics: a.b",
        ),
        "": (
            _topic(""),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: the empty string is not allowed",
        ),
        "zero": (
            _topic("zero", 0),
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions must be larger than 0.",
        ),
        "many": (
            _topic("many", 2**31 - 1),
            ErrorCode.POLICY_VIOLATION,
            "Excessively large number of partitions per request.",
        ),
        "wide": (
            _topic("wide", 1, 3),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor: 3 larger than available brokers: 2.",
        ),
        "none": (
            _topic("none", 1, 0),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0.",
        ),
        "both": (
            _topic("both", 1, 1, {0: [0]}),
            ErrorCode.INVALID_REQUEST,
            "Both numPartitions or replicationFactor and replicasAssignments were set. "
            "Both cannot be used at the same time.",
        ),
        "uneven": (
            _topic("uneven", -1, -1, {0: [0], 1: [0, 1]}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes a partition with 2 replica(s), but this is not "
            "consistent with previous partitions, which have 1 replica(s).",
        ),
        "gap": (
            _topic("gap", -1, -1, {1: [0]}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        "config": (
            _topic("config", no_such="1"),
            ErrorCode.INVALID_CONFIG,
            "Unknown topic config name: no.such",
        ),
        "value": (
            _topic("value", retention_ms="soon"),
            ErrorCode.INVALID_CONFIG,
            "Invalid value soon for configuration retention.ms: Not a number of type LONG",
        ),
        "null": (
            _topic("null", retention_ms=None),
            ErrorCode.INVALID_CONFIG,
            "Null value not supported for topic configs: retention.ms",
        ),
        "__cluster_metadata": (
            _topic("__cluster_metadata"),
            ErrorCode.INVALID_REQUEST,
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
    }
    response = world.call(_create(_topic("good"), *(topic for topic, _, _ in cases.values())), version)
    assert _errors(response) == {"good": 0} | {name: code for name, (_, code, _) in cases.items()}
    if version >= 1:
        assert {t.name: t.error_message for t in response.topics if t.name != "good"} == {
            name: message for name, (_, _, message) in cases.items()
        }
    assert set(world.image.topics) == {"there", "a.b", "good"}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_named_twice_is_refused_and_answered_once(version: int) -> None:
    world = World()
    response = world.call(_create(_topic("t"), _topic("t", 2), _topic("u")), version)
    assert _errors(response) == {"t": ErrorCode.INVALID_REQUEST, "u": 0}
    assert len(response.topics) == 2
    assert set(world.image.topics) == {"u"}


def test_names_that_collide_within_one_request() -> None:
    world = World()
    response = world.call(_create(_topic("x.y"), _topic("x_y")), 7)
    assert _errors(response) == {"x.y": 0, "x_y": ErrorCode.INVALID_TOPIC_EXCEPTION}


def test_a_partition_assigned_twice_is_refused() -> None:
    topic = _topic("t", -1, -1, {0: [0]})
    topic.assignments.append(CreatableReplicaAssignment(partition_index=0, broker_ids=[1]))
    (result,) = World(others=(1,)).call(_create(topic), 7).topics
    assert result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert result.error_message == "Found multiple manual partition assignments for partition 0"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_manual_assignment_is_kept(version: int) -> None:
    world = World(others=(1,))
    response = world.call(_create(_topic("t", -1, -1, {0: [1, 0], 1: [0, 1]})), version)
    assert _errors(response) == {"t": 0}
    partitions = world.image.topics["t"].partitions
    assert [(p.replicas, p.leader, p.isr) for p in partitions.values()] == [
        ((1, 0), 1, (1, 0)),
        ((0, 1), 0, (0, 1)),
    ]


UNKNOWN = "The manual partition assignment includes broker 99, but no such broker is registered."


@pytest.mark.parametrize("release", [None, "3.9-kraft", "4.3"])
@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize("replicas", [[1, 99], [99], [99, 99], [99, 98]])
def test_brokers_that_are_not_there(replicas: list[int], validate_only: bool, release: str | None) -> None:
    world = World({} if release is None else {"odradek.kafka.version": release}, broker_id=1)
    unknown = min(set(replicas) - {1})
    wanted = _create(_topic("t", -1, -1, {0: replicas}), validate_only=validate_only)
    (result,) = world.call(wanted, 7).topics
    assert result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert result.error_message == UNKNOWN.replace("99", str(unknown))
    assert world.image.topics == {}


@pytest.mark.parametrize(
    ("assignment", "error"),
    [
        ({0: [1, 99]}, 0),
        ({0: [99]}, ErrorCode.REQUEST_TIMED_OUT),
        ({0: [1], 1: [99]}, ErrorCode.REQUEST_TIMED_OUT),
        ({0: [99, 99]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({0: [99], 2: [1]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
@pytest.mark.parametrize("release", ["2.8", "3.9"])
def test_brokers_that_are_not_there_with_zookeeper(
    assignment: dict[int, list[int]], error: int, release: str
) -> None:
    world = World({"odradek.kafka.version": release}, broker_id=1)
    topic = _topic("t", -1, -1, assignment)
    looked = world.call(_create(topic, validate_only=True), 5)
    refused = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert _errors(looked) == {"t": refused if error == refused else 0}
    (result,) = world.call(_create(topic), 5).topics
    assert (result.error_code, result.error_message is None) == (error, error != refused)
    assert ("t" in world.image.topics) is (error != refused)


def test_the_last_of_two_assignments_holds_with_zookeeper() -> None:
    world = World({"odradek.kafka.version": "3.9"}, others=(1,))
    topic = _topic("t", -1, -1, {0: [0]})
    topic.assignments.append(CreatableReplicaAssignment(partition_index=0, broker_ids=[1]))
    assert _errors(world.call(_create(topic), 5)) == {"t": 0}
    assert world.image.topics["t"].partitions[0].replicas == (1,)


def test_permissions() -> None:
    world = World()
    world.authorizer = Denying(
        (Operation.CREATE, "kafka-cluster"),
        (Operation.CREATE, "denied"),
        (Operation.DESCRIBE_CONFIGS, "secret"),
    )
    response = world.call(_create(_topic("denied"), _topic("secret"), _topic("open")), 7)
    results = {t.name: t for t in response.topics}
    assert results["denied"].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert results["secret"].error_code == 0
    assert results["secret"].topic_config_error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert (results["secret"].configs, results["secret"].num_partitions) == ([], -1)
    assert len(results["open"].configs) == 33


_DENIED = ["a-denied", "twice", "ok", "a/b", "b-denied", "twice", "__cluster_metadata", "ok2"]
_TWICE, _META = "Found multiple entries for this topic.", "__cluster_metadata"


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        (None, ["ok", "a/b", "ok2", "twice", "a-denied", "b-denied", _META]),
        ("3.9", _DENIED),
        ("2.4", _DENIED),
        ("2.2", ["a-denied", "twice", "ok", "a/b", "b-denied", _META, "ok2"]),
    ],
)
def test_topics_are_listed_as_controllers_do(release: str | None, expected: list[str]) -> None:
    """As Kafka 4.3.1, and 3.9.1 with ZooKeeper, answer a principal that may not create some."""
    world = World({} if release is None else {"odradek.kafka.version": release})
    denied = [(Operation.CREATE, name) for name in ("kafka-cluster", "a-denied", "b-denied")]
    world.authorizer = Denying(*denied)
    request = CreateTopicsRequest(topics=[_topic(name) for name in _DENIED], validate_only=True)
    answer = world.call(request, 3).topics
    assert [one.name for one in answer] == expected
    told = {one.name: (one.error_code, one.error_message) for one in answer}
    message = "Duplicate topic name." if release is None else _TWICE
    assert told["twice"] == (ErrorCode.INVALID_REQUEST, message)
    assert told["a-denied"] == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
    assert told["a/b"][0] == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert told["ok"][0] == told["ok2"][0] == 0


def test_who_is_not_the_controller_says_so() -> None:
    world = World()
    world.controller.context.is_active = False
    response = world.call(_create(_topic("t"), _topic("u")), 7)
    assert set(_errors(response).values()) == {ErrorCode.NOT_CONTROLLER}


def test_topics_of_many_transactions_are_all_created() -> None:
    world = World()
    response = world.call(_create(*(_topic(f"t{i}", 300) for i in range(5))), 7)
    assert set(_errors(response).values()) == {0}
    assert len(world.image.topics) == 5
    assert len({topic.topic_id for topic in world.image.topics.values()}) == 5


def test_one_request_cannot_ask_for_any_number_of_partitions() -> None:
    world = World()
    response = world.call(_create(_topic("a", 6000), _topic("b", 6000), _topic("c", 4000)), 7)
    assert _errors(response) == {"a": 0, "b": ErrorCode.POLICY_VIOLATION, "c": 0}
    manual = {index: [0] for index in range(10_001)}
    assert _errors(world.call(_create(_topic("d", -1, -1, manual)), 7)) == {"d": ErrorCode.POLICY_VIOLATION}
