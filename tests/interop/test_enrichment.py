"""`examples/enrichment.py`, run as docs/howto/spark.md has it: our clicks, customers of a real old Kafka."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.test_pipelines import documents, fill, run_alone
from interop import kafka_peer
from interop.conftest import OdradekServer, needs_java_for
from odradek import Producer

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def old_kafka(kafka_toolchain: None, tmp_path: Path) -> Iterator[kafka_peer.RealKafka]:
    """A real Kafka of 2016, whose topics are compacted."""
    needs_java_for("0.10.2.2")
    settings = {"num.partitions": "2", "log.cleanup.policy": "compact"}
    with kafka_peer.RealKafka("0.10.2.2", tmp_path / "kafka", settings) as kafka:
        yield kafka


def change(servers: str, key: str, document: dict[str, Any] | None) -> None:
    """A change of the table of customers."""
    with Producer(bootstrap_servers=servers) as producer:
        value = None if document is None else json.dumps(document)
        producer.send("customers", key=key, value=value).result(60)


def test_clicks_are_enriched_with_the_table_as_it_is_then(
    old_kafka: kafka_peer.RealKafka, server: OdradekServer, tmp_path: Path
) -> None:
    old, new = old_kafka.bootstrap_servers, server.bootstrap_servers
    table: dict[str, dict[str, Any]] = {}
    for number in range(30):
        key = f"c{number % 15}"
        table[key] = {"name": f"Customer {key}", "city": f"city {number}"}
        change(old, key, table[key])
    change(old, "c3", None)
    del table["c3"]

    def enriched(clicks: list[dict[str, Any]]) -> list[dict[str, Any]]:
        # `to_json` leaves out what is null.
        return [click | table.get(click["customer"], {}) for click in clicks]

    fill(new, 0, 200)
    run_alone("enrichment", tmp_path, new, old)
    first = documents(new, "clicks")
    expected = enriched(first)
    assert in_order(documents(new, "clicks-enriched")) == in_order(expected)
    table["c5"] = {"name": "Customer c5", "city": "elsewhere"}
    change(old, "c5", table["c5"])
    fill(new, 200, 200)
    run_alone("enrichment", tmp_path, new, old)
    expected += enriched([click for click in documents(new, "clicks") if click not in first])
    found = documents(new, "clicks-enriched")
    assert in_order(found) == in_order(expected)
    assert any(one.get("city") == "elsewhere" for one in found)
    assert any("city" not in one for one in found)


def in_order(found: list[dict[str, Any]]) -> list[str]:
    """The documents as text, in order."""
    return sorted(json.dumps(one, sort_keys=True) for one in found)
