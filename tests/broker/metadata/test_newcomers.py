"""A broker that has just come knows all topics before it has taken up its replicas, or says nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest

from odradek.broker.metadata import waits
from odradek.errors.codes import ErrorCode
from odradek.log.folders.log_manager import LogManager
from odradek.testing.cluster import Cluster
from odradek.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from waiting import happened, joined

from ..live import connect

LATER = ErrorCode.LEADER_NOT_AVAILABLE


def ask(cluster: Cluster, broker_id: int, message: Any, version: int) -> Any:
    async def call() -> Any:
        port = int(cluster.brokers[broker_id].address.rpartition(":")[2])
        client = await connect(mock.Mock(port=port))
        try:
            return await client.call(message, version)
        finally:
            client.close()

    return asyncio.run(call())


@contextmanager
def folders_take_long() -> Iterator[threading.Event]:
    """Nobody makes a folder for a replica until this ends: as with thousands of them."""
    go_on = threading.Event()
    prepare = LogManager.prepare

    def late(*args: Any) -> None:
        happened(go_on, "the end of what holds folders back")
        prepare(*args)

    with mock.patch.object(LogManager, "prepare", late):
        try:
            yield go_on
        finally:
            go_on.set()


def test_all_topics_are_told_before_what_it_holds_is_taken_up() -> None:
    with Cluster(3) as cluster:
        cluster.create_topic("t", 3)
        cluster.stop(2)
        # Without its replicas: they have to be made anew, which takes long.
        data = cluster.brokers[2].data
        assert data is not None
        for index in range(3):
            (data / f"t-{index}").rename(data / f"t-{index}.00000000000000000000000000000000-stray")
        with folders_take_long() as go_on:
            starting = threading.Thread(target=cluster.restart, args=(2,))
            starting.start()
            cluster.wait_until(lambda: len(cluster.image(0).brokers) == 3)
            told = ask(cluster, 2, MetadataRequest(topics=None), 9)
            assert starting.is_alive(), "it is not ready before it has taken up what it holds"
            assert sorted(one.node_id for one in told.brokers) == [0, 1, 2]
            assert {topic.name for topic in told.topics} >= {"t"}
            (topic,) = (topic for topic in told.topics if topic.name == "t")
            assert [one.error_code for one in topic.partitions] == [0, 0, 0]
            go_on.set()
            joined(starting)
        assert cluster.brokers[2].call(lambda broker: len(broker.replicas)) >= 3


@pytest.fixture
def untold(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    with Cluster(1) as cluster:
        cluster.create_topic("t")
        monkeypatch.setattr(waits, "KNOWN_WITHIN_MS", 1)
        member = cluster.brokers[0]
        member.call(lambda broker: setattr(broker._membership, "is_told", False))
        yield cluster


def test_who_is_not_told_says_nothing_that_could_be_believed(untold: Cluster) -> None:
    everything = ask(untold, 0, MetadataRequest(topics=None), 9)
    assert (everything.brokers, everything.topics, everything.controller_id) == ([], [], -1)
    names = [MetadataRequestTopic(name=name) for name in ("t", "another")]
    asked = ask(untold, 0, MetadataRequest(topics=names, allow_auto_topic_creation=True), 9)
    assert asked.brokers == []
    assert [(one.name, one.error_code) for one in asked.topics] == [("t", LATER), ("another", LATER)]
    assert untold.image(0).topic("another") is None
    by_id = MetadataRequestTopic(name=None, topic_id=bytes(15) + b"x")
    (found,) = ask(untold, 0, MetadataRequest(topics=[by_id]), 12).topics
    assert (found.topic_id, found.error_code) == (by_id.topic_id, LATER)


def test_nor_does_it_have_topics_made(untold: Cluster) -> None:
    answer = ask(untold, 0, FindCoordinatorRequest(key="g", key_type=0), 2)
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert untold.image(0).topic("__consumer_offsets") is None
    topics = [TopicRequest(name="another")]
    described = ask(untold, 0, DescribeTopicPartitionsRequest(topics=topics), 0)
    assert [one.error_code for one in described.topics] == [LATER]
