"""A reassignment under a throttle (KIP-73), on a cluster: the newcomer waits, who is in sync does not.

The rate is taken over an hour here, so that what has passed stands for the whole test: how long anything
takes does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from odradek.client import Admin, Producer
from odradek.testing import Cluster

HOUR_S = 3600
RATE = 20
MOST = RATE * HOUR_S
"""Bytes that may pass before the rate is exceeded."""

AT_ONCE = 20_000
VALUE = b"x" * 1_000
RECORDS = 300


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with Cluster(
        3,
        replica_fetch_wait_max_ms=50,
        replica_fetch_max_bytes=AT_ONCE,
        replica_fetch_response_max_bytes=AT_ONCE,
        replication_quota_window_size_seconds=HOUR_S,
    ) as cluster:
        yield cluster


def write(cluster: Cluster, topic: str, count: int) -> None:
    """Records that all in sync have."""
    with Producer(
        bootstrap_servers=cluster.bootstrap_servers, acks="all", batch_size=4_000, linger_ms=0
    ) as producer:
        for sent in [producer.send(topic, value=VALUE, partition=0) for _ in range(count)]:
            sent.result(60)


def end(cluster: Cluster, broker: int, topic: str) -> int:
    """Where a broker's replica ends; -1 where it has none."""

    def read(one: Any) -> int:
        replica = one.replicas.find(topic, 0)
        return -1 if replica is None else replica.log.log_end_offset

    found: int = cluster.broker(broker).call(read)
    return found


def metric(cluster: Cluster, broker: int, name: str, kind: str = "BrokerTopicMetrics") -> float:
    return cluster.broker(broker).metrics()[f"kafka.server:{kind}", name, ()]


def test_a_leader_holds_the_newcomer_back_and_nobody_else(shared: Cluster) -> None:
    reassign_throttled(shared, "leader", 0)


def test_a_follower_that_is_new_holds_itself_back(shared: Cluster) -> None:
    reassign_throttled(shared, "follower", 2)


def reassign_throttled(cluster: Cluster, side: str, which: int) -> None:
    """Add a replica, by which one broker's throttle is exceeded; then take the throttle away.

    Args:
        cluster: of three brokers.
        side: whose throttle.
        which: on which replica's broker: 0 is the leader, 2 the newcomer.
    """
    topic = f"moved-{side}"
    cluster.create_topic(topic, replication_factor=2)
    leader = cluster.leader(topic)
    before = cluster.partition(topic).replicas
    (second,) = set(before) - {leader}
    (newcomer,) = {0, 1, 2} - set(before)
    cluster.wait_for_isr(topic, set(before))
    write(cluster, topic, RECORDS)
    throttled = (leader, second, newcomer)[which]
    rate, replicas = f"{side}.replication.throttled.rate", f"{side}.replication.throttled.replicas"
    bean = f"{side.capitalize()}Replication"
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.incremental_alter_configs(
            {
                ("topic", topic): {replicas: f"0:{throttled}"},
                ("broker", throttled): {rate: str(RATE)},
            }
        )
        cluster.wait_until(lambda: quota(cluster, throttled, side, "is_throttled", (topic, 0)))
        cluster.wait_until(lambda: quota(cluster, throttled, side, "bytes_per_second") == RATE)
        was_in = metric(cluster, newcomer, "ReassignmentBytesInPerSec")
        was_out = metric(cluster, leader, "ReassignmentBytesOutPerSec")
        admin.alter_partition_reassignments({(topic, 0): [*before, newcomer]})
        cluster.wait_until(lambda: quota(cluster, throttled, side, "is_exceeded"))
        # Who is in sync has each record before it is acknowledged; the newcomer gets no more.
        for _ in range(5):
            write(cluster, topic, 20)
            assert end(cluster, second, topic) == end(cluster, leader, topic)
            assert set(cluster.partition(topic).isr) == set(before)
            copied = metric(cluster, newcomer, "ReassignmentBytesInPerSec") - was_in
            assert copied <= MOST + AT_ONCE
            assert -1 < end(cluster, newcomer, topic) < RECORDS
        assert metric(cluster, throttled, "byte-rate", bean) > RATE
        assert admin.list_partition_reassignments()[topic, 0].adding_replicas == (newcomer,)
        admin.incremental_alter_configs(
            {("topic", topic): {replicas: None}, ("broker", throttled): {rate: None}}
        )
        cluster.wait_for_isr(topic, {0, 1, 2})
        cluster.wait_until(lambda: not admin.list_partition_reassignments())
    assert end(cluster, newcomer, topic) == end(cluster, leader, topic) == RECORDS + 100
    size = RECORDS * len(VALUE)
    assert metric(cluster, newcomer, "ReassignmentBytesInPerSec") - was_in > size
    assert metric(cluster, leader, "ReassignmentBytesOutPerSec") - was_out > size


def quota(cluster: Cluster, broker: int, side: str, name: str, *arguments: Any) -> Any:
    """What a broker's throttle of one side says."""

    def read(one: Any) -> Any:
        found = getattr(getattr(one.replicas.quotas, side), name)
        return found(*arguments) if arguments else found

    return cluster.broker(broker).call(read)
