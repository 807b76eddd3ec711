"""Clients that are not ours, through faults: each gets its records there and back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

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

FAULTS: dict[str, Callable[[Broker], Iterator[Any]]] = {
    "errors": lambda broker: iter(
        [
            broker.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=2, topic="orders"),
            broker.fail("Fetch", "NOT_LEADER_OR_FOLLOWER", times=2, topic="orders"),
            broker.fail("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", times=1),
            broker.fail("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS", times=1),
        ]
    ),
    "connections": lambda broker: iter(
        [
            broker.drop("Produce", times=1),
            broker.drop("Fetch", times=1, after=True),
            broker.truncate("JoinGroup", times=1),
        ]
    ),
    "time": lambda broker: iter(
        [
            broker.delay("Produce", 20, times=2),
            broker.throttle("Fetch", 20, times=2),
            broker.delay("Metadata", 20, times=1),
        ]
    ),
}


@pytest.mark.parametrize("faults", FAULTS)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_goes_on(odradek_broker: Broker, client: str, faults: str) -> None:
    pytest.importorskip(client)
    odradek_broker.create_topic("orders")
    with ExitStack() as block:
        for fault in FAULTS[faults](odradek_broker):
            block.enter_context(fault)
        assert CLIENTS[client](odradek_broker) == [b"%d" % number for number in range(COUNT)]
