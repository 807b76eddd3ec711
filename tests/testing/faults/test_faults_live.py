"""Faults as clients live through them, on a broker and on a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from odradek import Consumer, Producer
from odradek.errors import NotLeaderOrFollowerError
from odradek.testing import Broker, Cluster, Fault, FaultRefusedError, UnmetFaultError
from odradek.wire.messages.metadata import MetadataRequest
from waiting import WITHIN_S, until

from .wire import Wire


def send(broker: Any, topic: str = "orders", value: bytes = b"v", **config: Any) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers, **config) as producer:
        producer.send(topic, value, partition=0).result(WITHIN_S)


def read(broker: Any, count: int, topic: str = "orders", **config: Any) -> list[bytes]:
    config = {"group_id": "readers", "auto_offset_reset": "earliest", **config}
    values: list[bytes] = []
    with Consumer(bootstrap_servers=broker.bootstrap_servers, **config) as consumer:
        consumer.subscribe([topic])

        def look() -> bool:
            values.extend(record.value for record in consumer.poll(0.1))
            return len(values) >= count

        until(look, f"{count} records", instead=lambda: values)
    return values


def end_of(broker: Broker, topic: str = "orders") -> int:
    return broker.call(lambda app: app.replicas.get(topic, 0).log.log_end_offset)


@pytest.fixture
def broker(odradek_broker: Broker) -> Broker:
    odradek_broker.create_topic("orders", 2)
    return odradek_broker


def test_a_producer_tries_again(broker: Broker) -> None:
    with broker.fail("Produce", NotLeaderOrFollowerError, times=2, topic="orders") as fault:
        send(broker)
    assert fault.met == 2
    assert end_of(broker) == 1


def test_an_answer_that_is_lost_makes_a_duplicate_of_who_is_not_idempotent(broker: Broker) -> None:
    for idempotent, records in ((False, 2), (True, 1)):
        begin = end_of(broker)
        with broker.drop("Produce", after=True, times=1):
            send(broker, enable_idempotence=idempotent, acks="all")
        assert end_of(broker) - begin == records


def test_a_consumer_survives_what_its_fetches_meet(broker: Broker) -> None:
    for number in range(3):
        send(broker, value=b"%d" % number)
    with (
        broker.fail("Fetch", "UNKNOWN_TOPIC_OR_PARTITION", topic="orders", times=2),
        broker.drop("Fetch", nth=3),
        broker.truncate("Fetch", nth=3),
        broker.fail("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", times=1, may_be_unmet=True),
        broker.fail("JoinGroup", "COORDINATOR_NOT_AVAILABLE", times=1, group="readers"),
        broker.fail("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", times=1, group="readers"),
        broker.fail("OffsetFetch", "UNSTABLE_OFFSET_COMMIT", times=1, topic="orders"),
        broker.fail("Metadata", "LEADER_NOT_AVAILABLE", times=1, topic="orders"),
        broker.fail("ListOffsets", "NOT_LEADER_OR_FOLLOWER", times=1, topic="orders"),
    ):
        assert read(broker, 3) == [b"0", b"1", b"2"]


def test_a_fault_that_waits_finds_the_partitions_of_a_fetch_session(broker: Broker) -> None:
    send(broker)
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers, group_id=None, auto_offset_reset="earliest"
    ) as consumer:
        from odradek import TopicPartition

        consumer.assign([TopicPartition("orders", 0)])
        until(lambda: list(consumer.poll(0.1)), "the record")
        # From now on its requests name nothing, as nothing changes.
        with broker.fail("Fetch", "NOT_LEADER_OR_FOLLOWER", topic="orders", partition=0, times=1) as fault:
            until(lambda: [consumer.poll(0.1), fault.met][1], "a fetch that fails")
        send(broker, value=b"w")
        assert [one.value for one in until(lambda: list(consumer.poll(0.1)), "the next record")] == [b"w"]


# ---------------------------------------------------------------------- met or not


def test_a_fault_that_is_never_met_fails_its_block_and_says_what_came(broker: Broker) -> None:
    with pytest.raises(UnmetFaultError) as told, broker.fail("Produce", 6, topic="clicks"):
        send(broker, client_id="billing")
    lines = str(told.value).splitlines()
    assert lines[0] == "no request met this fault: fail with NOT_LEADER_OR_FOLLOWER: Produce topic='clicks'"
    assert lines[1].endswith("of client 'billing': names topic 'orders', partition 0")
    assert "Metadata 1" in lines[2]
    with pytest.raises(UnmetFaultError, match="1 matched, none of which was its turn"):  # noqa: SIM117
        with broker.hang("Produce", nth=2):
            send(broker)
    with pytest.raises(UnmetFaultError, match="there came: no requests"), broker.hang("Produce"):
        pass


def test_a_block_that_fails_says_why_and_nothing_of_the_fault(broker: Broker) -> None:
    with pytest.raises(ZeroDivisionError), broker.hang("Produce"):
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), Broker() as other:
        other.hang("Produce")
        raise ZeroDivisionError


def test_the_end_of_the_broker_tells_of_faults_without_a_block() -> None:
    broker = Broker()
    broker.start()
    data = broker.data
    assert data is not None
    broker.hang("Produce")
    with pytest.raises(UnmetFaultError):
        broker.close()
    assert not data.exists()
    broker.close()
    with Broker() as broker:
        broker.hang("EndTxn", may_be_unmet=True)
        broker.hang("Fetch").lift()
        fault = broker.fail("Metadata", "LEADER_NOT_AVAILABLE", times=1)
        broker.create_topic("orders")
        send(broker)
        assert fault.met


def test_a_broker_stops_whatever_hangs_or_is_delayed() -> None:
    with Broker() as broker, Wire(broker.port) as hanging, Wire(broker.port) as delayed:
        hang, delay = broker.hang("Metadata", versions=1), broker.delay("Metadata", 3_600_000, versions=2)
        hanging.send(MetadataRequest(topics=[]), 1)
        delayed.send(MetadataRequest(topics=[]), 2)
        until(lambda: hang.met and delay.met, "a request that hangs, and one that is delayed")
        broker.restart()
        assert (hanging.rest(), delayed.rest()) == (b"", b"")


def test_faults_may_be_set_before_the_start_and_outlive_a_restart() -> None:
    broker = Broker()
    fault = broker.fail("Produce", "NOT_ENOUGH_REPLICAS", times=2)
    with broker:
        broker.create_topic("orders")
        broker.restart()
        send(broker)
        assert fault.met == 2


def test_without_faults_the_handlers_are_as_they_were(broker: Broker) -> None:
    before = broker.call(lambda app: app.handlers.get(0))
    one, two = broker.hang("Produce", topic="nope"), broker.hang("Produce", topic="neither")
    assert broker.call(lambda app: app.handlers.get(0)) is not before
    one.lift()
    two.lift()
    two.lift()
    assert broker.call(lambda app: app.handlers.get(0)) is before


def test_what_a_broker_cannot_do_is_refused(broker: Broker) -> None:
    with pytest.raises(FaultRefusedError, match="there is no listener 'SSL': there are PLAINTEXT"):
        broker.hang("Fetch", listener="SSL")
    with pytest.raises(TypeError, match="broker=1: it is for a cluster"):
        broker.hang("Fetch", broker=1)
    old = Broker(kafka_version="0.10.2")
    with pytest.raises(FaultRefusedError, match="does not answer it"):
        old.hang("InitProducerId")
    document = {"effect": "fail", "apis": ["Produce"], "error": "NOT_ENOUGH_REPLICAS", "may_be_unmet": True}
    assert broker.set_fault(Fault.from_json(document)).met == 0


# ---------------------------------------------------------------------- a release, a cluster


@pytest.mark.parametrize("release", ["0.11", "1.1", "2.2", "4.0"])
def test_a_broker_that_is_a_release(release: str) -> None:
    with Broker(kafka_version=release) as broker:
        broker.create_topic("orders")
        with (
            broker.fail("Produce", "NOT_ENOUGH_REPLICAS", times=1, topic="orders"),
            # These see what the first has let through.
            broker.throttle("Produce", 1, nth=1),
            broker.truncate("Produce", nth=1),
        ):
            send(broker)


def test_a_cluster_counts_together_and_followers_are_let_alone() -> None:
    with Cluster(3) as cluster:
        cluster.create_topic("orders", 1)
        with cluster.fail("Fetch", "NOT_LEADER_OR_FOLLOWER", topic="orders", may_be_unmet=True) as fault:
            send(cluster, acks="all")  # which followers fetch
        assert fault.met == 0
        leader = cluster.leader("orders")
        with cluster.fail("Produce", "NOT_LEADER_OR_FOLLOWER", broker=leader, times=1):
            send(cluster)
        other = (leader + 1) % 3
        with pytest.raises(UnmetFaultError), cluster.fail("Produce", 6, broker=other):
            send(cluster)
        with cluster.fail("Metadata", "LEADER_NOT_AVAILABLE", topic="orders", times=2) as fault:
            send(cluster)
        assert fault.met == 2
        with cluster.delay("Fetch", 1, between_brokers=True, topic="orders") as fault:
            send(cluster, acks="all")
            until(lambda: fault.met, "a follower's fetch")
        with pytest.raises(ValueError, match="broker=3: there are 0 to 2"):
            cluster.hang("Fetch", broker=3)
