"""`kafka-transactions.sh` of two releases of Kafka on our broker, and ours, which prints the same."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from cli.hanging import ended_and_open, hang
from interop import kafka_peer
from interop.kafka_tools import KafkaTools, Outcome, ours
from odradek import Admin, NewTopic, Producer, TopicPartition
from odradek.errors import ProducerFencedError
from odradek.testing import Broker

pytestmark = pytest.mark.interop

HOUR_MS = 3_600_000
WHO = pytest.mark.parametrize("who", ["us", "them"])
#: Of a release that has no patterns of ids, and cannot take an id away.
OLD = "3.9.1"


@pytest.fixture(scope="module")
def broker(kafka_toolchain: None) -> Iterator[Broker]:
    """A broker with transactions in topic `t`, and in `lost` one that hangs, an hour old."""
    with Broker(transaction_partition_verification_enable=False) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics(["lost"])
        hang(broker.bootstrap_servers, "lost", int(time.time() * 1000) - HOUR_MS)
        with ended_and_open(broker.bootstrap_servers):
            yield broker


@pytest.fixture(scope="module", params=[OLD, kafka_peer.NEWEST])
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
        producer.send(topic, b"v", partition=0).result(60)
        yield producer
        producer.close(timeout=0)


def run_by(who: str, tools: KafkaTools, broker: Broker, *words: str) -> Outcome:
    """Run the tool of one of both."""
    run = ours if who == "us" else tools.run
    return run("transactions", "--bootstrap-server", broker.bootstrap_servers, *words)


def silently(who: str, tools: KafkaTools, broker: Broker, *words: str) -> None:
    """Run the tool of one of both, which has to succeed and to say nothing."""
    done = run_by(who, tools, broker, *words)
    assert (done.status, done.out) == (0, ""), done


def comparable(text: str) -> list[list[str]]:
    """The cells of a table, each of which ends with a tab: lines but for the head in order, and partitions
    in a cell. No two calls find the same number of milliseconds.
    """
    rows = [line.split("\t") for line in text.splitlines()]
    assert {row.pop().strip() for row in rows} == {""}
    for row in rows[1:]:
        for i, cell in enumerate(row):
            if rows[0][i].strip() == "TransactionDurationMs":
                assert cell.strip().isdigit() or cell.strip() == "None"
                row[i] = "some"
            elif rows[0][i].strip() == "TopicPartitions":
                row[i] = ",".join(sorted(cell.strip().split(",")))
    return [rows[0], *sorted(rows[1:])]


def same(tools: KafkaTools, broker: Broker, *words: str) -> list[dict[str, str]]:
    """The table that both print, its rows by the columns' names."""
    mine, theirs = tools.both(broker.bootstrap_servers, "transactions", *words)
    assert mine.status == theirs.status == 0, (mine, theirs)
    head, *rows = comparable(theirs.out)
    assert comparable(mine.out) == [head, *rows]
    names = [cell.strip() for cell in head]
    return [dict(zip(names, map(str.strip, row), strict=True)) for row in rows]


@pytest.mark.parametrize(
    "words",
    [
        ["list"],
        ["list", "--duration-filter", "-1"],
        ["list", "--duration-filter", str(HOUR_MS)],
        ["list", "--transactional-id-pattern", "op.*"],
        ["list", "--transactional-id-pattern", "op"],
        ["describe", "--transactional-id", "open"],
        ["describe", "--transactional-id", "ended"],
        ["describe-producers", "--topic", "t", "--partition", "0"],
        ["describe-producers", "--topic", "t", "--partition", "1", "--broker-id", "0"],
        ["describe-producers", "--topic", "lost", "--partition", "0"],
        ["find-hanging", "--topic", "t"],
        ["find-hanging", "--topic", "t", "--partition", "1", "--max-transaction-timeout", "0"],
        ["find-hanging", "--topic", "lost"],
        ["find-hanging", "--topic", "lost", "--partition", "0", "--max-transaction-timeout", "61"],
        ["find-hanging", "--broker-id", "0"],
        ["find-hanging", "--broker-id", "0", "--topic", "lost"],
        ["find-hanging", "--broker-id", "7", "--topic", "lost"],
    ],
)
def test_tables(tools: KafkaTools, broker: Broker, words: list[str]) -> None:
    if tools.version == OLD and "--transactional-id-pattern" in words:
        pytest.skip(f"Kafka {OLD} has no patterns of ids")
    same(tools, broker, *words)


@pytest.mark.parametrize(
    "words",
    [
        ["describe", "--transactional-id", "absent"],
        ["describe"],
        ["describe-producers", "--topic", "t"],
        ["abort", "--topic", "t", "--partition", "0"],
        ["abort", "--topic", "t", "--partition", "0", "--start-offset", "3000"],
        ["abort", "--topic", "t", "--partition", "0", "--producer-id", "1"],
        ["abort", "--topic", "t", "--partition", "0", "--producer-id", "1", "--producer-epoch", "1"],
        ["find-hanging"],
        ["find-hanging", "--broker-id", "0", "--partition", "0"],
        ["nothing"],
    ],
)
def test_refused_for_the_same_reason(tools: KafkaTools, broker: Broker, words: list[str]) -> None:
    mine, theirs = tools.both(broker.bootstrap_servers, "transactions", *words)
    assert (mine.status, mine.out) == (theirs.status, theirs.out) == (1, "")
    reason = theirs.err.strip().split("\n")[-1].split(": org.apache")[0]
    if "usage:" not in theirs.err:
        # What the broker said is told in words of each tool's own.
        assert reason.split("`: ")[0] in " ".join(mine.err.split())
    if words[-1] == "absent":
        assert "could not be found" in theirs.err


def test_the_states_of_a_transaction(
    tools: KafkaTools, broker: Broker, topic: str, ongoing: Producer
) -> None:
    def state() -> str:
        listed = {row["TransactionalId"]: row for row in same(tools, broker, "list")}
        (described,) = same(tools, broker, "describe", "--transactional-id", topic)
        assert listed[topic]["TransactionState"] == described["TransactionState"]
        assert listed[topic]["ProducerId"] == described["ProducerId"]
        assert (described["CoordinatorId"], described["TransactionTimeoutMs"]) == ("0", "60000")
        if described["TransactionState"] == "Ongoing":
            assert described["TopicPartitions"] == f"{topic}-0"
        return described["TransactionState"]

    assert state() == "Ongoing"
    listed = same(tools, broker, "list", "--duration-filter", str(HOUR_MS))
    assert topic not in [row["TransactionalId"] for row in listed]
    if tools.version != OLD:
        (found,) = same(tools, broker, "list", "--transactional-id-pattern", f"{topic[:-1]}.")
        assert found["TransactionalId"] == topic
        assert same(tools, broker, "list", "--transactional-id-pattern", "no.*body") == []
    ongoing.commit_transaction()
    assert state() == "CompleteCommit"


def test_the_producers_of_a_partition(
    tools: KafkaTools, broker: Broker, topic: str, ongoing: Producer
) -> None:
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


@WHO
def test_a_hanging_transaction_is_found_and_aborted(
    tools: KafkaTools, broker: Broker, topic: str, ongoing: Producer, admin: Admin, who: str
) -> None:
    alone = TopicPartition(f"{topic}-alone", 0)
    admin.create_topics([alone.topic])
    hang(broker.bootstrap_servers, alone.topic, int(time.time() * 1000))
    (state,) = admin.describe_producers([alone])[alone]
    where, limit = ("--topic", alone.topic), ("--max-transaction-timeout", "0")
    # The one that its coordinator knows does not hang.
    assert same(tools, broker, "find-hanging", "--topic", topic, *limit) == []
    assert same(tools, broker, "find-hanging", *where) == []
    (found,) = same(tools, broker, "find-hanging", *where, *limit)
    assert (found["Topic"], found["Partition"], found["StartOffset"]) == (*map(str, alone), "0")
    assert (found["ProducerId"], found["CoordinatorEpoch"]) == (str(state.producer_id), "-1")
    everywhere = same(tools, broker, "find-hanging", "--broker-id", "0", *limit)
    assert {alone.topic, "lost"} <= {row["Topic"] for row in everywhere}
    where += ("--partition", "0")
    wrong = run_by(who, tools, broker, "abort", *where, "--start-offset", "7")
    assert wrong.status == 1
    assert "Could not find any open transactions starting at offset 7" in wrong.err
    silently(who, tools, broker, "abort", *where, "--start-offset", "0")
    assert same(tools, broker, "find-hanging", *where, *limit) == []
    assert admin.list_offsets({alone: -1}, isolation_level="read_committed")[alone].offset == 2


@WHO
def test_an_ongoing_transaction_is_aborted_by_its_producer(
    tools: KafkaTools, broker: Broker, topic: str, ongoing: Producer, admin: Admin, who: str
) -> None:
    tp = TopicPartition(topic, 0)
    (state,) = admin.describe_producers([tp])[tp]
    words = ("--producer-id", str(state.producer_id), "--producer-epoch", str(state.producer_epoch))
    where = ("--topic", topic, "--partition", "0")
    silently(who, tools, broker, "abort", *where, *words, "--coordinator-epoch", "0")
    (state,) = admin.describe_producers([tp])[tp]
    assert state.transaction_start_offset is None


@WHO
def test_an_id_is_taken_away(
    tools: KafkaTools, broker: Broker, topic: str, ongoing: Producer, admin: Admin, who: str
) -> None:
    if tools.version == OLD:
        pytest.skip(f"Kafka {OLD} has no such command")
    silently(who, tools, broker, "forceTerminateTransaction", "--transactionalId", topic)
    (described,) = same(tools, broker, "describe", "--transactional-id", topic)
    # The id is taken as by a next producer, which is done when the abort is.
    assert (described["TransactionState"], described["TopicPartitions"]) == ("Empty", "")
    with pytest.raises(ProducerFencedError):
        ongoing.commit_transaction()
    quiet = f"{topic}-quiet"
    with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id=quiet) as producer:
        producer.init_transactions()
        silently(who, tools, broker, "forceTerminateTransaction", "--transactionalId", quiet)
        assert admin.describe_transactions([quiet])[quiet].producer_epoch == 1
        producer.close(timeout=0)
