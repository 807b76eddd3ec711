"""A scenario while it goes on."""

from __future__ import annotations

from dataclasses import dataclass, field

from cluster_processes import ClusterProcesses
from odradek.testing.checker import Recorder
from scenarios.faults.workloads import TOPIC, Reading, Writing


@dataclass
class Run:
    """A cluster under load.

    Attributes:
        notes: what the page is to tell of it.
        lost: anomalies that the scenario brings about on purpose; how many records are lost is noted.
        since: the event of the history after which nothing was lost.
    """

    cluster: ClusterProcesses
    writing: Writing
    reading: Reading
    recorder: Recorder
    notes: list[str] = field(default_factory=list)
    lost: frozenset[str] = frozenset()
    since: int = 0

    def leader(self) -> int:
        """The leader of partition 0, when all its replicas are in sync."""
        return self.cluster.await_whole(TOPIC).leader

    def follower(self) -> int:
        """A broker that follows partition 0."""
        partition = self.cluster.await_whole(TOPIC)
        return next(one for one in partition.replicas if one != partition.leader)

    def await_out_of_sync(self, broker: int, index: int = 0) -> None:
        """Wait until a broker is not in the in-sync set."""
        self.cluster.await_partition(TOPIC, lambda one: broker not in one.in_sync_replicas, index)

    def await_other_leader(self, broker: int, index: int = 0) -> None:
        """Wait until another broker leads."""
        self.cluster.await_partition(TOPIC, lambda one: one.leader not in (-1, broker), index)
