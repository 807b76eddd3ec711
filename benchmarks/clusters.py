"""The clusters that are measured: three brokers each, as processes on loopback, their data in memory."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.peers import ROOT, SkippedError, in_memory
from interop import kafka_peer
from odradek.client import Admin, NewTopic
from odradek.client.types import PartitionInfo
from odradek.errors import OdradekError
from zookeeper_server import Unavailable, ZooKeeperServer

OURS = "odradek"
KAFKA_ZK = "Apache Kafka, ZooKeeper"
KAFKA_KRAFT = "Apache Kafka, KRaft"

BROKERS = 3
READY_WITHIN_S = 120
ZK_VERSION = "3.9.1"
SESSION_MS = 6000
TICK_MS = 100
"""ZooKeeper's own, by which it may let a session live on: short, so that it is not what is measured."""

ADMIN_TIMEOUT_MS = 120_000
COMMON = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "log.segment.delete.delay.ms": "1000",
}


class Cluster:
    """Three brokers with the ids 1, 2 and 3.

    Attributes:
        name, version: for the tables.
        session_ms: how long a broker that says nothing counts as alive.
        ready_within_s: how long it is waited for what is started, or stopped in good order.
        ports, pids: by broker id.
    """

    def __init__(self, name: str, directory: Path, session_ms: int = SESSION_MS) -> None:
        self.name = name
        self.session_ms = session_ms
        self.ready_within_s: float = READY_WITHIN_S
        self.version = ""
        self.directory = directory
        self.ports = dict(enumerate(kafka_peer.free_ports(BROKERS), 1))
        self.pids: dict[int, int] = {}
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._zookeeper: ZooKeeperServer | None = None

    @property
    def servers(self) -> str:
        """`host:port` of all brokers."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def start(self) -> None:
        """Start all brokers and wait until each knows all. Raises `SkippedError` where they cannot run."""
        self._prepare()
        for broker_id in self.ports:
            self._spawn(broker_id)
        self._await_all()

    def _prepare(self) -> None:
        """Start what the brokers need, and write what they read."""
        try:
            zookeeper = self._zookeeper = ZooKeeperServer(self.directory / "zookeeper", tick_ms=TICK_MS)
            zookeeper.start()
        except Unavailable as why:
            raise SkippedError(str(why)) from None
        for broker_id, port in self.ports.items():
            self._write(
                broker_id,
                {
                    "broker.id": str(broker_id),
                    "zookeeper.connect": zookeeper.address,
                    "zookeeper.session.timeout.ms": str(self.session_ms),
                    "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                },
            )

    def _write(self, broker_id: int, settings: dict[str, str]) -> None:
        lines = {**COMMON, "log.dirs": str(self.directory / f"data-{broker_id}"), **settings}
        self._properties(broker_id).write_text(
            "".join(f"{key}={value}\n" for key, value in lines.items()), encoding="utf-8"
        )

    def _properties(self, broker_id: int) -> Path:
        return self.directory / f"broker-{broker_id}.properties"

    def _command(self, broker_id: int) -> Sequence[str]:
        raise NotImplementedError

    def _spawn(self, broker_id: int) -> None:
        with (self.directory / f"broker-{broker_id}.log").open("ab") as log:
            child = subprocess.Popen(
                self._command(broker_id), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._children[broker_id], self.pids[broker_id] = child, child.pid

    def _await_all(self) -> None:
        deadline = time.monotonic() + self.ready_within_s
        for broker_id, port in self.ports.items():
            while not kafka_peer.answers_metadata(port, named=True):
                if self._children[broker_id].poll() is not None or time.monotonic() > deadline:
                    tail = (self.directory / f"broker-{broker_id}.log").read_text(encoding="utf-8")[-2000:]
                    raise RuntimeError(f"{self.name}, broker {broker_id}, did not become ready:\n{tail}")
                time.sleep(0.05)

    def kill(self, broker_id: int) -> None:
        """End a broker as a crash does."""
        child = self._children.pop(broker_id)
        child.kill()
        child.wait()

    def terminate(self, broker_id: int) -> None:
        """Have a broker stop in good order, and wait until it has."""
        child = self._children.pop(broker_id)
        child.send_signal(signal.SIGTERM)
        child.wait(self.ready_within_s)

    def pause(self, broker_id: int) -> None:
        """Have a broker do nothing, with its connections standing."""
        self._children[broker_id].send_signal(signal.SIGSTOP)

    def resume(self, broker_id: int) -> None:
        """Have it go on."""
        self._children[broker_id].send_signal(signal.SIGCONT)

    def start_again(self, broker_id: int) -> None:
        """Start a broker that has ended, and wait until it answers."""
        self._spawn(broker_id)
        self._await_all()

    def create_topic(self, name: str, partitions: int, leader: int | None = None) -> None:
        """Create a topic with three replicas, led by this broker or by all in turn."""
        brokers = list(self.ports)
        first = 0 if leader is None else brokers.index(leader)
        assignment = {}
        for index in range(partitions):
            at = (first + (index if leader is None else 0)) % len(brokers)
            assignment[index] = brokers[at:] + brokers[:at]
        with Admin(bootstrap_servers=self.servers, request_timeout_ms=ADMIN_TIMEOUT_MS) as admin:
            admin.create_topics([NewTopic(name, replica_assignment=assignment)])

    def await_whole(self, topic: str) -> PartitionInfo:
        """Wait until all replicas of a topic are in sync; returns its partition 0."""
        deadline = time.monotonic() + self.ready_within_s
        with Admin(bootstrap_servers=self.servers, request_timeout_ms=ADMIN_TIMEOUT_MS) as admin:
            while time.monotonic() < deadline:
                try:
                    partitions = admin.describe_topics([topic])[topic].partitions
                except OdradekError:
                    partitions = ()  # not every broker knows it yet
                if partitions and all(len(one.in_sync_replicas) == len(self.ports) for one in partitions):
                    return partitions[0]
                time.sleep(0.05)
        raise RuntimeError(f"{self.name}: the replicas of {topic} are not in sync")

    def stop(self) -> None:
        """End all brokers, and what they needed."""
        for child in self._children.values():
            child.send_signal(signal.SIGTERM)
            child.send_signal(signal.SIGCONT)  # one that was paused
        for child in self._children.values():
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait(10)
        self._children.clear()
        if self._zookeeper is not None:
            self._zookeeper.kill()


def own_version() -> str:
    """The version of this checkout, and its commit."""
    from odradek import __version__

    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return f"{__version__} {commit.stdout.strip()}"


class Odradek(Cluster):
    """This checkout, over ZooKeeper."""

    def start(self) -> None:
        self.version = own_version()
        super().start()

    def _command(self, broker_id: int) -> Sequence[str]:
        words = [sys.executable, "-m", "odradek", "server", "--config", str(self._properties(broker_id))]
        return [*words, "--log-level", "warning"]


class KafkaOverZooKeeper(Cluster):
    """The last release of Kafka that knows ZooKeeper."""

    def start(self) -> None:
        if why := kafka_peer.missing_toolchain():
            raise SkippedError(why)
        self.version = ZK_VERSION
        super().start()

    def _command(self, broker_id: int) -> Sequence[str]:
        words = kafka_peer.java_command(
            self.version, "kafka.Kafka", heap="1g", collector=kafka_peer.SERVER_COLLECTOR, server=True
        )
        return [*words, str(self._properties(broker_id))]


class KafkaKRaft(KafkaOverZooKeeper):
    """The newest Kafka: each node is broker and controller."""

    def start(self) -> None:
        if why := kafka_peer.missing_toolchain():
            raise SkippedError(why)
        self.version = kafka_peer.NEWEST
        Cluster.start(self)

    def _prepare(self) -> None:
        controllers = dict(zip(self.ports, kafka_peer.free_ports(BROKERS), strict=True))
        voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in controllers.items())
        # Unless a section has sessions of its own, each keeps its defaults: 6 s over ZooKeeper, 9 s here.
        session = {}
        if self.session_ms != SESSION_MS:
            session = {
                "broker.session.timeout.ms": str(self.session_ms),
                "broker.heartbeat.interval.ms": str(self.session_ms // 3),
            }
        for node_id, port in self.ports.items():
            listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controllers[node_id]}"
            self._write(
                node_id,
                {
                    "node.id": str(node_id),
                    "process.roles": "broker,controller",
                    "listeners": listeners,
                    "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
                    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                    "controller.listener.names": "CONTROLLER",
                    "controller.quorum.voters": voters,
                    **session,
                },
            )
            storage = kafka_peer.java_command(self.version, "kafka.tools.StorageTool")
            words = [*storage, "format", "--ignore-formatted", "-t", "4L6g3nShT-eMCtK--X86sw"]
            subprocess.run([*words, "-c", str(self._properties(node_id))], check=True, capture_output=True)


CLUSTERS: dict[str, type[Cluster]] = {
    OURS: Odradek,
    KAFKA_KRAFT: KafkaKRaft,
    KAFKA_ZK: KafkaOverZooKeeper,
}


def broker_memory(pid: int) -> tuple[float, float]:
    """Memory of a process in MiB: what is resident (RSS), and its share of that (PSS)."""
    found = dict(
        re.findall(
            r"^(Rss|Pss):\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8"), re.M
        )
    )
    return int(found["Rss"]) / 1024, int(found["Pss"]) / 1024


class Turns(NamedTuple):
    """What came of `in_turns`.

    Attributes:
        versions: of the clusters that ran, by name.
        skipped: why the others did not, by name.
    """

    versions: dict[str, str]
    skipped: dict[str, str]


def in_turns(
    rounds: Mapping[str, int], measure: Callable[[int, Cluster], None], session_ms: int = SESSION_MS
) -> Turns:
    """Run clusters in turns, round by round, one at a time; one that cannot run is left out.

    Args:
        rounds: how many of each cluster, by name, in the order of a round.
        measure: called with the number of the round, from 1 on, and the cluster while it runs.
        session_ms: how long a broker of theirs that says nothing counts as alive.

    Raises:
        RuntimeError: ours cannot run.
    """
    turns = Turns({}, {})
    for number in range(1, max(rounds.values()) + 1):
        for name in [one for one, most in rounds.items() if number <= most and one not in turns.skipped]:
            with running(name, turns.skipped, session_ms) as cluster:
                if cluster is not None:
                    turns.versions[name] = cluster.version
                    measure(number, cluster)
    if OURS in turns.skipped:
        raise RuntimeError(f"{OURS} failed: {turns.skipped[OURS]}")
    return turns


@contextmanager
def running(name: str, skipped: dict[str, str], session_ms: int = SESSION_MS) -> Iterator[Any]:
    """Start one cluster, None where it cannot run: its reason is in `skipped` then."""
    import tempfile

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-", dir=in_memory())))
        cluster = CLUSTERS[name](name, folder, session_ms)
        stack.callback(cluster.stop)
        try:
            cluster.start()
        except SkippedError as why:
            skipped[name] = str(why)
            yield None
        else:
            yield cluster
