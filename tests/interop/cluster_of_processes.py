"""Three `odradek server` processes over a real ZooKeeper, each of which can be killed and started again."""

from __future__ import annotations

import signal
from pathlib import Path
from types import TracebackType

import pytest

from interop import members
from interop.asking import ask
from interop.conftest import OdradekServer
from odradek.wire.messages.metadata import MetadataRequest, MetadataResponse
from zookeeper_server import available

BROKERS = 3
CONFIG = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "6",
    "transaction.state.log.replication.factor": "3",
    "zookeeper.session.timeout.ms": "4000",
}


class ClusterOfProcesses:
    """The cluster; its brokers are 0, 1 and 2. Skips the test, by name, where no ZooKeeper can run."""

    def __init__(self, directory: Path) -> None:
        self.zookeeper = available(directory / "zookeeper")
        at = {**CONFIG, "zookeeper.connect": f"{self.zookeeper.address}/odradek"}
        self.servers: list[OdradekServer] = []
        for broker in range(BROKERS):
            folder = directory / str(broker)
            folder.mkdir()
            words = [f"{key}={value}" for key, value in {**at, "broker.id": str(broker)}.items()]
            self.servers.append(
                OdradekServer(folder, words=[part for word in words for part in ("--set", word)])
            )
        self.stopped: set[int] = set()

    @property
    def connect(self) -> str:
        """What `--zookeeper` of old tools is given."""
        return f"{self.zookeeper.address}/odradek"

    @property
    def bootstrap_servers(self) -> str:
        """All brokers."""
        return ",".join(server.bootstrap_servers for server in self.servers)

    def __enter__(self) -> ClusterOfProcesses:
        try:
            self.zookeeper.start()
            for server in self.servers:
                server.start()
            members.until("all brokers know each other", lambda: len(self.metadata().brokers) == BROKERS)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End everything at once."""
        for server in self.servers:
            server.stop(signal.SIGKILL)
        self.zookeeper.kill()

    def kill(self, broker: int) -> None:
        """`kill -9`."""
        self.servers[broker].stop(signal.SIGKILL)
        self.stopped.add(broker)

    def start(self, broker: int) -> None:
        """Start a broker that was killed, and wait until it and all its replicas are in sync."""
        self.servers[broker].start()
        self.stopped.discard(broker)
        members.until("all replicas are in sync", self.is_whole)

    def metadata(self, broker: int | None = None) -> MetadataResponse:
        """What a broker says of the cluster, by default the first that runs."""
        asked = min(set(range(BROKERS)) - self.stopped) if broker is None else broker
        found: MetadataResponse = ask(self.servers[asked].port, MetadataRequest(topics=None), 12)
        return found

    def is_whole(self) -> bool:
        """Do all brokers say that all are there, with a controller, and all replicas in sync?"""
        return all(_is_whole(self.metadata(broker)) for broker in range(BROKERS))

    def leaders(self, topic: str) -> dict[int, int]:
        """The leader of each partition."""
        (found,) = [one for one in self.metadata().topics if one.name == topic]
        return {one.partition_index: one.leader_id for one in found.partitions}

    def replicas(self, topic: str) -> dict[int, list[int]]:
        """The replicas of each partition."""
        (found,) = [one for one in self.metadata().topics if one.name == topic]
        return {one.partition_index: list(one.replica_nodes) for one in found.partitions}


def _is_whole(seen: MetadataResponse) -> bool:
    return (
        len(seen.brokers) == BROKERS
        and seen.controller_id >= 0
        and all(
            one.leader_id >= 0 and set(one.isr_nodes) == set(one.replica_nodes)
            for topic in seen.topics
            for one in topic.partitions
        )
    )


def cluster_or_skip(directory: Path) -> ClusterOfProcesses:
    """A cluster that is not started; skips, by name, without kazoo."""
    pytest.importorskip("kazoo")
    return ClusterOfProcesses(directory)
