"""One test, thirty-two Kafkas: does my client work with all of them?

Run it with `pytest examples/test_any_kafka.py`. The fixture `odradek_broker` comes with odradek; each test
has a broker of its own, in this process, that is the release in its name. Put your own client in the place
of `send` and `receive`: anything that speaks with Kafka will do.

Tests that say nothing of releases can be run against some of them, or all: `pytest --kafka-version all`.
"""

import pytest

from odradek import Consumer, Producer, TopicPartition
from odradek.testing import Broker, kafka_versions


def send(servers: str, value: bytes) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("greetings", value).result(10)


def receive(servers: str) -> bytes:
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("greetings", 0)])
        while True:
            for record in consumer.poll(1000):
                return bytes(record.value or b"")


@pytest.mark.parametrize("odradek_broker", kafka_versions(), indirect=True)
def test_my_client_works_with(odradek_broker: Broker) -> None:
    odradek_broker.create_topic("greetings")
    send(odradek_broker.bootstrap_servers, b"hello")
    assert receive(odradek_broker.bootstrap_servers) == b"hello"
