"""Quotas beside a real Kafka's: set by its tools, kept in its nodes, and as slow for its clients as there."""

from __future__ import annotations

import gzip
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest

from interop import kafka_peer, members, row_names
from interop.cluster_of_processes import BROKERS, ClusterOfProcesses
from interop.compatibility import Rows
from interop.config_changes import until_heard
from interop.conftest import OdradekServer
from interop.kafka_tools import KafkaTools, ours
from odradek import Admin, Consumer, Producer
from odradek.testing import Broker

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("kafka_toolchain")]

PEER, OLD, NEWEST = "3.9.1", "2.2.2", kafka_peer.NEWEST
GOLDEN = Path(__file__).parents[1] / "golden" / "quotas" / f"{PEER}.jsonl.gz"
WINDOWS = {"quota.window.num": "3"}
"""Fewer than usual: what a client may have at once is over sooner."""

QUOTA = 200_000
"""Bytes a second."""

SENT = 8 * QUOTA
RECORD = 1_000


def test_the_golden_data_is_what_kafka_says(tmp_path: Path) -> None:
    library = kafka_peer.resolve(f"kafka-{PEER}", kafka_peer.dependencies(PEER))
    program = Path(__file__).with_name("QuotaTables.java")
    command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", f"{library}/*", str(program)]
    done = subprocess.run(command, capture_output=True, timeout=180)
    assert done.returncode == 0, done.stderr
    assert done.stdout == gzip.decompress(GOLDEN.read_bytes())


# ---------------------------------------------------------------------- Kafka's tools

ENTITIES = [
    ("--entity-type", "users", "--entity-name", "bob smith"),
    ("--entity-type", "users", "--entity-default"),
    ("--entity-type", "clients", "--entity-name", "app/1"),
    ("--entity-type", "clients", "--entity-default"),
    (
        "--entity-type",
        "users",
        "--entity-name",
        "bob smith",
        "--entity-type",
        "clients",
        "--entity-name",
        "a",
    ),
    ("--entity-type", "users", "--entity-name", "bob smith", "--entity-type", "clients", "--entity-default"),
    ("--entity-type", "users", "--entity-default", "--entity-type", "clients", "--entity-default"),
]
ADDED = (
    "producer_byte_rate=1048576,consumer_byte_rate=20000000,request_percentage=50,"
    "controller_mutation_rate=2.5"
)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def parts(text: str) -> set[frozenset[str]]:
    """The lines of what is described, whatever the order of the values in them."""
    return {frozenset(line.replace(" are ", ", ").split(", ")) for line in text.splitlines()}


@pytest.mark.parametrize("version", [PEER, NEWEST])
def test_kafkas_tool_and_ours_set_and_see_the_same(broker: Broker, version: str) -> None:
    with KafkaTools(version) as kafka:

        def theirs(*words: str) -> str:
            outcome = kafka.run("configs", "--bootstrap-server", broker.bootstrap_servers, *words)
            assert outcome.status == 0, outcome
            return outcome.out

        def mine(*words: str) -> str:
            outcome = ours("configs", "--bootstrap-server", broker.bootstrap_servers, *words)
            assert outcome.status == 0, outcome
            return outcome.out

        for first, second in ((theirs, mine), (mine, theirs)):
            for entity in ENTITIES:
                told = first("--alter", *entity, "--add-config", ADDED)
                assert told == second("--alter", *entity, "--add-config", ADDED)
                assert parts(first("--describe", *entity)) == parts(second("--describe", *entity))
                assert mine("--describe", *entity) != ""
            for kinds in (("users",), ("clients",), ("users", "clients")):
                words = [word for kind in kinds for word in ("--entity-type", kind)]
                assert parts(first("--describe", *words)) == parts(second("--describe", *words))
            for entity in ENTITIES:
                names = ",".join(pair.partition("=")[0] for pair in ADDED.split(","))
                assert first("--alter", *entity, "--delete-config", names).startswith("Completed updating ")
                assert second("--describe", *entity) == ""
            address = ("--entity-type", "ips", "--entity-name", "10.0.0.1")
            first("--alter", *address, "--add-config", "connection_creation_rate=100")
            assert parts(first("--describe", *address)) == parts(second("--describe", *address))
            second("--alter", *address, "--delete-config", "connection_creation_rate")
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            assert admin.describe_client_quotas() == {}


# ---------------------------------------------------------------------- ZooKeeper


def test_the_old_tool_writes_nodes_that_all_brokers_follow(tmp_path: Path) -> None:
    with ClusterOfProcesses(tmp_path / "cluster") as cluster, KafkaTools(OLD) as kafka:

        def old(*words: str) -> str:
            outcome = kafka.run("configs", "--zookeeper", cluster.connect, *words, limit_s=60)
            assert outcome.status == 0, outcome
            return outcome.out

        def seen() -> dict[str, float]:
            with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
                return admin.describe_client_quotas({"user": "bob smith", "client-id": "a"}, strict=True).get(
                    (("client-id", "a"), ("user", "bob smith")), {}
                )

        pair = ENTITIES[4]
        old("--alter", *pair, "--add-config", "producer_byte_rate=1048576,consumer_byte_rate=2097152")
        wanted = {"producer_byte_rate": 1048576.0, "consumer_byte_rate": 2097152.0}
        members.until("the quotas are seen", lambda: seen() == wanted)
        # Ours writes what the old tool reads.
        at = ("--bootstrap-server", cluster.bootstrap_servers)
        told = ours("configs", *at, "--alter", "--client", "slow", "--add-config", "producer_byte_rate=1")
        assert told.status == 0, told
        described = old("--describe", "--entity-type", "clients", "--entity-name", "slow")
        assert "producer_byte_rate=1" in described
        # A broker that is started again still has them, and obeys.
        for broker in range(BROKERS):
            cluster.kill(broker)
            cluster.start(broker)
        members.until("all brokers are back", lambda: len(cluster.metadata().brokers) == BROKERS)
        members.until("the quotas are seen", lambda: seen() == wanted)
        with Producer(bootstrap_servers=cluster.bootstrap_servers, client_id="slow") as producer:
            assert producer.send("t", value=b"x").result(60).offset == 0
        old("--alter", *pair, "--delete-config", "producer_byte_rate,consumer_byte_rate")
        members.until("the quotas are gone", lambda: seen() == {})


# ---------------------------------------------------------------------- rates


def with_ours(at: str, client_id: str, topic: str) -> float:
    began = time.monotonic()
    with Producer(bootstrap_servers=at, client_id=client_id, batch_size=16_384) as producer:
        for _ in range(SENT // RECORD):
            producer.send(topic, value=bytes(RECORD))
        producer.flush()
    return SENT / (time.monotonic() - began)


def with_librdkafka(at: str, client_id: str, topic: str) -> float:
    confluent = pytest.importorskip("confluent_kafka")
    began = time.monotonic()
    producer = confluent.Producer(
        {"bootstrap.servers": at, "client.id": client_id, "batch.size": 16_384, "linger.ms": 5}
    )
    for _ in range(SENT // RECORD):
        producer.produce(topic, bytes(RECORD))
    assert producer.flush(120) == 0
    return SENT / (time.monotonic() - began)


def with_java(at: str, client_id: str, topic: str) -> float:
    with KafkaTools(PEER) as kafka:
        words = ["producer-perf-test", "--topic", topic, "--record-size", str(RECORD), "--throughput", "-1"]
        props = ["--producer-props", f"bootstrap.servers={at}", f"client.id={client_id}", "batch.size=16384"]
        began = time.monotonic()
        outcome = kafka.run(*words, "--num-records", str(SENT // RECORD), *props, limit_s=180)
        assert outcome.status == 0, outcome
        return SENT / (time.monotonic() - began)


def reading_with_ours(at: str, client_id: str, topic: str) -> float:
    # Without a group: the first to join waits for others at Kafka's broker, and what it waits is no quota.
    began, read = time.monotonic(), 0
    with Consumer(bootstrap_servers=at, client_id=client_id, max_partition_fetch_bytes=65_536) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek_to_beginning((topic, 0))
        for record in consumer:
            read += len(record.value or b"")
            if read >= SENT:
                break
    return SENT / (time.monotonic() - began)


def reading_with_java(at: str, client_id: str, topic: str) -> float:
    with KafkaTools(NEWEST) as kafka, NamedTemporaryFile("w", suffix=".properties", encoding="utf-8") as file:
        file.write(f"client.id={client_id}\nauto.offset.reset=earliest\nmax.partition.fetch.bytes=65536\n")
        file.flush()
        words = ["consumer-perf-test", "--bootstrap-server", at, "--topic", topic, "--timeout", "60000"]
        began = time.monotonic()
        outcome = kafka.run(
            *words, "--num-records", str(SENT // RECORD), "--command-config", file.name, limit_s=180
        )
        assert outcome.status == 0, outcome
        assert str(SENT // RECORD) in outcome.out, outcome
        return SENT / (time.monotonic() - began)


def reading_with_librdkafka(at: str, client_id: str, topic: str) -> float:
    confluent = pytest.importorskip("confluent_kafka")
    began, read = time.monotonic(), 0
    consumer = confluent.Consumer(
        {
            "bootstrap.servers": at,
            "client.id": client_id,
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "fetch.message.max.bytes": 65_536,
        }
    )
    consumer.assign([confluent.TopicPartition(topic, 0, 0)])
    while read < SENT:
        record = consumer.poll(60)
        assert record is not None and not record.error(), record
        read += len(record.value())
    consumer.close()
    return SENT / (time.monotonic() - began)


THROTTLED = {
    with_librdkafka: row_names.python("confluent-kafka"),
    reading_with_librdkafka: row_names.python("confluent-kafka"),
    with_java: row_names.java(PEER),
    reading_with_java: row_names.java(NEWEST),
}
"""Rows of the page of what clients did; ours is not on it."""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Our broker and Kafka's, with the same topics."""
    folder = tmp_path_factory.mktemp("quotas")
    (folder / "ours").mkdir()
    words = [word for key, value in WINDOWS.items() for word in ("--set", f"{key}={value}")]
    server = OdradekServer(folder / "ours", words=words)
    with kafka_peer.RealKafka(PEER, folder / "theirs", settings=dict(WINDOWS)) as kafka:
        server.start()
        try:
            yield {"ours": server.bootstrap_servers, "Kafka": kafka.bootstrap_servers}
        finally:
            server.stop()


@pytest.mark.parametrize(
    ("client", "key"),
    [
        (with_ours, "producer_byte_rate"),
        (with_librdkafka, "producer_byte_rate"),
        (with_java, "producer_byte_rate"),
        (reading_with_ours, "consumer_byte_rate"),
        (reading_with_librdkafka, "consumer_byte_rate"),
        (reading_with_java, "consumer_byte_rate"),
    ],
    ids=lambda given: getattr(given, "__name__", None),
)
def test_clients_are_as_slow_as_at_kafka(
    both: dict[str, str],
    client: Callable[[str, str, str], float],
    key: str,
    record_property: Callable[[str, object], None],
    compatibility_row: Rows,
) -> None:
    row = compatibility_row(*THROTTLED[client]) if client in THROTTLED else None
    name = client.__name__.replace("_", "-")

    def measured(at: str) -> float:
        with Admin(bootstrap_servers=at) as admin:
            admin.create_topics([name])
            admin.alter_client_quotas({(("client-id", name),): {key: float(QUOTA)}})
        if key == "consumer_byte_rate":
            with Producer(bootstrap_servers=at, client_id="filler") as producer:
                for _ in range(SENT // RECORD):
                    producer.send(name, value=bytes(RECORD))
        until_heard(at)
        return client(at, name, name)

    # At the same time: whatever the machine is doing, it does to both.
    with ThreadPoolExecutor(2) as pool:
        rates = dict(zip(both, pool.map(measured, both.values()), strict=True))
    ratio = rates["ours"] / rates["Kafka"]
    told = ", ".join(f"{who} {rate / 1000:.0f} KB/s" for who, rate in rates.items())
    print(f"{name}: {told}, ratio {ratio:.2f}, quota {QUOTA / 1000:.0f} KB/s")
    record_property("ratio", f"{ratio:.3f}")
    assert 0.7 < ratio < 1.4, told
    if row is not None:
        row.does("throttled", what="produce" if key == "producer_byte_rate" else "fetch")
