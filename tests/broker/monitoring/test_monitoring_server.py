"""The monitoring port of a live broker, read as Prometheus reads it."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from odradek.broker.app import Broker, StartError
from odradek.broker.metrics.metrics import MetricKey
from odradek.broker.monitoring.declarations import DECLARATIONS
from odradek.broker.monitoring.exposition import OPEN_METRICS, PROMETHEUS_TEXT
from odradek.broker.monitoring.health import readiness
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.fetch import FetchRequest

pytest.importorskip("prometheus_client")

from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open_metrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from ..live import PATIENCE_S, append, batch, connect, create_topic, running
from ..net import run

_REQUESTS = "kafka_network_requestmetrics_requests_total"
_FETCHES = ("Fetch", "FetchConsumer", "FetchFollower")


def _get(url: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    request = Request(url, headers={name.replace("_", "-"): text for name, text in headers.items()})
    try:
        with urlopen(request, timeout=PATIENCE_S) as response:
            return response.status, dict(response.headers), response.read()
    except HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read()


async def _ask(broker: Broker, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    assert broker.monitoring is not None
    return await asyncio.to_thread(_get, broker.monitoring.url + path, **headers)


def _samples(read: Callable[[str], Any], text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in read(text)
        for sample in family.samples
    }


def test_prometheus_reads_what_was_produced(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, odradek_metrics_port=0) as broker:
            await create_topic(broker, "odd.name", 2)
            client = await connect(broker)
            await append(client, "odd.name", batch([b"a", b"b"]))
            status, headers, body = await _ask(broker, "/metrics", Accept=OPEN_METRICS)
            assert (status, headers["Content-Type"]) == (200, OPEN_METRICS)
            read = _samples(read_open_metrics, body.decode())
            of_topic = (("topic", "odd.name"),)
            assert read["kafka_server_brokertopicmetrics_messagesin_total", of_topic] == 2
            assert read["kafka_server_brokertopicmetrics_messagesin_total", ()] == 2
            of_partition = (("partition", "0"), ("topic", "odd.name"))
            assert read["kafka_log_log_logendoffset", of_partition] == 2
            assert read["kafka_log_log_size", of_partition] > 0
            assert read["kafka_cluster_partition_insyncreplicascount", of_partition] == 1
            assert read["kafka_controller_kafkacontroller_activecontrollercount", ()] == 1
            assert read["kafka_server_replicamanager_leadercount", ()] == 2
            assert read["kafka_network_requestmetrics_totaltimems_count", (("request", "Produce"),)] == 1
            p99 = (("quantile", "0.99"), ("request", "Produce"))
            await client.call(FetchRequest(), 4)
            await append(client, "nothing", batch([b"a"]))
            software = ApiVersionsRequest(client_software_name="odd-client", client_software_version="1.2")
            await client.call(software, 3)
            await client.call(FetchRequest(replica_id=1), 4)
            read = _samples(
                read_open_metrics, (await _ask(broker, "/metrics", Accept=OPEN_METRICS))[2].decode()
            )
            requests = {request: read[_REQUESTS, (("request", request),)] for request in _FETCHES}
            assert requests == {"Fetch": 2, "FetchConsumer": 1, "FetchFollower": 1}
            times = "kafka_network_requestmetrics_totaltimems_count"
            assert [read[times, (("request", request),)] for request in _FETCHES] == [2, 1, 1]
            unknown = (("error", "UNKNOWN_TOPIC_OR_PARTITION"), ("request", "Produce"))
            assert read["kafka_network_requestmetrics_errors_total", unknown] == 1
            by_software = (("clientSoftwareName", "odd-client"), ("clientSoftwareVersion", "1.2"))
            assert read["kafka_server_socket_server_metrics_connections", by_software] == 1
            for phase in ("total", "local", "remote", "throttle"):
                assert (f"kafka_network_requestmetrics_{phase}timems", p99) in read
            assert read["kafka_network_requestmetrics_totaltimems", p99] > 0
            assert read["process_resident_memory_bytes", ()] > 1_000_000

            # The older text, and packed.
            status, headers, body = await _ask(broker, "/metrics?names=confluent", Accept_Encoding="gzip")
            assert (headers["Content-Type"], headers["Content-Encoding"]) == (PROMETHEUS_TEXT, "gzip")
            read = _samples(read_text, gzip.decompress(body).decode())
            assert read["kafka_server_brokertopicmetrics_messagesinpersec", of_topic] == 2
            status, _, body = await _ask(broker, "/metrics?names=others")
            assert (status, json.loads(body)["message"]) == (
                400,
                "names=others: there are jmx, reporter, confluent",
            )

    run(scenario)


def test_every_metric_is_declared(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, odradek_metrics_port=0) as broker:
            await create_topic(broker, "orders")
            client = await connect(broker)
            await client.call(FetchRequest(), 4)
            assert broker.transactions is not None  # whose metrics come when it is first asked for

            def is_declared(key: MetricKey) -> bool:
                declared = DECLARATIONS.get(key[:2])
                own = {"suffix", "quantile"}
                return declared is not None and {tag for tag, _ in key[2]} <= {*declared.tags, *own}

            assert [key for key in broker.metrics.snapshot() if not is_declared(key)] == []

    run(scenario)


def test_health_and_readiness_say_why_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, odradek_metrics_port=0) as broker:
            assert broker.monitoring is not None
            assert (await _ask(broker, "/healthz"))[0] == 200
            status, _, body = await _ask(broker, "/readyz")
            assert (status, json.loads(body)) == (200, {"status": "ready", "reasons": [], "warnings": []})
            broker.replicas.offline["orders", 3] = "a test says so"
            status, _, body = await _ask(broker, "/readyz")
            warnings = ["the logs of 1 partitions here cannot be used"]
            assert (status, json.loads(body)["warnings"]) == (200, warnings)
            status, _, body = await _ask(broker, "/nothing")
            assert (status, json.loads(body)["message"]) == (
                404,
                "there are /metrics, /applications, /healthz and /readyz",
            )
            url = broker.monitoring.url
        with pytest.raises(OSError, match="refused"):
            await asyncio.to_thread(_get, url + "/healthz")

    run(scenario)


def test_a_port_in_use_stops_the_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path / "first", odradek_metrics_port=0) as broker:
            assert broker.monitoring is not None
            port = int(broker.monitoring.url.rpartition(":")[2])
            with pytest.raises(StartError, match=rf"metrics cannot be served at 127.0.0.1:{port}: .*in use"):
                async with running(tmp_path / "second", odradek_metrics_port=port):
                    raise AssertionError("it started")

    run(scenario)


def test_why_a_broker_is_not_ready() -> None:
    given = {"folders": 2, "failed_folders": 0, "offline_partitions": 0}
    assert readiness(is_running=True, knows_cluster=True, **given) == ([], [])
    assert readiness(is_running=False, knows_cluster=True, **given) == (["the broker starts or stops"], [])
    untold = "the controller has not told this broker of its cluster yet"
    assert readiness(is_running=True, knows_cluster=False, **given) == ([untold], [])
    given["failed_folders"] = 1
    one = "1 of 2 data folders have failed"
    assert readiness(is_running=True, knows_cluster=True, **given) == ([], [one])
    given["failed_folders"] = 2
    every = "all data folders have failed"
    assert readiness(is_running=True, knows_cluster=True, **given) == ([every], [])
