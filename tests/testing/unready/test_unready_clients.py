"""Our own clients with brokers that are not ready: who uses them does not notice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from odradek import Admin, AsyncConsumer, AsyncProducer, Consumer, NewTopic, OffsetAndMetadata, Producer
from odradek.client import ConsumerGroupMetadata, TopicPartition
from odradek.testing import Broker, Cluster
from odradek.testing.unready import unreadiness
from seeds import each_seed
from waiting import WITHIN_S, gathered, until, within

VALUES = [b"0", b"1", b"2"]
RELEASES = ["0.10.2", "2.2", "3.9", "3.9-kraft", "4.0"]


def send(servers: str, **config: Any) -> None:
    with Producer(bootstrap_servers=servers, **config) as producer:
        for sent in [producer.send("orders", value) for value in VALUES]:
            sent.result(WITHIN_S)


def read(servers: str, count: int = len(VALUES), **config: Any) -> list[bytes]:
    config = {"group_id": "readers", "auto_offset_reset": "earliest", **config}
    with Consumer(bootstrap_servers=servers, **config) as consumer:
        consumer.subscribe(["orders"])
        records = gathered(lambda: consumer.poll(0.1), count, f"{count} records")
        consumer.commit()
    return [record.value for record in records]


def committed(servers: str) -> int | None:
    with Consumer(bootstrap_servers=servers, group_id="readers") as consumer:
        found = consumer.committed([TopicPartition("orders", 0)])[TopicPartition("orders", 0)]
        return None if found is None else found.offset


@each_seed(3)
def test_records_arrive(seed: int) -> None:
    with Broker(unready=True, seed=seed) as broker:
        servers = broker.bootstrap_servers
        send(servers)
        assert read(servers) == VALUES
        assert committed(servers) == len(VALUES)
        broker.restart()
        send(servers, acks=1, enable_idempotence=False)
        assert read(servers) == VALUES


@pytest.mark.parametrize("kafka_version", RELEASES)
def test_records_arrive_with_each_kind_of_release(kafka_version: str) -> None:
    with Broker(unready=True, seed=1, kafka_version=kafka_version) as broker:
        send(broker.bootstrap_servers, enable_idempotence=False, acks=1)
        assert read(broker.bootstrap_servers) == VALUES


@each_seed(2)
def test_a_consumer_waits_for_a_topic_that_is_made_by_its_asking(seed: int) -> None:
    with (
        Broker(unready=True, seed=seed) as broker,
        Consumer(
            bootstrap_servers=broker.bootstrap_servers,
            group_id="readers",
            auto_offset_reset="earliest",
            metadata_max_age_ms=500,
        ) as consumer,
    ):
        consumer.subscribe(["orders"])
        until(lambda: [consumer.poll(0.1), consumer.assignment()][1], "an assignment")
        send(broker.bootstrap_servers)
        records = gathered(lambda: consumer.poll(0.1), len(VALUES), "the records")
        assert [record.value for record in records] == VALUES


@each_seed(2)
@pytest.mark.parametrize("kafka_version", ["3.9", None])
def test_transactions_follow_each_other(seed: int, kafka_version: str | None) -> None:
    partition = TopicPartition("orders", 0)
    with Broker(unready=True, seed=seed, kafka_version=kafka_version) as broker:
        servers = broker.bootstrap_servers
        with Producer(bootstrap_servers=servers, transactional_id="x") as producer:
            producer.init_transactions()
            for number in range(6):
                producer.begin_transaction()
                producer.send("orders", b"%d" % number)
                producer.send_offsets_to_transaction(
                    {partition: OffsetAndMetadata(number)}, ConsumerGroupMetadata("readers")
                )
                if number % 3 == 1:
                    producer.abort_transaction()
                else:
                    producer.commit_transaction()
        assert committed(servers) == 5
        with Producer(bootstrap_servers=servers, transactional_id="x") as producer:
            producer.init_transactions()
        wanted = [b"0", b"2", b"3", b"5"]
        config = {"group_id": "others", "isolation_level": "read_committed"}
        assert read(servers, len(wanted), **config) == wanted


@each_seed(3)
def test_an_administrator_goes_from_one_thing_to_the_next(seed: int) -> None:
    with (
        Broker(unready=True, seed=seed) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        created = admin.create_topics([NewTopic("orders", 2, 1)])
        assert [partition.leader for partition in created["orders"].partitions] == [0, 0]
        assert admin.list_topics() == ["orders"]
        assert set(admin.describe_topics(["orders"])) == {"orders"}
        partition = TopicPartition("orders", 0)
        assert admin.list_offsets({partition: -1})[partition].offset == 0
        send(broker.bootstrap_servers)
        assert read(broker.bootstrap_servers) == VALUES
        assert "readers" in {group.group_id for group in admin.list_groups()}
        assert admin.describe_groups(["readers"])["readers"].members == ()
        assert admin.list_group_offsets("readers")
        admin.alter_group_offsets("others", {partition: 0})
        admin.delete_records({partition: -1})
        admin.create_partitions({"orders": 3})
        admin.incremental_alter_configs({("topic", "orders"): {"retention.ms": "1000"}})
        admin.list_transactions()
        admin.delete_groups(["readers"])
        admin.delete_topics(["orders"])
        # As many as before: who is told of the old ones for a moment writes to one that is there.
        admin.create_topics([NewTopic("orders", 3, 1)])
        send(broker.bootstrap_servers)


def test_a_topic_that_is_created_anew_is_not_taken_for_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unreadiness, "_ANSWERS", (2,))
    with Broker(unready=True) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        before = admin.create_topics([NewTopic("orders", 2, 1)])["orders"]
        admin.delete_topics(["orders"])
        after = admin.create_topics([NewTopic("orders", 3, 1)])["orders"]
        assert after.topic_id == broker.call(lambda app: app.image.topic_id("orders")) != before.topic_id
        assert [partition.leader for partition in after.partitions] == [0, 0, 0]


@each_seed(2)
def test_asyncio(seed: int) -> None:
    async def run(servers: str) -> list[bytes]:
        async with AsyncProducer(bootstrap_servers=servers, transactional_id="x") as producer:
            await producer.init_transactions()
            for value in VALUES:
                await producer.begin_transaction()
                await producer.send("orders", value)
                await producer.commit_transaction()
        values: list[bytes] = []
        async with AsyncConsumer(
            bootstrap_servers=servers,
            group_id="readers",
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer:
            await consumer.subscribe(["orders"])
            async for record in consumer:
                values.append(record.value)
                if len(values) == len(VALUES):
                    await consumer.commit()
                    break
        return values

    with Broker(unready=True, seed=seed) as broker:
        assert asyncio.run(within(run(broker.bootstrap_servers), "the records")) == VALUES


@each_seed(2)
def test_leaders_and_coordinators_move_in_a_cluster(seed: int) -> None:
    with Cluster(3, unready=True, seed=seed) as cluster:
        servers = cluster.bootstrap_servers
        with (
            Producer(bootstrap_servers=servers) as producer,
            Consumer(bootstrap_servers=servers, group_id="readers", auto_offset_reset="earliest") as consumer,
        ):
            consumer.subscribe(["orders"])
            for value in VALUES:
                producer.send("orders", value).result(WITHIN_S)
                records = gathered(lambda: consumer.poll(0.1), 1, "a record")
                assert [record.value for record in records] == [value]
                consumer.commit()
                cluster.move_leader("orders", 0, (cluster.leader("orders") + 1) % 3)
                cluster.move_coordinator((cluster.coordinator(group="readers") + 1) % 3, group="readers")
        victim = cluster.leader("orders")
        cluster.kill(victim)
        send(servers)
        assert committed(servers) == len(VALUES)
