"""Spark's exactly-once writes, while leaders, coordinators and the controller are killed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cluster_processes import ClusterProcesses
from odradek import NewTopic
from scenarios.faults.page import Page, Row
from spark.exactly_once_kills import Job, rows_coming, values

pytestmark = [pytest.mark.slow, pytest.mark.faults, pytest.mark.spark]
SETTINGS = {"transaction.two.phase.commit.enable": "true"}
TRANSACTIONS = "__transaction_state"
ROUNDS = 2
MORE_ROWS = 100
SPARK_S = 300
"""Only ever reached by what is broken: Spark's start takes most of a minute on a busy machine."""


def leader_of(topic: str) -> Callable[[ClusterProcesses], int]:
    """The broker that leads the first partition of a topic."""
    return lambda cluster: cluster.await_whole(topic).leader


VICTIMS: tuple[Callable[[ClusterProcesses], int], ...] = (
    leader_of("target"),
    leader_of(TRANSACTIONS),
    leader_of("source"),
    ClusterProcesses.controller,
)


class Brokers:
    """What `Job.finish` has started again where it is dead: here the test does that."""

    def revive(self) -> None:
        """Nothing to do."""


def test_each_row_is_there_once(tmp_path: Path, page: Page) -> None:
    for name in ("kill", "workers"):
        (tmp_path / name).mkdir()
    with ClusterProcesses(tmp_path, settings=SETTINGS) as cluster:
        servers = cluster.bootstrap_servers
        with cluster.admin() as admin:
            admin.create_topics([NewTopic(name, 2, 3) for name in ("source", "target")])
        job = Job(tmp_path, servers, ["local[2,4]"], "killed_job.py")

        def go_on() -> None:
            before = values(servers, "target", "read_committed").total()

            def look() -> bool:
                job.revive()
                return values(servers, "target", "read_committed").total() >= before + MORE_ROWS

            cluster.wait_until(look, SPARK_S)

        kills = 0
        try:
            with rows_coming(servers):
                go_on()
                for victim in VICTIMS * ROUNDS:
                    broker = victim(cluster)
                    cluster.kill(broker)
                    kills += 1
                    go_on()
                    cluster.start(broker)
                    cluster.await_all_whole("target")
            job.finish(Brokers())  # type: ignore[arg-type]
        finally:
            job.kill()
        expected = values(servers, "source", "read_uncommitted")
        found = values(servers, "target", "read_committed")
    lost, more = expected - found, found - expected
    page.add(
        Row(
            "leaders, transaction coordinators and the controller killed",
            "Spark, exactly-once",
            kills,
            expected.total(),
            lost.total() + more.total(),
            f"{kills} kills, {job.starts} start(s) of Spark's driver; every row of the source there once",
        )
    )
    assert not lost and not more, f"{tmp_path}: {list(lost)[:5]} are missing, {list(more)[:5]} too many"
