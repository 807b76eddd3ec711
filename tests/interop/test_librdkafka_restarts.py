"""librdkafka's transactional producer when its only broker dies by kill -9 and comes back, here and at Kafka.

From 2.16.0 on it drops every broker that it knows when all are down, and bootstraps anew. The group
coordinator that it remembers is one of them; the next `send_offsets_to_transaction` waits for that one to be
connected. No request arrives meanwhile, so no answer of a broker can end it: it ends when some connection of
the client does.
"""

from __future__ import annotations

import importlib.metadata
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from interop import compatibility, programs
from interop.conftest import OdradekServer
from interop.kafka_peer import NEWEST, RealKafka
from waiting import WITHIN_S

pytestmark = pytest.mark.interop

NOTE = (
    "A transactional producer whose brokers have all been down at once may wait in "
    "`send_offsets_to_transaction` without a request, until one of its connections breaks "
    "(`connections.max.idle.ms`, 10 minutes). Set `metadata.recovery.strategy=none` on it."
)


def second_transaction(at: str, strategy: str, kill: Callable[[], None], start: Callable[[], None]) -> str:
    """What came of a transaction after the broker's death: `committed`, `waits`, or an error."""
    child = programs.python_program("librdkafkarestart").start(at, strategy)
    assert child.stdin is not None and child.stdout is not None and child.stderr is not None
    try:
        assert child.stdout.readline() == "committed\n"
        kill()
        assert child.stdout.readline() == "down\n"
        start()
        child.stdin.write("up\n")
        child.stdin.flush()
        return child.stdout.readline().strip()
    finally:
        child.kill()
        child.wait(WITHIN_S)
        for pipe in (child.stdin, child.stdout, child.stderr):
            pipe.close()


def at_ours(server: OdradekServer, strategy: str) -> str:
    return second_transaction(
        server.bootstrap_servers, strategy, lambda: server.stop(signal.SIGKILL), server.start
    )


def test_it_goes_on_with_the_brokers_that_it_knows(server: OdradekServer) -> None:
    pytest.importorskip("confluent_kafka")
    assert at_ours(server, "none") == "committed"


@pytest.mark.usefixtures("kafka_toolchain")
def test_it_does_at_ours_as_at_kafkas(
    server: OdradekServer, tmp_path: Path, compatibility_row: Callable[..., compatibility.Row]
) -> None:
    pytest.importorskip("confluent_kafka")
    released = importlib.metadata.version("confluent-kafka")
    row = compatibility_row("Python", "confluent-kafka", released, "PyPI")
    here = {strategy: at_ours(server, strategy) for strategy in ("rebootstrap", "none")}
    with RealKafka(NEWEST, tmp_path / "kafka") as kafka:
        there = {
            strategy: second_transaction(kafka.bootstrap_servers, strategy, kafka.kill, kafka.start_again)
            for strategy in here
        }
    assert here == there
    assert here["none"] == "committed"
    if here["rebootstrap"] == "waits":
        row.notes.append(NOTE)
