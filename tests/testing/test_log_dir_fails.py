"""A data folder of one of several brokers fails: what the controller hears, and who goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from odradek.client import Admin
from odradek.cluster.store.memory import MemoryStore
from odradek.cluster.store.store import Create, Op, OpResult
from odradek.testing import Cluster

from .cluster_records import produce, read

ALL = {0, 1, 2}
PARTITIONS = 4


def make_unwritable(folder: Path) -> None:
    """Have all that is created in a folder fail; permissions would not keep root out."""
    folder.rename(folder.with_name(f"{folder.name}.away"))
    folder.write_bytes(b"in its place")


def repair(folder: Path) -> None:
    folder.unlink()
    folder.with_name(f"{folder.name}.away").rename(folder)


def note_events(cluster: Cluster, broker: int) -> list[object]:
    """What a broker says by `/log_dir_event_notification` from now on."""
    store = cluster.broker(broker).call(lambda b: b.controller.store)
    multi, events = store.multi, []

    def noting(ops: list[Op]) -> list[OpResult]:
        events.extend(
            json.loads(op.data)
            for op in ops
            if isinstance(op, Create) and op.data and op.path.startswith("/log_dir_event_notification/")
        )
        done: list[OpResult] = multi(ops)
        return done

    store.multi = noting
    return events


def isr(store: MemoryStore, index: int) -> set[int]:
    """As it stands in the store: of old, leaders write it themselves, and tell the controller later."""
    data, _ = store.get(f"/brokers/topics/clicks/partitions/{index}/state")
    return set(json.loads(data or b"")["isr"])


@pytest.mark.parametrize("protocol", ["3.9", "2.6"])
@pytest.mark.parametrize("who", ["leader", "follower", "controller"])
def test_others_take_over_and_the_rest_is_served(who: str, protocol: str, tmp_path: Path) -> None:
    with Cluster(
        3,
        data=tmp_path,
        folders=2,
        min_insync_replicas=2,
        inter_broker_protocol_version=protocol,
        replica_high_watermark_checkpoint_interval_ms=50,
        auto_leader_rebalance_enable=False,
    ) as cluster:
        cluster.create_topic("clicks", PARTITIONS)
        produce(cluster, "clicks", [b"before"])
        leader, controller = cluster.leader("clicks"), cluster.controller
        victim = {
            "leader": leader,
            "follower": next(one for one in sorted(ALL) if one not in (leader, controller)),
            "controller": controller,
        }[who]
        homes = cluster.broker(victim).call(
            lambda b: {i: b.replicas.get("clicks", i).log.directory.parent for i in range(PARTITIONS)}
        )
        lost = {index for index, home in homes.items() if home == homes[0]}
        assert lost < set(range(PARTITIONS))
        events = note_events(cluster, victim)
        store = MemoryStore(cluster.server)

        make_unwritable(homes[0])
        # Nothing else is written there perhaps: its broker would not notice.
        produce(cluster, "clicks", [b"noticed"])

        for index in range(PARTITIONS):
            wanted = ALL - {victim} if index in lost else ALL
            cluster.wait_until(lambda index=index, wanted=wanted: isr(store, index) == wanted)
            assert (cluster.leader("clicks", index) == victim) <= (index not in lost)
        assert events == [{"version": 1, "broker": victim, "event": 1}]
        cluster.wait_until(lambda: not store.children("/log_dir_event_notification"))
        produce(cluster, "clicks", [b"meanwhile"])
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            found = admin.describe_log_dirs([victim])[victim]
            assert {path for path, one in found.items() if one.error is not None} == {str(homes[0])}
        # The controller that comes next asks again, and is told again.
        cluster.kill(cluster.controller) if cluster.controller != victim else cluster.expire(victim)
        cluster.wait_until(lambda: cluster.partition("clicks").leader not in (-1, victim))
        assert victim not in isr(store, 0)

        for one in sorted(ALL - set(cluster.live)):
            cluster.restart(one)
        cluster.stop(victim)
        repair(homes[0])
        cluster.restart(victim)
        for index in range(PARTITIONS):
            cluster.wait_until(lambda index=index: isr(store, index) == ALL)
        assert read(cluster, "clicks", 3) == [b"before", b"noticed", b"meanwhile"]
        store.close()


@pytest.mark.parametrize("restarts", [False, True], ids=["goes on", "starts without the folder"])
def test_a_replica_that_is_given_back_waits_for_its_folder(restarts: bool, tmp_path: Path) -> None:
    """Made anew in the other folder it would be there twice, and its broker would not start any more."""
    with Cluster(
        3, data=tmp_path, folders=2, min_insync_replicas=2, auto_leader_rebalance_enable=False
    ) as cluster:
        cluster.create_topic("clicks", PARTITIONS)
        produce(cluster, "clicks", [b"before"])
        victim = min(ALL - {cluster.leader("clicks"), cluster.controller})
        others = tuple(sorted(ALL - {victim}))
        home = cluster.broker(victim).call(lambda b: b.replicas.get("clicks", 0).log.directory)
        make_unwritable(home.parent)
        # Nothing else is written there perhaps: its broker would not notice.
        produce(cluster, "clicks", [b"noticed"])
        cluster.wait_for_isr("clicks", set(others))
        if restarts:
            cluster.kill(victim)
            cluster.restart(victim)

        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.alter_partition_reassignments({("clicks", 0): others})
            cluster.wait_until(lambda: set(cluster.partition("clicks").replicas) == set(others))
            admin.alter_partition_reassignments({("clicks", 0): (*others, victim)})
            cluster.wait_until(
                lambda: cluster.broker(victim).call(lambda b: ("clicks", 0) in b.replicas.offline)
            )
            produce(cluster, "clicks", [b"meanwhile"])
            assert set(cluster.partition("clicks").isr) == set(others)
            cluster.stop(victim)
            repair(home.parent)
            cluster.restart(victim)
            cluster.wait_for_isr("clicks", ALL)
        assert cluster.broker(victim).call(lambda b: b.replicas.get("clicks", 0).log.directory) == home
        assert read(cluster, "clicks", 3) == [b"before", b"noticed", b"meanwhile"]
