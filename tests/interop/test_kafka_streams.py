"""Kafka Streams on our brokers: an instance and a broker are killed, each word is counted exactly once."""

from __future__ import annotations

import json
import random
import signal
from collections import defaultdict
from pathlib import Path

import pytest

from interop import kafka_peer, programs, row_names
from interop.committed import Committed, committed
from interop.compatibility import Rows
from interop.one_or_three import Brokers
from interop.served import Served, until
from interop.tap import OURS
from interop.test_java_releases import needs_java
from odradek import Admin, NewTopic, Producer

pytestmark = [
    pytest.mark.interop,
    pytest.mark.between,
    pytest.mark.timeout(1200),
    pytest.mark.usefixtures("kafka_toolchain"),
]

RESET_TOOLS = {"3.9.1": "3.9.1", "4.4.0": kafka_peer.NEWEST}
"""Release of Streams → that of the tool: there is none of 4.4.0."""
KINDS = {f"word-{i}": f"kind-{i % 3}" for i in range(40)}
WORDS = random.Random(29).choices(list(KINDS), k=4000)
PARTITIONS = 4


def counts(seen: Committed) -> dict[str, list[str]]:
    """Word → what was written of it, in order."""
    found: dict[str, list[str]] = defaultdict(list)
    for record in seen.records:
        found[(record.key or b"").decode()].append((record.value or b"").decode())
    return found


def wanted(times: int) -> dict[str, list[str]]:
    """The same, if all words are counted that often from the beginning, each once."""
    return {
        word: [f"{kind} {i + 1}" for i in range(WORDS.count(word))] * times for word, kind in KINDS.items()
    }


def runs_with_standbys(instance: Served) -> bool:
    """Does an instance have tasks, and copies of the other's?"""
    told = [json.loads(line) for line in instance.lines if line.startswith('{"state"')]
    return bool(told) and told[-1]["state"] == "RUNNING" and told[-1]["active"] and told[-1]["standby"]


@pytest.mark.parametrize("version", RESET_TOOLS)
def test_word_count(version: str, brokers: Brokers, tmp_path: Path, compatibility_row: Rows) -> None:
    row = compatibility_row(*row_names.kafkas_own("Kafka Streams", version))
    needs_java()
    program = programs.java_program("Streams", version, [("org.apache.kafka", "kafka-streams", version)])
    at = brokers.bootstrap_servers

    def instance(name: str, *words: str) -> Served:
        return Served([*program.words, at, str(tmp_path / name), *words], tmp_path / f"{name}.log")

    with Admin(bootstrap_servers=at, client_id=OURS) as admin:
        admin.create_topics(
            [NewTopic(name, num_partitions=PARTITIONS) for name in ("words", "kinds", "counted")]
        )
    with (
        Producer(bootstrap_servers=at, client_id=OURS) as producer,
        committed(at, "counted", PARTITIONS) as seen,
    ):
        for word, kind in KINDS.items():
            producer.send("kinds", key=word, value=kind)
        producer.flush()
        with instance("one") as one, instance("two") as two:
            until("both have tasks and standbys", lambda: all(map(runs_with_standbys, (one, two))))
            for word in WORDS:
                producer.send("words", value=word)
            producer.flush()
            until("some are counted", lambda: seen.count() > len(WORDS) // 8)
            two.end(signal.SIGKILL)
            until("more are counted", lambda: seen.count() > len(WORDS) // 4)
            brokers.kill_leader("counted")
            two.start()
            brokers.start_again()
            until("all are counted", lambda: seen.count() >= len(WORDS))
            assert counts(seen) == wanted(1)
            until("both have tasks and standbys again", lambda: all(map(runs_with_standbys, (one, two))))
            one.end()
            two.end()
        kafka_peer.run_tool(
            RESET_TOOLS[version], "streams-application-reset", "--bootstrap-server", at,
            "--application-id", "counting", "--input-topics", "words,kinds", "--force",
        )  # fmt: skip
        with Admin(bootstrap_servers=at, client_id=OURS) as admin:
            assert not [name for name in admin.list_topics(internal=True) if name.startswith("counting-")]
        with instance("one", "clean"):
            until("all are counted again", lambda: seen.count() >= 2 * len(WORDS))
        assert counts(seen) == wanted(2)
    row.does("produce", "consume", "group", "commit, resume", "rebalance")
    row.does("broker restart", what=brokers.restart)
    row.does("transactions", what="exactly_once_v2")
    row.does("admin", what="application reset tool")
