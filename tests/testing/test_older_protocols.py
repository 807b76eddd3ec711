"""Clusters whose brokers talk as older releases do (`inter.broker.protocol.version`)."""

from __future__ import annotations

import json

import pytest

from odradek.client import Producer
from odradek.cluster.inter_broker_versions import at_least
from odradek.cluster.store.memory import MemoryStore
from odradek.testing import Cluster

ALL = {0, 1, 2}

# By id or by name, by AlterPartition or by the states' nodes, cut by Fetch or by OffsetForLeaderEpoch; the
# requests of the controller in their oldest versions, and logs that know no epochs.
PROTOCOLS = ["2.8", "2.7", "2.6", "2.2", "0.11.0", "0.10.0"]


def produce(cluster: Cluster, protocol: str, count: int) -> None:
    # Messages of before 0.11 have no room for the numbers of idempotent producers.
    idempotent = at_least(protocol, "0.11.0-IV0")
    with Producer(
        bootstrap_servers=cluster.bootstrap_servers, acks="all", enable_idempotence=idempotent
    ) as producer:
        for sent in [producer.send("clicks", value=b"%d" % number) for number in range(count)]:
            sent.result(60)


def ends(cluster: Cluster) -> set[int]:
    """The high watermarks of all replicas."""
    return {
        cluster.broker(one).call(lambda b: b.replicas.get("clicks", 0).log.high_watermark)
        for one in cluster.live
    }


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_followers_leave_and_come_and_a_dead_leader_loses_nothing(protocol: str) -> None:
    with Cluster(
        3,
        inter_broker_protocol_version=protocol,
        replica_lag_time_max_ms=500,
        replica_fetch_wait_max_ms=100,
        replica_socket_timeout_ms=500,
    ) as cluster:
        cluster.create_topic("clicks")
        produce(cluster, protocol, 10)
        leader = cluster.leader("clicks")
        lost = next(broker for broker in sorted(ALL) if broker not in (leader, cluster.controller))
        cluster.cut(lost, leader)
        produce(cluster, protocol, 10)
        # Who writes the ISR itself tells the controller five seconds later.
        store = MemoryStore(cluster.server)

        def isr() -> set[int]:
            data, _ = store.get("/brokers/topics/clicks/partitions/0/state")
            return set(json.loads(data or b"")["isr"])

        cluster.wait_until(lambda: isr() == ALL - {lost})
        cluster.heal()
        cluster.wait_until(lambda: isr() == ALL)
        cluster.kill(leader)
        produce(cluster, protocol, 10)
        cluster.restart(leader)
        cluster.wait_until(lambda: isr() == ALL)
        cluster.wait_until(lambda: ends(cluster) == {30})
        store.close()
