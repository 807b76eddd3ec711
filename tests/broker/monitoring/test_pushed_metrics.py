"""Metrics that clients push, as Prometheus reads them: whatever clients call them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from odradek.broker.event_loop.slices import take_all
from odradek.broker.metrics.otlp import DataPoint
from odradek.broker.metrics.pushed_metrics import PushedMetrics, PushingClient
from odradek.broker.monitoring.exposition import Exposition
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from odradek.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.push_telemetry import PushTelemetryRequest

pytest.importorskip("prometheus_client")

from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open_metrics

from ..live import PATIENCE_S, connect, running
from ..metrics.otlp_writer import counter, gauge, metrics
from ..net import run

TELEMETRY = {71, 72}


def test_prometheus_reads_what_clients_make_up() -> None:
    pushed = PushedMetrics()
    hostile = 'a"b\\c\nd'
    client = PushingClient(hostile, "id", "rdkafka", "2", "User:x", "h")
    known = pushed.of(b"1", client, 0, 1000)
    assert known is not None
    for name, is_monotonic in (
        ("org.apache.kafka.sent.total", True),
        ("sent", False),
        ("sent_total", True),
        ("", False),
        (hostile, True),
        ("sent.total", False),
    ):
        for attributes in ((), ((hostile, hostile), ("9", "x"), ("client.id", "forged"), ("client_id", "y"))):
            pushed.add(known, DataPoint(name, attributes, 1.5, is_monotonic, False))
    exposition = Exposition()
    take_all(exposition.add_pushed(pushed.clients(0)))
    families = list(read_open_metrics("".join(take_all(exposition.text()))))
    samples = [sample for family in families for sample in family.samples]
    assert {sample.labels["client_id"] for sample in samples} == {hostile}
    assert {family.name for family in families} == {
        "kafka_client_sent_total",
        "kafka_client_sent",
        "kafka_client_",
        "kafka_client_a_b_c_d",
    }
    assert {sample.value for sample in samples} == {1.5}


def test_a_client_pushes_what_was_subscribed_to(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, odradek_metrics_port=0) as broker:
            client = await connect(broker)
            asked = ApiVersionsRequest(client_software_name="odd-client", client_software_version="1.2")
            served = await client.call(asked, 3, "shop")
            assert {api.api_key for api in served.api_keys} >= TELEMETRY
            configs = [
                AlterableConfig(name="metrics", config_operation=0, value="org.apache.kafka."),
                AlterableConfig(name="match", config_operation=0, value="client_software_name=odd-.*"),
            ]
            resource = AlterConfigsResource(resource_type=16, resource_name="all", configs=configs)
            altered = await client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1, "shop")
            assert [answer.error_code for answer in altered.responses] == [0]
            told = await client.call(GetTelemetrySubscriptionsRequest(), 0, "shop")
            assert told.requested_metrics == ["org.apache.kafka."]
            pushed = metrics(
                gauge("org.apache.kafka.producer.queue.size", 7),
                counter("org.apache.kafka.producer.node.sent.total", 5, node_id="1"),
            )
            push = PushTelemetryRequest(
                client_instance_id=told.client_instance_id,
                subscription_id=told.subscription_id,
                metrics=pushed,
            )
            assert (await client.call(push, 0, "shop")).error_code == 0
            assert broker.monitoring is not None
            url = broker.monitoring.url

            def read(path: str) -> bytes:
                with urlopen(url + path, timeout=PATIENCE_S) as response:
                    body: bytes = response.read()
                    return body

            text = (await asyncio.to_thread(read, "/metrics")).decode()
            labels = 'client_id="shop",client_instance_id="'
            assert f"kafka_client_producer_queue_size{{{labels}" in text
            assert 'client_software_version="1.2",node_id="1"} 5' in text
            assert "kafka_server_client_metrics_instance_count 1" in text
            report: dict[str, Any] = json.loads(await asyncio.to_thread(read, "/applications"))
            (application,) = report["applications"]
            (instance,) = application["client_metrics"]
            assert (instance["pushes"], instance["others"]) == (1, 1)
            assert instance["metrics"] == {"org.apache.kafka.producer.queue.size": 7}

    run(scenario)


def test_who_shows_no_metrics_takes_none(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            served = await (await connect(broker)).call(ApiVersionsRequest(), 2)
            assert TELEMETRY.isdisjoint(api.api_key for api in served.api_keys)

    run(scenario)
