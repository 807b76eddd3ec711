"""`odradek transactions`, against a broker, and its decisions by themselves."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from cli.conftest import RunTool
from cli.hanging import hang, unverified
from odradek import Admin, NewTopic, Producer, TopicPartition
from odradek.cli import transactions
from odradek.cli.transactions import pretty
from odradek.client.core.transactions.hanging import OpenTransaction, hanging, open_for_longer
from odradek.client.types import ProducerState, TransactionDescription

HOUR_MS = 3_600_000


@pytest.fixture
def open_transaction(servers: str, admin: Admin, name: str) -> Iterator[Producer]:
    """A topic with two partitions, and a transaction in the first; its id is the topic's name."""
    admin.create_topics([NewTopic(name, num_partitions=2)])
    with Producer(bootstrap_servers=servers, transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(name, b"v", partition=0).result(60)
        yield producer
        producer.close(timeout=0)


def rows(text: str) -> list[dict[str, str]]:
    """The lines of a table by the columns' names."""
    lines = text.splitlines()
    assert all(line.endswith("\t") for line in lines)
    head, *body = ([cell.strip() for cell in line.split("\t")[:-1]] for line in lines)
    return [dict(zip(head, row, strict=True)) for row in body]


def at(table: list[dict[str, str]], column: str, value: str) -> dict[str, str]:
    """The only row with that."""
    (row,) = (row for row in table if row[column] == value)
    return row


def test_tables_are_as_wide_as_needed_with_tabs_between() -> None:
    assert list(pretty(["A", "Long"], [])) == ["A\tLong\t"]
    assert list(pretty(["A", "Long"], [["wide", "x"], ["", "y"]])) == [
        "A   \tLong\t",
        "wide\tx   \t",
        "    \ty   \t",
    ]


def test_list(tool: RunTool, open_transaction: Producer, admin: Admin, name: str) -> None:
    producer_id = admin.describe_transactions([name])[name].producer_id
    found = at(rows(tool("transactions", "list").stdout), "TransactionalId", name)
    assert found == {
        "TransactionalId": name,
        "Coordinator": "0",
        "ProducerId": str(producer_id),
        "TransactionState": "Ongoing",
    }
    filtered = tool("transactions", "list", "--duration-filter", str(HOUR_MS))
    # Ids between two transactions pass, as on Kafka's brokers.
    assert {row["TransactionState"] for row in rows(filtered.stdout)} <= {"Empty"}
    assert filtered.stdout.split("\n")[0].split() == [
        "TransactionalId",
        "Coordinator",
        "ProducerId",
        "TransactionState",
    ]
    assert name in tool("transactions", "list", "--duration-filter", "-1").stdout


def test_describe(
    tool: RunTool, open_transaction: Producer, admin: Admin, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    description = admin.describe_transactions([name])[name]
    assert description.start_time_ms is not None
    now_ms = description.start_time_ms + 1234
    monkeypatch.setattr(transactions, "_now_ms", lambda: now_ms)
    (found,) = rows(tool("transactions", "describe", "--transactional-id", name).stdout)
    assert found == {
        "CoordinatorId": "0",
        "TransactionalId": name,
        "ProducerId": str(description.producer_id),
        "ProducerEpoch": "0",
        "TransactionState": "Ongoing",
        "TransactionTimeoutMs": "60000",
        "CurrentTransactionStartTimeMs": str(description.start_time_ms),
        "TransactionDurationMs": "1234",
        "TopicPartitions": f"{name}-0",
    }
    open_transaction.commit_transaction()
    (found,) = rows(tool("transactions", "describe", "--transactional-id", name).stdout)
    assert found["TransactionState"] in ("CompleteCommit", "PrepareCommit")


def test_an_id_that_nobody_has(tool: RunTool, name: str) -> None:
    failed = tool("transactions", "describe", "--transactional-id", name, status=1)
    assert failed.stdout == ""
    assert failed.stderr.startswith(
        f"Error: Failed to describe transaction state of transactional-id `{name}`: "
    )


def test_describe_producers(tool: RunTool, open_transaction: Producer, admin: Admin, name: str) -> None:
    (state,) = admin.describe_producers([(name, 0)])[TopicPartition(name, 0)]
    words = ("transactions", "describe-producers", "--topic", name, "--partition")
    assert rows(tool(*words, "0").stdout) == [
        {
            "ProducerId": str(state.producer_id),
            "ProducerEpoch": "0",
            "LatestCoordinatorEpoch": "-1",
            "LastSequence": "0",
            "LastTimestamp": str(state.last_timestamp),
            "CurrentTransactionStartOffset": "0",
        }
    ]
    assert rows(tool(*words, "1", "--broker-id", "0").stdout) == []
    open_transaction.commit_transaction()
    (found,) = rows(tool(*words, "0", "--broker-id", "0").stdout)
    assert (found["LatestCoordinatorEpoch"], found["CurrentTransactionStartOffset"]) == ("0", "None")
    where = tool(*words, "0", "--broker-id", "9", status=1).stderr
    assert where.startswith(f"Error: Failed to describe producers for partition {name}-0 on broker 9: ")
    assert "on leader: " in tool(*words, "2", status=1).stderr


@pytest.mark.parametrize("by", ["offset", "producer"])
def test_abort(tool: RunTool, open_transaction: Producer, admin: Admin, name: str, by: str) -> None:
    tp = TopicPartition(name, 0)
    words = ["transactions", "abort", "--topic", name, "--partition", "0"]
    missed = tool(*words, "--start-offset", "7", status=1)
    assert f"Could not find any open transactions starting at offset 7 on partition {name}-0" in missed.stderr
    if by == "offset":
        done = tool(*words, "--start-offset", "0")
    else:
        (state,) = admin.describe_producers([tp])[tp]
        words += ["--producer-id", str(state.producer_id), "--producer-epoch", "0"]
        assert "--coordinator-epoch" in tool(*words, status=1).stderr
        done = tool(*words, "--coordinator-epoch", "-1")
    assert done.stdout == ""
    (state,) = admin.describe_producers([tp])[tp]
    assert state.transaction_start_offset is None
    again = tool(*words, "--start-offset", "0", status=1).stderr
    assert "Could not find any open transactions" in again


def test_an_abort_that_the_partition_refuses(tool: RunTool, open_transaction: Producer, name: str) -> None:
    words = ["--topic", name, "--partition", "0", "--producer-id", "99999", "--producer-epoch", "-4"]
    refused = tool("transactions", "abort", *words, "--coordinator-epoch", "-1", status=1).stderr
    assert refused.startswith(
        f"Error: Failed to abort transaction AbortTransactionSpec(topicPartition={name}-0, "
        "producerId=99999, producerEpoch=-4, coordinatorEpoch=0): "
    )


def test_force_terminate(tool: RunTool, open_transaction: Producer, admin: Admin, name: str) -> None:
    assert tool("transactions", "forceTerminateTransaction", "--transactionalId", name).stdout == ""
    assert admin.describe_transactions([name])[name].state in ("CompleteAbort", "Empty")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["abort", "--topic", "t", "--partition", "0"], "must be identified either with --start-offset"),
        (["abort", "--topic", "t", "--partition", "0", "--producer-id", "1"], "--producer-epoch"),
        (["abort", "--topic", "t"], "--partition"),
        (["find-hanging"], "requires either --topic or --broker-id"),
        (["find-hanging", "--broker-id", "0", "--partition", "1"], "requires --topic"),
        (["describe"], "--transactional-id"),
        (["guess"], "guess"),
        (["list", "--duration-filter", "long"], "long"),
    ],
)
def test_words_that_mean_nothing(tool: RunTool, words: list[str], said: str) -> None:
    refused = tool("transactions", *words, status=1)
    assert said in refused.stderr
    assert refused.stdout == ""


# Hanging transactions


def test_a_transaction_that_its_coordinator_knows_does_not_hang(
    tool: RunTool, open_transaction: Producer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = int(time.time() * 1000) + 24 * HOUR_MS
    monkeypatch.setattr(transactions, "_now_ms", lambda: later)
    for words in (["--topic", name], ["--topic", name, "--partition", "0"]):
        assert rows(tool("transactions", "find-hanging", *words).stdout) == []


def test_a_transaction_that_nobody_will_end_is_found_and_ended(
    tool: RunTool, servers: str, admin: Admin, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator ends the transaction, and a record of it comes only after its marker."""
    admin.create_topics([name])
    with unverified(admin):
        hang(servers, name, int(time.time() * 1000))
    tp = TopicPartition(name, 0)
    (state,) = admin.describe_producers([tp])[tp]
    began = state.last_timestamp
    words = ("transactions", "find-hanging", "--topic", name)
    monkeypatch.setattr(transactions, "_now_ms", lambda: began + 15 * 60_000)
    assert rows(tool(*words).stdout) == []
    monkeypatch.setattr(transactions, "_now_ms", lambda: began + 16 * 60_000 - 1)
    expected = {
        "Topic": name,
        "Partition": "0",
        "ProducerId": str(state.producer_id),
        "ProducerEpoch": str(state.producer_epoch),
        "CoordinatorEpoch": "-1",
        "StartOffset": "0",
        "LastTimestamp": str(began),
        "Duration(min)": "15",
    }
    assert rows(tool(*words).stdout) == [expected]
    assert rows(tool(*words, "--partition", "0", "--broker-id", "0").stdout) == [expected]
    assert expected in rows(tool("transactions", "find-hanging", "--broker-id", "0").stdout)
    assert rows(tool(*words, "--max-transaction-timeout", "16").stdout) == []
    assert rows(tool(*words, "--broker-id", "5").stdout) == []
    tool("transactions", "abort", "--topic", name, "--partition", "0", "--start-offset", "0")
    assert rows(tool(*words).stdout) == []


def state(producer_id: int, start: int | None = 3, last: int = 0) -> ProducerState:
    """A producer, with a transaction from `start`."""
    return ProducerState(producer_id, 0, 5, last, 0, start)


A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def test_only_transactions_older_than_the_limit_are_looked_at() -> None:
    described = {A1: [state(1, last=99), state(2, last=100)], A0: [state(1, start=None), state(3)]}
    assert open_for_longer(described, 1100, 1000) == [
        OpenTransaction(A0, state(3)),
        OpenTransaction(A1, state(1, last=99)),
    ]


def test_who_hangs() -> None:
    ongoing = TransactionDescription(0, "known", "Ongoing", 1, 0, 60_000, 5, (A0,))
    candidates = [OpenTransaction(A0, state(n)) for n in (1, 2, 3)] + [OpenTransaction(A1, state(1))]
    found = hanging(candidates, {1: "known", 2: "gone"}, {"known": ongoing})
    assert [(one.partition, one.producer.producer_id) for one in found] == [(A0, 2), (A0, 3), (A1, 1)]
