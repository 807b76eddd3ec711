"""The control port's look inside: records, requests, groups, and waits for them."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from odradek.testing import Broker, Cluster
from waiting import WITHIN_S, happened, joined

from ..looking.threads import consuming
from .asked import Asked, send


@pytest.fixture(scope="module")
def shared() -> Iterator[Asked]:
    with Broker() as broker:
        asked = Asked(broker)
        yield asked
        asked.server.close()


@pytest.fixture
def port(shared: Asked) -> Iterator[Asked]:
    """A broker in which there is nothing."""
    yield shared
    shared("POST", "/clean_up")


def names(answer: Any, *parts: str) -> list[tuple[Any, ...]]:
    return [tuple(thing.get(part) for part in parts) for thing in answer]


# ---------------------------------------------------------------------- records


def test_records_that_are_put_there_and_read(port: Asked) -> None:
    records = [
        "tea",
        ["alice", "milk"],
        {"key_base64": "gAE=", "value": None, "headers": {"origin": "test"}, "timestamp_ms": 5},
        {
            "value_base64": base64.b64encode(b"jam").decode(),
            "headers": [{"name": "h", "value_base64": "/w=="}],
        },
    ]
    assert port("POST", "/seed", {"topic": "orders", "records": records}) == {"sent": 4}
    answer = port("GET", "/records?topic=orders")
    assert answer["matched"] == 4
    # Bytes that are text are text, whatever was sent.
    assert names(answer["records"], "offset", "key", "value") == [
        (0, None, "tea"),
        (1, "alice", "milk"),
        (2, None, None),
        (3, None, "jam"),
    ]
    third, fourth = answer["records"][2:]
    assert (third["key_base64"], third["timestamp_ms"], third["state"]) == ("gAE=", 5, None)
    assert "key" not in third
    assert third["headers"] == [{"name": "origin", "value": "test"}]
    assert fourth["headers"] == [{"name": "h", "value_base64": "/w=="}]


def test_which_records(port: Asked) -> None:
    send_all = {"topic": "orders", "partitions": 2}
    for partition, transaction in ((0, "committed"), (1, "aborted"), (1, None)):
        more = {"records": ["tea"], "partition": partition, "transaction": transaction}
        assert port("POST", "/seed", send_all | more) == {"sent": 1}
    answer = port("GET", "/records?topic=orders&partition=1")
    assert names(answer["records"], "value", "state")[0] == ("tea", "aborted")
    assert names(answer["records"], "state")[1:] == [("abort marker",), (None,)]
    committed = port("GET", "/records?topic=orders&committed=true")
    assert names(committed["records"], "partition", "state") == [(0, "committed"), (1, None)]
    last = port("GET", "/records?topic=orders&limit=1")
    assert (last["matched"], last["records"]) == (5, committed["records"][-1:])
    assert port("GET", "/topics") == {
        "orders": {
            "partitions": [
                {"partition": 0, "start": 0, "end": 2},
                {"partition": 1, "start": 0, "end": 3},
            ],
            "configs": {},
        }
    }


@pytest.mark.parametrize(
    ("record", "part"),
    [
        (7, "7 is no record"),
        (["a"], "['a'] is no record"),
        ([1, "a"], "1 is no record"),
        ({"value": 7}, "7 is no record"),
        ({"value": "a", "value_base64": "YQ=="}, "is no record"),
        ({"value_base64": "gA"}, "value_base64 is 'gA'"),
        ({"vlaue": "a"}, "a record has no 'vlaue'"),
        ({"headers": ["a"]}, "'a' is no record, nor a part of one"),
        ({"headers": [{"value": "a"}]}, "is no record, nor a part of one"),
        ({"partition": -1}, "is no record"),
        ({"timestamp_ms": True}, "is no record"),
        ("\ud800", "surrogates not allowed"),
    ],
)
def test_records_that_are_refused(port: Asked, record: Any, part: str) -> None:
    port("POST", "/topics", {"name": "orders"})
    status, message, _ = port("POST", "/seed", {"topic": "orders", "records": [record]})
    assert (status, part in message) == (400, True), message
    assert port("GET", "/records?topic=orders")["matched"] == 0


# ---------------------------------------------------------------------- requests


def test_requests_with_their_bodies(port: Asked) -> None:
    port("POST", "/topics", {"name": "orders"})
    assert "requests" not in port("GET", "/requests")
    assert port("GET", "/requests?topic=orders") == (
        409,
        "no requests are recorded",
        "POST /requests records those that come from then on",
    )
    assert port("POST", "/requests") == {}
    for client_id in ("one", "other"):
        send(port.kit, client_id=client_id)
    produced = port("GET", "/requests?apis=Produce,Fetch&topic=orders&partition=0")
    assert (produced["matched"], produced["dropped"]) == (2, 0)
    first, second = produced["requests"]
    assert (first["api"], first["client_id"], first["broker"], first["user"]) == (
        "Produce",
        "one",
        0,
        "User:ANONYMOUS",
    )
    assert first["body"]["acks"] == -1
    assert produced["counts"]["Produce"] >= 2
    assert port("GET", "/requests?apis=Produce&client_id=other&limit=5")["requests"] == [second]
    version = second["version"]
    assert port("GET", f"/requests?apis=Produce&versions=0,{version}&limit=1")["requests"] == [second]
    assert port("GET", f"/requests?apis=Produce&versions={version + 1},99")["matched"] == 0
    assert port("GET", "/requests?between_brokers=true")["matched"] == 0
    assert port("DELETE", "/requests") == {}
    assert "requests" not in port("GET", "/requests")


def test_no_more_requests_are_kept_than_asked_for(port: Asked) -> None:
    port("POST", "/topics", {"name": "orders"})
    port("POST", "/requests", {"most": 1})
    send(port.kit)
    kept = port("GET", "/requests")
    assert len(kept["requests"]) == kept["matched"] == 1
    assert kept["dropped"] > 0


# ---------------------------------------------------------------------- groups, and waits


def test_a_group_that_is_waited_for(port: Asked) -> None:
    port("POST", "/requests")
    port("POST", "/seed", {"topic": "orders", "records": ["tea", "milk"]})
    within = {"timeout_s": WITHIN_S}
    with consuming(port.kit, "orders", "billing"):
        group = port("POST", "/wait_for/group", {"group": "billing", "members": 1} | within)
        assert group["members"][0]["assignment"] == [{"topic": "orders", "partition": 0}]
        assert group["members"][0]["client_id"] == "me"
        wanted = {"group": "billing", "topic": "orders", "offset": 2}
        assert port("POST", "/wait_for/commit", wanted | within)["offset"] == 2
        fetches = {"apis": ["Fetch"], "topic": "orders", "times": 1, "limit": 1}
        answer = port("POST", "/wait_for/request", fetches | within)
        assert [request["api"] for request in answer["requests"]] == ["Fetch"]
    group = port("POST", "/wait_for/group", {"group": "billing", "state": "*", "members": 0} | within)
    assert (group["protocol_type"], group["offsets"][0]["lag"]) == ("consumer", 0)
    assert port("GET", "/groups") == {"billing": group}


def test_a_wait_holds_nobody_up(port: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = threading.Event()
    listen = port.kit.listen

    def listen_and_tell(on_event: Any) -> None:
        listen(on_event)
        waits.set()

    monkeypatch.setattr(port.kit, "listen", listen_and_tell)
    answers: list[Any] = []
    wanted = {"topic": "orders", "count": 2, "timeout_s": WITHIN_S}
    waiting = threading.Thread(target=lambda: answers.append(port("POST", "/wait_for/records", wanted)))
    waiting.start()
    happened(waits, "the wait begins")
    port("POST", "/seed", {"topic": "orders", "records": ["tea", "milk"]})
    joined(waiting)
    assert names(answers[0]["records"], "value") == [("tea",), ("milk",)]


def test_waits_that_are_in_vain(port: Asked) -> None:
    port("POST", "/requests")
    port("POST", "/seed", {"topic": "orders", "records": ["tea"]})
    for what, words, part in (
        ("records", {"topic": "orders", "count": 2}, "orders-0 at 0: b'tea'"),
        ("group", {"group": "billing"}, "group billing in state Stable"),
        ("commit", {"group": "billing", "topic": "orders", "offset": 3}, "to commit 3 of orders-0"),
        ("request", {"apis": ["Fetch"], "topic": "orders"}, "of all requests: "),
    ):
        status, message, _ = port("POST", f"/wait_for/{what}", words | {"timeout_s": 0})
        assert status == 409
        assert message.startswith("waited 0 s in vain for")
        assert part in message


@pytest.mark.parametrize(
    ("method", "target", "body", "refusal"),
    [
        ("GET", "/records", None, (400, "topic is missing", "it is text")),
        ("GET", "/records?topic=t&partition=x", None, (400, "partition is 'x'", "it is a whole number")),
        ("GET", "/records?topic=t&committed=yes", None, (400, "committed is 'yes'", "it is true or false")),
        ("GET", "/records?topic=t&limit=0", None, (400, "limit is 0", "it is 1 to 10000")),
        (
            "GET",
            "/records?topic=t",
            None,
            (409, "UNKNOWN_TOPIC_OR_PARTITION: there is no topic t", ""),
        ),
        ("GET", "/requests?api=Fetch", None, (400, "there is no 'api' here", "did you mean apis?")),
        (
            "GET",
            "/requests?versions=3",
            None,
            (400, "versions is [3]", "it is a list of the first and the last"),
        ),
        ("POST", "/requests", {"most": 10_001}, (400, "most is 10001", "it is 1 to 10000")),
        ("POST", "/seed", {"topic": "t", "records": "tea"}, (400, "records is 'tea'", "it is a list")),
        (
            "POST",
            "/seed",
            {"topic": "t", "records": [], "transaction": "open"},
            (400, "transaction is 'open'", "it is committed or aborted"),
        ),
        (
            "POST",
            "/wait_for/group",
            {"group": "g", "timeout_s": 601},
            (400, "timeout_s is 601", "it is 0 to 600, in seconds"),
        ),
        (
            "POST",
            "/wait_for/request",
            {"apis": "Fetch"},
            (400, "apis is 'Fetch'", "it is a list of text"),
        ),
        (
            "POST",
            "/wait_for/request",
            {},
            (409, "no requests are recorded", "POST /requests records those that come from then on"),
        ),
    ],
)
def test_what_is_refused(port: Asked, method: str, target: str, body: Any, refusal: Any) -> None:
    assert port(method, target, body) == refusal


def test_in_a_cluster_it_is_what_all_have() -> None:
    with Cluster(2) as cluster:
        port = Asked(cluster)
        port("POST", "/requests")
        assert port("POST", "/seed", {"topic": "orders", "records": ["tea"], "partitions": 2}) == {"sent": 1}
        send(cluster)
        assert port("POST", "/wait_for/records", {"topic": "orders", "count": 2})["matched"] == 2
        assert port("GET", "/requests?apis=Produce")["matched"] == 1
        assert set(port("GET", "/topics")) == {"orders"}
        port.server.close()
