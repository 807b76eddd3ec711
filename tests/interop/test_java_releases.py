"""Kafka's own Java clients of every age on our broker: what an application does with each."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable

import pytest

from interop import compatibility, members, programs
from interop.conftest import OdradekServer
from interop.kafka_peer import version_tuple
from interop.releases import ends
from interop.tap import OURS
from odradek import Admin, NewTopic, Producer

pytestmark = pytest.mark.interop

RELEASES = ("0.9.0.1", "0.10.2.2", "0.11.0.3", "1.0.0", "2.0.1", "2.2.2", "3.9.2", "4.4.0")
Rows = Callable[..., compatibility.Row]


class JavaClient(programs.ProgramClient):
    """The program around Kafka's Java clients: the codecs take turns in one process."""

    def produce(self, topic: str, values: list[bytes]) -> None:
        """Send each codec's share."""
        lines = "".join(f"{value.decode()}\n" for value in values)
        self.run("produce", topic, ",".join(self.codecs), stdin=lines)


def codecs_of(version: str) -> tuple[str, ...]:
    """The codecs that a release's producer knows."""
    return ("none", "gzip", "snappy", "lz4", "zstd")[: 5 if version_tuple(version) >= (2, 1) else 4]


def needs_java() -> None:
    """Skips, by name, where there is no Java to build with."""
    if absent := [tool for tool in ("javac", "mvn") if shutil.which(tool) is None]:
        pytest.skip(f"not on this machine: {', '.join(absent)}")


@pytest.mark.parametrize("version", ends(RELEASES, "0.11.0.3"))
def test_java_clients(version: str, tapped: OdradekServer, compatibility_row: Rows) -> None:
    row = compatibility_row("Java", "Kafka's Java clients", version, "Maven Central")
    needs_java()
    release = version_tuple(version)
    codecs = codecs_of(version)
    at = tapped.bootstrap_servers
    client = JavaClient(programs.java_program("Clients", version), at, version, codecs)
    try:
        if release >= (0, 11):
            client.run("create", "shared")
        else:
            with Admin(bootstrap_servers=at, client_id=OURS) as admin:
                admin.create_topics([NewTopic("shared", num_partitions=4)])
        before_ms = int(time.time() * 1000) - 1000
        members.run(client, "shared", tapped.restart)
        row.does("produce", what=" ".join(codecs))
        row.does("consume", "group", "rebalance", "broker restart")

        read = [record for member in client.members for record in member.records]
        assert all(record["partition"] == int(record["key"]) % 4 for record in read)
        if release >= (0, 11):
            assert all(record["header"] == f"n={record['key']}" for record in read)
        client.produce("shared", [b"last-%d" % i for i in range(8)])
        last = client.join("shared", "interop")
        members.until("the next member has read on", lambda: len(last.records) >= 8)
        last.close()
        assert Counter(r["value"] for r in last.records) == Counter(f"last-{i}" for i in range(8))
        row.does("commit, resume")

        offsets = client.run("offsets", "shared", str(before_ms))
        ends = {str(partition): 152 for partition in range(4)}
        assert offsets["beginning"] == dict.fromkeys(ends, 0)
        assert offsets["end"] == ends
        if release >= (0, 10, 1):
            assert offsets["at"] == dict.fromkeys(ends, 0)
            later = client.run("offsets", "shared", str(before_ms + 3_600_000))
            assert set(later["at"].values()) <= {None}
            row.does("offsets by time")
        else:
            row.does("offsets by time", what="first, last")

        if release >= (0, 11):
            check_admin(release, client.run("admin", "shared", "interop"))
            assert "shared" not in client.run("delete", "shared", "interop")
            row.does("admin")
    finally:
        client.close()


def check_admin(release: tuple[int, ...], seen: dict[str, object]) -> None:
    """What the admin client of a release saw of topic `shared` and group `interop`."""
    wanted: dict[str, object] = {
        "brokers": 1, "topics": ["shared"], "partitions": 4, "retention": "86400000",
        "broker configs": True, "altered": "86400001", "acls": "SecurityDisabledException",
    }  # fmt: skip
    since: dict[tuple[int, ...], dict[str, object]] = {
        (1, 0): {"grown": 5, "log dirs": 1},
        (1, 1): {"deleted before": 1},
        (2, 0): {"groups": ["interop"], "state": "Empty", "committed": 608},
        (2, 3): {"altered": "86400002"},
        (2, 4): {"left": 3, "reassignments": 0, "elected": 1},
        (2, 5): {"reset": 7, "ends": 152},
        (2, 6): {"quotas": 0},
        (2, 7): {"scram": 0, "features": True},
        (2, 8): {"producers": True},
        (3, 0): {"transactions": 0},
        (4, 1): {"all groups": 1, "topic configs": 2},
    }
    for version, more in since.items():
        if release >= version:
            wanted |= more
    assert seen == wanted


OLDEST = "0.8.2.2"
OLD_CODECS = ("none", "gzip", "snappy", "lz4")


def wait_for(member: programs.ProgramMember, count: int) -> None:
    """Until it has told so many records."""
    members.until(f"{count} records are read", lambda: len(member.records) >= count)


def test_the_oldest_java_clients(tapped: OdradekServer, compatibility_row: Rows) -> None:
    """0.8.2: both its producers; SimpleConsumer, which keeps offsets in ZooKeeper's way and in Kafka's."""
    producers = compatibility_row("Java", "Kafka's producers in Scala and Java", OLDEST, "Maven Central")
    simple = compatibility_row("Java", "Kafka's SimpleConsumer", OLDEST, "Maven Central")
    needs_java()
    artifacts = [("org.apache.kafka", "kafka_2.11", OLDEST)]
    program = programs.java_program("OldClients", OLDEST, artifacts, logging=())
    at = tapped.bootstrap_servers
    with Admin(bootstrap_servers=at, client_id=OURS) as admin:
        admin.create_topics([NewTopic("shared", num_partitions=4)])
    everything: list[str] = []

    def produce(which: str, name: str) -> None:
        values = [f"{name}-{i}" for i in range(200)]
        lines = "".join(f"{value}\n" for value in values)
        program.run("produce", at, which, "shared", ",".join(OLD_CODECS), stdin=lines)
        everything.extend(values)

    client = programs.ProgramClient(program, at, "kafka", OLD_CODECS)
    try:
        before_ms = int(time.time() * 1000) - 3_600_000
        produce("new", "java")
        produce("old", "scala")
        members_of = {store: client.join("shared", store, store) for store in ("kafka", "zookeeper")}
        for member in members_of.values():
            wait_for(member, 400)
        tapped.restart()
        produce("new", "java-again")
        # What today's clients write is converted down for it.
        today = [f"today-{i}" for i in range(200)]
        for k, codec in enumerate(OLD_CODECS):
            with Producer(bootstrap_servers=at, client_id=OURS, compression_type=codec) as producer:
                for i in range(k, 200, len(OLD_CODECS)):
                    producer.send(
                        "shared", today[i].encode(), b"%d" % i, partition=i % 4, headers=[("n", b"1")]
                    )
                producer.flush()
        everything += today
        for member in members_of.values():
            wait_for(member, 800)
            member.close()
            assert sorted(r["value"] for r in member.records) == sorted(everything)
            assert all(r["partition"] == int(r["key"]) % 4 for r in member.records)
        producers.does("produce", what=" ".join(OLD_CODECS))
        producers.does("broker restart")
        simple.does("consume", "broker restart")

        produce("old", "last")
        for store in members_of:
            again = client.join("shared", store, store)
            wait_for(again, 200)
            again.close()
            assert sorted(r["value"] for r in again.records) == sorted(f"last-{i}" for i in range(200))
        simple.does("commit, resume", what="OffsetCommit 0 and 1")

        offsets = client.run("offsets", "shared", str(before_ms))
        each = [str(partition) for partition in range(4)]
        # Of a time: where segments begin that were written before it, and the end.
        for hours, found in ((0, []), (2, [250, 0])):
            offsets = client.run("offsets", "shared", str(before_ms + hours * 3_600_000))
            wanted = {"beginning": [0], "end": [250, 0], "at": found}
            assert offsets == {
                name: {partition: list(of) for partition in each} for name, of in wanted.items()
            }
        simple.does("offsets by time")
    finally:
        client.close()
