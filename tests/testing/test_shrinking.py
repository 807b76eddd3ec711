"""Fewer replicas while records are written, behind throttles that stop all; the preferred replica leads."""

from __future__ import annotations

from odradek.client import Admin, Producer
from odradek.testing import Cluster

from .cluster_records import produce, read_alone

ALL = {0, 1, 2}


def test_a_throttle_holds_no_shrink_back_and_the_preferred_replica_leads() -> None:
    with (
        Cluster(
            3,
            leader_imbalance_check_interval_seconds=1,
            leader_imbalance_per_broker_percentage=0,
            # A throttle that has been exceeded once stays so.
            replication_quota_window_size_seconds=3_600,
        ) as cluster,
        Admin(bootstrap_servers=cluster.bootstrap_servers) as admin,
        Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer,
    ):
        cluster.create_topic("clicks")
        produce(cluster, "clicks", [b"%d" % number for number in range(10)])
        first, second, third = cluster.partition("clicks").replicas
        throttles = {f"{side}.replication.throttled.rate": "1" for side in ("leader", "follower")}
        admin.incremental_alter_configs(
            {("broker", str(broker)): throttles for broker in sorted(ALL)}
            | {
                ("topic", "clicks"): {
                    f"{side}.replication.throttled.replicas": "*" for side in ("leader", "follower")
                }
            }
        )
        sent = [producer.send("clicks", value=b"%d" % number, partition=0) for number in range(10, 20)]
        admin.alter_partition_reassignments({("clicks", 0): [third, first]})
        sent += [producer.send("clicks", value=b"%d" % number, partition=0) for number in range(20, 30)]
        for one in sent:
            one.result(60)
        cluster.wait_until(lambda: cluster.partition("clicks").replicas == (third, first))
        assert not admin.list_partition_reassignments()
        cluster.wait_until(lambda: cluster.broker(second).call(lambda b: b.logs.get("clicks", 0)) is None)
        cluster.wait_until(lambda: cluster.partition("clicks").leader == third)
        cluster.wait_for_isr("clicks", {first, third})
        assert read_alone(cluster, "clicks", 30) == [b"%d" % number for number in range(30)]
