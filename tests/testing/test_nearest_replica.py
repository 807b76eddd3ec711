"""Consumers that read from the replica in their rack (KIP-392), over real connections."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from odradek.client import Consumer
from odradek.errors.codes import ErrorCode
from odradek.replication.replica_selector import LEADER_SELECTOR, RACK_AWARE_SELECTOR
from odradek.testing import Cluster
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

from .cluster_records import poll_values, produce

RACKS = ("a", "b", "c")
GROUPS = count()


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with Cluster(
        3, racks=RACKS, replica_selector_class=RACK_AWARE_SELECTOR, replica_fetch_wait_max_ms=50
    ) as cluster:
        yield cluster


def committed_everywhere(cluster: Cluster, topic: str, offset: int) -> None:
    """Wait until every replica knows that everything below an offset is committed."""
    for one in cluster.live:
        cluster.wait_until(
            lambda one=one: cluster.broker(one).call(
                lambda b: b.replicas.get(topic, 0).log.high_watermark >= offset
            )
        )


def fetch(
    cluster: Cluster, broker: int, topic: str, offset: int, rack: str = "", version: int = 12
) -> tuple[ErrorCode, int, int, int]:
    """Error, preferred replica, bytes of records, and high watermark."""
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        rack_id=rack,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)],
            )
        ],
    )
    other = next(one for one in cluster.live if one != broker)

    def ask(asking: Any) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = asking.channels.to_broker(broker, "test").send(request, version)
        return answer

    response = cluster.broker(other).call(ask)
    (found,) = response.responses[0].partitions
    return (
        ErrorCode(found.error_code),
        found.preferred_read_replica,
        len(found.records or b""),
        found.high_watermark,
    )


def bytes_out(cluster: Cluster, broker: int, topic: str) -> int:
    return cluster.broker(broker).call(lambda b: b.metrics.topics.of(topic).bytes_out)


def reader(cluster: Cluster, topic: str, rack: str) -> Consumer:
    consumer = Consumer(
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=f"near-{next(GROUPS)}",
        auto_offset_reset="earliest",
        client_rack=rack,
    )
    consumer.subscribe([topic])
    return consumer


def test_a_leader_names_the_replica_in_the_consumers_rack(shared: Cluster) -> None:
    shared.create_topic("near")
    produce(shared, "near", [b"value"])
    leader = shared.leader("near")
    committed_everywhere(shared, "near", 1)
    for broker, rack in enumerate(RACKS):
        error, preferred, size, high_watermark = fetch(shared, leader, "near", 0, rack)
        assert (error, high_watermark) == (ErrorCode.NONE, 1)
        assert (preferred, size > 0) == ((-1, True) if broker == leader else (broker, False))
    follower = next(one for one in range(3) if one != leader)
    # Nobody near, no rack, a version that knows none; then an offset that nobody has, and a follower.
    for rack, version in (("elsewhere", 12), ("", 12), (RACKS[follower], 10)):
        error, preferred, size, _ = fetch(shared, leader, "near", 0, rack, version)
        assert (error, preferred) == (ErrorCode.NONE, -1)
        assert size > 0
    assert fetch(shared, leader, "near", 2, RACKS[follower])[:2] == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert fetch(shared, follower, "near", 0, RACKS[leader])[1:3] == (-1, size)


def test_a_follower_serves_up_to_its_high_watermark(shared: Cluster) -> None:
    shared.create_topic("served")
    produce(shared, "served", [b"1", b"2", b"3"])
    follower = next(one for one in range(3) if one != shared.leader("served"))
    committed_everywhere(shared, "served", 3)
    error, _, size, high_watermark = fetch(shared, follower, "served", 0)
    assert (error, high_watermark) == (ErrorCode.NONE, 3)
    assert size > 0
    assert fetch(shared, follower, "served", 3)[:3] == (ErrorCode.NONE, -1, 0)
    assert fetch(shared, follower, "served", 4)[0] == ErrorCode.OFFSET_OUT_OF_RANGE
    # An old consumer knows leaders only.
    assert fetch(shared, follower, "served", 0, version=10)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_consumer_follows_the_hint(shared: Cluster) -> None:
    shared.create_topic("followed")
    values = [b"value %d" % number for number in range(20)]
    produce(shared, "followed", values)
    leader = shared.leader("followed")
    near = next(one for one in range(3) if one != leader)
    committed_everywhere(shared, "followed", 20)
    with reader(shared, "followed", RACKS[near]) as consumer:
        assert poll_values(shared, consumer, 20) == values
        produce(shared, "followed", [b"later"])
        assert poll_values(shared, consumer, 1) == [b"later"]
    assert bytes_out(shared, near, "followed") > 0
    other = next(one for one in range(3) if one not in (leader, near))
    assert bytes_out(shared, other, "followed") == 0


def test_a_nearest_replica_that_dies_is_done_without() -> None:
    with Cluster(
        3, racks=RACKS, replica_selector_class=RACK_AWARE_SELECTOR, replica_fetch_wait_max_ms=50
    ) as cluster:
        cluster.create_topic("near")
        produce(cluster, "near", [b"before"])
        leader = cluster.leader("near")
        near = next(one for one in range(3) if one not in (leader, cluster.controller))
        committed_everywhere(cluster, "near", 1)
        with reader(cluster, "near", RACKS[near]) as consumer:
            assert poll_values(cluster, consumer, 1) == [b"before"]
            assert bytes_out(cluster, near, "near") > 0
            cluster.kill(near)
            produce(cluster, "near", [b"after"])
            assert poll_values(cluster, consumer, 1) == [b"after"]
            cluster.restart(near)


@pytest.mark.parametrize("selector", [None, LEADER_SELECTOR, "com.example.Unknown"])
def test_without_a_selector_everybody_reads_from_the_leader(selector: str | None) -> None:
    config = {} if selector is None else {"replica_selector_class": selector}
    with Cluster(2, racks=RACKS[:2], **config) as cluster:
        cluster.create_topic("far")
        produce(cluster, "far", [b"value"])
        leader = cluster.leader("far")
        committed_everywhere(cluster, "far", 1)
        error, preferred, size, _ = fetch(cluster, leader, "far", 0, RACKS[1 - leader])
        assert (error, preferred) == (ErrorCode.NONE, -1)
        assert size > 0


def test_a_rack_for_each_broker() -> None:
    with pytest.raises(ValueError, match="2 racks for 3 brokers"):
        Cluster(3, racks=RACKS[:2])
