"""confluent-kafka, kafka-python, aiokafka: produce, two members, rebalance, a restart in between."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from interop import members
from interop.conftest import OdradekServer


@pytest.fixture(autouse=True)
def collect_what_clients_left() -> Iterator[None]:
    """What a client that lost its broker left to the collector is found in its own test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


class Confluent:
    """confluent-kafka (librdkafka)."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def create(self, topic: str) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic(topic, 4, 1)])[topic].result(30)

    def produce(self, topic: str, values: list[bytes]) -> None:
        from confluent_kafka import Producer

        errors: list[object] = []
        config = {"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "compression.type": "lz4"}
        producer = Producer(config)
        for i, value in enumerate(values):
            producer.produce(topic, value, partition=i % 4, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(60) == 0
        assert errors == [None] * len(values)

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
        self.bootstrap = bootstrap

    def create(self, topic: str) -> None:
        from kafka.admin import KafkaAdminClient, NewTopic

        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        admin.create_topics([NewTopic(topic, 4, 1)])
        admin.close()

    def produce(self, topic: str, values: list[bytes]) -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap, acks="all", compression_type="gzip", retries=10
        )
        sent = [producer.send(topic, value, partition=i % 4) for i, value in enumerate(values)]
        for future in sent:
            future.get(60)
        producer.close()

    def join(self, topic: str, group: str) -> members.Member:
        from kafka import KafkaConsumer

        consumer = KafkaConsumer(
            topic, bootstrap_servers=self.bootstrap, group_id=group, auto_offset_reset="earliest"
        )

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
        self.thread.join()
        self.loop.close()


class AioKafka:
    """aiokafka."""

    def __init__(self, bootstrap: str, loop: Loop) -> None:
        self.bootstrap = bootstrap
        self.loop = loop

    def create(self, topic: str) -> None:
        from aiokafka.admin import AIOKafkaAdminClient, NewTopic

        async def create() -> None:
            admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
            await admin.start()
            await admin.create_topics([NewTopic(topic, 4, 1)])
            await admin.close()

        self.loop.run(create())

    def produce(self, topic: str, values: list[bytes]) -> None:
        from aiokafka import AIOKafkaProducer

        async def produce() -> None:
            async with AIOKafkaProducer(
                bootstrap_servers=self.bootstrap, enable_idempotence=True, compression_type="snappy"
            ) as producer:
                sent = [await producer.send(topic, value, partition=i % 4) for i, value in enumerate(values)]
                await asyncio.gather(*sent)

        self.loop.run(produce())

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
@pytest.mark.parametrize("adapt", [_confluent, _kafka_python, _aiokafka], ids=lambda f: f.__name__[1:])
def test_two_members_a_rebalance_and_a_restart(
    adapt: Callable[[str, Loop], Any], server: OdradekServer
) -> None:
    loop = Loop()
    try:
        client = adapt(server.bootstrap_servers, loop)
        client.create("shared")
        members.run(client, "shared", server.restart)
    finally:
        loop.close()
