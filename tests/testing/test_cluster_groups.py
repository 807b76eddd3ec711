"""Consumer groups while brokers of their cluster die, stop and come back."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator

import pytest

from odradek.client import Admin, AsyncConsumer, AsyncProducer, Consumer, Producer, TopicPartition
from odradek.coordinators.partitioner import partition_for
from odradek.testing import Cluster
from waiting import until_async

ALL = {0, 1, 2}
OFFSETS = "__consumer_offsets"
PARTITIONS = 3


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(3, min_insync_replicas=2) as cluster:
        cluster.create_topic("clicks", PARTITIONS)
        yield cluster


def coordinator(cluster: Cluster, group: str) -> int:
    """The broker that coordinates a group, once there is one."""
    cluster.wait_until(lambda: cluster.image(cluster.live[0]).topic(OFFSETS))
    count = len(cluster.image(cluster.live[0]).topics[OFFSETS].partitions)
    return cluster.leader(OFFSETS, partition_for(group, count))


def replaced(cluster: Cluster, fault: Callable[[int], None], group: str) -> None:
    """Let a fault come over a group's coordinator, and wait until another one leads."""
    before = coordinator(cluster, group)
    fault(before)
    cluster.wait_until(lambda: coordinator(cluster, group) != before)


class Reader:
    """A consumer that commits what it has read, and notes it."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        self.cluster = cluster
        self.values: dict[int, list[int]] = defaultdict(list)
        self.committed: dict[int, int] = defaultdict(int)
        self.consumer = Consumer(
            bootstrap_servers=cluster.bootstrap_servers,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        self.consumer.subscribe(["clicks"])

    def read(self, count: int) -> None:
        """Read so many values further, and commit after each poll."""
        wanted = sum(map(len, self.values.values())) + count

        def poll() -> bool:
            for record in self.consumer.poll(100):
                self.values[record.partition].append(record.offset)
            self.consumer.commit()
            self._look()
            return sum(map(len, self.values.values())) >= wanted

        self.cluster.wait_until(poll)

    def _look(self) -> None:
        partitions = [TopicPartition("clicks", index) for index in range(PARTITIONS)]
        for partition, found in self.consumer.committed(partitions).items():
            offset = 0 if found is None else found.offset
            assert offset >= self.committed[partition.partition], "what was committed has gone back"
            self.committed[partition.partition] = offset

    def check(self) -> None:
        """Nothing was left out, nothing came twice, and all of it is committed."""
        for index, offsets in self.values.items():
            assert offsets == list(range(len(offsets)))
            assert self.committed[index] == len(offsets)


def produce(cluster: Cluster, count: int) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer:
        for sent in [producer.send("clicks", value=b"x", partition=n % PARTITIONS) for n in range(count)]:
            sent.result(60)


def test_a_group_goes_on_through_the_deaths_and_returns_of_its_coordinators(cluster: Cluster) -> None:
    reader = Reader(cluster, "readers")
    with reader.consumer:
        produce(cluster, 30)
        reader.read(30)
        first = coordinator(cluster, "readers")
        replaced(cluster, cluster.kill, "readers")
        produce(cluster, 30)
        reader.read(30)
        cluster.restart(first)
        for index in range(PARTITIONS):
            cluster.wait_for_isr("clicks", ALL, index)
        cluster.wait_for_isr(OFFSETS, ALL, partition_for("readers", 5))
        second = coordinator(cluster, "readers")
        replaced(cluster, cluster.stop, "readers")
        produce(cluster, 30)
        reader.read(30)
        cluster.restart(second)
        produce(cluster, 30)
        reader.read(30)
        reader.check()
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id="readers") as other:
        partitions = [TopicPartition("clicks", index) for index in range(PARTITIONS)]
        assert {one.partition: at.offset for one, at in other.committed(partitions).items() if at} == {
            0: 40,
            1: 40,
            2: 40,
        }


def test_a_group_goes_on_when_the_controller_dies(cluster: Cluster) -> None:
    reader = Reader(cluster, "readers")
    with reader.consumer:
        produce(cluster, 30)
        reader.read(30)
        controller = cluster.controller
        cluster.kill(controller)
        produce(cluster, 30)
        reader.read(30)
        cluster.restart(controller)
        produce(cluster, 30)
        reader.read(30)
        reader.check()


def test_members_of_asyncio_go_on_when_their_coordinator_dies(cluster: Cluster) -> None:
    async def run() -> None:
        read: dict[int, list[int]] = defaultdict(list)
        consumers = [
            AsyncConsumer(
                bootstrap_servers=cluster.bootstrap_servers,
                group_id="readers",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
            )
            for _ in range(2)
        ]

        async def consume(consumer: AsyncConsumer, until: asyncio.Event) -> None:
            while not until.is_set():
                for record in await consumer.poll(100):
                    read[record.partition].append(record.offset)

        async def produce_some() -> None:
            async with AsyncProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer:
                sent = [await producer.send("clicks", b"x", partition=n % PARTITIONS) for n in range(30)]
                await asyncio.gather(*sent)

        async def read_all(count: int) -> None:
            await until_async(
                lambda: all(set(read[index]) >= set(range(count)) for index in range(PARTITIONS)),
                f"{count} records of each partition",
                instead=lambda: {index: len(offsets) for index, offsets in read.items()},
            )

        async with consumers[0], consumers[1]:
            done = asyncio.Event()
            for one in consumers:
                await one.subscribe(["clicks"])
            polling = [asyncio.create_task(consume(one, done)) for one in consumers]
            await produce_some()
            await asyncio.wait_for(read_all(10), 60)
            victim = await asyncio.to_thread(coordinator, cluster, "readers")
            await asyncio.to_thread(cluster.kill, victim)
            await produce_some()
            await asyncio.wait_for(read_all(20), 60)
            done.set()
            await asyncio.gather(*polling)

    asyncio.run(run())


def test_internal_topics_are_created_whichever_broker_is_asked_first() -> None:
    for asked in range(2):
        with Cluster(3) as cluster:
            broker = (cluster.controller + asked) % 3
            at = cluster.brokers[broker].address
            cluster.create_topic("clicks", PARTITIONS)
            with Consumer(bootstrap_servers=at, group_id="g") as consumer:
                consumer.commit({TopicPartition("clicks", 0): 0})
            with Producer(bootstrap_servers=at, transactional_id="t") as producer:
                producer.init_transactions()
            for name in (OFFSETS, "__transaction_state"):
                partitions = cluster.image(broker).topics[name].partitions
                assert len(partitions) == 5
                assert all(set(one.replicas) == ALL for one in partitions.values())


def test_groups_of_all_brokers_are_listed_and_described(cluster: Cluster) -> None:
    names = [f"group-{number}" for number in range(12)]
    for name in names:
        with Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id=name) as consumer:
            consumer.commit({TopicPartition("clicks", 0): 0})
    assert len({coordinator(cluster, name) for name in names}) == 3
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        assert [one.group_id for one in admin.list_groups()] == sorted(names)
        described = admin.describe_groups(names)
        assert {name: one.state for name, one in described.items()} == dict.fromkeys(names, "Empty")
        assert {name: one.coordinator and one.coordinator.id for name, one in described.items()} == {
            name: coordinator(cluster, name) for name in names
        }
    victim = coordinator(cluster, names[0])
    replaced(cluster, cluster.kill, names[0])
    cluster.wait_until(lambda: all(victim not in cluster.image(one).brokers for one in cluster.live))
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        assert [one.group_id for one in admin.list_groups()] == sorted(names)
        now = [one.coordinator for one in admin.describe_groups(names).values()]
        assert all(one is not None and one.id != victim for one in now)
