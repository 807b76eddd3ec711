"""What brokers of one cluster do for their replicas beyond copying: deletions, gauges, configs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from odradek.client import Producer
from odradek.errors.codes import ErrorCode
from odradek.testing import Cluster
from odradek.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

ALL = {0, 1, 2}


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with Cluster(3, replica_fetch_wait_max_ms=50) as cluster:
        yield cluster


def produce(cluster: Cluster, topic: str, count: int, *, acks: str = "all") -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, acks=acks) as producer:
        for sent in [producer.send(topic, value=b"%d" % number, partition=0) for number in range(count)]:
            sent.result(60)


def replica(cluster: Cluster, broker: int, topic: str, read: Any) -> Any:
    """What a broker's own replica says."""
    return cluster.broker(broker).call(lambda b: read(b.replicas.get(topic, 0)))


def gauge(cluster: Cluster, broker: int, name: str) -> float:
    values = cluster.broker(broker).metrics()
    (found,) = [value for key, value in values.items() if key[1] == name]
    return found


def delete_records(
    cluster: Cluster, broker: int, topic: str, offset: int, *, timeout_ms: int = 30_000
) -> tuple[ErrorCode, int]:
    """Ask a broker over a connection of another broker's."""
    other = next(one for one in cluster.live if one != broker and not cluster.is_cut(one, broker))
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)]
            )
        ],
        timeout_ms=timeout_ms,
    )

    def ask(asking: Any) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = asking.channels.to_broker(broker, "test").send(request, 2)
        return answer

    response = cluster.broker(other).call(ask)
    (found,) = response.topics[0].partitions
    return ErrorCode(found.error_code), found.low_watermark


# ---------------------------------------------------------------------- DeleteRecords


def test_records_are_deleted_on_all_replicas_before_the_answer(shared: Cluster) -> None:
    shared.create_topic("deleted")
    produce(shared, "deleted", 10)
    leader = shared.leader("deleted")
    assert delete_records(shared, leader, "deleted", 7) == (ErrorCode.NONE, 7)
    starts = {one: replica(shared, one, "deleted", lambda r: r.log.log_start_offset) for one in ALL}
    assert starts == {0: 7, 1: 7, 2: 7}
    assert delete_records(shared, leader, "deleted", 5) == (ErrorCode.NONE, 7)
    assert delete_records(shared, leader, "deleted", 11) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    follower = next(one for one in ALL if one != leader)
    assert delete_records(shared, follower, "deleted", 8) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


def test_a_replica_that_does_not_answer_is_waited_for_and_a_dead_one_is_not() -> None:
    with Cluster(3, replica_fetch_wait_max_ms=50, replica_socket_timeout_ms=500) as cluster:
        cluster.create_topic("deleted")
        produce(cluster, "deleted", 10)
        leader = cluster.leader("deleted")
        lost = next(one for one in sorted(ALL) if one not in (leader, cluster.controller))
        cluster.cut(lost, leader)
        error, low = delete_records(cluster, leader, "deleted", 6, timeout_ms=300)
        assert (error, low) == (ErrorCode.REQUEST_TIMED_OUT, 0)
        cluster.heal()
        assert delete_records(cluster, leader, "deleted", 6) == (ErrorCode.NONE, 6)
        cluster.kill(lost)
        cluster.wait_until(lambda: lost not in cluster.image(leader).brokers)
        assert delete_records(cluster, leader, "deleted", 9) == (ErrorCode.NONE, 9)
        cluster.restart(lost)
        cluster.wait_for_isr("deleted", ALL)
        cluster.wait_until(lambda: replica(cluster, lost, "deleted", lambda r: r.log.log_start_offset) == 9)


def test_a_death_ends_the_waiting_for_the_dead() -> None:
    with Cluster(3, replica_fetch_wait_max_ms=50) as cluster:
        cluster.create_topic("deleted")
        produce(cluster, "deleted", 10)
        leader = cluster.leader("deleted")
        lost = next(one for one in sorted(ALL) if one not in (leader, cluster.controller))
        cluster.pause(lost)

        asker = next(one for one in ALL if one not in (leader, lost))
        request = DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name="deleted", partitions=[DeleteRecordsPartition(partition_index=0, offset=6)]
                )
            ],
            timeout_ms=30_000,
        )
        waiting: list[asyncio.Future[Any]] = []
        cluster.broker(asker).call(
            lambda b: waiting.append(b.channels.to_broker(leader, "test").send(request, 2))
        )
        cluster.wait_until(lambda: replica(cluster, leader, "deleted", lambda r: r.log.log_start_offset) == 6)
        assert not waiting[0].done()
        cluster.expire(lost)
        cluster.wait_until(lambda: waiting[0].done())
        (found,) = waiting[0].result().topics[0].partitions
        assert (found.error_code, found.low_watermark) == (0, 6)
        cluster.resume(lost)


# ---------------------------------------------------------------------- gauges and configs


def test_gauges_tell_of_replicas_that_lag_and_of_the_controller() -> None:
    with Cluster(3, min_insync_replicas=3, replica_fetch_wait_max_ms=50) as cluster:
        cluster.create_topic("counted")
        leader = cluster.leader("counted")
        lost = next(one for one in sorted(ALL) if one not in (leader, cluster.controller))

        def sums(name: str) -> float:
            return sum(gauge(cluster, one, name) for one in cluster.live)

        cluster.wait_for_isr("counted", ALL)
        assert [gauge(cluster, leader, name) for name in ISR_GAUGES] == [0, 0, 1, 0]
        assert sums("ActiveControllerCount") == 1
        assert gauge(cluster, cluster.controller, "ActiveControllerCount") == 1
        assert gauge(cluster, cluster.controller, "ActiveBrokerCount") == 3
        assert sums("GlobalPartitionCount") == sums("GlobalTopicCount") == 1
        assert sums("MaxLag") == sums("FailedPartitionsCount") == 0
        cluster.kill(lost)
        cluster.wait_for_isr("counted", ALL - {lost})
        cluster.wait_until(lambda: gauge(cluster, leader, "UnderReplicatedPartitions") == 1)
        assert [gauge(cluster, leader, name) for name in ISR_GAUGES[1:3]] == [1, 0]
        assert sums("OfflinePartitionsCount") == 0
        cluster.restart(lost)
        cluster.wait_for_isr("counted", ALL)
        cluster.wait_until(lambda: gauge(cluster, leader, "UnderReplicatedPartitions") == 0)
        assert gauge(cluster, leader, "IsrExpandsPerSec") == 1
        for broker in sorted(ALL - {cluster.controller}):
            cluster.kill(broker)
        cluster.wait_until(lambda: cluster.partition("counted").isr in {(one,) for one in ALL})
        assert sums("ActiveControllerCount") == 1


ISR_GAUGES = [
    "UnderReplicatedPartitions",
    "UnderMinIsrPartitionCount",
    "AtMinIsrPartitionCount",
    "IsrExpandsPerSec",
]


def test_a_leader_counts_whom_it_leaves_out() -> None:
    with Cluster(
        3, replica_lag_time_max_ms=500, replica_fetch_wait_max_ms=100, replica_socket_timeout_ms=500
    ) as cluster:
        cluster.create_topic("counted")
        leader = cluster.leader("counted")
        lost = next(one for one in sorted(ALL) if one not in (leader, cluster.controller))
        cluster.cut(lost, leader)
        produce(cluster, "counted", 1, acks="1")
        cluster.wait_until(lambda: gauge(cluster, leader, "IsrShrinksPerSec") == 1)
        cluster.heal()
        cluster.wait_until(lambda: gauge(cluster, leader, "IsrExpandsPerSec") == 1)


def test_the_number_of_fetchers_changes_at_run_time(shared: Cluster) -> None:
    shared.create_topic("fetched", 8)

    def fetchers(broker: int) -> int:
        return shared.broker(broker).call(lambda b: len(b._membership.fetchers))

    shared.wait_until(lambda: all(fetchers(one) == 2 for one in ALL))
    shared.broker(0).call(
        lambda broker: broker.controller.event_queue.run(
            lambda: broker.controller.alter_config("brokers/<default>", {"num.replica.fetchers": "2"})
        )
    )
    shared.wait_until(lambda: all(fetchers(one) == 4 for one in ALL))
    produce(shared, "fetched", 5)
    assert {replica(shared, one, "fetched", lambda r: r.log.log_end_offset) for one in ALL} == {5}
