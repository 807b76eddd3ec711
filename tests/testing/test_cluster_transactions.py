"""Transactions and idempotent producers while brokers of their cluster die, stop and come back.

Beside each there is what a read_committed consumer sees: what is committed, once, in order, and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from odradek.client import (
    Admin,
    AsyncProducer,
    Consumer,
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
)
from odradek.coordinators.partitioner import partition_for
from odradek.errors import KafkaError
from odradek.testing import Cluster

ALL = {0, 1, 2}
OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
PARTITIONS = 3


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(3, min_insync_replicas=2) as cluster:
        cluster.create_topic("clicks", PARTITIONS)
        yield cluster


def coordinator(cluster: Cluster, topic: str, name: str) -> int:
    """The broker that coordinates a group or a transactional id, once there is one."""
    cluster.wait_until(lambda: cluster.image(cluster.live[0]).topic(topic))
    count = len(cluster.image(cluster.live[0]).topics[topic].partitions)
    return cluster.leader(topic, partition_for(name, count))


def transactional(cluster: Cluster, name: str = "payments") -> Producer:
    return Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=name)


def send(producer: Producer, numbers: range) -> None:
    for number in numbers:
        producer.send("clicks", value=b"%d" % number, partition=number % PARTITIONS)
    producer.flush()


def committed(cluster: Cluster) -> list[list[int]]:
    """What a read_committed consumer reads of each partition, up to its end."""
    partitions = [TopicPartition("clicks", index) for index in range(PARTITIONS)]
    found: list[list[int]] = [[] for _ in partitions]
    with Consumer(
        bootstrap_servers=cluster.bootstrap_servers,
        isolation_level="read_committed",
        enable_auto_commit=False,
    ) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)

        def poll() -> bool:
            for record in consumer.poll(100):
                found[record.partition].append(int(record.value))
            return all(consumer.position(one) >= end for one, end in ends.items())

        def stable_ends() -> dict[TopicPartition, int] | None:
            """Their ends, once no transaction is open."""
            stable = consumer.end_offsets(partitions)
            with Consumer(bootstrap_servers=cluster.bootstrap_servers) as uncommitted:
                return stable if uncommitted.end_offsets(partitions) == stable else None

        ends = cluster.wait_until(stable_ends)
        cluster.wait_until(poll)
    return found


def expected(*ranges: range) -> list[list[int]]:
    numbers = [number for one in ranges for number in one]
    return [[number for number in numbers if number % PARTITIONS == index] for index in range(PARTITIONS)]


def all_in_sync(cluster: Cluster) -> None:
    for topic in ("clicks", TRANSACTIONS):
        for index in range(len(cluster.image(cluster.controller).topics[topic].partitions)):
            cluster.wait_for_isr(topic, ALL, index)


def faults(cluster: Cluster) -> dict[str, tuple[int, Callable[[int], None]]]:
    """Over whom each fault comes."""
    at = coordinator(cluster, TRANSACTIONS, "payments")
    return {
        "the coordinator dies": (at, cluster.kill),
        "the coordinator stops": (at, cluster.stop),
        "a leader dies": (cluster.leader("clicks"), cluster.kill),
        "the controller dies": (cluster.controller, cluster.kill),
    }


FAULTS = ["the coordinator dies", "the coordinator stops", "a leader dies", "the controller dies"]


@pytest.mark.parametrize("fault", FAULTS)
def test_open_transactions_outlive_a_broker(cluster: Cluster, fault: str) -> None:
    with transactional(cluster) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        send(producer, range(30))
        victim, end = faults(cluster)[fault]
        end(victim)
        send(producer, range(30, 60))
        producer.commit_transaction()
        producer.begin_transaction()
        send(producer, range(1000, 1030))
        producer.abort_transaction()
        cluster.restart(victim)
        all_in_sync(cluster)
        producer.begin_transaction()
        send(producer, range(60, 90))
        victim, end = faults(cluster)[fault]
        end(victim)
        producer.abort_transaction()
        producer.begin_transaction()
        send(producer, range(90, 120))
        producer.commit_transaction()
    assert committed(cluster) == expected(range(60), range(90, 120))


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "abort"])
def test_what_was_decided_is_completed_by_the_next_coordinator(cluster: Cluster, commits: bool) -> None:
    """The coordinator dies between its decision and the markers, which do not get through to others."""
    with transactional(cluster) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        send(producer, range(30))
        at = coordinator(cluster, TRANSACTIONS, "payments")
        for other in sorted(ALL - {at}):
            # Its followers go on fetching from it: what it decides is committed.
            cluster.cut(at, other, one_way=True)
        if commits:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            state = admin.describe_transactions(["payments"])["payments"].state
        assert state == ("PrepareCommit" if commits else "PrepareAbort")
        cluster.kill(at)
        cluster.heal()
        assert committed(cluster) == expected(range(30) if commits else range(0))
        producer.begin_transaction()
        send(producer, range(30, 60))
        producer.commit_transaction()
    assert committed(cluster) == expected(range(30 if not commits else 0, 60))


def test_a_producer_is_fenced_by_its_successor_on_another_coordinator(cluster: Cluster) -> None:
    with transactional(cluster) as first:
        first.init_transactions()
        first.begin_transaction()
        send(first, range(30))
        cluster.kill(coordinator(cluster, TRANSACTIONS, "payments"))
        with transactional(cluster) as second:
            second.init_transactions()
            second.begin_transaction()
            send(second, range(30, 60))
            with pytest.raises(KafkaError) as fenced:
                first.commit_transaction()
            assert fenced.value.fatal
            second.commit_transaction()
    assert committed(cluster) == expected(range(30, 60))


def test_offsets_belong_to_a_transaction_whoever_coordinates_the_group(cluster: Cluster) -> None:
    with transactional(cluster) as producer:
        producer.init_transactions()
        cluster.create_topic(OFFSETS, 5)
        cluster.create_topic("source")
        at = coordinator(cluster, TRANSACTIONS, "payments")
        groups = (f"group-{number}" for number in range(100))
        group = next(one for one in groups if coordinator(cluster, OFFSETS, one) != at)
        of = TopicPartition("source", 0)

        def offset() -> int | None:
            with Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id=group) as consumer:
                found = consumer.committed([of])[of]
                return None if found is None else found.offset

        for number, commits in enumerate([True, False, True, False], 1):
            producer.begin_transaction()
            send(producer, range(30 * number, 30 * number + 30))
            producer.send_offsets_to_transaction(
                {of: OffsetAndMetadata(number)}, ConsumerGroupMetadata(group)
            )
            if number == 3:
                cluster.kill(coordinator(cluster, OFFSETS, group))
            if commits:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
            wanted = number if commits else number - 1
            cluster.wait_until(lambda wanted=wanted: offset() == wanted)
    assert committed(cluster) == expected(range(30, 60), range(90, 120))


def test_an_idempotent_producer_writes_once_in_order_through_its_leaders_deaths(cluster: Cluster) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, enable_idempotence=True) as producer:
        sent = []
        for round_ in range(3):
            start = 300 * round_
            sent += [
                producer.send("clicks", value=b"%d" % number, partition=number % PARTITIONS)
                for number in range(start, start + 300)
            ]
            victim = cluster.leader("clicks", round_)
            cluster.kill(victim)
            for one in sent:
                one.result(60)
            cluster.restart(victim)
            for index in range(PARTITIONS):
                cluster.wait_for_isr("clicks", ALL, index)
    assert committed(cluster) == expected(range(900))


def test_a_producer_of_asyncio_commits_through_its_coordinators_death(cluster: Cluster) -> None:
    async def run() -> None:
        async with AsyncProducer(
            bootstrap_servers=cluster.bootstrap_servers, transactional_id="payments"
        ) as producer:
            await producer.init_transactions()
            for round_ in range(2):
                await producer.begin_transaction()
                for number in range(30 * round_, 30 * round_ + 30):
                    await producer.send("clicks", b"%d" % number, partition=number % PARTITIONS)
                victim = await asyncio.to_thread(coordinator, cluster, TRANSACTIONS, "payments")
                await asyncio.to_thread(cluster.kill, victim)
                await producer.commit_transaction()
                await asyncio.to_thread(cluster.restart, victim)
                await asyncio.to_thread(all_in_sync, cluster)

    asyncio.run(run())
    assert committed(cluster) == expected(range(60))


def test_transactions_of_all_brokers_are_listed_and_described(cluster: Cluster) -> None:
    names = [f"id-{number}" for number in range(12)]
    for name in names:
        with transactional(cluster, name) as producer:
            producer.init_transactions()
    at = {name: coordinator(cluster, TRANSACTIONS, name) for name in names}
    assert set(at.values()) == ALL
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        listed = admin.list_transactions()
        assert {one.transactional_id: broker for broker, ids in listed.items() for one in ids} == at
        described = admin.describe_transactions(names)
        assert {name: (one.coordinator_id, one.state) for name, one in described.items()} == {
            name: (broker, "Empty") for name, broker in at.items()
        }
