"""Writes acknowledged by all in-sync replicas, while processes of a cluster with a real ZooKeeper fail.

They take minutes: `make faults` runs them and writes docs/fault_tests.md.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster_processes import LIMIT_S, ClusterProcesses
from odradek import Consumer, NewTopic, Producer
from odradek.client.types import TopicPartition
from odradek.errors import OdradekError
from odradek.testing.checker import Poll, Record, Recorder, Report, Send, check

TOPIC = "events"
NAME = f"{TOPIC}-0"
WRITERS = 2
BATCH = 10
#: What a producer without idempotence may do when it sends again.
RESENT = frozenset({"duplicate", "nonmonotonic-send", "int-nonmonotonic-send"})

Row = tuple[str, str, int, int, int]
"""Fault, producers, operations, acknowledged records, anomalies."""


HEAD = """# Fault tests

Written by `make faults`: three brokers and a ZooKeeper as processes, replication factor 3,
`min.insync.replicas=2`, `acks=all`. Each history is judged by the checker ([checker.md](checker.md)).
Producers without idempotence may write a record twice when they send it again: no anomaly there.

| fault | producers | operations | acknowledged records | anomalies |
|---|---|---|---|---|
"""


@pytest.fixture(scope="module")
def rows() -> Iterator[list[Row]]:
    """What was done, told in the file that `ODRADEK_FAULT_REPORT` names."""
    found: list[Row] = []
    yield found
    if path := os.environ.get("ODRADEK_FAULT_REPORT"):
        Path(path).write_text(
            HEAD + "".join(f"| {' | '.join(str(cell) for cell in row)} |\n" for row in found)
        )


class Writing:
    """Producers that write to one partition until they are told to end."""

    def __init__(self, cluster: ClusterProcesses, recorder: Recorder, idempotent: bool) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._idempotent = idempotent
        self._progress = threading.Condition()
        self._ended = False
        self.acknowledged = 0
        """Operations of which every record was acknowledged."""
        self.operations = 0
        self._problems: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, args=(f"p{n}",)) for n in range(WRITERS)]

    def __enter__(self) -> Writing:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        for thread in self._threads:
            thread.join(3 * LIMIT_S)
        assert not any(thread.is_alive() for thread in self._threads)
        assert not self._problems, self._problems

    def go_on(self, count: int = 10) -> None:
        """Wait until so many more operations were acknowledged."""
        with self._progress:
            until = self.acknowledged + count
            reached = self._progress.wait_for(lambda: self.acknowledged >= until or self._problems, LIMIT_S)
        assert reached, f"{self.acknowledged} of {until} operations were acknowledged"
        assert not self._problems, self._problems

    def _run(self, me: str) -> None:
        try:
            with Producer(
                bootstrap_servers=self._cluster.bootstrap_servers,
                acks="all",
                enable_idempotence=self._idempotent,
                linger_ms=1,
            ) as producer:
                number = 0
                while not self._ended:
                    self._write(me, number, producer)
                    number += 1
        except BaseException as error:
            self._problems.append(error)
            with self._progress:
                self._progress.notify_all()

    def _write(self, me: str, number: int, producer: Producer) -> None:
        sends = [Send(NAME, f"{me}:{number}:{n}") for n in range(BATCH)]
        self._recorder.invoke(me, "send", sends)
        futures = [producer.send(TOPIC, str(send.value).encode(), partition=0) for send in sends]
        known = []
        for send, future in zip(sends, futures, strict=True):
            try:
                known.append(Send(NAME, send.value, future.result(2 * LIMIT_S).offset))
            except OdradekError:  # it may have reached the log, and the answer not us
                known.append(send)
        whole = all(send.offset is not None for send in known)
        self._recorder.complete(me, "ok" if whole else "info", "send", known)
        with self._progress:
            self.operations += 1
            self.acknowledged += whole
            self._progress.notify_all()


def acknowledged_end(recorder: Recorder) -> int:
    """One past the highest offset that was acknowledged."""
    sends = (one for event in recorder.events for one in event.micro if isinstance(one, Send))
    return 1 + max(one.offset for one in sends if one.offset is not None)


def read_everything(cluster: ClusterProcesses, recorder: Recorder) -> None:
    partition = TopicPartition(TOPIC, 0)
    with Consumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        recorder.control("reader", "assign", [NAME])
        # A leader that was paused may yet tell the end that it knew.
        end = acknowledged_end(recorder)

        def poll() -> bool:
            recorder.invoke("reader", "poll", [Poll()])
            polled = [Record(NAME, one.offset, one.value.decode()) for one in consumer.poll(100)]
            recorder.complete("reader", "ok", "poll", [Poll(tuple(polled))])
            return consumer.position(partition) >= end

        cluster.wait_until(poll)


def leader(cluster: ClusterProcesses) -> int:
    return cluster.await_whole(TOPIC).leader


def kill_leader(cluster: ClusterProcesses, writing: Writing) -> None:
    broker = leader(cluster)
    cluster.kill(broker)
    writing.go_on()
    cluster.start(broker)


def kill_controller(cluster: ClusterProcesses, writing: Writing) -> None:
    cluster.await_whole(TOPIC)
    broker = cluster.controller()
    cluster.kill(broker)
    writing.go_on()
    cluster.start(broker)


def bounce_leader(cluster: ClusterProcesses, writing: Writing) -> None:
    broker = leader(cluster)
    cluster.stop(broker)
    writing.go_on()
    cluster.start(broker)


def bounce_controller(cluster: ClusterProcesses, writing: Writing) -> None:
    cluster.await_whole(TOPIC)
    broker = cluster.controller()
    cluster.stop(broker)
    writing.go_on()
    cluster.start(broker)


def pause_leader(cluster: ClusterProcesses, writing: Writing) -> None:
    """Until its session has ended and another leads; it goes on with requests in its buffers."""
    broker = leader(cluster)
    cluster.pause(broker)
    try:
        cluster.await_partition(TOPIC, lambda one: one.leader not in (-1, broker))
        writing.go_on()
    finally:
        cluster.resume(broker)


def pause_follower(cluster: ClusterProcesses, writing: Writing) -> None:
    """Until it is not in sync."""
    broker = next(n for n in cluster.live if n != leader(cluster))
    cluster.pause(broker)
    try:
        cluster.await_partition(TOPIC, lambda one: broker not in one.in_sync_replicas)
        writing.go_on()
    finally:
        cluster.resume(broker)


def zookeeper_away(cluster: ClusterProcesses, writing: Writing) -> None:
    """The traffic of the leader that is known goes on meanwhile."""
    cluster.await_whole(TOPIC)
    cluster.zookeeper.kill()
    writing.go_on()
    cluster.zookeeper.start()


Fault = Callable[[ClusterProcesses, Writing], None]

CASES = [
    pytest.param("leader killed", kill_leader, 1, True, marks=pytest.mark.faults, id="leader-killed"),
    *(
        pytest.param(name, fault, times, idempotent, marks=pytest.mark.faults, id=f"{name}-{idempotent}")
        for idempotent in (True, False)
        for name, fault, times in (
            ("leader killed five times", kill_leader, 5),
            ("controller killed five times", kill_controller, 5),
            ("leader stopped cleanly five times", bounce_leader, 5),
            ("controller stopped cleanly five times", bounce_controller, 5),
            ("leader paused until its session ended", pause_leader, 2),
            ("follower paused until out of sync", pause_follower, 2),
            ("ZooKeeper killed and started again", zookeeper_away, 2),
        )
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "fault", "times", "idempotent"), CASES)
def test_what_was_acknowledged_is_read_once_and_in_order(
    tmp_path: Path, rows: list[Row], name: str, fault: Fault, times: int, idempotent: bool
) -> None:
    history = tmp_path / "history.jsonl"
    with history.open("w", encoding="utf-8") as stream, ClusterProcesses(tmp_path) as cluster:
        recorder = Recorder(stream)
        with cluster.admin() as admin:
            admin.create_topics([NewTopic(TOPIC, 1, 3)])
        cluster.await_whole(TOPIC)
        with Writing(cluster, recorder, idempotent) as writing:
            writing.go_on()
            for _ in range(times):
                fault(cluster, writing)
                cluster.await_whole(TOPIC)
            writing.go_on()
        read_everything(cluster, recorder)
    report: Report = check(recorder.events, allowed=() if idempotent else RESENT)
    rows.append(
        (
            name,
            "idempotent" if idempotent else "plain",
            writing.operations,
            report.acknowledged,
            sum(one.name not in report.allowed for one in report.anomalies),
        )
    )
    assert report.valid, f"{history}\n{report.summary()}"
    assert report.acknowledged >= writing.acknowledged * BATCH > 0
