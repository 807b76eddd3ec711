"""confluent-kafka, kafka-python, aiokafka: codecs, two members, a rebalance, a restart in between, admin."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from interop import compatibility, members, row_names
from interop.conftest import OdradekServer
from waiting import joined

PARTITIONS = range(4)
RETENTION = "86400000"
Offsets = dict[str, dict[int, int]]


def turns(values: list[bytes], codecs: tuple[str, ...]) -> Iterator[tuple[str, list[bytes]]]:
    """A share of the values for each codec."""
    for i, codec in enumerate(codecs):
        yield codec, values[i :: len(codecs)]


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """What a client that lost its broker left to the collector is found in its own test."""
    yield
    members.collect_what_clients_left()


class Confluent:
    """confluent-kafka (librdkafka)."""

    codecs = ("none", "gzip", "snappy", "lz4", "zstd")

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def create(self, topic: str) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        wanted = NewTopic(topic, len(PARTITIONS), 1, config={"retention.ms": RETENTION})
        admin.create_topics([wanted])[topic].result(30)

    def produce(self, topic: str, values: list[bytes]) -> None:
        from confluent_kafka import Producer

        errors: list[object] = []
        at = {"bootstrap.servers": self.bootstrap, "enable.idempotence": True}
        for codec, share in turns(values, self.codecs):
            producer = Producer({**at, "compression.type": codec})
            for i, value in enumerate(share):
                producer.produce(topic, value, None, i % 4, on_delivery=lambda error, _: errors.append(error))
            assert producer.flush(60) == 0
        assert errors == [None] * len(values)

    def offsets(self, topic: str, time_ms: int) -> Offsets:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "unused"})
        try:
            ends = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), 30) for p in PARTITIONS}
            asked = [TopicPartition(topic, p, time_ms) for p in PARTITIONS]
            found = {one.partition: one.offset for one in consumer.offsets_for_times(asked, 30)}
        finally:
            consumer.close()
        return {
            "beginning": {p: low for p, (low, _) in ends.items()},
            "end": {p: high for p, (_, high) in ends.items()},
            "at": {p: offset for p, offset in found.items() if offset >= 0},
        }

    def administer(self, topic: str, group: str) -> dict[str, object]:
        from confluent_kafka import ConsumerGroupTopicPartitions
        from confluent_kafka.admin import AdminClient, ConfigResource

        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        resource = ConfigResource("topic", topic)
        described = admin.describe_consumer_groups([group])[group].result(30)
        asked = [ConsumerGroupTopicPartitions(group)]
        committed = admin.list_consumer_group_offsets(asked)[group].result(30).topic_partitions
        seen: dict[str, object] = {
            "partitions": len(admin.list_topics(topic, 30).topics[topic].partitions),
            "retention": admin.describe_configs([resource])[resource].result(30)["retention.ms"].value,
            "groups": [one.group_id for one in admin.list_consumer_groups().result(30).valid],
            "state": described.state.name.capitalize(),
            "committed": sum(one.offset for one in committed),
        }
        admin.delete_consumer_groups([group])[group].result(30)
        admin.delete_topics([topic])[topic].result(30)
        return seen

    def join(self, topic: str, group: str) -> members.Member:
        from confluent_kafka import Consumer

        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
        )
        consumer.subscribe([topic])

        class Joined:
            assigned: set[int] = set()

            def poll(self) -> list[bytes]:
                message = consumer.poll(0.1)
                self.assigned = {p.partition for p in consumer.assignment()}
                return [] if message is None or message.error() else [message.value()]

            def partitions(self) -> set[int]:
                return self.assigned

            def close(self) -> None:
                consumer.close()

        return Joined()


class KafkaPython:
    """kafka-python."""

    def __init__(self, bootstrap: str) -> None:
        from kafka import codec

        self.bootstrap = bootstrap
        # Some need packages of their own.
        compressed = ("gzip", "snappy", "lz4", "zstd")
        self.codecs = ("none", *(one for one in compressed if getattr(codec, f"has_{one}")()))

    def create(self, topic: str) -> None:
        from kafka.admin import KafkaAdminClient, NewTopic

        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        admin.create_topics([NewTopic(topic, len(PARTITIONS), 1, topic_configs={"retention.ms": RETENTION})])
        admin.close()

    def produce(self, topic: str, values: list[bytes]) -> None:
        from kafka import KafkaProducer

        for codec, share in turns(values, self.codecs):
            producer = KafkaProducer(
                bootstrap_servers=self.bootstrap,
                acks="all",
                compression_type=None if codec == "none" else codec,
                retries=10,
            )
            sent = [producer.send(topic, value, partition=i % 4) for i, value in enumerate(share)]
            for future in sent:
                future.get(60)
            producer.close()

    def offsets(self, topic: str, time_ms: int) -> Offsets:
        from kafka import KafkaConsumer, TopicPartition

        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap)
        try:
            all_of_them = [TopicPartition(topic, p) for p in PARTITIONS]
            found = consumer.offsets_for_times(dict.fromkeys(all_of_them, time_ms))
            return {
                "beginning": {p.partition: o for p, o in consumer.beginning_offsets(all_of_them).items()},
                "end": {p.partition: o for p, o in consumer.end_offsets(all_of_them).items()},
                "at": {p.partition: one.offset for p, one in found.items() if one is not None},
            }
        finally:
            consumer.close()

    def administer(self, topic: str, group: str) -> dict[str, object]:
        from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            resource = ConfigResource(ConfigResourceType.TOPIC, topic)
            seen: dict[str, object] = {
                "partitions": len(admin.describe_topics([topic])[0]["partitions"]),
                "retention": admin.describe_configs([resource])["topic"][topic]["retention.ms"]["value"],
                "groups": [one["group_id"] for one in admin.list_groups()],
                "state": admin.describe_groups([group])[group]["group_state"],
                "committed": sum(one.offset for one in admin.list_group_offsets([group])[group].values()),
            }
            admin.delete_groups([group])
            admin.delete_topics([topic])
            return seen
        finally:
            admin.close()

    def join(self, topic: str, group: str) -> members.Member:
        from kafka import KafkaConsumer

        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=self.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            # One that could not say that it leaves is missed soon.
            session_timeout_ms=6_000,
            heartbeat_interval_ms=500,
        )
        # Known beforehand: 3.0.12 stands still now and then when it joins again while it learns of a topic.
        members.until("the topic is known", lambda: bool(consumer.partitions_for_topic(topic)))

        class Joined:
            assigned: set[int] = set()

            def poll(self) -> list[bytes]:
                batches = consumer.poll(100)
                self.assigned = {p.partition for p in consumer.assignment() or ()}
                return [record.value for records in batches.values() for record in records]

            def partitions(self) -> set[int]:
                return self.assigned

            def close(self) -> None:
                consumer.close()

        return Joined()


class Loop:
    """One event loop on a thread of its own, for a client that is asynchronous."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(members.LIMIT_S)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        joined(self.thread)
        self.loop.close()


class AioKafka:
    """aiokafka."""

    codecs = ("none", "gzip", "snappy", "lz4", "zstd")

    def __init__(self, bootstrap: str, loop: Loop) -> None:
        self.bootstrap = bootstrap
        self.loop = loop

    def create(self, topic: str) -> None:
        from aiokafka.admin import AIOKafkaAdminClient, NewTopic

        async def create() -> None:
            admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
            await admin.start()
            await admin.create_topics(
                [NewTopic(topic, len(PARTITIONS), 1, topic_configs={"retention.ms": RETENTION})]
            )
            await admin.close()

        self.loop.run(create())

    def produce(self, topic: str, values: list[bytes]) -> None:
        from aiokafka import AIOKafkaProducer

        async def produce(codec: str | None, share: list[bytes]) -> None:
            async with AIOKafkaProducer(
                bootstrap_servers=self.bootstrap, enable_idempotence=True, compression_type=codec
            ) as producer:
                sent = [await producer.send(topic, value, partition=i % 4) for i, value in enumerate(share)]
                await asyncio.gather(*sent)

        for codec, share in turns(values, self.codecs):
            self.loop.run(produce(None if codec == "none" else codec, share))

    def offsets(self, topic: str, time_ms: int) -> Offsets:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        async def look() -> Offsets:
            async with AIOKafkaConsumer(bootstrap_servers=self.bootstrap) as consumer:
                all_of_them = [TopicPartition(topic, p) for p in PARTITIONS]
                low = await consumer.beginning_offsets(all_of_them)
                high = await consumer.end_offsets(all_of_them)
                found = await consumer.offsets_for_times(dict.fromkeys(all_of_them, time_ms))
            return {
                "beginning": {p.partition: offset for p, offset in low.items()},
                "end": {p.partition: offset for p, offset in high.items()},
                "at": {p.partition: one.offset for p, one in found.items() if one is not None},
            }

        found: Offsets = self.loop.run(look())
        return found

    def administer(self, topic: str, group: str) -> dict[str, object]:
        from aiokafka.admin import AIOKafkaAdminClient
        from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

        async def work() -> dict[str, object]:
            admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
            await admin.start()
            resource = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": None})
            configs = await admin.describe_configs([resource])
            described = await admin.describe_consumer_groups([group])
            committed = await admin.list_consumer_group_offsets(group)
            seen: dict[str, object] = {
                "partitions": len((await admin.describe_topics([topic]))[0]["partitions"]),
                "retention": configs[0].resources[0][4][0][1],
                "groups": [name for name, _ in await admin.list_consumer_groups()],
                "state": described[0].groups[0][2],
                "committed": sum(one.offset for one in committed.values()),
            }
            await admin.delete_topics([topic])
            await admin.close()
            return seen

        found: dict[str, object] = self.loop.run(work())
        return found

    def join(self, topic: str, group: str) -> members.Member:
        from aiokafka import AIOKafkaConsumer

        loop = self.loop

        async def start() -> Any:
            consumer = AIOKafkaConsumer(
                topic, bootstrap_servers=self.bootstrap, group_id=group, auto_offset_reset="earliest"
            )
            await consumer.start()
            return consumer

        consumer = loop.run(start())

        class Joined:
            def poll(self) -> list[bytes]:
                batches = loop.run(consumer.getmany(timeout_ms=100))
                return [record.value for records in batches.values() for record in records]

            def partitions(self) -> set[int]:
                return {p.partition for p in consumer.assignment()}

            def close(self) -> None:
                loop.run(consumer.stop())

        return Joined()


def _confluent(bootstrap: str, loop: Loop) -> Any:
    pytest.importorskip("confluent_kafka")
    return Confluent(bootstrap)


def _kafka_python(bootstrap: str, loop: Loop) -> Any:
    pytest.importorskip("kafka")
    return KafkaPython(bootstrap)


def _aiokafka(bootstrap: str, loop: Loop) -> Any:
    pytest.importorskip("aiokafka")
    return AioKafka(bootstrap, loop)


@pytest.mark.interop
@pytest.mark.parametrize(
    ("adapt", "distribution"),
    [(_confluent, "confluent-kafka"), (_kafka_python, "kafka-python"), (_aiokafka, "aiokafka")],
    ids=["confluent-kafka", "kafka-python", "aiokafka"],
)
def test_codecs_a_rebalance_a_restart_and_admin(
    adapt: Callable[[str, Loop], Any],
    distribution: str,
    tapped: OdradekServer,
    compatibility_row: Callable[..., compatibility.Row],
) -> None:
    row = compatibility_row(*row_names.python(distribution))
    loop = Loop()
    try:
        client = adapt(tapped.bootstrap_servers, loop)
        client.create("shared")
        before_ms = int(time.time() * 1000) - 1000
        members.run(client, "shared", tapped.restart)
        row.does("produce", what=" ".join(client.codecs))
        row.does("consume", "group", "rebalance", "broker restart")

        client.produce("shared", [b"last-%d" % i for i in range(10)])
        member = client.join("shared", "interop")
        read: list[bytes] = []

        def all_read() -> bool:
            read.extend(member.poll())
            return len(read) >= 10

        members.until("the next member has read on", all_read)
        member.close()
        assert sorted(read) == sorted(b"last-%d" % i for i in range(10))
        row.does("commit, resume")

        offsets = client.offsets("shared", before_ms)
        assert offsets["beginning"] == offsets["at"] == dict.fromkeys(PARTITIONS, 0)
        assert sum(offsets["end"].values()) == 610
        assert client.offsets("shared", before_ms + 3_600_000)["at"] == {}
        row.does("offsets by time")

        seen = client.administer("shared", "interop")
        assert seen == {
            "partitions": 4,
            "retention": RETENTION,
            "groups": ["interop"],
            "state": "Empty",
            "committed": 610,
        }
        row.does("admin")
    finally:
        loop.close()
