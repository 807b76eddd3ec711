"""franz-go, sarama (newest, and of 2020), kafka-go, rdkafka, kafkajs: admin, codecs, rebalance, restart."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import pytest

from interop import compatibility, members, programs, row_names
from interop.conftest import OdradekServer
from interop.row_names import FRANZ, KAFKAJS
from interop.tap import OURS
from odradek import Consumer

pytestmark = pytest.mark.interop

OLD_CODECS = ("none", "gzip", "snappy", "lz4")
CODECS = (*OLD_CODECS, "zstd")


def _deletable(group: str, version: str) -> str:
    """The word for `delete`: releases before 1.1 cannot delete groups."""
    return "-" if version in {"0.11.0", "1.0.0"} else group


def _needs(*tools: str) -> None:
    if absent := [tool for tool in tools if shutil.which(tool) is None]:
        pytest.skip(f"not on this machine: {', '.join(absent)}")


def _franz() -> programs.Program:
    _needs("go")
    return programs.go_program("franz")


def _sarama() -> programs.Program:
    _needs("go")
    return programs.go_program("sarama")


def _sarama_2020() -> programs.Program:
    _needs("go")
    return programs.go_program("sarama", "sarama-1.26.mod")


def _kafkajs() -> programs.Program:
    _needs("node", "npm")
    return programs.node_program("kafkajs")


def _kafka_go() -> programs.Program:
    _needs("go")
    return programs.go_program("kafkago")


def _rdkafka() -> programs.Program:
    _needs("cargo", "cc", "make")
    return programs.rust_program("rdkafka-roles")


class Library(NamedTuple):
    """A client library, and how it is told to behave.

    Attributes:
        name: as its users call it.
        released: where its release stands, see `row_names.release`.
        family: the part of the table it belongs to.
        build: makes the program around it.
        version: what the program is told.
        codecs: what it can compress with.
        idempotent: its producer writes each record once, whatever happens.
    """

    name: str
    released: tuple[str, str]
    family: str
    build: Callable[[], programs.Program]
    version: str = "newest"
    codecs: tuple[str, ...] = CODECS
    idempotent: bool = True


ALL = [
    Library("franz-go", FRANZ, "Go", _franz),
    Library("franz-go, asking for KIP-848", FRANZ, "Go", _franz, "server-side"),
    Library("sarama", ("go.mod", "github.com/IBM/sarama"), "Go", _sarama),
    Library("sarama as of Kafka 1.0.0", ("sarama-1.26.mod", "github.com/Shopify/sarama"), "Go", _sarama_2020,
            "1.0.0", OLD_CODECS),
    Library("kafka-go", ("go.mod", "github.com/segmentio/kafka-go"), "Go", _kafka_go, idempotent=False),
    Library("rdkafka", ("Cargo.lock", "rdkafka"), "Rust", _rdkafka),
    Library("kafkajs", KAFKAJS, "Node", _kafkajs, codecs=("none", "gzip", "snappy")),
]  # fmt: skip

# Of its own, rdkafka has but the wrapping of librdkafka, which other tests meet; it takes minutes to compile.
CLIENTS = [
    pytest.param(library, marks=pytest.mark.between) if library.name == "rdkafka" else library
    for library in ALL
]


def _log(bootstrap: str, topic: str, end: int) -> list[tuple[int, bytes, bytes, object]]:
    """What stands in the log: partition, key, value and headers of each record."""
    read: list[tuple[int, bytes, bytes, object]] = []
    with Consumer(
        topic, bootstrap_servers=bootstrap, client_id=OURS, group_id="look", auto_offset_reset="earliest"
    ) as consumer:

        def all_read() -> bool:
            polled = consumer.poll(timeout_ms=200)
            read.extend((r.partition, r.key or b"", r.value or b"", r.headers) for r in polled)
            return len(read) >= end

        members.until("the log is read", all_read)
    return read


@pytest.mark.parametrize("library", CLIENTS, ids=lambda library: library.name.replace(" ", "-"))
def test_admin_a_rebalance_and_a_restart(
    library: Library, tapped: OdradekServer, compatibility_row: Callable[..., compatibility.Row]
) -> None:
    row = compatibility_row(*row_names.library(library.family, library.name, library.released))
    at = tapped.bootstrap_servers
    client = programs.ProgramClient(library.build(), at, library.version, library.codecs)
    try:
        client.run("create", "shared")
        before_ms = int(time.time() * 1000) - 1000
        members.run(client, "shared", tapped.restart)
        row.does("produce", what=" ".join(library.codecs))
        row.does("consume", "group", "rebalance", "broker restart")
        seen = client.run("describe", "shared", "interop")
        assert seen == {
            "partitions": 4, "retention": "86400000", "groups": ["interop"], "state": "Empty", "members": 0,
        }  # fmt: skip
        log = _log(at, "shared", 600)
        times = set(Counter(value for _, _, value, _ in log).values())
        # Idempotent producers: each value stands in the log once, with its key and its header.
        assert times == {1} or not library.idempotent
        for partition, key, _, headers in log:
            assert partition == int(key) % 4
            assert [tuple(header) for header in headers] == [("n", key)]  # type: ignore[attr-defined]
        read = [record for member in client.members for record in member.records]
        assert all(record["header"] == f"n={record['key']}" for record in read)

        client.run("produce", "shared", "none", stdin="last\n")
        last = client.join("shared", "interop", "reader" if library.name == "kafka-go" else None)
        members.until("the next member has read on", lambda: bool(last.records))
        last.close()
        assert [record["value"] for record in last.records] == ["last"]
        row.does("commit, resume")

        offsets = client.run("offsets", "shared", str(before_ms))
        assert offsets["beginning"] == offsets["at"] == {str(i): 0 for i in range(4)}
        assert sum(offsets["end"].values()) == len(log) + 1
        assert client.run("offsets", "shared", str(before_ms + 3_600_000))["at"] == {}
        row.does("offsets by time")

        left = client.run("delete", "shared", _deletable("interop", library.version))
        assert left in ([], ["__consumer_offsets"])
        row.does("admin")
    finally:
        client.close()
