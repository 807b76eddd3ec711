"""Events that a test brings about by hand: of brokers, connections, sessions, producers, leaders, disks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from odradek import Consumer, Producer
from odradek.errors import BrokerNotAvailableError, KafkaError, ProducerFencedError
from odradek.testing import Broker, Cluster, ProcessCluster, UnmetFaultError
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.metadata import MetadataRequest
from waiting import WITHIN_S, until

from .faults.wire import Wire

METADATA = MetadataRequest(topics=[])


def waiting_fetch() -> Any:
    return FetchRequest(
        max_wait_ms=600_000,
        min_bytes=1,
        topics=[FetchTopic(topic="orders", partitions=[FetchPartition(partition=0, partition_max_bytes=9)])],
    )


@pytest.fixture
def broker(odradek_broker: Broker) -> Broker:
    odradek_broker.create_topic("orders")
    return odradek_broker


def send(broker: Any, value: bytes = b"v") -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("orders", value, partition=0).result(WITHIN_S)


def test_a_broker_that_is_killed_comes_back_with_what_it_had(broker: Broker) -> None:
    send(broker)
    port = broker.port
    broker.kill()
    with pytest.raises(ConnectionRefusedError):
        Wire(port)
    broker.restart()
    assert broker.port == port
    send(broker)
    assert broker.call(lambda app: app.replicas.get("orders", 0).log.log_end_offset) == 2


def test_a_broker_that_is_killed_may_be_closed() -> None:
    with Broker() as broker:
        broker.kill()


def test_a_paused_broker_takes_connections_and_is_silent(broker: Broker) -> None:
    broker.pause()
    broker.pause()
    with Wire(broker.port) as wire:
        wire.send(METADATA, 1)
        assert wire.has_nothing()
        broker.resume()
        assert wire.receive(METADATA, 1).brokers
    broker.resume()
    broker.pause()  # its end lets it go on


def test_a_broker_goes_on_when_a_block_of_its_pause_fails(broker: Broker) -> None:
    with pytest.raises(ZeroDivisionError), broker.pause():
        assert broker.is_paused
        1 / 0  # noqa: B018
    assert not broker.is_paused


def test_a_broker_that_does_not_run_is_asked_nothing(broker: Broker) -> None:
    broker.kill()
    for ask in (Broker.pause, Broker.kill, lambda absent: absent.fence_producer("orders-1")):
        with pytest.raises(BrokerNotAvailableError, match=r"the broker does not run: .*`restart`"):
            ask(broker)
    broker.start()
    assert not broker.is_paused
    send(broker)


def test_a_process_that_does_not_run_is_not_paused() -> None:
    cluster = ProcessCluster(1)
    with pytest.raises(BrokerNotAvailableError, match="broker 0 does not run"):
        cluster.pause(0)
    with pytest.raises(BrokerNotAvailableError, match="the cluster does not run"):
        cluster.hang("Fetch")


# ---------------------------------------------------------------------- cut


def test_a_client_is_cut_off_once(broker: Broker) -> None:
    with (
        Wire(broker.port, "billing") as waiting,
        Wire(broker.port, "billing") as idle,
        Wire(broker.port, "other") as other,
    ):
        assert idle.ask(METADATA, 1).brokers
        assert other.ask(METADATA, 1).brokers
        waiting.send(waiting_fetch(), 4)
        until(
            lambda: broker.call(
                lambda app: any(
                    connection.waits_for_answer_to("billing".__eq__)
                    for connection in app.listeners[0].connections
                )
            ),
            "a fetch that waits",
        )
        cut = broker.cut_client("billing")
        assert waiting.rest() == b""
        assert cut.met == 1
        idle.send(METADATA, 1)
        assert idle.rest() == b""
        assert cut.met == 2
        assert other.ask(METADATA, 1).brokers
        with Wire(broker.port, "billing") as again:
            assert again.ask(METADATA, 1).brokers


def test_a_client_is_cut_off_while_a_block_lasts(broker: Broker) -> None:
    with broker.cut_client("billing"), Wire(broker.port, "billing") as wire:
        wire.send(METADATA, 1)
        assert wire.rest() == b""
    with Wire(broker.port, "billing") as wire:
        assert wire.ask(METADATA, 1).brokers
    with pytest.raises(UnmetFaultError, match="client_id='nobody'"), broker.cut_client("nobody"):
        pass


# ---------------------------------------------------------------------- groups, transactions


def in_group(broker: Any, **config: Any) -> Consumer:
    consumer = Consumer(bootstrap_servers=broker.bootstrap_servers, group_id="readers", **config)
    consumer.subscribe(["orders"])
    until(lambda: [consumer.poll(0.1), consumer.assignment()][1], "an assignment")
    return consumer


def test_a_session_that_expires_has_the_member_join_anew(broker: Broker) -> None:
    with in_group(broker, client_id="me", heartbeat_interval_ms=100) as consumer:
        before = broker.requests_by_api()["JoinGroup"]
        with pytest.raises(ValueError, match="0 members of group 'readers' are 'you'"):
            broker.expire_session("readers", "you")
        broker.expire_session("readers", "me")
        until(lambda: [consumer.poll(0.1), broker.requests_by_api()["JoinGroup"] > before][1], "another join")
        until(lambda: [consumer.poll(0.1), consumer.assignment()][1], "an assignment")
    with pytest.raises(ValueError, match="there is nobody"):
        broker.expire_session("strangers")


def test_a_producer_that_is_fenced(broker: Broker) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="orders-1") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"v", partition=0).result(WITHIN_S)
        broker.fence_producer("orders-1")
        with pytest.raises(ProducerFencedError):
            producer.commit_transaction()


# ---------------------------------------------------------------------- disk


def test_a_full_disk_and_room_again(broker: Broker) -> None:
    send(broker, b"before")
    broker.fill_disk()
    with Producer(
        bootstrap_servers=broker.bootstrap_servers, retries=0, enable_idempotence=False
    ) as producer:
        with pytest.raises(KafkaError) as told:
            producer.send("orders", b"lost", partition=0).result(WITHIN_S)
        assert told.value.code.name == "KAFKA_STORAGE_ERROR"
        broker.free_disk()
        producer.send("orders", b"after", partition=0).result(WITHIN_S)
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers, group_id="g", auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe(["orders"])
        values: list[Any] = []
        until(
            lambda: [values.extend(one.value for one in consumer.poll(0.1)), len(values) >= 2][1], "records"
        )
    assert values == [b"before", b"after"]


# ---------------------------------------------------------------------- a cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3) as cluster:
        cluster.create_topic("orders")
        yield cluster


def test_a_leader_is_moved(cluster: Cluster) -> None:
    for broker_id in (1, 2, 2, 0):
        cluster.move_leader("orders", 0, broker_id)
        assert cluster.leader("orders") == broker_id
    cluster.create_topic("alone", replication_factor=1)
    other = (cluster.leader("alone") + 1) % 3
    with pytest.raises(ValueError, match=f"broker {other} has no replica of alone-0"):
        cluster.move_leader("alone", 0, other)


def test_a_coordinator_is_moved_and_its_group_goes_on(cluster: Cluster) -> None:
    with in_group(cluster, client_id="me") as consumer:
        target = (cluster.coordinator(group="readers") + 1) % 3
        cluster.move_coordinator(target, group="readers")
        assert cluster.coordinator(group="readers") == target
        send(cluster)
        until(lambda: list(consumer.poll(0.1)), "a record")
        consumer.commit()
    with pytest.raises(ValueError, match="a group or a transactional id"):
        cluster.coordinator()


def test_a_client_is_cut_off_from_all_brokers(cluster: Cluster) -> None:
    with cluster.cut_client("billing"):
        for member in cluster.brokers:
            with Wire(member.port, "billing") as wire:
                wire.send(METADATA, 1)
                assert wire.rest() == b""
