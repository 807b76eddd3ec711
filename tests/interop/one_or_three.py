"""A broker alone, or three: a program that lives on them loses the leader of a topic, and gets it back."""

from __future__ import annotations

import signal
from typing import Protocol

from interop import members
from interop.cluster_of_processes import ClusterOfProcesses
from interop.conftest import OdradekServer


class Brokers(Protocol):
    """What programs live on.

    Attributes:
        survive: there is a leader while one is dead.
        restart: what stands under `broker restart` of those that lived through it.
    """

    survive: bool
    restart: str

    @property
    def bootstrap_servers(self) -> str:
        """All of them."""
        ...

    def kill_leader(self, topic: str) -> None:
        """`kill -9` of the broker that leads partition 0."""
        ...

    def start_again(self) -> None:
        """Start the one that was killed."""
        ...


class One:
    """A broker alone."""

    survive = False
    restart = "yes"

    def __init__(self, server: OdradekServer) -> None:
        self._server = server
        self.bootstrap_servers = server.bootstrap_servers

    def kill_leader(self, topic: str) -> None:
        self._server.stop(signal.SIGKILL)

    def start_again(self) -> None:
        self._server.start()


class Three:
    """A cluster of three."""

    survive = True
    restart = "one of three killed"

    def __init__(self, cluster: ClusterOfProcesses) -> None:
        self._cluster = cluster
        self._killed = -1
        self.bootstrap_servers = cluster.bootstrap_servers

    def kill_leader(self, topic: str) -> None:
        self._killed = self._cluster.leaders(topic)[0]
        self._cluster.kill(self._killed)
        members.until("another leads", lambda: self._cluster.leaders(topic)[0] not in (-1, self._killed))

    def start_again(self) -> None:
        self._cluster.start(self._killed)
