"""Replicas whose removal nobody tells their broker, over real connections: their folders are set aside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.client import Admin
from odradek.testing import Cluster

from .cluster_records import produce, read_alone

ALL = {0, 1, 2}
PARTITION = ("clicks", 0)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(
        3,
        data=tmp_path,
        min_insync_replicas=1,
        auto_leader_rebalance_enable=False,
        log_retention_check_interval_ms=200,
    ) as cluster:
        cluster.create_topic("clicks")
        produce(cluster, "clicks", [b"before"])
        yield cluster


def folder(cluster: Cluster, broker: int) -> Path:
    return cluster.broker(broker).call(lambda b: b.replicas.get(*PARTITION).log.directory)  # type: ignore[no-any-return]


def wait_for_stray(cluster: Cluster, path: Path) -> Path:
    """Wait until a replica's folder has gone by another name; return that."""
    found: list[Path] = cluster.wait_until(lambda: list(path.parent.glob("clicks-0.*-stray")) or None)
    assert not path.exists()
    return found[0]


def test_the_controller_dies_before_it_tells_of_a_removal(cluster: Cluster) -> None:
    controller = cluster.controller
    victim = min(ALL - {controller})
    others = tuple(sorted(ALL - {victim}))
    path = folder(cluster, victim)
    # It is written, and is said to everybody but the one whose replica goes.
    cluster.cut(controller, victim, one_way=True)
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.alter_partition_reassignments({PARTITION: others})
        cluster.wait_until(
            lambda: cluster.image(controller).partition(*PARTITION).replicas == others  # type: ignore[union-attr]
        )
    cluster.kill(controller)
    cluster.heal()
    kept = wait_for_stray(cluster, path)
    assert b"before" in (kept / "00000000000000000000.log").read_bytes()
    # Its own replica is one of the two; the other one leads.
    produce(cluster, "clicks", [b"after"])
    cluster.restart(controller)
    cluster.wait_for_isr("clicks", set(others))
    assert read_alone(cluster, "clicks", 2) == [b"before", b"after"]


@pytest.mark.parametrize("is_deleted", [False, True], ids=["topic stays", "topic deleted"])
def test_a_broker_comes_back_to_what_was_given_to_others(cluster: Cluster, is_deleted: bool) -> None:
    victim = min(ALL - {cluster.controller})
    others = tuple(sorted(ALL - {victim}))
    path = folder(cluster, victim)
    cluster.kill(victim)
    cluster.wait_for_isr("clicks", set(others))
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.alter_partition_reassignments({PARTITION: others})
        cluster.wait_until(lambda: set(cluster.partition("clicks").replicas) == set(others))
        if is_deleted:
            admin.delete_topics(["clicks"])
            cluster.wait_until(
                lambda: all(cluster.image(one).topic("clicks") is None for one in cluster.live)
            )
        cluster.restart(victim)
        wait_for_stray(cluster, path)
        if is_deleted:
            return
        # Given the partition again, it has everything from the leader.
        produce(cluster, "clicks", [b"after"])
        admin.alter_partition_reassignments({PARTITION: (*others, victim)})
        cluster.wait_for_isr("clicks", ALL)
    assert folder(cluster, victim) == path
    for one in others:
        cluster.kill(one)
    cluster.wait_until(lambda: cluster.partition("clicks").leader == victim)
    assert read_alone(cluster, "clicks", 2) == [b"before", b"after"]
