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

from interop import compatibility, programs
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
    version, binary = programs.go_suite(MODULE)
    row = compatibility_row("Go", "kafka-go, its own tests", version, "Go modules")
    # Compaction in its own time: cleaned while it is written, a log may stay under its dirty ratio.
    settings = ("broker.id=1", "message.max.bytes=200000000")
    words = ["--host", "localhost", *(word for setting in settings for word in ("--set", setting))]
    server = OdradekServer(tmp_path, words=words, port=9092)
    server.start()
    try:
        with (tmp_path / "tests.log").open("w", encoding="utf-8") as log:
            done = subprocess.run(
                [str(binary), "-test.v", "-test.timeout=400s", f"-test.skip={'|'.join(LEFT_OUT)}"],
                cwd=binary.parent,
                env={**os.environ, "KAFKA_VERSION": AS_KAFKA, "KAFKA_SKIP_NETTEST": "1"},
                stdout=log,
                stderr=log,
                timeout=500,
            )
    finally:
        server.stop()
    told = (tmp_path / "tests.log").read_text(encoding="utf-8", errors="replace")
    failed = re.findall(r"^ *--- FAIL: (\S+)|^(panic: .*)", told, re.MULTILINE)
    assert done.returncode == 0, f"{failed}\n{told[-3000:]}"
    passed = len(re.findall(r"^--- PASS", told, re.MULTILINE))
    assert passed > 100
    row.does("produce", "consume", "group", "admin", what=f"{passed} tests")
