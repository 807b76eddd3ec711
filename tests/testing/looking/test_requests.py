"""Requests that have come, with what they said."""

from __future__ import annotations

import base64

import pytest

from odradek import Producer
from odradek.records.batch import iter_records
from odradek.testing import Broker, Cluster, FaultRefusedError, WaitTimeoutError
from odradek.testing.looking.requests import RequestRecorder
from odradek.wire.messages.produce import ProduceRequest
from waiting import WITHIN_S

from .threads import consuming


def send(broker: Broker | Cluster, topic: str = "orders", client_id: str = "sender") -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers, client_id=client_id) as producer:
        producer.send(topic, b"tea").result(WITHIN_S)


def test_bodies_in_kafkas_json_form(odradek_broker: Broker) -> None:
    odradek_broker.create_topic("orders")
    with odradek_broker.record_requests():
        send(odradek_broker)
    (produce,) = odradek_broker.requests("Produce")
    assert produce.api == "Produce"
    assert produce.client_id == "sender"
    assert produce.listener == "PLAINTEXT"
    assert produce.broker_id == odradek_broker.call(lambda broker: broker.broker_id)
    assert produce.body["acks"] == -1
    (topic,) = produce.body["topicData"]
    records = base64.b64decode(topic["partitionData"][0]["records"])
    assert [record.value for record in iter_records(records)] == [b"tea"]
    # The form in which it could be sent again.
    assert ProduceRequest.from_json(produce.body, produce.version).to_json(produce.version) == produce.body
    assert repr(produce).startswith(f"<Produce {produce.version} of client 'sender': {{")


def test_which_requests(odradek_broker: Broker) -> None:
    for topic in ("orders", "clicks"):
        odradek_broker.create_topic(topic)
    with odradek_broker.record_requests():
        send(odradek_broker, "orders", "one")
        send(odradek_broker, "clicks", "other")
        with consuming(odradek_broker, "clicks", "billing"):
            odradek_broker.wait_for_request("Fetch", topic="clicks", partition=0, client_id="me")
    assert [request.client_id for request in odradek_broker.requests("Produce")] == ["one", "other"]
    assert [request.client_id for request in odradek_broker.requests("Produce", topic="clicks")] == ["other"]
    assert odradek_broker.requests("Produce", topic="clicks", client_id="one") == []
    assert odradek_broker.requests("Fetch", topic="orders") == []
    assert {request.api for request in odradek_broker.requests(group="billing")} >= {"JoinGroup", "SyncGroup"}
    assert odradek_broker.requests(["JoinGroup"], versions=range(2)) == []
    assert odradek_broker.requests("JoinGroup", versions=odradek_broker.requests("JoinGroup")[0].version)


def test_what_is_asked_wrongly_is_refused(odradek_broker: Broker) -> None:
    for ask in (odradek_broker.requests, odradek_broker.wait_for_request):
        with pytest.raises(RuntimeError, match="record_requests"):
            ask("Produce")
    with odradek_broker.record_requests():
        with pytest.raises(FaultRefusedError, match="did you mean 'Produce'"):
            odradek_broker.requests("Prodcue")
        with pytest.raises(TypeError, match="did you mean topic"):
            odradek_broker.requests("Produce", topics="orders")  # type: ignore[call-arg]


def test_nothing_is_recorded_before_and_after(odradek_broker: Broker) -> None:
    odradek_broker.create_topic("orders")
    send(odradek_broker)
    with odradek_broker.record_requests():
        pass
    send(odradek_broker)
    assert odradek_broker.requests() == []
    handlers = odradek_broker.call(lambda broker: broker.handlers)
    produce = odradek_broker.call(lambda broker: broker.handlers.get(0))
    assert produce is not None
    assert produce is handlers.loaded[0]
    assert produce.function.__module__ == "odradek.broker.handlers.produce"


def test_the_oldest_are_let_go_of(odradek_broker: Broker) -> None:
    odradek_broker.create_topic("orders")
    with odradek_broker.record_requests(most=2) as recorded:
        for client_id in ("1", "2", "3"):
            send(odradek_broker, client_id=client_id)
    assert len(odradek_broker.requests()) == 2
    assert recorded.recorder.dropped > 0
    with pytest.raises(WaitTimeoutError, match=r"of all requests: .*Produce 1.*, \d+ dropped"):
        odradek_broker.wait_for_request("Produce", times=4, timeout_s=0)


def test_so_are_many_bytes(monkeypatch: pytest.MonkeyPatch, odradek_broker: Broker) -> None:
    monkeypatch.setattr("odradek.testing.looking.requests.MOST_BYTES", 1)
    odradek_broker.create_topic("orders")
    with odradek_broker.record_requests():
        send(odradek_broker)
    assert odradek_broker.requests() == []


def test_requests_that_meet_a_fault_are_there_and_a_restart_goes_on(odradek_broker: Broker) -> None:
    odradek_broker.create_topic("orders")
    with odradek_broker.record_requests(), odradek_broker.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=1):
        send(odradek_broker)
        assert len(odradek_broker.requests("Produce")) == 2
        odradek_broker.restart()
        send(odradek_broker)
        assert len(odradek_broker.requests("Produce")) == 3


@pytest.mark.parametrize("odradek_broker", ["0.9", "2.2"], indirect=True)
def test_of_a_release(odradek_broker: Broker) -> None:
    odradek_broker.create_topic("orders")
    with (
        odradek_broker.record_requests(),
        Producer(bootstrap_servers=odradek_broker.bootstrap_servers, enable_idempotence=False) as producer,
    ):
        producer.send("orders", b"tea").result(WITHIN_S)
    assert len(odradek_broker.requests("Produce", topic="orders")) == 1


def test_of_a_cluster_and_between_its_brokers() -> None:
    with Cluster(2) as cluster:
        cluster.create_topic("orders")
        with cluster.record_requests():
            send(cluster)
            (produce,) = cluster.wait_for_request("Produce")
            assert produce.broker_id == cluster.leader("orders")
            assert cluster.requests("Fetch") == []
            fetches = cluster.wait_for_request("Fetch", between_brokers=True, topic="orders")
            assert fetches[0].broker_id == cluster.leader("orders")


def test_a_recorder_keeps_what_it_may() -> None:
    assert RequestRecorder(most=5).summary() == "of all requests: none"
