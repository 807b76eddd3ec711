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
from interop.tap import OURS
from odradek import Admin, NewTopic

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


# Releases whose admin asks what is not served yet.
MISSING = pytest.mark.xfail(strict=True, reason="of the admin's APIs some are missing")


@pytest.mark.parametrize(
    "version",
    [pytest.param(one, marks=MISSING if version_tuple(one) >= (1, 0) else ()) for one in RELEASES],
)
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
        (4, 1): {"all groups": 1, "topic configs": 1},
    }
    for version, more in since.items():
        if release >= version:
            wanted |= more
    assert seen == wanted
