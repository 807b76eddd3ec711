"""Replicas of a cluster move between folders of their brokers (KIP-113): leaders, followers, under load."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.client import Admin, Producer
from odradek.testing import Cluster

from .cluster_records import produce, read_alone

ALL = {0, 1, 2}
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LARGE = bytes(900_000)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(
        3,
        data=tmp_path_factory.mktemp("moves"),
        folders=2,
        # What a test before has copied soon counts no more.
        alter_log_dirs_replication_quota_window_num=2,
        auto_leader_rebalance_enable=False,
    ) as cluster:
        yield cluster


def home(cluster: Cluster, broker: int, topic: str) -> Path:
    found: Path = cluster.broker(broker).call(lambda b: b.replicas.get(topic, 0).log.directory.parent)
    return found


def other_folder(cluster: Cluster, broker: int, topic: str) -> Path:
    (other,) = set(cluster.broker(broker).call(lambda b: b.logs.data_dirs)) - {home(cluster, broker, topic)}
    return other


def one_of(cluster: Cluster, topic: str, who: str) -> int:
    leader = cluster.leader(topic)
    return leader if who == "leader" else min(ALL - {leader})


def copies(cluster: Cluster, broker: int, topic: str) -> int:
    """How many bytes have been copied by a move that is under way; -1 where none is."""
    moves = cluster.broker(broker).call(lambda b: [m for m in b.logs.moves.all() if m.key == (topic, 0)])
    return moves[0].bytes_copied if moves else -1


def begin_slowly(cluster: Cluster, admin: Admin, broker: int, topic: str, wanted: Path) -> None:
    """Begin a move that lasts until its rate is given back."""
    admin.incremental_alter_configs({("broker", str(broker)): {RATE: "1"}})
    cluster.wait_until(
        lambda: cluster.broker(broker).call(
            lambda b: b.config.replica_alter_log_dirs_io_max_bytes_per_second == 1
        )
    )
    admin.alter_replica_log_dirs({(topic, 0, broker): str(wanted)})
    cluster.wait_until(lambda: copies(cluster, broker, topic) > 0)


def read_from(cluster: Cluster, broker: int, topic: str, expected: int) -> list[bytes]:
    """What this broker's replica has: it alone lives meanwhile."""
    others = sorted(ALL - {broker})
    for one in others:
        cluster.kill(one)
    cluster.wait_until(lambda: cluster.partition(topic).leader == broker)
    values = read_alone(cluster, topic, expected)
    for one in others:
        cluster.restart(one)
    cluster.wait_for_isr(topic, ALL)
    return values


@pytest.mark.parametrize("who", ["leader", "follower"])
def test_under_load_nothing_is_missed(cluster: Cluster, who: str) -> None:
    topic = f"under-load-{who}"
    cluster.create_topic(topic)
    produce(cluster, topic, [LARGE] * 10)
    broker = one_of(cluster, topic, who)
    leader, epoch = cluster.leader(topic), cluster.partition(topic).leader_epoch
    wanted = other_folder(cluster, broker, topic)
    count = 10
    with (
        Admin(bootstrap_servers=cluster.bootstrap_servers) as admin,
        Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer,
    ):
        admin.alter_replica_log_dirs({(topic, 0, broker): str(wanted)})
        # Go on until it is there, and a little longer.
        while home(cluster, broker, topic) != wanted or count < 30:
            producer.send(topic, value=b"%d" % count, partition=0).result(60)
            count += 1
    assert (cluster.leader(topic), cluster.partition(topic).leader_epoch) == (leader, epoch)
    assert set(cluster.partition(topic).isr) == ALL
    # Whoever has moved has everything.
    expected = [LARGE] * 10 + [b"%d" % n for n in range(10, count)]
    assert read_from(cluster, broker, topic, count) == expected


@pytest.mark.parametrize("how", ["killed", "stopped"])
@pytest.mark.parametrize("who", ["leader", "follower"])
def test_a_restart_in_the_middle_of_a_move(cluster: Cluster, who: str, how: str) -> None:
    topic = f"{how}-{who}"
    cluster.create_topic(topic)
    produce(cluster, topic, [LARGE] * 10)
    broker = one_of(cluster, topic, who)
    start, wanted = home(cluster, broker, topic), other_folder(cluster, broker, topic)
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        begin_slowly(cluster, admin, broker, topic, wanted)
        assert home(cluster, broker, topic) == start
        if how == "killed":
            cluster.kill(broker)
        else:
            cluster.stop(broker)
        produce(cluster, topic, [b"meanwhile"])
        cluster.restart(broker)
        # The move is gone on with, and still held up.
        assert copies(cluster, broker, topic) >= 0
        cluster.wait_for_isr(topic, ALL)
        admin.incremental_alter_configs({("broker", str(broker)): {RATE: None}})
        cluster.wait_until(lambda: home(cluster, broker, topic) == wanted)
        assert not list(start.glob(f"{topic}-0*-future"))
    assert read_from(cluster, broker, topic, 11) == [LARGE] * 10 + [b"meanwhile"]


def test_the_lead_changes_in_the_middle_of_a_move(cluster: Cluster) -> None:
    """The copy follows the log, wherever it is cut to."""
    topic = "lead-changes"
    cluster.create_topic(topic)
    produce(cluster, topic, [LARGE] * 10)
    broker = cluster.leader(topic)
    wanted = other_folder(cluster, broker, topic)
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        begin_slowly(cluster, admin, broker, topic, wanted)
        cluster.expire(broker)
        cluster.wait_until(lambda: cluster.partition(topic).leader not in (-1, broker))
        produce(cluster, topic, [b"meanwhile"])
        cluster.wait_for_isr(topic, ALL)
        assert copies(cluster, broker, topic) >= 0
        admin.incremental_alter_configs({("broker", str(broker)): {RATE: None}})
        cluster.wait_until(lambda: home(cluster, broker, topic) == wanted)
    assert read_from(cluster, broker, topic, 11) == [LARGE] * 10 + [b"meanwhile"]
