"""`verifiable-producer` and `verifiable-consumer`: what they tell, and that it is so."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from cli.conftest import RunTool
from odradek import Admin, ConsumerRecord, NewTopic, Producer
from odradek.cli import verifiable_producer
from odradek.cli.events import Events
from odradek.cli.verifiable_consumer import Run
from odradek.cli.verifiable_producer import numbered


def events(text: str) -> list[dict[str, Any]]:
    """The lines, without their times."""
    found = [json.loads(line) for line in text.splitlines()]
    assert all(
        list(one)[:2] == ["timestamp", "name"] and one.pop("timestamp") > 1_700_000_000_000 for one in found
    )
    return found


def names(told: list[dict[str, Any]]) -> list[str]:
    """Of events."""
    return [one["name"] for one in told]


def test_numbers() -> None:
    assert list(numbered(3, None, None)) == [(None, "0"), (None, "1"), (None, "2")]
    assert list(numbered(3, 7, 2)) == [("0", "7.0"), ("1", "7.1"), ("0", "7.2")]
    endless = numbered(-1, None, None)
    assert [next(endless) for _ in range(4)][-1] == (None, "3")


def test_what_is_sent_is_told(tool: RunTool, admin: Admin, name: str) -> None:
    admin.create_topics([name])
    words = ("--max-messages", "3", "--value-prefix", "7", "--repeating-keys", "2", "--acks", "1")
    done = tool("verifiable-producer", "--topic", name, *words, "--message-create-time", "1700000000000")
    told = events(done.stdout)
    assert told[0] == {"name": "startup_complete"}
    assert told[1:4] == [
        {"name": "producer_send_success", "key": key, "value": value, "offset": offset, "topic": name,
         "partition": 0}
        for key, value, offset in (("0", "7.0", 0), ("1", "7.1", 1), ("0", "7.2", 2))
    ]  # fmt: skip
    rate = told[-1].pop("avg_throughput")
    assert rate > 0
    assert told[4:] == [
        {"name": "shutdown_complete"},
        {"name": "tool_data", "sent": 3, "acked": 3, "target_throughput": -1},
    ]
    (newest,) = admin.list_offsets({(name, 0): -3}).values()
    assert 1_700_000_000_000 <= newest.timestamp < 1_700_000_600_000


def test_what_cannot_be_sent_is_told(tool: RunTool) -> None:
    told = events(tool("verifiable-producer", "--topic", "bad name", "--max-messages", "1").stdout)
    error = told[1]
    assert error.pop("message")
    assert error == {
        "name": "producer_send_error",
        "topic": "bad name",
        "key": None,
        "value": "0",
        "exception": "class org.apache.kafka.common.errors.InvalidTopicException",
    }
    assert (told[-1]["sent"], told[-1]["acked"]) == (1, 0)


def test_transactions(tool: RunTool, admin: Admin, name: str) -> None:
    admin.create_topics([name])
    words = ("--topic", name, "--max-messages", "25", "--transactional-id", name, "--transaction-size", "4")
    seed = ("--enable-random-aborts", "--seed", "6")
    done = tool("verifiable-producer", *words, *seed)
    assert done.stderr == "--seed 6\n"
    told = events(done.stdout)
    fates = [one for one in told if one["name"].startswith("transaction_")]
    assert [one["messages"] for one in fates] == [4, 4, 4, 4, 4, 4, 1]
    assert {one["name"] for one in fates} == {"transaction_committed", "transaction_aborted"}
    assert names(events(tool("verifiable-producer", *words, *seed).stdout)) == names(told)

    # What comes before the word that a transaction is committed, and only that, is read.
    committed: list[str] = []
    so_far: list[str] = []
    for one in told:
        if one["name"] == "producer_send_success":
            so_far.append(one["value"])
        elif one["name"].startswith("transaction_"):
            committed += so_far if one["name"] == "transaction_committed" else []
            so_far = []
    assert 0 < len(committed) < 25
    reading = ("--topic", name, "--group-id", name, "--verbose", "--isolation-level", "read_committed")
    most = ("--max-messages", str(len(committed) * 2))
    read = events(tool("verifiable-consumer", *reading, *most).stdout)
    assert [one["value"] for one in read if one["name"] == "record_data"] == committed * 2


def test_transactions_by_a_config_file(tool: RunTool, admin: Admin, name: str, tmp_path: Any) -> None:
    file = tmp_path / "producer.properties"
    file.write_text(f"transactional.id={name}\nretries=3\n", encoding="utf-8")
    words = ("--topic", name, "--max-messages", "3", "--command-config", str(file))
    told = events(tool("verifiable-producer", *words).stdout)
    assert names(told).count("transaction_committed") == 1
    assert admin.describe_transactions([name])[name].state in ("CompleteCommit", "PrepareCommit")


def test_a_transaction_that_cannot_be_committed_is_aborted_and_the_next_begun(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from odradek.errors import CoordinatorNotAvailableError, ProducerFencedError

    class Doubtful:
        fates: list[Exception | None]

        def begin_transaction(self) -> None:
            pass

        def send(self, *_: object, **__: object) -> None:
            pass

        def commit_transaction(self) -> None:
            fate = self.fates.pop(0)
            if fate is not None:
                raise fate

        def flush(self) -> None:
            raise AssertionError("nothing is aborted at will")

        def abort_transaction(self) -> None:
            if not self.fates:
                raise ProducerFencedError("somebody else has the id")

    producer = Doubtful()
    producer.fates = [CoordinatorNotAvailableError("gone"), None, ProducerFencedError("fenced")]
    run = verifiable_producer.Run(producer, Events(), "t")  # type: ignore[arg-type]
    with pytest.raises(ProducerFencedError, match="somebody else"):
        run.send_in_transactions(numbered(-1, None, None), -1, 2, None)
    told = events(capsys.readouterr().out)
    assert told == [
        {
            "name": "transaction_error",
            "exception": "class org.apache.kafka.common.errors.CoordinatorNotAvailableException",
            "message": "gone",
        },
        {"name": "transaction_aborted", "messages": 2},
        {"name": "transaction_committed", "messages": 2},
        {
            "name": "transaction_error",
            "exception": "class org.apache.kafka.common.errors.ProducerFencedException",
            "message": "fenced",
        },
    ]
    assert run.sent == 6


def test_what_is_read_is_told(tool: RunTool, admin: Admin, producer: Producer, name: str) -> None:
    admin.create_topics([NewTopic(name, num_partitions=2)])
    for i in range(4):
        producer.send(name, key=b"k%d" % i, value=None if i == 3 else b"v%d" % i, partition=0)
    producer.flush()
    words = ("--topic", name, "--group-id", name, "--max-messages", "3", "--verbose")
    told = events(tool("verifiable-consumer", *words).stdout)
    where = {"topic": name, "partition": 0}
    both = [where, {"topic": name, "partition": 1}]
    assert told == [
        {"name": "startup_complete"},
        {"name": "partitions_assigned", "partitions": both},
        *({"name": "record_data", "key": f"k{i}", "value": f"v{i}", **where, "offset": i} for i in range(3)),
        {"name": "records_consumed", "count": 4,
         "partitions": [{**where, "count": 3, "minOffset": 0, "maxOffset": 2}]},
        {"name": "offsets_committed", "offsets": [{**where, "offset": 3}], "success": True},
        {"name": "partitions_revoked", "partitions": both},
        {"name": "shutdown_complete"},
        {"name": "shutdown_requested"},
    ]  # fmt: skip
    again = events(tool("verifiable-consumer", *words[:-2], "1", "--verbose", "--enable-autocommit").stdout)
    (record,) = (one for one in again if one["name"] == "record_data")
    assert (record["offset"], record["key"], record["value"]) == (3, "k3", None)
    assert "offsets_committed" not in names(again)


def record(partition: int, offset: int) -> ConsumerRecord:
    """One of topic `t`."""
    fields: dict[str, Any] = dict.fromkeys(ConsumerRecord._fields)
    return ConsumerRecord(**fields | {"topic": "t", "partition": partition, "offset": offset})


def test_what_is_beyond_the_limit_is_neither_told_nor_committed(capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(Events(), "t", 3, verbose=False, commit=True)
    polled = [record(1, 7), record(1, 9), record(0, 4), record(0, 5), record(2, 1)]
    assert run.received(polled) == {("t", 1): 10, ("t", 0): 5}
    assert run.count == 3
    assert events(capsys.readouterr().out) == [
        {"name": "records_consumed", "count": 5, "partitions": [
            {"topic": "t", "partition": 1, "count": 2, "minOffset": 7, "maxOffset": 9},
            {"topic": "t", "partition": 0, "count": 1, "minOffset": 4, "maxOffset": 4},
        ]},
    ]  # fmt: skip


def test_a_commit_that_fails_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    from odradek.errors import FencedInstanceIdError, RebalanceInProgressError

    class Refusing:
        def subscribe(self, *_: object, **__: object) -> None:
            pass

        def poll(self, timeout_ms: int) -> list[ConsumerRecord]:
            return [record(0, 4)]

        def commit(self, offsets: object) -> None:
            raise problem

    def read() -> None:
        run = Run(Events(), "t", 1, verbose=False, commit=True)
        run.read(Refusing(), SimpleNamespace(ended_by=None))  # type: ignore[arg-type]

    problem: Exception = RebalanceInProgressError("not now")
    read()
    assert events(capsys.readouterr().out)[-1] == {
        "name": "offsets_committed",
        "offsets": [{"topic": "t", "partition": 0, "offset": 5}],
        "error": "not now",
        "success": False,
    }
    problem = FencedInstanceIdError()
    with pytest.raises(FencedInstanceIdError):
        read()


@pytest.mark.parametrize(
    ("words", "first", "last"),
    [
        (["verifiable-producer", "--transactional-id", "NAME", "--throughput", "50"],
         "producer_send_success", ["transaction_aborted", "shutdown_complete", "tool_data"]),
        (["verifiable-consumer", "--group-id", "NAME"],
         "partitions_assigned", ["shutdown_requested", "partitions_revoked", "shutdown_complete"]),
    ],
)  # fmt: skip
def test_sigterm_ends_in_order(
    servers: str, admin: Admin, name: str, words: list[str], first: str, last: list[str]
) -> None:
    admin.create_topics([name])
    words = [word.replace("NAME", name) for word in words]
    command = [sys.executable, "-m", "odradek", *words, "--bootstrap-server", servers, "--topic", name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stderr is not None
        lines = []
        for line in child.stdout:
            lines.append(line)
            if f'"{first}"' in line:
                break
        child.send_signal(signal.SIGTERM)
        rest, err = child.communicate(timeout=60)
    assert err == ""
    assert child.returncode == 143
    assert names(events("".join(lines) + rest))[-3:] == last
