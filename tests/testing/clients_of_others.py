"""Programs of clients that are not ours: each writes some records, and returns what it reads of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from odradek.testing import Broker
from waiting import WITHIN_S

COUNT = 5


def confluent(broker: Broker) -> list[bytes]:
    from confluent_kafka import Consumer, Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0, "acks": "all"})
    failures: list[Any] = []
    for number in range(COUNT):
        producer.produce(
            "orders", b"%d" % number, on_delivery=lambda error, _: failures.append(error) if error else None
        )
    assert producer.flush(WITHIN_S) == 0
    assert not failures
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "confluent",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe(["orders"])
    values: list[bytes] = []
    deadline = time.monotonic() + WITHIN_S
    while len(values) < COUNT and time.monotonic() < deadline:
        values += [one.value() for one in consumer.consume(COUNT, 0.2) if one.error() is None]
    consumer.close()
    return values


def kafka_python(broker: Broker) -> list[bytes]:
    from kafka import KafkaConsumer, KafkaProducer

    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, acks="all", retries=10)
    for number in range(COUNT):
        producer.send("orders", b"%d" % number).get(WITHIN_S)
    producer.close()
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=broker.bootstrap_servers,
        group_id="kafka-python",
        auto_offset_reset="earliest",
    )
    values: list[bytes] = []
    deadline = time.monotonic() + WITHIN_S
    while len(values) < COUNT and time.monotonic() < deadline:
        for records in consumer.poll(200).values():
            values += [record.value for record in records]
    consumer.close()
    return values


def aiokafka(broker: Broker) -> list[bytes]:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async def main() -> list[bytes]:
        async with AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap_servers, enable_idempotence=True
        ) as producer:
            for number in range(COUNT):
                await producer.send_and_wait("orders", b"%d" % number)
        values = []
        async with AIOKafkaConsumer(
            "orders",
            bootstrap_servers=broker.bootstrap_servers,
            group_id="aiokafka",
            auto_offset_reset="earliest",
        ) as consumer:
            while len(values) < COUNT:
                values.append((await asyncio.wait_for(consumer.getone(), WITHIN_S)).value)
        return values

    return asyncio.run(main())


CLIENTS: dict[str, Callable[[Broker], list[bytes]]] = {
    "confluent_kafka": confluent,
    "kafka": kafka_python,
    "aiokafka": aiokafka,
}
