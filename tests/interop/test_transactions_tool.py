"""Kafka's own `kafka-transactions.sh`, of two releases, on our broker; ours prints the same."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from cli.hanging import hang, unverified
from interop import kafka_peer
from interop.kafka_tools import KafkaTools, Outcome
from odradek import Admin, NewTopic, Producer, TopicPartition
from odradek.cli.main import main
from odradek.errors import ProducerFencedError
from odradek.testing import Broker

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def broker(kafka_toolchain: None) -> Iterator[Broker]:
    """A broker for all."""
    with Broker() as broker:
        yield broker


@pytest.fixture(scope="module", params=["3.9.1", kafka_peer.NEWEST])
def tools(request: pytest.FixtureRequest, broker: Broker) -> Iterator[KafkaTools]:
    """The tools of a release, in one JVM."""
    with KafkaTools(request.param) as tools:
        yield tools


@pytest.fixture
def topic(tools: KafkaTools, broker: Broker, request: pytest.FixtureRequest) -> str:
    """A topic of this test's own, with two partitions."""
    name = re.sub(r"\W", "-", request.node.name).strip("-")
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, num_partitions=2)])
    return name


@pytest.fixture
def admin(broker: Broker) -> Iterator[Admin]:
    """Our admin client."""
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def ongoing(broker: Broker, topic: str) -> Iterator[Producer]:
    """A transaction in the first partition, under the topic's name."""
    with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id=topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"v", partition=0).result(10)
        yield producer
        producer.close(timeout=0)


def run(tools: KafkaTools, broker: Broker, *words: str) -> Outcome:
    """Run Kafka's tool."""
    return tools.run("transactions", "--bootstrap-server", broker.bootstrap_servers, *words)


def fine(tools: KafkaTools, broker: Broker, *words: str) -> str:
    """What Kafka's tool prints; it has to succeed."""
    outcome = run(tools, broker, *words)
    assert outcome.status == 0, outcome
    return outcome.out


def ours(broker: Broker, *words: str) -> str:
    """What our tool prints; it has to succeed."""
    command = ["transactions", "--bootstrap-server", broker.bootstrap_servers, *words]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    return result.stdout


def table(printed: str) -> list[dict[str, str]]:
    """Its rows by the columns' names, sorted; each cell ends with a tab."""
    head, *rows = ([cell.strip() for cell in line.split("\t")[:-1]] for line in printed.splitlines())
    return [dict(zip(head, row, strict=True)) for row in sorted(rows)]


def same(tools: KafkaTools, broker: Broker, *words: str) -> list[dict[str, str]]:
    """The table that both tools print."""
    theirs, own = table(fine(tools, broker, *words)), table(ours(broker, *words))
    # No two calls find the same number of milliseconds.
    timeless = [
        [row | {"TransactionDurationMs": ""} if "TransactionDurationMs" in row else row for row in rows]
        for rows in (theirs, own)
    ]
    assert timeless[0] == timeless[1]
    return theirs


def test_list_and_describe(tools: KafkaTools, broker: Broker, topic: str, ongoing: Producer) -> None:
    def state() -> str:
        listed = {row["TransactionalId"]: row for row in same(tools, broker, "list")}
        (described,) = same(tools, broker, "describe", "--transactional-id", topic)
        assert listed[topic]["TransactionState"] == described["TransactionState"]
        assert listed[topic]["ProducerId"] == described["ProducerId"]
        assert (described["CoordinatorId"], described["TransactionTimeoutMs"]) == ("0", "60000")
        if described["TransactionState"] == "Ongoing":
            assert described["TopicPartitions"] == f"{topic}-0"
            assert int(described["TransactionDurationMs"]) >= 0
        return described["TransactionState"]

    assert state() == "Ongoing"
    ongoing.commit_transaction()
    assert state() == "CompleteCommit"
    missing = run(tools, broker, "describe", "--transactional-id", "nobody")
    assert missing.status == 1
    assert "Failed to describe transaction state of transactional-id `nobody`" in missing.err
    assert "could not be found" in missing.err


def test_list_filtered(tools: KafkaTools, broker: Broker, topic: str, ongoing: Producer) -> None:
    assert "Ongoing" in [row["TransactionState"] for row in same(tools, broker, "list")]
    assert same(tools, broker, "list", "--duration-filter", "3600000") == []
    if tools.version != "3.9.1":
        (found,) = same(tools, broker, "list", "--transactional-id-pattern", f"{topic[:-1]}.")
        assert found["TransactionalId"] == topic
        assert same(tools, broker, "list", "--transactional-id-pattern", "no.*body") == []


def test_describe_producers(tools: KafkaTools, broker: Broker, topic: str, ongoing: Producer) -> None:
    words = ("describe-producers", "--topic", topic, "--partition")
    (found,) = same(tools, broker, *words, "0")
    assert found["CurrentTransactionStartOffset"] == "0"
    assert (found["ProducerEpoch"], found["LastSequence"]) == ("0", "0")
    assert found["LatestCoordinatorEpoch"] == "-1"
    ongoing.abort_transaction()
    (found,) = same(tools, broker, *words, "0", "--broker-id", "0")
    assert found["CurrentTransactionStartOffset"] == "None"
    assert found["LatestCoordinatorEpoch"] == "0"
    assert same(tools, broker, *words, "1") == []


def test_a_hanging_transaction_is_found_and_aborted(
    tools: KafkaTools, broker: Broker, topic: str, ongoing: Producer, admin: Admin
) -> None:
    alone = f"{topic}-alone"
    admin.create_topics([NewTopic(alone, num_partitions=1)])
    with unverified(admin):
        hang(broker.bootstrap_servers, alone, int(time.time() * 1000))
    (state,) = admin.describe_producers([TopicPartition(alone, 0)])[TopicPartition(alone, 0)]
    limit = ("--max-transaction-timeout", "0")
    # The one that its coordinator knows does not hang.
    assert same(tools, broker, "find-hanging", "--topic", topic, *limit) == []
    assert same(tools, broker, "find-hanging", "--topic", alone) == []
    (found,) = same(tools, broker, "find-hanging", "--topic", alone, *limit)
    assert (found["Topic"], found["Partition"], found["StartOffset"]) == (alone, "0", "0")
    assert (found["ProducerId"], found["CoordinatorEpoch"]) == (str(state.producer_id), "-1")
    assert alone in fine(tools, broker, "find-hanging", "--broker-id", "0", *limit)
    wrong = run(tools, broker, "abort", "--topic", alone, "--partition", "0", "--start-offset", "7")
    assert wrong.status == 1
    assert "Could not find any open transactions starting at offset 7" in wrong.err
    assert fine(tools, broker, "abort", "--topic", alone, "--partition", "0", "--start-offset", "0") == ""
    assert same(tools, broker, "find-hanging", "--topic", alone, *limit) == []


def test_an_ongoing_transaction_is_aborted_by_its_producer(
    tools: KafkaTools, broker: Broker, topic: str, ongoing: Producer, admin: Admin
) -> None:
    tp = TopicPartition(topic, 0)
    (state,) = admin.describe_producers([tp])[tp]
    words = ["--producer-id", str(state.producer_id), "--producer-epoch", str(state.producer_epoch)]
    fine(tools, broker, "abort", "--topic", topic, "--partition", "0", *words, "--coordinator-epoch", "0")
    (state,) = admin.describe_producers([tp])[tp]
    assert state.transaction_start_offset is None


def test_force_terminate(tools: KafkaTools, broker: Broker, topic: str, ongoing: Producer) -> None:
    if tools.version == "3.9.1":
        pytest.skip("Kafka 3.9 has no such command")
    fine(tools, broker, "forceTerminateTransaction", "--transactionalId", topic)
    (described,) = same(tools, broker, "describe", "--transactional-id", topic)
    # The id is taken as by a next producer, which is done when the abort is.
    assert (described["TransactionState"], described["TopicPartitions"]) == ("Empty", "")
    with pytest.raises(ProducerFencedError):
        ongoing.commit_transaction()
