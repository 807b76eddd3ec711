"""odradek's tools where they meet transactions, beside those of Kafka's newest release, on the same broker.

`transactions` itself is in `test_transactions_tool.py`.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.hanging import ended_and_open
from interop import kafka_peer
from interop.kafka_tools import KafkaTools, Outcome, ours
from odradek import Admin, Producer
from odradek.testing import Broker

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def broker(kafka_toolchain: None) -> Iterator[Broker]:
    """A broker with transactions in topic `t`."""
    with Broker() as broker, ended_and_open(broker.bootstrap_servers):
        yield broker


@pytest.fixture(scope="module")
def kafka(broker: Broker) -> Iterator[KafkaTools]:
    """Kafka's newest tools."""
    with KafkaTools(kafka_peer.NEWEST) as tools:
        yield tools


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_console_consumer_by_isolation_level(broker: Broker, kafka: KafkaTools, level: str) -> None:
    reading = ("--topic", "t", "--partition", "0", "--offset", "earliest", "--isolation-level", level)
    shown = ("print.offset=true", "print.timestamp=true")
    flags = [word for text in shown for word in ("--formatter-property", text)]
    mine, theirs = kafka.both(
        broker.bootstrap_servers, "console-consumer", *reading, *flags, "--timeout-ms", "4000"
    )
    assert mine.out == theirs.out
    assert [line[-1] for line in mine.out.splitlines()] == list(
        "abcd" if level == "read_uncommitted" else "ac"
    )


def test_get_offsets_count_what_is_not_committed(broker: Broker, kafka: KafkaTools) -> None:
    for time_ in ("latest", "earliest", "max-timestamp"):
        mine, theirs = kafka.both(broker.bootstrap_servers, "get-offsets", "--topic", "t", "--time", time_)
        assert sorted(mine.out.split()) == sorted(theirs.out.split())
        assert mine.status == theirs.status == 0


def test_dump_log_of_transactions(broker: Broker, kafka: KafkaTools) -> None:
    folder = Path(broker.call(lambda b: str(b.replicas.get("t", 0).log.directory)))
    data = ("dump-log", "--files", str(folder / f"{0:020}.log"), "--print-data-log")
    mine, theirs = ours(*data), kafka.run(*data)
    assert mine.out == theirs.out
    assert mine.out.count("endTxnMarker: COMMIT") == 2
    assert mine.out.count("endTxnMarker: ABORT") == 1
    states = [p for p in folder.parent.glob("__transaction_state-*/*.log") if p.stat().st_size]
    assert states
    decoded = ("dump-log", "--transaction-log-decoder", "--files", ",".join(map(str, states)))
    mine, theirs = ours(*decoded), kafka.run(*decoded)
    assert mine.out == theirs.out
    assert '"transactionalId":"ended"' in mine.out


# Verifiable tools


def shape(text: str) -> list[tuple[str, ...]]:
    """Of each event its name and its fields, in order."""
    return [(event["name"], *event) for event in map(json.loads, text.splitlines())]


def test_verifiable_tools_tell_the_same(broker: Broker, kafka: KafkaTools) -> None:
    servers = ("--bootstrap-server", broker.bootstrap_servers)
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics(["by-us", "by-them"])
    numbers = ("--max-messages", "3", "--value-prefix", "4", "--repeating-keys", "2", "--throughput", "1000")
    mine = ours("verifiable-producer", *servers, "--topic", "by-us", *numbers)
    command = ("verifiable-producer", *servers, "--topic", "by-them", *numbers)
    theirs = in_a_process_of_its_own(*command)
    assert sorted(shape(mine.out)) == sorted(shape(theirs.out))
    assert mine.status == theirs.status == 0

    reading = ("--max-messages", "3", "--verbose", "--topic")
    mine = ours("verifiable-consumer", *servers, *reading, "by-them", "--group-id", "us")
    theirs = in_a_process_of_its_own("verifiable-consumer", *servers, *reading, "by-us", "--group-id", "them")
    told = [re.sub(r'"timestamp":\d+|by-them|by-us', "", text) for text in (mine.out, theirs.out)]
    assert told[0] == told[1]
    assert mine.status == theirs.status == 0


def test_copiers_tell_the_same_and_go_on_where_the_other_ended(broker: Broker) -> None:
    servers = ("--broker-list", broker.bootstrap_servers)
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics(["source", "copy"])
    words = ("--input-topic", "source", "--input-partition", "0", "--output-topic", "copy",
             "--consumer-group", "c", "--transactional-id", "copier", "--transaction-size", "2")  # fmt: skip
    told = []
    for part in range(2):
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for i in range(4):
                producer.send("source", b"%d" % (4 * part + i))
        copier = ours if part else in_a_process_of_its_own
        done = copier("transactional-message-copier", *servers, *words)
        assert done.status == 0, done
        events = [json.loads(line) for line in done.out.splitlines()]
        assert {event.pop("time")[4] for event in events} == {"/"}
        # Polls that gave nothing are told, too.
        told.append([event for i, event in enumerate(events) if event not in events[:i]])
    assert told[0] == told[1]
    reading = ("--topic", "copy", "--from-beginning", "--isolation-level", "read_committed")
    copied = ours("console-consumer", "--bootstrap-server", servers[1], *reading, "--max-messages", "8").out
    assert copied.split() == [str(i) for i in range(8)]


def test_figures_of_transactions_have_the_same_form(broker: Broker, kafka: KafkaTools) -> None:
    def form(outcome: Outcome) -> list[str]:
        assert outcome.status == 0, outcome
        return [re.sub(r"\d+", "9", line) for line in outcome.out.splitlines()]

    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics(["figures"])
    words = ("--topic", "figures", "--num-records", "500", "--record-size", "10", "--throughput", "-1",
             "--transactional-id", "figures", "--transaction-duration-ms", "50")  # fmt: skip
    mine, theirs = kafka.both(broker.bootstrap_servers, "producer-perf-test", *words)
    assert form(mine) == form(theirs)
    for bad in ("0", "x"):
        mine, theirs = kafka.both(broker.bootstrap_servers, "producer-perf-test", *words[:-1], bad)
        assert (mine.status, mine.out) == (theirs.status, theirs.out) == (1, "")


def in_a_process_of_its_own(tool: str, *words: str) -> Outcome:
    """Kafka's verifiable tools tell of their end while their JVM ends."""
    name = "".join(part.capitalize() for part in tool.split("-"))
    command = kafka_peer.java_command(kafka_peer.NEWEST, f"org.apache.kafka.tools.{name}", heap="128m")
    done = subprocess.run(
        [*command, *words], capture_output=True, text=True, timeout=kafka_peer.TOOL_LIMIT_S, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return Outcome(done.returncode, "".join(line + "\n" for line in lines), done.stderr)
