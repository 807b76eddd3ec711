"""The page of applications, put together from what brokers tell at their metrics ports."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from odradek.console.views.applications import application_rows, chosen_applications
from odradek.testing import Broker
from ports import free_port
from waiting import until

from .conftest import Visitor
from .test_topics import row


def use(topic: str, rate: float, **more: Any) -> dict[str, Any]:
    return {"topic": topic, "records": 10, "bytes": 100, "records_per_s": rate, "bytes_per_s": 1.0, **more}


def report(broker_id: int, **changes: Any) -> dict[str, Any]:
    """A broker's answer, as docs/metrics.md has it."""
    application = {
        "client_id": "<b>shop",
        "software_name": "apache-kafka-java",
        "software_version": "4.1.0",
        "principal": "User:alice",
        "host": "10.0.0.7",
        "is_broker": False,
        "connections": 2,
        "first_seen_ms": 1,
        "last_seen_ms": 1_700_000_000_000 + broker_id,
        "requests": 7,
        "produced": [use("orders", 40.5)],
        "consumed": [use("payments", 2.0, groups=["shop-payments"])],
        "other_topics": {"produced": None, "consumed": None},
        "groups": [{"group": "shop-payments", "topics": ["payments"]}],
        "errors": [{"request": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "count": 3}],
        **changes,
    }
    return {"broker_id": broker_id, "applications": [application], "left_out": {"forgotten": 0}}


@contextmanager
def serving(told: object) -> Iterator[str]:
    """An HTTP server in the place of a broker's metrics port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(told).encode()
            self.send_response(200 if self.path == "/applications" else 404)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        until(lambda: not thread.is_alive(), "the end of the server")
        server.server_close()


def test_an_application_is_the_sum_of_what_brokers_tell(
    broker: Broker, visit: Callable[..., Visitor]
) -> None:
    gone = f"http://127.0.0.1:{free_port()}"
    with serving(report(1)) as one, serving(report(2)) as two, serving([1]) as other:
        visitor = visit(broker.bootstrap_servers, metrics_urls=(one, two, gone, other))
        visitor.log_in()
        page = visitor.get("/applications")
    cells = row(page, "<b>shop")
    assert cells[1:5] == ["apache-kafka-java 4.1.0", "User:alice10.0.0.7", "4", "orders 81/s"]
    assert cells[5:8] == [
        "payments 4/s as shop-payments",
        "shop-payments",
        "6 × NOT_LEADER_OR_FOLLOWER (Produce)",
    ]
    assert cells[8] == "2023-11-14 22:13:20.002"
    assert "<b>shop" not in page
    assert f"{gone} has not told its applications" in html.unescape(page)
    assert f"{other} has not told its applications" in html.unescape(page)


def test_a_broker_that_tells_something_else_hides_no_other(
    broker: Broker, visit: Callable[..., Visitor]
) -> None:
    others = {"produced": use("", 7.0), "consumed": None}
    told = {**report(1, other_topics=others), "left_out": None}
    with serving(told) as one, serving({"broker_id": 2, "applications": [{}]}) as other:
        visitor = visit(broker.bootstrap_servers, metrics_urls=(one, other))
        visitor.log_in()
        page = visitor.get("/applications")
    assert row(page, "<b>shop")[4] == "orders 40.5/sother topics 7/s"
    assert "by 1 of 2 brokers" in page
    assert f"{other} has not told its applications" in html.unescape(page)
    # There is no topic of that name to go to.
    assert 'href="/topics/other' not in page


def test_without_metrics_ports_the_page_says_what_to_do(visitor: Visitor) -> None:
    assert "--metrics-url" in visitor.get("/applications")


def test_filters_and_orders() -> None:
    quiet = report(1, client_id="quiet", software_name=None, software_version=None, produced=[], errors=[])
    broker = report(1, client_id="broker-2", is_broker=True)
    rows = application_rows([report(1), quiet, broker])

    def ids(text: str = "", **choice: Any) -> list[str]:
        return [row.client_id for row in chosen_applications(rows, text=text, **choice)]

    assert ids(brokers=False, order="last_seen") == ["<b>shop", "quiet"]
    assert ids("ORDERS", brokers=True, order="errors") == ["<b>shop", "broker-2"]
    assert ids(brokers=True, order="produced")[-1] == "quiet"
    assert rows[1].software == ""
    for wrong in ({}, {"broker_id": 1, "applications": [{}]}, {"broker_id": 1, "applications": 7}):
        with pytest.raises(ValueError, match="another form"):
            application_rows([wrong])
