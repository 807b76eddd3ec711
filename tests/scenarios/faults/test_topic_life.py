"""Topics that are deleted and created again while a replica is away, and grow under load."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cluster_processes import ClusterProcesses
from odradek import Consumer, NewTopic, Producer
from odradek.client.types import TopicPartition
from scenarios.faults.conftest import Judged
from scenarios.faults.page import Page, Row
from scenarios.faults.workloads import TOPIC, Workload

pytestmark = [pytest.mark.slow, pytest.mark.faults]
LIFE = "life"
RECORDS = 50


def produce(cluster: ClusterProcesses, prefix: str) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer:
        for sent in [producer.send(LIFE, f"{prefix} {n}", partition=0) for n in range(RECORDS)]:
            sent.result(90)


def read(cluster: ClusterProcesses) -> list[str]:
    with Consumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        partition = TopicPartition(LIFE, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        found: list[str] = []

        def look() -> bool:
            found.extend(one.value.decode() for one in consumer.poll(100))
            return len(found) >= RECORDS

        cluster.wait_until(look)
        return found


class Life:
    """A topic that is deleted and created again.

    Args:
        cluster: of three brokers; broker 2 is the one that is away meanwhile.
    """

    AWAY = 2

    def __init__(self, cluster: ClusterProcesses) -> None:
        self._cluster = cluster

    def create(self, *replicas: int) -> None:
        topic = NewTopic(LIFE, replica_assignment={0: list(replicas)}, configs={"min.insync.replicas": "1"})
        with self._cluster.admin() as admin:
            admin.create_topics([topic])
        self._cluster.forget_epochs()
        self.await_replicas(*replicas)

    def await_replicas(self, *replicas: int) -> None:
        """Wait until these are its replicas, and all of them in sync."""
        self._cluster.await_partition(
            LIFE,
            lambda one: one.leader >= 0 and set(one.in_sync_replicas) == set(one.replicas) == set(replicas),
        )

    def delete(self) -> None:
        with self._cluster.admin() as admin:
            admin.delete_topics([LIFE])

    def await_gone(self) -> None:
        def look() -> bool:
            with self._cluster.admin() as admin:
                return LIFE not in admin.list_topics()

        self._cluster.wait_until(look)

    def reassign(self, *replicas: int) -> None:
        with self._cluster.admin() as admin:
            admin.alter_partition_reassignments({TopicPartition(LIFE, 0): replicas})
        self.await_replicas(*replicas)


def waits_for_the_replica(life: Life, cluster: ClusterProcesses) -> None:
    """A deleted topic stays until all its replicas are gone, as in Kafka; another controller goes on."""
    life.delete()
    controller = cluster.controller()
    cluster.kill(controller)
    cluster.start(Life.AWAY, controller)
    life.await_gone()
    life.create(0, 1, 2)
    produce(cluster, "new")


def moved_before(life: Life, cluster: ClusterProcesses) -> None:
    """The replica is given up first, so the topic goes at once; its folder comes back."""
    life.reassign(0, 1)
    life.delete()
    life.await_gone()
    cluster.start(Life.AWAY)
    life.create(0, 1, 2)
    produce(cluster, "new")


def created_before_it_is_back(life: Life, cluster: ClusterProcesses) -> None:
    """The topic is there again when the old folder comes back, and then moves to that broker."""
    life.reassign(0, 1)
    life.delete()
    life.await_gone()
    life.create(0, 1)
    produce(cluster, "new")
    cluster.start(Life.AWAY)
    life.reassign(0, 1, 2)


LIVES = (
    ("created again when it is back, controller killed between", waits_for_the_replica),
    ("which had been given up, and created again when its broker is back", moved_before),
    (
        "which had been given up, created again, and moved to its broker when that is back",
        created_before_it_is_back,
    ),
)


@pytest.mark.parametrize(("story", "live"), LIVES, ids=[live.__name__ for _, live in LIVES])
@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_old_records_never_come_back(
    tmp_path: Path, page: Page, how: str, story: str, live: Callable[[Life, ClusterProcesses], None]
) -> None:
    """Also when the replica that was away leads, and is the only one there."""
    with ClusterProcesses(tmp_path) as cluster:
        life = Life(cluster)
        life.create(0, 1, 2)
        produce(cluster, "old")
        (cluster.kill if how == "killed" else cluster.stop)(Life.AWAY)
        cluster.await_partition(LIFE, lambda one: Life.AWAY not in one.in_sync_replicas)
        live(life, cluster)
        life.await_replicas(0, 1, 2)
        wanted = [f"new {n}" for n in range(RECORDS)]
        assert read(cluster) == wanted
        cluster.kill(0, 1)
        cluster.await_partition(LIFE, lambda one: one.leader == Life.AWAY)
        found = read(cluster)
        page.add(
            Row(
                f"topic deleted while a replica is {how}, {story}",
                "idempotent",
                2,
                2 * RECORDS,
                len(set(found) ^ set(wanted)),
                "read from the replica that was away, the only one left",
            )
        )
        assert found == wanted


@pytest.mark.parametrize("workload", [Workload(), Workload("gzip", transactional=True)], ids=str)
def test_a_topic_grows_under_load(judged: Judged, workload: Workload) -> None:
    with judged(
        "topic grown from 2 to 8 partitions under load, leader killed meanwhile", workload, partitions=2
    ) as run:
        leader = run.leader()
        with run.cluster.admin() as admin:
            admin.create_partitions({TOPIC: 8})
        run.cluster.kill(leader)
        run.writing.partitions = 8
        run.writing.go_on(30)
        run.cluster.start(leader)
        run.cluster.await_all_whole(TOPIC)
