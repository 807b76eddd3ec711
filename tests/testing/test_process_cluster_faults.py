"""Faults of brokers that are processes: set over their control ports, counted together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from odradek import Consumer, Producer, TopicPartition
from odradek.errors import BrokerNotAvailableError, KafkaError
from odradek.testing import FaultRefusedError, ProcessCluster, UnmetFaultError
from waiting import gathered

PARTITIONS = 6


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    with ProcessCluster(2, data=tmp_path_factory.mktemp("cluster"), session_timeout_ms=1_000) as cluster:
        cluster.create_topic("orders", PARTITIONS)
        yield cluster


def faults(cluster: ProcessCluster) -> list[object]:
    """What the processes have of them."""
    return [fault for broker in cluster.live for fault in cluster.remote(broker).ask("GET", "/faults")]


def send(cluster: ProcessCluster, count: int = 1, **config: object) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, **config) as producer:
        futures = [producer.send("orders", b"tea", partition=n % PARTITIONS) for n in range(count)]
        for future in futures:
            future.result(60)


def test_the_processes_count_together(cluster: ProcessCluster) -> None:
    with cluster.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=3, topic="orders") as fault:
        # Each of both leads three partitions, and refuses three requests if it counts alone.
        send(cluster, 2 * PARTITIONS, linger_ms=0, batch_size=1)
    assert fault.met == 3
    assert fault.calls.matched >= 3
    assert faults(cluster) == []


def test_one_that_is_not_met_says_what_came_near_at_each(cluster: ProcessCluster) -> None:
    with pytest.raises(UnmetFaultError) as unmet, cluster.hang("Produce", topic="nope"):
        send(cluster, PARTITIONS)
    assert "Produce" in str(unmet.value)
    assert "near: Produce" in str(unmet.value)
    assert "names topic 'orders'" in str(unmet.value)
    assert "since it was set there came: " in str(unmet.value)


def test_on_one_broker_alone(cluster: ProcessCluster) -> None:
    leader = cluster.leader("orders", 0)
    with cluster.fail("Produce", "NOT_LEADER_OR_FOLLOWER", broker=leader, times=1):
        send(cluster)
    with cluster.hang("Produce", broker=1 - leader, may_be_unmet=True) as fault:
        send(cluster)
    assert fault.met == 0
    with pytest.raises(ValueError, match="broker=2: there are 0 to 1"):
        cluster.hang("Produce", broker=2)


def test_what_processes_cannot_do_is_refused(cluster: ProcessCluster) -> None:
    with pytest.raises(FaultRefusedError, match="did you mean 'Produce'"):
        cluster.hang("Produc")
    with pytest.raises(FaultRefusedError, match="there is no listener 'SSL'"):
        cluster.hang("Produce", listener="SSL")
    assert faults(cluster) == []


def test_a_fault_outlives_a_process(cluster: ProcessCluster) -> None:
    broker = cluster.leader("orders", 0)
    with cluster.fail("Produce", "NOT_LEADER_OR_FOLLOWER", topic="orders", nth=1, times=2) as fault:
        send(cluster, linger_ms=0)
        assert fault.met == 2
        cluster.kill(broker)
        cluster.restart(broker)
        cluster.wait_for_isr("orders", {0, 1})
        send(cluster, PARTITIONS)
    assert fault.met == 2
    assert fault.calls.matched == 2


def test_a_client_that_is_cut_off(cluster: ProcessCluster) -> None:
    with cluster.cut_client("me") as cut, pytest.raises(KafkaError):
        send(cluster, client_id="me", delivery_timeout_ms=1500, request_timeout_ms=1000, max_block_ms=1000)
    assert cut.met > 0
    send(cluster, client_id="me")


def test_a_paused_process_is_asked_nothing(cluster: ProcessCluster) -> None:
    fault = cluster.hang("Heartbeat", may_be_unmet=True)
    cluster.pause(1)
    with pytest.raises(BrokerNotAvailableError, match="broker 1 is paused"):
        cluster.hang("Fetch")
    fault.lift()
    cluster.resume(1)
    assert faults(cluster) == []


def polled_until(consumer: Consumer, holds: Callable[[], object]) -> None:
    gathered(lambda: consumer.poll(0.1), holds, "what the polls bring about")


def test_by_hand(cluster: ProcessCluster) -> None:
    follower = 1 - cluster.leader("orders", 1)
    cluster.wait_for_isr("orders", {0, 1}, 1)
    cluster.move_leader("orders", 1, follower)
    assert cluster.leader("orders", 1) == follower
    config = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": "billing", "client_id": "me"}
    with Consumer(**config) as consumer:
        consumer.subscribe(["orders"])
        polled_until(consumer, consumer.assignment)
        assert cluster.coordinator(group="billing") in (0, 1)
        with pytest.raises(ValueError, match="are 'nobody'"):
            cluster.expire_session("billing", "nobody")
        cluster.expire_session("billing", "me")
        with cluster.delay("JoinGroup", 1, group="billing") as joined:
            polled_until(consumer, lambda: joined.met)


def test_a_full_disk_of_one(tmp_path: Path) -> None:
    with ProcessCluster(1, data=tmp_path) as cluster:
        cluster.create_topic("orders", PARTITIONS)
        send(cluster)
        cluster.fill_disk(0)
        with pytest.raises(KafkaError):
            send(cluster, delivery_timeout_ms=1500, request_timeout_ms=1000)


def test_the_end_tells_of_what_was_not_met() -> None:
    with pytest.raises(UnmetFaultError, match="hang: Fetch"), ProcessCluster(1) as cluster:
        cluster.hang("Fetch")


def test_records_come_after_a_fault_on_fetches(cluster: ProcessCluster) -> None:
    send(cluster)
    with (
        cluster.drop("Fetch", times=1),
        Consumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign([TopicPartition("orders", 0)])
        gathered(lambda: consumer.poll(1), 1, "the record")
