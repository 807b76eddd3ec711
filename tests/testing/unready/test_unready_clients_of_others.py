"""Clients that are not ours, with brokers that are not ready."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from odradek import Consumer
from odradek.testing import Broker
from seeds import each_seed
from waiting import WITHIN_S, gathered

from ..clients_of_others import CLIENTS, COUNT

VALUES = [b"%d" % number for number in range(COUNT)]


@each_seed(2)
@pytest.mark.parametrize("client", CLIENTS)
def test_records_arrive(seed: int, client: str) -> None:
    pytest.importorskip(client)
    with Broker(unready=True, seed=seed) as broker:
        # confluent-kafka's producer has many batches under way, and is not idempotent: those that are refused
        # are sent again behind the others.
        assert sorted(CLIENTS[client](broker)) == VALUES


def confluent(servers: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "log_level": 0, "transactional.id": "x"})
    producer.init_transactions(WITHIN_S)
    for value in VALUES:
        producer.begin_transaction()
        producer.produce("orders", value)
        producer.commit_transaction(WITHIN_S)


def kafka_python(servers: str) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=servers, transactional_id="x")
    producer.init_transactions()
    for value in VALUES:
        producer.begin_transaction()
        producer.send("orders", value)
        producer.commit_transaction()
    producer.close()


def aiokafka(servers: str) -> None:
    from aiokafka import AIOKafkaProducer

    async def main() -> None:
        async with AIOKafkaProducer(bootstrap_servers=servers, transactional_id="x") as producer:
            for value in VALUES:
                async with producer.transaction():
                    await producer.send_and_wait("orders", value)

    asyncio.run(main())


TRANSACTIONS: dict[str, Callable[[str], None]] = {
    "confluent_kafka": confluent,
    "kafka": kafka_python,
    "aiokafka": aiokafka,
}


@each_seed(2)
@pytest.mark.parametrize("client", TRANSACTIONS)
def test_transactions_follow_each_other(seed: int, client: str) -> None:
    pytest.importorskip(client)
    with Broker(unready=True, seed=seed) as broker:
        TRANSACTIONS[client](broker.bootstrap_servers)
        with Consumer(
            bootstrap_servers=broker.bootstrap_servers,
            group_id="readers",
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer:
            consumer.subscribe(["orders"])
            records = gathered(lambda: consumer.poll(0.1), COUNT, "the records")
        assert [record.value for record in records] == VALUES
