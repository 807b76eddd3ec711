"""One pipeline, two clusters: `examples/two_clusters.py` on a real old Kafka and a new odradek."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from interop import kafka_peer, members, topics_of_kafka
from interop.cluster_of_processes import ClusterOfProcesses, cluster_or_skip
from interop.conftest import OdradekServer
from odradek import Admin, NewTopic, Producer
from odradek.client.raw import RawReader
from waiting import WITHIN_S

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.usefixtures("kafka_toolchain")]

EXAMPLE = Path(__file__).parents[2] / "examples" / "two_clusters.py"
LIMIT_S = 180
"""Only reached by what is broken: Spark has to start, and Kafka to miss a broker."""

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
            future.result(120)


def paid(servers: str) -> list[dict[str, Any]]:
    """Topic `orders-paid` as it is in one cluster, by order number."""
    found = []
    with RawReader(servers) as reader:
        partitions = [("orders-paid", number) for number in reader.partitions_for("orders-paid")]
        for (topic, number), end in reader.end_offsets(partitions).items():
            for rows in reader.fetch_columns(topic, number, 0, end):
                found += [json.loads(value) for value in rows.column("value").to_pylist()]
    return sorted(found, key=lambda document: int(document["order"]))


def command(old: str, new: str, checkpoint: Path) -> list[str]:
    """The words that start the example."""
    return [sys.executable, str(EXAMPLE), "--old", old, "--new", new, "--checkpoint", str(checkpoint)]


def environment() -> dict[str, str]:
    """The environment of its process."""
    from odradek.spark.sessions.java import find_java

    return {**os.environ, "JAVA_HOME": str(find_java().home), "SPARK_LOCAL_IP": "127.0.0.1"}


def run(old: str, new: str, checkpoint: Path) -> None:
    done = subprocess.run(
        [*command(old, new, checkpoint), "--once"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


ORDERS: list[dict[str, Any]] = [
    {"order": i, "product": PRODUCTS[i % 3], "quantity": 1 + i % 4, "price_cents": 350} for i in range(200)
]
PAYMENTS: list[dict[str, Any]] = [{"order": i, "paid_cents": 350} for i in range(0, 200, 2)]
PAID = [ORDERS[p["order"]] | p | {"open_cents": 350 * (ORDERS[p["order"]]["quantity"] - 1)} for p in PAYMENTS]


def test_the_join_of_two_clusters(
    old_kafka: kafka_peer.RealKafka, server: OdradekServer, tmp_path: Path
) -> None:
    old, new = old_kafka.bootstrap_servers, server.bootstrap_servers
    orders, payments, expected = ORDERS, PAYMENTS, PAID
    produce(old, "orders", orders)
    produce(new, "payments", payments[:60])
    run(old, new, tmp_path / "checkpoint")
    assert paid(new) == paid(old) == expected[:60]
    # Started again, it goes on: the orders that waited for their payment are still known.
    produce(new, "payments", payments[60:])
    run(old, new, tmp_path / "checkpoint")
    assert paid(new) == paid(old) == expected


@pytest.fixture
def two_brokers(kafka_toolchain: None, tmp_path: Path) -> Iterator[list[kafka_peer.RealKafka]]:
    """A cluster of two real brokers of 2019, each of which has all."""
    pytest.importorskip("pyspark")
    settings = {"default.replication.factor": "2", "num.partitions": "2", "replica.lag.time.max.ms": "3000"}
    with ExitStack() as running:
        brokers: list[kafka_peer.RealKafka] = []
        for broker_id in (1, 2):
            brokers.append(
                kafka_peer.RealKafka(
                    "2.2.2",
                    tmp_path / f"kafka-{broker_id}",
                    settings,
                    zookeeper=brokers[0].zookeeper if brokers else "",
                    broker_id=broker_id,
                )
            )
            running.enter_context(brokers[-1])
        yield brokers
        for broker in brokers:
            # One that is left alone would take its time to leave.
            broker.kill()


@pytest.fixture
def odradeks(tmp_path: Path) -> Iterator[ClusterOfProcesses]:
    """A cluster of three of ours."""
    with cluster_or_skip(tmp_path) as cluster:
        yield cluster


def test_a_broker_of_each_cluster_dies_while_they_are_joined(
    two_brokers: list[kafka_peer.RealKafka], odradeks: ClusterOfProcesses, tmp_path: Path
) -> None:
    """No batch fails; what is written is written at least once, and nothing else."""
    old = ",".join(broker.bootstrap_servers for broker in two_brokers)
    new = odradeks.bootstrap_servers
    for servers, replicas, names in (
        (old, 2, ("orders", "orders-paid")),
        (new, 3, ("payments", "orders-paid")),
    ):
        with Admin(bootstrap_servers=servers) as admin:
            topics_of_kafka.create(admin, *(NewTopic(name, 2, replicas) for name in names))
    members.until("all replicas are in sync", odradeks.is_whole)
    log = tmp_path / "example.log"
    with log.open("w", encoding="utf-8") as output:
        child = subprocess.Popen(
            command(old, new, tmp_path / "checkpoint"), env=environment(), stdout=output, stderr=output
        )
    try:

        def is_paid(count: int) -> bool:
            assert child.poll() is None, log.read_text(encoding="utf-8")[-4000:]
            return all(first_of_each(paid(servers)) == PAID[:count] for servers in (new, old))

        produce(old, "orders", ORDERS[:100])
        produce(new, "payments", PAYMENTS[:50])
        members.until("the first are joined", lambda: is_paid(50), LIMIT_S)
        # Each of the two leads a partition of each topic; the first to come is the controller.
        two_brokers[0].kill()
        odradeks.kill(odradeks.metadata().controller_id)
        produce(old, "orders", ORDERS[100:])
        produce(new, "payments", PAYMENTS[50:])
        members.until("the others are joined", lambda: is_paid(100), LIMIT_S)
        child.send_signal(signal.SIGINT)
        assert child.wait(60) == 0, log.read_text(encoding="utf-8")[-4000:]
    finally:
        if child.poll() is None:
            child.kill()
            child.wait(WITHIN_S)


def first_of_each(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The documents without those that are there already."""
    return [one for i, one in enumerate(documents) if one not in documents[:i]]
