"""Has another Python client log in by a ticket, write one record and read it back: CLIENT SERVERS TOPIC."""

from __future__ import annotations

import asyncio
import sys

LOGIN = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI"}


def kafka_python(servers: str, topic: str) -> bytes:
    """kafka-python's producer and consumer."""
    from kafka import KafkaConsumer, KafkaProducer

    login = {**LOGIN, "bootstrap_servers": servers, "sasl_kerberos_service_name": "kafka"}
    producer = KafkaProducer(**login)
    producer.send(topic, b"hello").get(30)
    producer.close()
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", consumer_timeout_ms=120_000, **login)
    try:
        return next(iter(consumer)).value
    finally:
        consumer.close()


async def aiokafka(servers: str, topic: str) -> bytes:
    """aiokafka's producer and consumer."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    login = {**LOGIN, "bootstrap_servers": servers, "sasl_kerberos_service_name": "kafka"}
    async with AIOKafkaProducer(**login) as producer:
        await producer.send_and_wait(topic, b"hello")
    async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **login) as consumer:
        return (await asyncio.wait_for(consumer.getone(), 30)).value


client, *words = sys.argv[1:]
value = kafka_python(*words) if client == "kafka-python" else asyncio.run(aiokafka(*words))
print(value.decode())
