"""One pipeline, two clusters: `examples/two_clusters.py` on a real old Kafka and a new odradek."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interop import kafka_peer
from interop.conftest import OdradekServer
from odradek import Producer
from odradek.client.raw import RawReader

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.usefixtures("kafka_toolchain")]

EXAMPLE = Path(__file__).parents[2] / "examples" / "two_clusters.py"
PRODUCTS = ("tea", "coffee", "mate")


@pytest.fixture(params=["0.10.2.2"])
def old_kafka(
    request: pytest.FixtureRequest, kafka_toolchain: None, tmp_path: Path
) -> Iterator[kafka_peer.RealKafka]:
    pytest.importorskip("pyspark")
    try:
        kafka_peer.old_java()
    except RuntimeError as why:
        pytest.skip(f"Kafka {request.param} needs Java 11: {why}")
    settings = {"offsets.topic.num.partitions": "1", "num.partitions": "2"}
    with kafka_peer.RealKafka(request.param, tmp_path / "kafka", settings) as kafka:
        yield kafka


def produce(servers: str, topic: str, documents: list[dict[str, Any]]) -> None:
    with Producer(bootstrap_servers=servers, linger_ms=100, compression_type="snappy") as producer:
        sent = [
            producer.send(topic, json.dumps(document), key=str(document["order"])) for document in documents
        ]
        producer.flush()
        for future in sent:
            future.result(30)


def paid(servers: str) -> list[dict[str, Any]]:
    """Topic `orders-paid` as it is in one cluster, by order number."""
    found = []
    with RawReader(servers) as reader:
        partitions = [("orders-paid", number) for number in reader.partitions_for("orders-paid")]
        for (topic, number), end in reader.end_offsets(partitions).items():
            for rows in reader.fetch_columns(topic, number, 0, end):
                found += [json.loads(value) for value in rows.column("value").to_pylist()]
    return sorted(found, key=lambda document: int(document["order"]))


def run(old: str, new: str, checkpoint: Path) -> None:
    from odradek.spark.java import find_java

    arguments = ["--old", old, "--new", new, "--checkpoint", str(checkpoint), "--once"]
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java().home),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_the_join_of_two_clusters(
    old_kafka: kafka_peer.RealKafka, server: OdradekServer, tmp_path: Path
) -> None:
    old, new = old_kafka.bootstrap_servers, server.bootstrap_servers
    orders = [
        {"order": i, "product": PRODUCTS[i % 3], "quantity": 1 + i % 4, "price_cents": 350}
        for i in range(200)
    ]
    payments = [{"order": i, "paid_cents": 350} for i in range(0, 200, 2)]
    expected = [
        orders[p["order"]] | p | {"open_cents": 350 * (orders[p["order"]]["quantity"] - 1)}  # type: ignore[operator, index]
        for p in payments
    ]
    produce(old, "orders", orders)
    produce(new, "payments", payments[:60])
    run(old, new, tmp_path / "checkpoint")
    assert paid(new) == paid(old) == expected[:60]
    # Started again, it goes on: the orders that waited for their payment are still known.
    produce(new, "payments", payments[60:])
    run(old, new, tmp_path / "checkpoint")
    assert paid(new) == paid(old) == expected
