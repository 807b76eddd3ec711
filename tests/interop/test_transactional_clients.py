"""Other people's transactional producers on our broker; and Kafka's tools on what it has written of them."""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import re
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from interop import compatibility, programs
from interop.conftest import OdradekServer
from interop.kafka_peer import NEWEST, RealKafka, run_tool
from interop.releases import ends
from odradek import Admin, TopicPartition
from odradek.broker.app import Broker
from odradek.broker.config.broker_config import BrokerConfig
from odradek.coordinators.transactions.transaction import Transaction
from waiting import gathered

pytestmark = pytest.mark.interop

RELEASES = ("0.11.0.3", "2.2.2", "3.9.2", "4.4.0")
LOGS_WITH = ("3.9.1", NEWEST)


@pytest.mark.parametrize("version", ends(RELEASES))
def test_java(
    version: str, tapped: OdradekServer, compatibility_row: Callable[..., compatibility.Row]
) -> None:
    """Commits, aborts, a consume-transform-produce loop, and a successor that fences."""
    row = compatibility_row("Java", "Kafka's Java clients", version, "Maven Central")
    if absent := [tool for tool in ("javac", "mvn") if shutil.which(tool) is None]:
        pytest.skip(f"not on this machine: {', '.join(absent)}")
    seen = programs.java_program("Transactions", version).run(tapped.bootstrap_servers)
    wanted = Counter(f"{n}-{i}" for n in (0, 1, 3, 4) for i in range(10))
    # Forty records, and a marker for each of six transactions that wrote to each of two partitions; what the
    # last ones, who aborted, had not sent by then has left nothing.
    assert seen["passed on"]["records"] == 40
    assert 40 <= seen["passed on"]["committed"] <= 40 + 20 + 12
    assert Counter(seen["out"]) == wanted + Counter(["last"])
    assert seen["out"][-1] == "last"
    assert seen["all of out"] >= 42
    assert seen["fenced"] == "ProducerFencedException"
    row.does("transactions", what="commit, abort; fencing; with offsets")


def test_confluent(tapped: OdradekServer, compatibility_row: Callable[..., compatibility.Row]) -> None:
    """librdkafka: the same, and kill -9 of the broker while a transaction is open."""
    from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic

    released = importlib.metadata.version("confluent-kafka")
    row = compatibility_row("Python", "confluent-kafka", released, "PyPI")
    at = {"bootstrap.servers": tapped.bootstrap_servers}
    admin = AdminClient(at)
    for future in admin.create_topics([NewTopic("in", 2, 1), NewTopic("out", 1, 1)]).values():
        future.result(30)
    producer = Producer({**at, "transactional.id": "confluent"})
    producer.init_transactions(30)
    for n in range(4):
        producer.begin_transaction()
        for i in range(10):
            producer.produce("in", b"%d-%d" % (n, i), partition=i % 2)
        producer.flush(30)
        if n == 2:
            producer.abort_transaction(30)
        elif n == 1:
            tapped.restart(signal.SIGKILL)
            producer.commit_transaction(30)
        else:
            producer.commit_transaction(30)

    group = {**at, "group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    reader = Consumer({**group, "isolation.level": "read_committed"})
    reader.subscribe(["in"])
    found = gathered(
        lambda: [one for one in reader.consume(100, 0.2) if one.error() is None], 30, "the committed records"
    )
    values = [record.value() for record in found]
    assert Counter(values) == Counter(b"%d-%d" % (n, i) for n in (0, 1, 3) for i in range(10))
    positions = reader.position(reader.assignment())
    producer.begin_transaction()
    for value in values:
        producer.produce("out", value)
    producer.send_offsets_to_transaction(positions, reader.consumer_group_metadata(), 30)
    producer.commit_transaction(30)
    committed = reader.committed([TopicPartition("in", p) for p in range(2)], 30)
    assert {p.partition: p.offset for p in committed} == {p.partition: p.offset for p in positions}
    reader.close()

    producer.begin_transaction()
    producer.produce("out", b"zombie")
    producer.flush(30)
    successor = Producer({**at, "transactional.id": "confluent"})
    successor.init_transactions(30)
    with pytest.raises(KafkaException, match="fenced"):
        producer.commit_transaction(30)
    row.does("transactions", what="commit, abort; fencing; with offsets")


@pytest.mark.usefixtures("kafka_toolchain")
def test_kafkas_dumper_reads_our_logs(server: OdradekServer) -> None:
    """`__transaction_state` in both versions of its records, and control batches."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    at = {"bootstrap.servers": server.bootstrap_servers}
    admin = AdminClient(at)
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(30)
    producer = Producer({**at, "transactional.id": "dumped"})
    producer.init_transactions(30)
    for commit in (True, False):
        producer.begin_transaction()
        producer.produce("t", b"x", partition=0)
        producer.flush(30)
        (producer.commit_transaction if commit else producer.abort_transaction)(30)
    server.stop()
    data = server.directory / "data"
    states = [path for path in data.glob("__transaction_state-*/*.log") if path.stat().st_size]
    (log,) = states
    for version in LOGS_WITH:
        printed = run_tool(version, "dump-log", "--transaction-log-decoder", "--files", str(log))
        assert _states(printed) == [
            "Empty",
            "Ongoing",
            "PrepareCommit",
            "CompleteCommit",
            "Ongoing",
            "PrepareAbort",
            "CompleteAbort",
        ], printed
        printed = run_tool(version, "dump-log", "--print-data-log", "--files", str(data / "t-0" / log.name))
        assert re.findall(r"endTxnMarker: (\w+) coordinatorEpoch: (\d+)", printed) == [
            ("COMMIT", "0"),
            ("ABORT", "0"),
        ], printed
    server.start()


def _states(printed: str) -> list[str]:
    """The states in what Kafka's decoder prints: words up to 3.9, numbers in JSON from 4.0 on."""
    names = ["Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"]
    found: list[str] = []
    for line in printed.splitlines():
        if word := re.search(r"state=(\w+)", line):
            found.append(word[1])
        elif payload := re.search(r"payload: (\{.*\})", line):
            found.append(names[json.loads(payload[1])["data"]["transactionStatus"]])
    return found


@pytest.mark.usefixtures("kafka_toolchain")
def test_kafka_goes_on_where_we_stopped(tmp_path: Path) -> None:
    """A folder comes back to Kafka with transactions that we have committed, decided, and left open."""
    from confluent_kafka import Producer

    def begin(kafka_or_ours: str, name: str, value: bytes) -> Producer:
        producer = Producer({"bootstrap.servers": kafka_or_ours, "transactional.id": name})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("t", value, partition=0)
        producer.flush(30)
        return producer

    async def in_our_hands(data: Path) -> None:
        config = BrokerConfig({"log.dirs": str(data), "listeners": "PLAINTEXT://127.0.0.1:0"})
        broker = Broker(config)
        await broker.start()
        try:
            at, loop = broker.bootstrap_servers, asyncio.get_running_loop()
            one = await loop.run_in_executor(None, begin, at, "committed", b"ours")
            await loop.run_in_executor(None, one.commit_transaction, 30)
            # From here on a decided transaction gets no markers.
            broker.transactions.send_markers = lambda broker_id, markers, deliver: deliver({})
            two = await loop.run_in_executor(None, begin, at, "decided", b"decided")
            deciding = loop.run_in_executor(None, two.commit_transaction, 30)
            await loop.run_in_executor(None, begin, at, "open", b"open")
            await deciding
            states = {one.transactional_id: one.state.title for one in _all(broker)}
            assert states["decided"] == "PrepareCommit"
            assert states["open"] == "Ongoing"
        finally:
            await broker.stop()

    kafka = RealKafka("3.9.1", tmp_path, {"transaction.state.log.num.partitions": "2"})
    kafka.start()
    try:
        begin(kafka.bootstrap_servers, "first", b"kafka's").commit_transaction(30)
        kafka.stop()
        asyncio.run(in_our_hands(tmp_path / "data"))
        _start_and_complete(kafka, "decided")
        # Its next owner ends what was open, and Kafka itself what was decided.
        begin(kafka.bootstrap_servers, "open", b"again").commit_transaction(30)
        # (A producer whose markers we wrote would be fenced: our leader epochs are above those that this
        # Kafka's ZooKeeper knows of.)
        begin(kafka.bootstrap_servers, "new", b"more").commit_transaction(30)
        found = read_committed(kafka.bootstrap_servers, 5)
        assert found == [b"kafka's", b"ours", b"decided", b"again", b"more"], _what_it_knows(kafka)
    finally:
        kafka.stop()


def _start_and_complete(kafka: RealKafka, transactional_id: str) -> None:
    """Start a Kafka that has a decided transaction to complete.

    A Kafka with ZooKeeper that loads its transactions before it is told who leads their partitions takes
    those for deleted, and completes the transaction without its markers: then it begins again.
    """
    before = kafka.directory.with_name("before")
    shutil.copytree(kafka.directory, before)
    for _ in range(5):
        kafka.start()
        with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
            for _ in range(300):
                (done,) = admin.describe_transactions([transactional_id]).values()
                if done.state == "CompleteCommit":
                    break
                time.sleep(0.1)
            (producers,) = admin.describe_producers([TopicPartition("t", 0)]).values()
        forgotten = any(
            one.producer_id == done.producer_id and one.transaction_start_offset is not None
            for one in producers
        )
        if not forgotten:
            return
        kafka.stop()
        shutil.rmtree(kafka.directory)
        shutil.copytree(before, kafka.directory)
    raise AssertionError("Kafka has never completed the transaction with its markers")


def _what_it_knows(kafka: RealKafka) -> str:
    """Of the transactions, in words, with the end of its log."""
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        transactions = admin.describe_transactions(["first", "committed", "decided", "open", "new"])
        producers = admin.describe_producers([TopicPartition("t", 0)])
    lines = [*transactions.items(), *producers.items(), *kafka.last_lines(100)]
    return "\n".join(map(str, lines))


def _all(broker: Broker) -> list[Transaction]:
    return broker.transactions.coordinator.list().transactions


def read_committed(bootstrap: str, count: int) -> list[bytes]:
    """The first values of the topic that are committed."""
    from confluent_kafka import Consumer, TopicPartition

    reader = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": "read_committed"}
    )
    reader.assign([TopicPartition("t", 0, 0)])
    found: list[bytes] = []
    try:
        for _ in range(300):
            found += [one.value() for one in reader.consume(100, 0.1) if one.error() is None]
            if len(found) >= count:
                break
    finally:
        reader.close()
    return found
