"""Distributed Kafka Connect on our brokers: worker and broker are killed, each line is there exactly once."""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from interop import kafka_peer, row_names
from interop.committed import committed
from interop.compatibility import Rows
from interop.one_or_three import Brokers
from interop.served import Served, until
from interop.tap import OURS
from odradek import Admin, NewTopic

pytestmark = [
    pytest.mark.interop,
    pytest.mark.between,
    pytest.mark.timeout(1200),
    pytest.mark.usefixtures("kafka_toolchain"),
]

WORKERS = 2
WORKER = {
    "group.id": "workers",
    "exactly.once.source.support": "enabled",
    "consumer.isolation.level": "read_committed",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "offset.storage.partitions": "3",
    "status.storage.partitions": "3",
    **{
        f"{kind}.storage.{what}": value
        for kind in ("config", "offset", "status")
        for what, value in (("topic", f"connect-{kind}"), ("replication.factor", "-1"))
    },
    # Not by a look into every jar, which takes most of its start.
    "plugin.discovery": "service_load",
    "offset.flush.interval.ms": "1000",
    # A task that could not read the configs for that long fails, and only an operator starts it again.
    "worker.sync.timeout.ms": "30000",
    # How long a worker that has gone is waited for, before its tasks are given to others.
    "scheduled.rebalance.max.delay.ms": "1000",
}
LINE_BYTES = 600
"""More than half of what the source reads at a time.

Of shorter lines it keeps some at the end of its file, when a batch was full, until there are more.
"""
LINES = [f"{i:05d}".ljust(LINE_BYTES - 1, ".") for i in range(3000)]
BATCH = 10


class Workers:
    """The workers, and what they are asked by REST."""

    def __init__(self, ports: list[int], running: list[Served]) -> None:
        self._ports = ports
        self._running = running

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The answer of any of them, once they have found each other, and ended what has to end before."""
        said = "nothing"

        def answer() -> list[Any]:
            nonlocal said
            for port in self._ports:
                request = urllib.request.Request(
                    f"http://127.0.0.1:{port}/connectors/{path}",
                    method=method,
                    data=None if body is None else json.dumps(body).encode(),
                    headers={"Content-Type": "application/json"},
                )
                try:
                    with urllib.request.urlopen(request, timeout=100) as answered:
                        return [json.loads(answered.read() or "null")]
                except urllib.error.HTTPError as error:
                    with error:
                        said = f"{error.code} {error.read().decode()}"
                except OSError as error:
                    said = str(error)
            return []

        try:
            return until(f"an answer to {method} {path}", answer)[0]
        except AssertionError as error:
            error.add_note(said)
            raise

    def with_task_of(self, connector: str) -> Served:
        """The worker that runs the task of a connector."""

        def running() -> list[str]:
            tasks = self.ask("GET", f"{connector}/status")["tasks"]
            return [task["worker_id"] for task in tasks if task["state"] == "RUNNING"]

        (worker,) = until(f"a task of {connector}", running)
        return self._running[self._ports.index(int(worker.rpartition(":")[2]))]


@contextmanager
def workers(version: str, bootstrap: str, directory: Path) -> Iterator[Workers]:
    """Two workers of that release."""
    ports = kafka_peer.free_ports(WORKERS)
    with ExitStack() as stack:
        running = []
        for port in ports:
            settings = {**WORKER, "bootstrap.servers": bootstrap, "listeners": f"http://127.0.0.1:{port}"}
            file = directory / f"worker-{port}.properties"
            file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")
            main = "org.apache.kafka.connect.cli.ConnectDistributed"
            command = kafka_peer.java_command(version, main, heap="256m", also=kafka_peer.CONNECT)
            running.append(stack.enter_context(Served([*command, str(file)], file.with_suffix(".log"))))
        yield Workers(ports, running)


@pytest.mark.parametrize("version", ["3.9.1", kafka_peer.NEWEST])
def test_file_to_file(version: str, brokers: Brokers, tmp_path: Path, compatibility_row: Rows) -> None:
    row = compatibility_row(*row_names.kafkas_own("Kafka Connect, distributed", version))
    at = brokers.bootstrap_servers
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"

    def append(lines: list[str]) -> None:
        with source.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)

    def written() -> set[str]:
        return set(sink.read_text(encoding="utf-8").splitlines()) if sink.exists() else set()

    with Admin(bootstrap_servers=at, client_id=OURS) as admin:
        admin.create_topics([NewTopic("lines", num_partitions=1)])
    with committed(at, "lines", 1) as seen, workers(version, at, tmp_path) as connect:
        append([])
        ours = "org.apache.kafka.connect.file.FileStream"
        more = {"tasks.max": "1", "file": str(source), "topic": "lines", "batch.size": str(BATCH)}
        more |= {"exactly.once.support": "required", "transaction.boundary": "poll"}
        connect.ask("PUT", "source/config", {"connector.class": f"{ours}SourceConnector", **more})
        more = {"tasks.max": "1", "file": str(sink), "topics": "lines"}
        connect.ask("PUT", "sink/config", {"connector.class": f"{ours}SinkConnector", **more})

        worker = connect.with_task_of("source")
        append(LINES[:2000])
        until("some are written", lambda: seen.count() > 200)
        worker.end(signal.SIGKILL)
        until("another worker has gone on", lambda: seen.count() >= 2000)
        worker.start()
        append(LINES[2000:])
        until("more are written", lambda: seen.count() > 2100)
        brokers.kill_leader("lines")
        brokers.start_again()
        until("all are written", lambda: seen.count() >= len(LINES))
        assert [json.loads(value) for value in seen.values] == LINES
        until("all are in the sink's file", lambda: written() == set(LINES))

        def renewed(connector: str, method: str, offsets: Any = None) -> None:
            """Alter or reset the offsets of a connector, between its end and its new beginning."""
            connect.ask("PUT", f"{connector}/stop")
            connect.ask(method, f"{connector}/offsets", offsets and {"offsets": [offsets]})
            if connector == "sink":
                sink.unlink()
            connect.ask("PUT", f"{connector}/resume")

        partition: dict[str, Any] = {"kafka_topic": "lines", "kafka_partition": 0}
        last = seen.records[-1].offset
        renewed("sink", "PATCH", {"partition": partition, "offset": {"kafka_offset": last}})
        until("the sink has gone on where it was told", lambda: written() == {LINES[-1]})
        renewed("sink", "DELETE")
        until("the sink has begun anew", lambda: written() == set(LINES))

        connect.ask("PUT", "source/stop")
        (known,) = connect.ask("GET", "source/offsets")["offsets"]
        assert known["offset"] == {"position": LINE_BYTES * len(LINES)}
        renewed("source", "PATCH", known | {"offset": {"position": LINE_BYTES * (len(LINES) - 100)}})
        until("the source has gone on where it was told", lambda: seen.count() >= len(LINES) + 100)
        renewed("source", "DELETE")
        until("the source has begun anew", lambda: seen.count() >= 2 * len(LINES) + 100)
        assert [json.loads(value) for value in seen.values] == [*LINES, *LINES[-100:], *LINES]
    row.does("produce", "consume", "group", "commit, resume", "rebalance")
    row.does("broker restart", what=brokers.restart)
    row.does("transactions", what="exactly-once source")
    row.does("admin", what="offsets altered, reset")
