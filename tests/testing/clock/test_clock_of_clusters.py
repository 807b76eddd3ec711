"""Stories of a cluster's time: one clock for all brokers, and all of them at rest when it stands again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odradek import Consumer, Producer
from odradek.errors import KafkaError
from odradek.testing import Cluster, ManualClock
from waiting import WITHIN_S, until

from .in_hand import GROUP


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(3, clock=ManualClock()) as cluster:
        cluster.create_topic("orders")
        yield cluster


def send(cluster: Cluster, **config: object) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, **config) as producer:
        producer.send("orders", b"v").result(WITHIN_S)


def others(cluster: Cluster, *broker_ids: int) -> list[int]:
    return [broker_id for broker_id in cluster.live if broker_id not in broker_ids]


def move_leader_from_the_controller(cluster: Cluster) -> int:
    """Have another broker lead, and return which."""
    leader, *_ = others(cluster, cluster.controller)
    cluster.move_leader("orders", 0, leader)
    return leader


def test_all_replicas_retain_as_long() -> None:
    with Cluster(3, clock=ManualClock(), log_retention_hours=1) as cluster:
        cluster.create_topic("orders")
        send(cluster)

        def starts() -> list[int]:
            return [
                cluster.broker(broker_id).call(lambda app: app.replicas.get("orders", 0).log.log_start_offset)
                for broker_id in cluster.live
            ]

        cluster.advance(minutes=55)
        assert starts() == [0, 0, 0]
        cluster.advance(minutes=10)
        assert starts() == [1, 1, 1]


def test_replica_lag_time_max_ms(cluster: Cluster) -> None:
    """A follower that does not fetch leaves the in-sync replicas when it has lagged for 30 to 45 s."""
    leader = move_leader_from_the_controller(cluster)
    follower, *_ = others(cluster, leader, cluster.controller)
    cluster.advance(days=1)
    assert len(cluster.partition("orders").isr) == 3
    cluster.cut(follower, leader)
    send(cluster, acks="1")
    cluster.advance(seconds=29)
    assert len(cluster.partition("orders").isr) == 3
    cluster.advance(seconds=17)
    assert follower not in cluster.partition("orders").isr
    cluster.heal()


def test_the_session_with_the_metadata_store(cluster: Cluster) -> None:
    """A leader that is cut off from all leads until its session ends; then another is elected."""
    leader = move_leader_from_the_controller(cluster)
    cluster.isolate(leader)
    cluster.advance(milliseconds=999)
    assert cluster.partition("orders").leader == leader
    cluster.advance(milliseconds=1)
    assert cluster.partition("orders").leader in others(cluster, leader)
    for broker_id in others(cluster, leader):
        partition = cluster.image(broker_id).partition("orders", 0)
        assert partition is not None
        assert partition.leader != leader
    cluster.heal()


def test_leader_imbalance_check_interval_seconds(cluster: Cluster) -> None:
    leader = move_leader_from_the_controller(cluster)
    cluster.kill(leader)
    cluster.advance(seconds=1)
    assert cluster.leader("orders") != leader
    cluster.restart(leader)
    cluster.wait_for_isr("orders", {0, 1, 2})
    cluster.advance(seconds=301)
    assert cluster.partition("orders").leader == leader


def test_a_group_and_a_transaction_have_the_clusters_time(cluster: Cluster) -> None:
    """Sessions end, and transactions with all their markers, wherever their coordinators are."""
    configs = {"bootstrap_servers": cluster.bootstrap_servers}
    with (
        Consumer(**configs, group_id=GROUP, heartbeat_interval_ms=50) as consumer,
        Producer(**configs, transactional_id="billing", transaction_timeout_ms=10_000) as producer,
    ):
        consumer.subscribe(["orders"])
        until(lambda: [consumer.poll(0.05), consumer.assignment()][1], "an assignment")
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"v").result(WITHIN_S)

        def stable() -> int:
            leader = cluster.broker(cluster.leader("orders"))
            return int(leader.call(lambda app: app.replicas.get("orders", 0).log.last_stable_offset))

        def joins() -> int:
            coordinator = cluster.broker(cluster.coordinator(group=GROUP))
            return coordinator.requests_by_api()["JoinGroup"]

        assert stable() == 0
        before = joins()
        cluster.advance(hours=1)  # many sessions: a heartbeat in the midst of it does not help
        assert stable() == 2
        with pytest.raises(KafkaError):
            producer.commit_transaction()
        until(lambda: [consumer.poll(0.05), joins() > before][1], "another join")
        until(lambda: [consumer.poll(0.05), consumer.assignment()][1], "an assignment")


def test_a_broker_that_stands_still_does_not_hold_the_others_up(cluster: Cluster) -> None:
    paused, *_ = others(cluster, cluster.controller, cluster.leader("orders"))
    cluster.pause(paused)
    send(cluster, acks="1")
    cluster.advance(minutes=1)
    cluster.resume(paused)
    cluster.wait_for_isr("orders", {0, 1, 2})


def test_a_cluster_without_a_clock_has_the_machines_time() -> None:
    with pytest.raises(RuntimeError, match="ManualClock"):
        Cluster(1).advance(hours=1)
