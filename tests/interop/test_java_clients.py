"""Kafka's own command-line tools, newest and 2.2.2, on our broker."""

from __future__ import annotations

import subprocess
import threading
from collections import Counter
from pathlib import Path

import pytest

from interop import kafka_peer, members
from interop.conftest import OdradekServer
from waiting import joined

VERSIONS = [kafka_peer.NEWEST, "2.2.2"]
pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("kafka_toolchain")]


class ConsoleConsumer:
    """A running `kafka-console-consumer` in a group; its lines are gathered as they come."""

    def __init__(self, version: str, bootstrap: str, topic: str, group: str) -> None:
        words = kafka_peer.tool_command(version, "console-consumer", "--bootstrap-server", bootstrap)
        words += ["--topic", topic, "--group", group, "--from-beginning"]
        words += ["--property" if version.startswith("2.") else "--formatter-property", "print.key=true"]
        self.lines: list[str] = []
        self.child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            self.lines.append(line.rstrip("\n"))

    def end(self) -> None:
        """End it as Ctrl-C would: it commits and leaves the group."""
        self.child.terminate()
        self.child.wait(30)
        joined(self.reader)
        assert self.child.stdout is not None
        self.child.stdout.close()


def produce(version: str, bootstrap: str, topic: str, lines: list[str]) -> None:
    old = version.startswith("2.")
    kafka_peer.run_tool(
        version,
        "console-producer",
        "--broker-list" if old else "--bootstrap-server",
        bootstrap,
        "--topic",
        topic,
        *(["--request-required-acks", "all"]),
        *(["--compression-codec", "zstd"]),
        *["--property" if old else "--reader-property", "parse.key=true"],
        *["--property" if old else "--reader-property", "key.separator=:"],
        stdin="".join(f"{line}\n" for line in lines),
    )


def members_of(version: str, bootstrap: str, group: str) -> Counter[str]:
    """Consumer id → how many partitions it has, as `kafka-consumer-groups --describe` tells."""
    out = kafka_peer.run_tool(
        version, "consumer-groups", "--bootstrap-server", bootstrap, "--describe", "--group", group
    )
    # The last three columns are consumer id, host and client id; 2.2 has no column for the group.
    rows = [line.split() for line in out.splitlines() if " shared " in f" {line} "]
    return Counter(row[-3] for row in rows if row[-3] != "-")


@pytest.mark.parametrize("version", VERSIONS)
def test_topics_tool(version: str, server: OdradekServer) -> None:
    at = ("--bootstrap-server", server.bootstrap_servers)

    def topics(*words: str) -> str:
        return kafka_peer.run_tool(version, "topics", *at, *words)

    topics("--create", "--topic", "clicks", "--partitions", "3", "--replication-factor", "1")
    topics("--create", "--topic", "views", "--partitions", "1", "--replication-factor", "1",
           "--config", "retention.ms=86400000")  # fmt: skip
    assert topics("--list").split() == ["clicks", "views"]
    described = topics("--describe", "--topic", "clicks")
    assert [f"Partition: {i}" in described for i in range(4)] == [True, True, True, False]
    assert "retention.ms=86400000" in topics("--describe", "--topic", "views")
    topics("--alter", "--topic", "clicks", "--partitions", "5")
    assert "Partition: 4" in topics("--describe", "--topic", "clicks")
    topics("--delete", "--topic", "views")
    assert topics("--list").split() == ["clicks"]


@pytest.mark.parametrize("version", VERSIONS)
def test_group_rebalance_and_restart(version: str, server: OdradekServer) -> None:
    at = server.bootstrap_servers
    kafka_peer.run_tool(
        version, "topics", "--bootstrap-server", at, "--create", "--topic", "shared",
        "--partitions", "4", "--replication-factor", "1",
    )  # fmt: skip
    first = [f"key-{i}:first-{i}" for i in range(100)]
    second = [f"key-{i}:second-{i}" for i in range(100)]
    third = [f"key-{i}:third-{i}" for i in range(100)]

    def seen(*consumers: ConsoleConsumer) -> set[str]:
        return {line.replace("\t", ":") for consumer in consumers for line in consumer.lines}

    produce(version, at, "shared", first)
    one = ConsoleConsumer(version, at, "shared", "console")
    running = [one]
    try:
        members.until("the first consumer has read", lambda: set(first) <= seen(one))
        two = ConsoleConsumer(version, at, "shared", "console")
        running.append(two)
        members.until(
            "the partitions are shared two and two",
            lambda: sorted(members_of(version, at, "console").values()) == [2, 2],
        )
        server.restart()
        produce(version, at, "shared", second)
        members.until("both have read on after the restart", lambda: set(second) <= seen(one, two))
        one.end()
        produce(version, at, "shared", third)
        members.until("the one that stays has read the rest", lambda: set(third) <= seen(one, two))
    finally:
        for consumer in running:
            consumer.end()
    assert seen(*running) == {*first, *second, *third}


@pytest.mark.parametrize("version", VERSIONS)
def test_broker_api_versions_tool(version: str, server: OdradekServer) -> None:
    out = kafka_peer.run_tool(version, "broker-api-versions", "--bootstrap-server", server.bootstrap_servers)
    assert out.startswith(f"127.0.0.1:{server.port} (id: ")
    for name in ("Produce(0)", "Fetch(1)", "JoinGroup(11)", "InitProducerId(22)"):
        row = next(line for line in out.splitlines() if line.strip().startswith(name))
        assert "usable" in row, row


def test_kafkas_dumper_reads_our_log(server: OdradekServer, tmp_path: Path) -> None:
    produce("2.2.2", server.bootstrap_servers, "dumped", [f"key-{i}:value-{i}" for i in range(50)])
    server.stop()
    segment = server.directory / "data" / "dumped-0" / f"{0:020d}.log"
    try:
        out = kafka_peer.run_tool(kafka_peer.NEWEST, "dump-log", "--files", str(segment), "--print-data-log")
        index = segment.with_suffix(".index")
        kafka_peer.run_tool(kafka_peer.NEWEST, "dump-log", "--files", str(index), "--index-sanity-check")
    finally:
        server.start()
    assert out.count("payload: value-") == 50
    assert "isvalid: true" in out
    assert "isvalid: false" not in out
