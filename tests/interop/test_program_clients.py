"""franz-go, sarama (newest and of 2020) and kafkajs: admin, codecs, a rebalance, a restart in between."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable

import pytest

from interop import members, programs
from interop.conftest import OdradekServer
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


CLIENTS = [
    pytest.param(_franz, "newest", CODECS, id="franz-go"),
    pytest.param(_franz, "server-side", CODECS, id="franz-go-asking-for-KIP-848"),
    pytest.param(_sarama, "newest", CODECS, id="sarama"),
    pytest.param(_sarama_2020, "1.0.0", OLD_CODECS, id="sarama-1.26-as-1.0.0"),
    pytest.param(_kafkajs, "newest", ("none", "gzip", "snappy"), id="kafkajs"),
]


def _log(bootstrap: str, topic: str, end: int) -> list[tuple[int, bytes, bytes, object]]:
    """What stands in the log: partition, key, value and headers of each record."""
    read: list[tuple[int, bytes, bytes, object]] = []
    with Consumer(
        topic, bootstrap_servers=bootstrap, group_id="look", auto_offset_reset="earliest"
    ) as consumer:

        def all_read() -> bool:
            polled = consumer.poll(timeout_ms=200)
            read.extend((r.partition, r.key or b"", r.value or b"", r.headers) for r in polled)
            return len(read) >= end

        members.until("the log is read", all_read)
    return read


@pytest.mark.parametrize(("build", "version", "codecs"), CLIENTS)
def test_admin_a_rebalance_and_a_restart(
    build: Callable[[], programs.Program], version: str, codecs: tuple[str, ...], server: OdradekServer
) -> None:
    client = programs.ProgramClient(build(), server.bootstrap_servers, version, codecs)
    try:
        client.run("create", "shared")
        members.run(client, "shared", server.restart)
        seen = client.run("describe", "shared", "interop")
        assert seen == {
            "partitions": 4, "retention": "86400000", "groups": ["interop"], "state": "Empty", "members": 0,
        }  # fmt: skip
        # Idempotent producers: each value stands in the log once, with its key and its header.
        log = _log(server.bootstrap_servers, "shared", 600)
        assert set(Counter(value for _, _, value, _ in log).values()) == {1}
        for partition, key, _, headers in log:
            assert partition == int(key) % 4
            assert [tuple(header) for header in headers] == [("n", key)]  # type: ignore[attr-defined]
        read = [record for member in client.members for record in member.records]
        assert all(record["header"] == f"n={record['key']}" for record in read)
        assert client.run("delete", "shared", _deletable("interop", version)) in ([], ["__consumer_offsets"])
    finally:
        client.close()
