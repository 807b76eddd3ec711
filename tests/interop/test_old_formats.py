"""Kafka's clients of 0.8 and 0.10 on our broker, with message sets both ways, beside a client of today."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop import kafka_peer
from interop.conftest import OdradekServer
from interop.kafka_tools import KafkaTools
from odradek import Admin, NewTopic
from odradek.log import LogConfig, RealFileSystem
from odradek.log.startup.loading import open_partition_log
from odradek.records.compression import Codec
from odradek.util.clock import ManualClock
from records.message_set_builder import MessageSetBuilder

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("kafka_toolchain")]

OLD_TOOLS = {
    "console-producer": "kafka.tools.ConsoleProducer",
    "console-consumer": "kafka.tools.ConsoleConsumer",
    "simple-consumer": "kafka.tools.SimpleConsumerShell",
    "offsets": "kafka.tools.GetOffsetShell",
}
CODECS = ("none", "gzip", "snappy", "lz4")
COUNT = 40
NOW_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def today() -> Iterator[KafkaTools]:
    with KafkaTools(kafka_peer.NEWEST) as tools:
        yield tools


def lines_of(version: str, codec: str) -> list[str]:
    return [f"{version}-{codec} {number} {'héllo ' * (number % 7)}".rstrip() for number in range(COUNT)]


class OldTools:
    """Kafka's tools of an old release, each call in a JVM of its own: they end with it."""

    def __init__(self, version: str) -> None:
        self.version = version

    def run(self, tool: str, *arguments: str, stdin: str = "") -> str:
        """A tool's output. Raises `AssertionError` when it fails."""
        command = [*kafka_peer.java_command(self.version, OLD_TOOLS[tool], heap="128m"), *arguments]
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=kafka_peer.TOOL_LIMIT_S
        )
        assert done.returncode == 0, f"{tool} {self.version}: {done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        return done.stdout

    def produce(self, at: str, codec: str) -> list[str]:
        """Send with the console producer; what was sent."""
        lines = lines_of(self.version, codec)
        how = ["--sync"] if self.version.startswith("0.8") else []
        arguments = ["--broker-list", at, "--topic", "t", "--compression-codec", codec, *how]
        self.run("console-producer", *arguments, stdin="".join(f"{line}\n" for line in lines))
        return lines


def produce_today(tools: KafkaTools, at: str, codec: str) -> list[str]:
    """The same of a client of today, without sequences, which the old formats have no room for."""
    lines = lines_of(tools.version, codec)
    arguments = ["--bootstrap-server", at, "--topic", "t", "--compression-codec", codec]
    arguments += ["--sync", "--timeout", "0", "--command-property", "enable.idempotence=false"]
    done = tools.run("console-producer", *arguments, stdin="".join(f"{line}\n" for line in lines))
    assert done.status == 0, done
    return lines


@pytest.fixture(params=["today", "0.9.0"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OdradekServer]:
    """A broker that stores records in the format of that release."""
    words: list[str] = []
    if request.param != "today":
        for config in ("inter.broker.protocol.version=2.8", f"log.message.format.version={request.param}"):
            words += ["--set", config]
    server = OdradekServer(tmp_path, words=words)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.mark.parametrize("version", ["0.8.2.2", "0.10.2.2"])
def test_old_and_new_clients_share_a_topic(version: str, server: OdradekServer, today: KafkaTools) -> None:
    at = server.bootstrap_servers
    with Admin(bootstrap_servers=at) as admin:
        admin.create_topics([NewTopic("t", num_partitions=1)])
    sent: list[str] = []
    old = OldTools(version)
    for codec in CODECS:
        sent += old.produce(at, codec)
        sent += produce_today(today, at, codec)
    consume = ["--bootstrap-server", at, "--topic", "t", "--from-beginning", "--max-messages", str(len(sent))]
    assert today.run("console-consumer", *consume).out.splitlines() == sent
    # Fetch 0 or 2, by offset.
    place = ["--broker-list", at, "--topic", "t", "--partition", "0", "--offset", "-2"]
    read = old.run("simple-consumer", *place, "--max-messages", str(len(sent)), "--no-wait-at-logend")
    assert read.splitlines() == sent
    # ListOffsets 0.
    for time, offset in (("-1", len(sent)), ("-2", 0)):
        assert f"t:0:{offset}" in old.run("offsets", "--broker-list", at, "--topic", "t", "--time", time)
    if version != "0.8.2.2":
        # Fetch 3, in a group.
        assert old.run("console-consumer", *consume).splitlines() == sent


def test_kafka_reads_a_log_of_all_formats_that_we_wrote(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    chance = random.Random(20261121)
    log = open_partition_log(directory, "t", 0, config_of("0.9.0"), RealFileSystem(), ManualClock(NOW_MS))
    for version in ("0.9.0", "0.10.2", "2.8"):
        log.config = config_of(version)
        for _ in range(60):
            codec = chance.choice([Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
            builder = MessageSetBuilder(chance.randrange(2), codec)
            for number in range(chance.randrange(1, 9)):
                builder.append(
                    NOW_MS + chance.randrange(1000), b"k%d" % number, b"value" * chance.randrange(20)
                )
            log.append(builder.build(), leader_epoch=0, now_ms=NOW_MS, produce_version=2)
    log.close()
    files = [",".join(map(str, sorted(directory.glob(kind)))) for kind in ("*.log", "*.*index")]
    shown = kafka_peer.run_tool("3.9.1", "dump-log", "--deep-iteration", "--files", files[0])
    offsets = [int(offset) for offset in re.findall(r"\| offset: (\d+)", shown)]
    assert offsets == list(range(log.log_end_offset))
    assert {int(magic) for magic in re.findall(r" magic: (\d)", shown)} == {0, 1, 2}
    assert "isvalid: false" not in shown.lower()
    shown = kafka_peer.run_tool("3.9.1", "dump-log", "--files", files[1])
    assert "mismatch" not in shown.lower() and "not found" not in shown.lower()
    assert shown.count("offset:") > 50


def config_of(version: str) -> LogConfig:
    return LogConfig(
        inter_broker_protocol_version="2.8",
        message_format_version=version,
        index_interval_bytes=300,
        segment_bytes=20_000,
    )
