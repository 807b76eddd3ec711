"""A topic that has been created can be written to when `create_topics` returns."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from client.scripted import ScriptedBroker
from odradek.client import Admin, NewTopic
from odradek.errors import ErrorCode, TopicExistsError
from odradek.wire.api import ApiKey
from odradek.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from odradek.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

UNKNOWN = MetadataResponseTopic(name="t", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
NO_LEADER = MetadataResponseTopic(
    name="t",
    error_code=ErrorCode.LEADER_NOT_AVAILABLE,
    partitions=[MetadataResponsePartition(partition_index=0, leader_id=-1, replica_nodes=[1], isr_nodes=[1])],
)
HIDDEN = MetadataResponseTopic(name="t", error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
READY = MetadataResponseTopic(
    name="t",
    partitions=[
        MetadataResponsePartition(partition_index=n, leader_id=1, replica_nodes=[1], isr_nodes=[1])
        for n in range(2)
    ],
)


@contextmanager
def an_admin(states: list[Any], created: list[CreatableTopicResult], **configs: Any) -> Iterator[Admin]:
    """An administrator whose broker tells of the topic as it is in one state after the other."""

    def metadata(request: Any, version: int) -> MetadataResponse:
        asked = bool(request.topics)
        state = states[0] if len(states) == 1 or not asked else states.pop(0)
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=broker.port)],
            controller_id=1,
            topics=[state] if asked else [],
        )

    def create(request: Any, version: int) -> CreateTopicsResponse:
        return CreateTopicsResponse(topics=created)

    answers: dict[int, Callable[[Any, int], Any]] = {ApiKey.METADATA: metadata, ApiKey.CREATE_TOPICS: create}
    broker = ScriptedBroker(answers, {ApiKey.METADATA: (4, 4), ApiKey.CREATE_TOPICS: (4, 4)})
    with broker, Admin(bootstrap_servers=broker.at, retry_backoff_ms=1, **configs) as admin:
        yield admin


MADE = CreatableTopicResult(name="t")


def test_it_is_returned_with_its_leaders() -> None:
    states = [UNKNOWN, NO_LEADER, READY]
    with an_admin(states, [MADE]) as admin:
        partitions = admin.create_topics(["t"])["t"].partitions
    assert [(p.partition, p.leader) for p in partitions] == [(0, 1), (1, 1)]
    assert states == [READY]


def test_it_is_ready_also_when_another_could_not_be_made() -> None:
    states = [UNKNOWN, READY]
    exists = CreatableTopicResult(name="u", error_code=ErrorCode.TOPIC_ALREADY_EXISTS)
    with an_admin(states, [MADE, exists]) as admin, pytest.raises(TopicExistsError, match="topic 'u'"):
        admin.create_topics(["t", "u"])
    assert states == [READY]


def test_no_leader_in_time_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.WARNING, "odradek.client"),
        an_admin([NO_LEADER], [MADE], default_api_timeout_ms=200) as admin,
    ):
        partitions = admin.create_topics(["t"])["t"].partitions
    assert [p.leader for p in partitions] == [-1]
    assert any(message.startswith("'t': created, but") for message in caplog.messages)


def test_a_topic_that_one_may_not_look_at_is_not_waited_for() -> None:
    with an_admin([HIDDEN], [MADE]) as admin:
        assert admin.create_topics(["t"])["t"].partitions == ()


def test_what_is_only_validated_is_not_waited_for() -> None:
    made = CreatableTopicResult(name="t", num_partitions=2)
    with an_admin([UNKNOWN], [made]) as admin:
        assert admin.create_topics(["t"], validate_only=True)["t"].topic_id == bytes(16)


def test_on_a_broker(admin: Admin) -> None:
    name = "created-with-leaders"
    made = admin.create_topics([NewTopic(name, 3)])
    assert made == admin.describe_topics([name])
    assert all(p.leader >= 0 and p.in_sync_replicas for p in made[name].partitions)
