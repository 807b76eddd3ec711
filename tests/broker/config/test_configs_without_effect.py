"""A config that changes nothing here is told of, on whichever way it comes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from odradek.broker.config.effect import brokers_without_effect, topics_without_effect
from odradek.cluster.configs.config_def import DELETE, SET
from odradek.cluster.controller.topic_manager import NewTopic
from odradek.wire.messages.alter_configs import AlterableConfig as Replacing
from odradek.wire.messages.alter_configs import AlterConfigsRequest
from odradek.wire.messages.alter_configs import AlterConfigsResource as ReplacedResource
from odradek.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from ..admin_world import World

TOPIC, BROKER = 2, 4
Lines = Callable[[], list[str]]


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Lines:
    """The lines since the last call."""

    def lines() -> list[str]:
        found = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
        caplog.clear()
        return [line for line in found if line.startswith("config has no effect")]

    return lines


def set_one(world: World, kind: int, name: str, config: str, value: str | None, **fields: Any) -> None:
    changed = AlterableConfig(name=config, config_operation=DELETE if value is None else SET, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[changed])
    (answer,) = world.call(IncrementalAlterConfigsRequest(resources=[resource], **fields), 1).responses
    assert answer.error_code == 0, answer.error_message


def replace_all(world: World, kind: int, name: str, config: str, value: str | None, **fields: Any) -> None:
    changed = [] if value is None else [Replacing(name=config, value=value)]
    resource = ReplacedResource(resource_type=kind, resource_name=name, configs=changed)
    (answer,) = world.call(AlterConfigsRequest(resources=[resource], **fields), 2).responses
    assert answer.error_code == 0, answer.error_message


@pytest.fixture
def world() -> World:
    world = World()
    world.controller.create_topic(NewTopic("t"))
    return world


RESOURCES = [
    (TOPIC, "t", "topics/t", "local.retention.ms", "1000"),
    (BROKER, "", "brokers/<default>", "background.threads", "11"),
    (BROKER, "0", "brokers/0", "background.threads", "11"),
]


@pytest.mark.parametrize("change", [set_one, replace_all])
@pytest.mark.parametrize(("kind", "name", "entity", "config", "value"), RESOURCES)
def test_one_that_is_set_while_the_broker_runs(
    world: World, told: Lines, change: Any, kind: int, name: str, entity: str, config: str, value: str
) -> None:
    change(world, kind, name, config, value, validate_only=True)
    assert told() == []
    change(world, kind, name, config, value)
    assert told() == [f"config has no effect here name={config} of={entity}"]
    change(world, kind, name, config, value)
    assert told() == [], "nothing was changed"
    change(world, kind, name, config, None)
    assert told() == []


@pytest.mark.parametrize("change", [set_one, replace_all])
@pytest.mark.parametrize(
    ("kind", "name", "config", "value"),
    [(TOPIC, "t", "retention.ms", "1000"), (BROKER, "", "log.retention.ms", "1000")],
)
def test_of_what_has_an_effect_nothing_is_said(
    world: World, told: Lines, change: Any, kind: int, name: str, config: str, value: str
) -> None:
    change(world, kind, name, config, value)
    assert told() == []


@pytest.mark.parametrize("validate_only", [False, True])
def test_one_that_a_new_topic_has(world: World, told: Lines, validate_only: bool) -> None:
    configs = [
        CreatableTopicConfig(name="retention.ms", value="1000"),
        CreatableTopicConfig(name="local.retention.ms", value="1000"),
    ]
    topic = CreatableTopic(name="new", num_partitions=1, replication_factor=1, configs=configs)
    (answer,) = world.call(CreateTopicsRequest(topics=[topic], validate_only=validate_only), 5).topics
    assert answer.error_code == 0, answer.error_message
    expected = ["config has no effect here name=local.retention.ms of=topics/new"]
    assert told() == ([] if validate_only else expected)


def test_names_that_nobody_knows_have_a_line_of_their_own() -> None:
    assert brokers_without_effect(["nonsense", "background.threads", "num.partitions"]) == [
        "background.threads"
    ]
    assert topics_without_effect(["nonsense", "remote.storage.enable", "segment.ms"]) == [
        "remote.storage.enable"
    ]
