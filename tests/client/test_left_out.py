"""Nothing is known of what an answer leaves out: a position is not set, a topic is asked for again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from client.scripted import ScriptedBroker, Silence
from odradek.client import Consumer
from odradek.client.aio.cluster import Cluster
from odradek.client.aio.offsets import epoch_end_offsets_once
from odradek.client.blocking import BlockingCluster
from odradek.client.config import CommonConfig, build
from odradek.client.types import TopicPartition
from odradek.errors import UnknownServerError
from odradek.wire.api import ApiKey
from odradek.wire.messages import response_class
from odradek.wire.messages.find_coordinator import FindCoordinatorResponse
from odradek.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.wire.messages.offset_fetch import OffsetFetchResponse, OffsetFetchResponseGroup
from waiting import until

TP = TopicPartition("t", 0)


@contextmanager
def a_broker(offset_fetch: OffsetFetchResponse, version: int) -> Iterator[ScriptedBroker]:
    """A broker that says nothing of any offset."""

    def metadata(request: Any, version: int) -> MetadataResponse:
        part = MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1])
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=broker.port)],
            topics=[MetadataResponseTopic(name="t", partitions=[part])],
        )

    def find(request: Any, version: int) -> FindCoordinatorResponse:
        return FindCoordinatorResponse(node_id=1, host="127.0.0.1", port=broker.port)

    def fetch(request: Any, version: int) -> Any:
        raise Silence

    def nothing(key: ApiKey) -> Any:
        return lambda request, version: response_class(key)()

    broker = ScriptedBroker(
        {
            ApiKey.METADATA: metadata,
            ApiKey.FIND_COORDINATOR: find,
            ApiKey.FETCH: fetch,
            ApiKey.OFFSET_FETCH: lambda request, version: offset_fetch,
            ApiKey.LIST_OFFSETS: nothing(ApiKey.LIST_OFFSETS),
            ApiKey.OFFSET_FOR_LEADER_EPOCH: nothing(ApiKey.OFFSET_FOR_LEADER_EPOCH),
        },
        {
            ApiKey.METADATA: (1, 1),
            ApiKey.FIND_COORDINATOR: (0, 0),
            ApiKey.FETCH: (4, 4),
            ApiKey.OFFSET_FETCH: (version, version),
            ApiKey.LIST_OFFSETS: (1, 1),
            ApiKey.OFFSET_FOR_LEADER_EPOCH: (3, 3),
        },
    )
    with broker:
        yield broker


@pytest.mark.parametrize(
    ("offset_fetch", "version"),
    [
        (OffsetFetchResponse(), 1),
        (OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g")]), 8),
        (OffsetFetchResponse(), 8),
    ],
    ids=["one group", "many groups", "no group"],
)
def test_a_partition_that_the_coordinator_leaves_out_is_not_reset(
    offset_fetch: OffsetFetchResponse, version: int
) -> None:
    """Reset to the latest offset, it would lose what was never read."""
    with (
        a_broker(offset_fetch, version) as broker,
        Consumer(bootstrap_servers=broker.at, group_id="g") as consumer,
    ):
        consumer.assign([TP])
        with pytest.raises(UnknownServerError):
            until(lambda: consumer.poll(1), "an error")
        assert ApiKey.LIST_OFFSETS not in [key for key, _ in broker.asked]


def test_a_leader_is_not_asked_without_end_for_an_offset_that_it_leaves_out() -> None:
    """Nor without a pause."""
    with a_broker(OffsetFetchResponse(), 1) as broker, Consumer(bootstrap_servers=broker.at) as consumer:
        consumer.assign([TP])
        with pytest.raises(UnknownServerError, match="t-0"):
            until(lambda: consumer.poll(1), "an error")
        assert [key for key, _ in broker.asked].count(ApiKey.LIST_OFFSETS) == 1


def test_a_leader_is_not_asked_without_end_for_an_epoch_that_it_leaves_out() -> None:
    async def ask(config: CommonConfig) -> tuple[Any, Any]:
        cluster = Cluster(config)
        try:
            await cluster.check_partitions([TP], 10_000)
            return await epoch_end_offsets_once(cluster, {TP: 3})
        finally:
            await cluster.close()

    with a_broker(OffsetFetchResponse(), 1) as broker:
        ends, problem = asyncio.run(ask(build(CommonConfig, {"bootstrap_servers": broker.at})))
    assert (ends, type(problem)) == ({}, UnknownServerError)


def test_a_topic_that_the_metadata_leaves_out_is_asked_for_again() -> None:
    topics: list[list[MetadataResponseTopic]] = [[]]

    def metadata(request: Any, version: int) -> MetadataResponse:
        part = MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1])
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=broker.port)],
            topics=topics.pop() if topics else [MetadataResponseTopic(name="t", partitions=[part])],
        )

    broker = ScriptedBroker({ApiKey.METADATA: metadata}, {ApiKey.METADATA: (4, 4)})
    with broker:
        cluster = BlockingCluster(
            build(CommonConfig, {"bootstrap_servers": broker.at}), allow_auto_create=True
        )
        try:
            assert cluster.ensure_topic("t") == [0]
        finally:
            cluster.close()
