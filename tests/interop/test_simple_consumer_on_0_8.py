"""`SimpleConsumer` on two real brokers of Kafka 0.8.2.2: the leader is killed while a partition is read."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import odradek
from interop import kafka_peer, members
from odradek.client.simple import find_leader, read_partition

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("kafka_toolchain")]

VERSION = "0.8.2.2"
SETTINGS = {
    "default.replication.factor": "2",
    "num.partitions": "1",
    "zookeeper.session.timeout.ms": "4000",
    "replica.lag.time.max.ms": "3000",
}


class Pair:
    """Two brokers on one ZooKeeper, by port."""

    def __init__(self, directory: Path) -> None:
        self.first = kafka_peer.RealKafka(VERSION, directory, SETTINGS)
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def at(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.processes)

    def __enter__(self) -> Pair:
        self.first.start()
        self.processes[self.first.port] = self.first.children[-1]
        properties = (self.first.directory / "server.properties").read_text(encoding="utf-8")
        (port,) = kafka_peer.free_ports(1)
        second = self.first.directory / "second.properties"
        second.write_text(
            properties + f"broker.id=2\nport={port}\nlog.dirs={self.first.directory / 'second'}\n",
            encoding="utf-8",
        )
        command = kafka_peer.java_command(VERSION, "kafka.Kafka", server=True)
        self.processes[port] = self.first.spawn("second", [*command, str(second)])
        members.until("the second broker answers", lambda: kafka_peer.answers_metadata(port))
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            process.kill()  # politely, they would wait for each other
        self.first.stop()

    def kill(self, port: int) -> None:
        self.processes[port].send_signal(signal.SIGKILL)
        self.processes[port].wait(10)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    try:
        kafka_peer.old_java()
    except RuntimeError as why:
        pytest.skip(f"Kafka {VERSION} needs Java 11: {why}")
    with Pair(tmp_path) as running:
        yield running


def test_reading_goes_on_over_the_leaders_death(pair: Pair) -> None:
    topic = "followed"
    with odradek.Producer(
        bootstrap_servers=pair.at, linger_ms=500, compression_type="gzip", delivery_timeout_ms=60_000
    ) as producer:
        sent = [producer.send(topic, b"%d" % i, partition=0) for i in range(10)]
        producer.flush()
        assert [future.result(30).offset for future in sent] == list(range(10))
        members.until("two replicas", lambda: len(find_leader(pair.at, topic, 0).replicas) == 2)
        leader = find_leader(pair.at, topic, 0).leader
        assert leader is not None
        records = read_partition(pair.at, topic, 0, start=7, max_errors=30, timeout_ms=5_000)
        assert [next(records).value for _ in range(3)] == [b"7", b"8", b"9"]
        pair.kill(leader.port)
        assert producer.send(topic, b"10", partition=0).result(60).offset == 10
        assert next(records).value == b"10"
