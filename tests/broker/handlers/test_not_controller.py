"""Who is not the controller says so before anything else: what it knows of topics may be old, or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from odradek.errors.codes import ErrorCode
from odradek.testing.cluster import Cluster
from odradek.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

from ..live import connect

NAMES = ("t", "elsewhere", "not a name", "twice", "twice")
"""A topic that this broker knows, one that it does not, one that cannot be, one that is named twice."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(2) as cluster:
        cluster.create_topic("t")
        yield cluster


def ask(cluster: Cluster, message: Any, version: int) -> Any:
    (other,) = {0, 1} - {cluster.controller}

    async def call() -> Any:
        client = await connect(mock.Mock(port=int(cluster.brokers[other].address.rpartition(":")[2])))
        try:
            return await client.call(message, version)
        finally:
            client.close()

    return asyncio.run(call())


@pytest.mark.parametrize("version", [0, 3, 5, 7])
def test_create_topics(cluster: Cluster, version: int) -> None:
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in NAMES]
    answer = ask(cluster, CreateTopicsRequest(topics=topics, timeout_ms=1000), version)
    assert {one.name: one.error_code for one in answer.topics} == dict.fromkeys(
        NAMES, ErrorCode.NOT_CONTROLLER
    )


@pytest.mark.parametrize("version", [1, 5, 6])
def test_delete_topics(cluster: Cluster, version: int) -> None:
    request = DeleteTopicsRequest(timeout_ms=1000)
    if version < 6:
        request.topic_names = list(NAMES)
    else:
        request.topics = [DeleteTopicState(name=name) for name in NAMES[:-1]]
        request.topics.append(DeleteTopicState(name=None, topic_id=bytes(15) + b"x"))
    answer = ask(cluster, request, version)
    assert {one.error_code for one in answer.responses} == {ErrorCode.NOT_CONTROLLER}


@pytest.mark.parametrize("version", [0, 3])
def test_create_partitions(cluster: Cluster, version: int) -> None:
    topics = [CreatePartitionsTopic(name=name, count=9) for name in NAMES]
    answer = ask(cluster, CreatePartitionsRequest(topics=topics, timeout_ms=1000), version)
    assert {one.name: one.error_code for one in answer.results} == dict.fromkeys(
        NAMES, ErrorCode.NOT_CONTROLLER
    )


@pytest.mark.parametrize("version", [1, 2])
def test_elect_leaders_of_all(cluster: Cluster, version: int) -> None:
    answer = ask(cluster, ElectLeadersRequest(topic_partitions=None, timeout_ms=1000), version)
    assert (answer.error_code, answer.replica_election_results) == (ErrorCode.NOT_CONTROLLER, [])


@pytest.mark.parametrize("version", [0, 2])
def test_elect_leaders_of_some(cluster: Cluster, version: int) -> None:
    wanted = [TopicPartitions(topic=name, partitions=[0, 7]) for name in ("t", "elsewhere")]
    answer = ask(cluster, ElectLeadersRequest(topic_partitions=wanted, timeout_ms=1000), version)
    told = [one.error_code for topic in answer.replica_election_results for one in topic.partition_result]
    assert told == [ErrorCode.NOT_CONTROLLER] * 4
