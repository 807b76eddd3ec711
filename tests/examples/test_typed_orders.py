"""The example of typed columns, checked against plain Python."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

pytest.importorskip("pyspark")

from odradek.client import RawReader
from odradek.testing import Broker

from .test_orders import EXAMPLES, ORDERS, feed, good_orders, run

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


def records(servers: str, topic: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    with RawReader(servers) as reader:
        partitions = [(topic, number) for number in reader.partitions_for(topic)]
        for (name, number), end in reader.end_offsets(partitions).items():
            for rows in reader.fetch_columns(name, number, 0, end, with_headers=True):
                found += rows.to_pylist()
    return found


def test_revenue_and_dead_letters() -> None:
    with Broker(num_partitions=2) as broker:
        servers = broker.bootstrap_servers
        feed(servers, first=0, count=ORDERS)
        run(sys.executable, EXAMPLES / "typed_orders.py", "--servers", servers)
        found = {one["key"].decode(): json.loads(one["value"]) for one in records(servers, "revenue")}
        letters = records(servers, "orders-malformed")
    wanted: dict[str, dict[str, Any]] = {}
    for order in good_orders():
        sums = wanted.setdefault(
            order["product"], {"product": order["product"], "orders": 0, "revenue_cents": 0}
        )
        sums["orders"] += 1
        sums["revenue_cents"] += order["total_cents"]
    assert all(one.pop("last").startswith("2026-01-01T00:04:") for one in found.values())
    assert found == wanted
    assert len(letters) == ORDERS // 50
    headers = {one["key"]: one["value"] for one in letters[0]["headers"]}
    assert headers["__connect.errors.topic"] == b"orders"
    assert headers["__connect.errors.exception.message"].endswith(b"it ends too early")
