"""100,000 records copied in transactions, brokers and copiers bounced and killed: each is there once."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cluster_processes import ClusterProcesses
from odradek import Consumer, NewTopic, Producer
from odradek.client.types import TopicPartition
from scenarios.faults.page import Page, Row
from waiting import WITHIN_S

pytestmark = [pytest.mark.slow, pytest.mark.faults]
SOURCE, TARGET, GROUP = "source", "target", "copiers"
PARTITIONS = 2
RECORDS = 100_000
HOW = {signal.SIGKILL: "killed", signal.SIGTERM: "bounced"}
HERE = Path(__file__).parent


class Copiers:
    """Processes that copy; whoever has ended is started again by `revive`."""

    def __init__(self, cluster: ClusterProcesses, by: str) -> None:
        self._cluster = cluster
        self._by = by
        self._children: list[subprocess.Popen[bytes]] = []
        self.starts = 0

    def __enter__(self) -> Copiers:
        self._children = [self._start(number) for number in range(PARTITIONS)]
        return self

    def __exit__(self, *_: object) -> None:
        for child in self._children:
            child.kill()
            child.wait(WITHIN_S)

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        self.starts += 1
        words = [self._cluster.bootstrap_servers, SOURCE, TARGET, GROUP, f"copier-{number}"]
        words += [str(number)] if self._by == "group" else []
        with (self._cluster.directory / "copier.log").open("ab") as log, self.commits.open("ab") as commits:
            command = [sys.executable, str(HERE / "copier.py"), *words]
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=commits, stderr=log)

    @property
    def commits(self) -> Path:
        """A line for each transaction, with its records."""
        return self._cluster.directory / "commits"

    @property
    def committed(self) -> int:
        """Records of transactions whose commit was acknowledged."""
        return sum(int(line) for line in self.commits.read_text(encoding="utf-8").split())

    def revive(self) -> None:
        """Start those again that have ended."""
        for number, child in enumerate(self._children):
            if child.poll() is not None:
                self._children[number] = self._start(number)

    def end(self, number: int, how: signal.Signals) -> None:
        """Have one end, at once or between two transactions."""
        self._children[number].send_signal(how)
        self._children[number].wait(90)

    def go_on(self, count: int = 1) -> None:
        """Wait until so many more records are copied, unless all are."""
        until = self.committed + count

        def look() -> bool:
            self.revive()
            return self.committed >= until or self.is_done()

        self._cluster.wait_until(look)

    def is_done(self) -> bool:
        """Whether the group has got to the end."""
        with self._cluster.admin() as admin:
            offsets = admin.list_group_offsets(GROUP)
        return sum(one.offset for one in offsets.values()) >= RECORDS


def read(cluster: ClusterProcesses, topic: str, count: int) -> list[list[bytes]]:
    """What is committed, by partition."""
    partitions = [TopicPartition(topic, n) for n in range(PARTITIONS)]
    found: list[list[bytes]] = [[] for _ in partitions]
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, isolation_level="read_committed") as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(partitions)

        def look() -> bool:
            for one in consumer.poll(100, 5_000):
                found[one.partition].append(one.value)
            return all(consumer.position(tp) >= ends[tp] for tp in partitions)

        cluster.wait_until(look)
    return found


@pytest.mark.parametrize("by", ["consumer group metadata", "group"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "bounced"])
def test_each_record_is_copied_once(tmp_path: Path, page: Page, how: signal.Signals, by: str) -> None:
    with ClusterProcesses(tmp_path) as cluster:
        with cluster.admin() as admin:
            admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in (SOURCE, TARGET)])
        with Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all", linger_ms=5) as producer:
            sent = [producer.send(SOURCE, str(n), partition=n % PARTITIONS) for n in range(RECORDS)]
            for one in sent:
                one.result(90)
        faults = 0
        with Copiers(cluster, by) as copiers:
            copiers.go_on()
            # In turn: each copier, each broker.
            while not copiers.is_done():
                victim = faults % (PARTITIONS + 3)
                if victim < PARTITIONS:
                    copiers.end(victim, how)
                else:
                    broker = victim - PARTITIONS
                    (cluster.kill if how == signal.SIGKILL else cluster.stop)(broker)
                    copiers.go_on()
                    cluster.start(broker)
                    cluster.await_all_whole(TARGET)
                faults += 1
                copiers.go_on(RECORDS // 10)
            transactions = len(copiers.commits.read_text(encoding="utf-8").split())
        source, target = read(cluster, SOURCE, RECORDS), read(cluster, TARGET, RECORDS)
        wrong = sum(
            a != b
            for one, other in zip(source, target, strict=True)
            for a, b in zip(one, other, strict=False)
        )
        wrong += sum(abs(len(one) - len(other)) for one, other in zip(source, target, strict=True))
        page.add(
            Row(
                f"transactional copy of 100,000 records, brokers and copiers {HOW[how]}",
                f"transactions, offsets by {by}",
                transactions,
                RECORDS,
                wrong,
                f"{faults} faults, {copiers.starts} starts of copiers; equal, in order",
            )
        )
        assert source == target, f"{tmp_path}: {[len(one) for one in source]}, {[len(one) for one in target]}"
