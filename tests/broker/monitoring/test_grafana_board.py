"""Each query of our board for Grafana finds what it asks for in a live broker's metrics."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from odradek import Consumer, Producer
from odradek.testing import Broker

from ..net import PATIENCE_S

pytest.importorskip("prometheus_client")

from prometheus_client.parser import text_string_to_metric_families

BOARD = Path(__file__).parents[3] / "docs" / "grafana" / "odradek.json"
_SELECTOR = re.compile(r"\b((?:kafka|process)_\w+)\{([^}]*)\}")
_LABEL = re.compile(r'(\w+)(=~|!=|=)"([^"]*)"')
_BY = re.compile(r"by \((\w+)\)")


def _queries() -> Iterator[str]:
    for panel in json.loads(BOARD.read_text(encoding="utf-8"))["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]


def _fits(labels: dict[str, str], wanted: list[tuple[str, str, str]]) -> bool:
    given = {**labels, "instance": "$instance"}  # which Prometheus adds
    return all((given.get(name, "") == text) != (how == "!=") for name, how, text in wanted)


def test_every_query_finds_something() -> None:
    with Broker(odradek_metrics_port=0) as broker:
        broker.create_topic("orders")
        servers = broker.bootstrap_servers
        with Producer(bootstrap_servers=servers) as producer:
            producer.send("orders", value=b"1").result(PATIENCE_S)
        earliest = {"group_id": "billing", "auto_offset_reset": "earliest"}
        with Consumer("orders", bootstrap_servers=servers, **earliest) as consumer:
            next(iter(consumer))
            consumer.commit()
        url = broker.call(lambda served: served.monitoring.url if served.monitoring else "")
        with urlopen(f"{url}/metrics", timeout=PATIENCE_S) as response:
            text = response.read().decode()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    queries = list(_queries())
    assert len(queries) > 25
    for query in queries:
        selectors = _SELECTOR.findall(query)
        assert selectors, query
        for name, labels in selectors:
            wanted = _LABEL.findall(labels)
            found = [sample for sample in samples if sample.name == name and _fits(sample.labels, wanted)]
            assert found, query
            for label in _BY.findall(query):
                assert all(label in sample.labels for sample in found), query
