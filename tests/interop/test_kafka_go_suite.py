"""kafka-go's own tests, as its authors run them, on our broker: they want it on localhost:9092."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from interop import compatibility, kafka_peer, programs
from interop.conftest import OdradekServer

MODULE = "github.com/segmentio/kafka-go"
# The version of Kafka whose behaviour its authors test with (its Makefile).
AS_KAFKA = "2.3.1"
LEFT_OUT = (
    "SASL|TLS|TestWriter/.*SASL",  # they want a listener with SASL
    "ACL",  # and an authorizer
    "Txn|TestClientInitProducerId|TestClientFindCoordinator",  # these want transactions
    # These dereference nil before they ask the broker (its `getOffsets`).
    "TestReaderConsumerGroup/(verify_offset_committed|consumer_group_commits_on_close)",
    # Whether the second reader is given two of three partitions is left to chance: member ids decide.
    "TestReaderConsumerGroup/consumer_group_rebalance$",
    # Long waits for little: other tests show the same.
    "TestDialerResolver|TestRebalanceTooManyConsumers|TestConsumerGroupWithGroupTopicsMultiple",
    "TestReaderConsumerGroup/(rebalance_across_many|consumer_group_rebalance_across_topics)",
    "TestConsumerGroupWithGroupTopicsSingle",
)


def _suite() -> tuple[str, Path]:
    """Its version, and the program that `go test -c` makes of its tests."""
    about = ["go", "list", "-m", "-f", "{{.Version}} {{.Dir}}", MODULE]
    sources = programs.SOURCES / "go"
    # Go has the sources at hand only where they were asked for.
    subprocess.run(["go", "mod", "download", MODULE], cwd=sources, check=True, capture_output=True)
    done = subprocess.run(about, cwd=sources, check=True, capture_output=True, text=True)
    version, where = done.stdout.split()
    home = kafka_peer.CACHE / f"kafka-go-tests-{version}"
    binary = home / "tests"
    with kafka_peer.building(home.name):
        if not binary.exists():
            shutil.rmtree(home, ignore_errors=True)
            shutil.copytree(where, home, copy_function=shutil.copy)
            for path in (home, *home.rglob("*")):
                path.chmod(path.stat().st_mode | 0o200)
            build = ["go", "test", "-mod=mod", "-c", "-o", str(binary), "."]
            built = subprocess.run(build, cwd=home, capture_output=True, text=True)
            if built.returncode:
                raise RuntimeError(f"kafka-go's tests could not be built:\n{built.stderr[-3000:]}")
    return version.removeprefix("v"), binary


@pytest.mark.interop
def test_its_own_tests(tmp_path: Path, compatibility_row: Callable[..., compatibility.Row]) -> None:
    if shutil.which("go") is None:
        pytest.skip("not on this machine: go")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", 9092))
        except OSError:
            pytest.skip("kafka-go's tests want a broker on port 9092, which is taken")
    version, binary = _suite()
    row = compatibility_row("Go", "kafka-go, its own tests", version, "Go modules")
    # Compaction in its own time: cleaned while it is written, a log may stay under its dirty ratio.
    settings = ("broker.id=1", "message.max.bytes=200000000")
    words = ["--host", "localhost", *(word for setting in settings for word in ("--set", setting))]
    server = OdradekServer(tmp_path, words=words, port=9092)
    server.start()
    try:
        with (tmp_path / "tests.log").open("w") as log:
            done = subprocess.run(
                [str(binary), "-test.v", "-test.timeout=400s", f"-test.skip={'|'.join(LEFT_OUT)}"],
                cwd=binary.parent,
                env={**os.environ, "KAFKA_VERSION": AS_KAFKA, "KAFKA_SKIP_NETTEST": "1"},
                stdout=log,
                stderr=log,
            )
    finally:
        server.stop()
    told = (tmp_path / "tests.log").read_text(errors="replace")
    failed = re.findall(r"^ *--- FAIL: (\S+)|^(panic: .*)", told, re.MULTILINE)
    assert done.returncode == 0, f"{failed}\n{told[-3000:]}"
    passed = len(re.findall(r"^--- PASS", told, re.MULTILINE))
    assert passed > 100
    row.does("produce", "consume", "group", "admin", what=f"{passed} tests")
