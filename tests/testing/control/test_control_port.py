"""The control port of a broker and of a cluster: what it does, and what it says no to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from odradek import Consumer
from odradek.errors import KafkaError
from odradek.testing import Broker, Cluster
from odradek.testing.control.routes import TABLE
from waiting import gathered

from .asked import FAIL, Asked, send


@pytest.fixture(scope="module")
def shared() -> Iterator[Asked]:
    with Broker() as broker:
        asked = Asked(broker)
        yield asked
        asked.server.close()
        asked("DELETE", "/faults")


@pytest.fixture
def port(shared: Asked) -> Iterator[Asked]:
    """A broker without faults."""
    shared("DELETE", "/faults")
    yield shared
    shared("DELETE", "/faults")


def test_a_fault_from_its_setting_to_its_end(port: Asked) -> None:
    number = port("POST", "/faults", FAIL)["id"]
    status, message, remedy = port("GET", "/verify")
    assert (status, message) == (
        409,
        "no request met this fault: fail with NOT_LEADER_OR_FOLLOWER: Produce times=2",
    )
    assert "may_be_unmet" in remedy
    send(port.kit)
    shown = port("GET", f"/faults/{number}")
    assert (shown["fault"], shown["met"]) == (FAIL, 2)
    assert port("GET", "/faults") == [shown]
    assert port("GET", "/verify") == {"unmet": []}
    assert port("DELETE", f"/faults/{number}") == shown | {"unmet": None}
    assert port("GET", "/faults") == []
    assert port("GET", f"/faults/{number}") == (
        404,
        f"there is no fault {number}",
        "GET /faults lists them",
    )
    assert port("GET", "/requests")["counts"]["Produce"] >= 3


def test_a_fault_under_a_number_of_one_s_own(port: Asked) -> None:
    assert port("PUT", "/faults/70", FAIL)["id"] == 70
    assert port("PUT", "/faults/70", FAIL | {"times": 1})["fault"]["times"] == 1
    assert len(port("GET", "/faults")) == 1
    assert port("POST", "/faults", FAIL)["id"] == 71
    lifted = port("DELETE", "/faults")
    assert [fault["id"] for fault in lifted] == [70, 71]
    assert all(fault["unmet"].startswith("no request met this fault") for fault in lifted)


def test_a_client_that_is_cut_off(port: Asked) -> None:
    number = port("POST", "/cut_client", {"client_id": "me", "lasts": True})["id"]
    with pytest.raises(KafkaError):
        send(port.kit, client_id="me", delivery_timeout_ms=1500, request_timeout_ms=1000, max_block_ms=1000)
    assert port("DELETE", f"/faults/{number}")["met"] > 0
    send(port.kit, client_id="me")


@pytest.mark.parametrize(
    ("body", "part"),
    [
        (b"{", "no JSON"),
        (b"[1]", "no JSON object"),
        (b"\xff", "no JSON"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"effect": "fail", "apis": ["Produce"], "nth": NaN}', "NaN is no JSON"),
        ({}, "a fault needs effect"),
        ({"effect": "hang"}, "a fault needs apis"),
        ({"effect": "hang", "apis": "Fetch"}, "it is a list of text"),
        ({"effect": "hang", "apis": [None]}, "it is a list of text"),
        ({"effect": "hang", "apis": []}, "no API is named"),
        ({"effect": "hang", "apis": ["Fetsh"]}, "did you mean 'Fetch'?"),
        ({"effect": "hang", "apis": ["Fetch"], "topik": "t"}, "did you mean topic?"),
        ({"effect": "hang", "apis": ["Fetch"], "topic": {}}, "topic={}: it is text"),
        ({"effect": "hang", "apis": ["Fetch"], "times": "2"}, "times='2': it is a whole number"),
        ({"effect": "hang", "apis": ["Fetch"], "times": True}, "it is a whole number"),
        ({"effect": "hang", "apis": ["Fetch"], "versions": [1]}, "the first and the last"),
        ({"effect": "hang", "apis": ["Fetch"], "probability": 2}, "probability=2"),
        ({"effect": "hang", "apis": ["Fetch"], "broker": 1}, "this is one broker"),
        ({"effect": "hang", "apis": ["Fetch"], "broker": "1"}, "broker is '1'"),
        ({"effect": "delay", "apis": ["Fetch"], "delay_ms": 1e300}, "delay_ms=1e+300"),
        ({"effect": "fail", "apis": ["Fetch"]}, "is no error"),
        ({"effect": "fail", "apis": ["Fetch"], "error": "BAD_THING"}, "is no error of Kafka's"),
        ({"effect": "fail", "apis": ["Heartbeat"], "error": "MESSAGE_TOO_LARGE"}, "Kafka does not answer"),
    ],
)
def test_faults_that_are_refused(port: Asked, body: Any, part: str) -> None:
    status, message, remedy = port("POST", "/faults", body)
    assert part in message
    assert status == (409 if part == "this is one broker" else 400)
    assert ("anyway" in remedy) == ("anyway" in message)
    assert port("GET", "/faults") == []


@pytest.mark.parametrize(
    ("method", "target", "body", "refusal"),
    [
        ("GET", "/nope", None, (404, "GET /nope: there is no such path", "GET / has all paths")),
        ("GET", "//[", None, (404, "GET //[: there is no such path", "GET / has all paths")),
        ("PUT", "/faults", None, (405, "PUT /faults: it takes GET, POST, DELETE", "GET / has all paths")),
        ("GET", "/faults/x", None, (400, "id is 'x'", "it is a whole number")),
        ("PUT", "/faults/0", FAIL, (400, "a fault's id is 0", "it is counted from 1")),
        ("POST", "/kill", {"broker": 3}, (400, "there is no broker 3", "give one of 0")),
        ("POST", "/kill", {"broker": True}, (400, "broker is True", "it is a whole number")),
        ("POST", "/kill", {"brocker": 0}, (400, "there is no 'brocker' here", "did you mean broker?")),
        ("POST", "/cut_client", {}, (400, "client_id is missing", "it is text")),
        (
            "POST",
            "/isolate",
            {"broker": 0},
            (409, "this is one broker", "it needs a cluster: odradek mock --brokers 3"),
        ),
        ("POST", "/topics", {"name": "a", "partitions": 0}, (400, "partitions is 0", "it is 1 to 10000")),
        (
            "POST",
            "/topics",
            {"name": "a", "configs": {"a": 1}},
            (400, "configs is {'a': 1}", "it is an object of text"),
        ),
    ],
)
def test_what_is_refused(port: Asked, method: str, target: str, body: Any, refusal: Any) -> None:
    assert port(method, target, body) == refusal


def test_errors_of_the_broker_have_their_names(port: Asked) -> None:
    status, message, _ = port("POST", "/topics", {"name": "a/b"})
    assert (status, message.split(":")[0]) == (409, "INVALID_TOPIC_EXCEPTION")
    status, message, _ = port("POST", "/expire_session", {"group": "nobody"})
    assert status in (400, 409), message


def test_by_hand_on_a_broker() -> None:
    with Broker() as broker:
        port = Asked(broker)
        assert port("POST", "/topics", {"name": "orders", "partitions": 2}) == {}
        assert port("POST", "/fill_disk") == {}
        with pytest.raises(KafkaError):
            send(broker, delivery_timeout_ms=1500, request_timeout_ms=1000)
        assert port("POST", "/free_disk", {"broker": 0}) == {}
        send(broker)
        assert port("POST", "/pause") == {}
        assert port("GET", "/")["brokers"][0]["state"] == "paused"
        assert port("GET", "/requests") == (
            409,
            "broker 0 is paused: it cannot be asked",
            "POST /resume lets it go on",
        )
        assert port("POST", "/resume") == {}
        assert port("POST", "/kill") == {}
        assert port("GET", "/")["brokers"] == [{"id": 0, "address": None, "state": "down"}]
        assert port("POST", "/kill") == (409, "broker 0 does not run", "POST /restart starts it again")
        assert port("POST", "/topics", {"name": "more"})[:2] == (409, "broker 0 does not run")
        assert port("POST", "/restart") == {}
        send(broker)
        assert port("POST", "/restart") == {}
        with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([("orders", 0), ("orders", 1)])
            gathered(lambda: consumer.poll(1), 2, "both records")
        port.server.close()


def test_by_hand_on_a_cluster() -> None:
    with Cluster(2) as cluster:
        port = Asked(cluster)
        assert port("POST", "/topics", {"name": "orders", "replication_factor": 2}) == {}
        leader = port("GET", "/leader?topic=orders")["broker"]
        follower = 1 - leader
        assert port("POST", "/faults", FAIL | {"broker": leader, "times": 1})["met"] == 0
        send(cluster)
        assert port("GET", "/verify") == {"unmet": []}
        wanted = {"topic": "orders", "partition": 0, "broker": follower}
        assert port("POST", "/move_leader", wanted) == {}
        assert port("GET", "/leader?topic=orders&partition=0") == {"broker": follower}
        assert port("POST", "/kill") == (400, "broker is missing", "give one of 0, 1")
        assert port("POST", "/cut", {"broker": 0, "other": 1, "one_way": True}) == {}
        assert port("POST", "/heal") == {}
        assert port("POST", "/stop", {"broker": leader}) == {}
        assert port("GET", "/leader?topic=orders") == {"broker": follower}
        assert port("POST", "/restart", {"broker": leader}) == {}
        assert {broker["state"] for broker in port("GET", "/")["brokers"]} == {"running"}
        port.server.close()


def test_each_path_is_listed_with_a_line(port: Asked) -> None:
    routes = port("GET", "/")["routes"]
    assert [route["route"] for route in routes] == [f"{method} {path}" for method, path, _ in TABLE]
    assert all(route["summary"] for route in routes)
