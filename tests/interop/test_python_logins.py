"""Logins of Python's clients at our broker: by each mechanism they write a record and read it back."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from interop import row_names
from interop.compatibility import Rows
from interop.test_sasl import MECHANISMS, USERS, broker, token
from odradek import Consumer, Producer
from odradek.testing import Broker

pytestmark = pytest.mark.interop

__all__ = ["broker"]

ALL = (*MECHANISMS, "OAUTHBEARER")


def login_in_python(broker: Broker, mechanism: str) -> dict[str, Any]:
    """As kafka-python and aiokafka name it, tokens aside."""
    return {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": USERS["alice"],
    }


@pytest.mark.parametrize("mechanism", ALL)
def test_ours_log_in(broker: Broker, mechanism: str) -> None:
    login = login_in_python(broker, mechanism)
    if mechanism == "OAUTHBEARER":
        login["sasl_oauth_token_provider"] = token
    topic = f"ours-{mechanism}"
    with Producer(login) as producer:
        producer.send(topic, value=b"hello").result(30)
    with Consumer(login, topic, group_id=topic, auto_offset_reset="earliest") as consumer:
        assert next(iter(consumer)).value == b"hello"


@pytest.mark.filterwarnings("ignore:.*_text is deprecated:DeprecationWarning")
@pytest.mark.parametrize("mechanism", ALL)
def test_kafka_python_logs_in(broker: Broker, mechanism: str, compatibility_row: Rows) -> None:
    row = compatibility_row(*row_names.python("kafka-python"))
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):
        def token(self) -> str:
            return token()

    login = login_in_python(broker, mechanism)
    if mechanism == "OAUTHBEARER":
        login["sasl_oauth_token_provider"] = Tokens()
    topic = f"kafka-python-{mechanism}"
    producer = KafkaProducer(**login)
    producer.send(topic, b"hello").get(30)
    producer.close()
    consumer = KafkaConsumer(topic, **login, auto_offset_reset="earliest", consumer_timeout_ms=120_000)
    assert next(consumer).value == b"hello"
    consumer.close()
    row.does("login", what=mechanism)


@pytest.mark.parametrize("mechanism", ALL)
def test_aiokafka_logs_in(broker: Broker, mechanism: str, compatibility_row: Rows) -> None:
    row = compatibility_row(*row_names.python("aiokafka"))
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.abc import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):
        async def token(self) -> str:
            return token()

    topic = f"aiokafka-{mechanism}"

    async def main() -> None:
        login = login_in_python(broker, mechanism)
        if mechanism == "OAUTHBEARER":
            login["sasl_oauth_token_provider"] = Tokens()
        async with AIOKafkaProducer(**login) as producer:
            await producer.send_and_wait(topic, b"hello")
        async with AIOKafkaConsumer(topic, **login, auto_offset_reset="earliest") as consumer:
            assert (await asyncio.wait_for(consumer.getone(), 30)).value == b"hello"

    asyncio.run(main())
    row.does("login", what=mechanism)


@pytest.mark.parametrize("mechanism", ALL)
def test_librdkafka_logs_in(broker: Broker, mechanism: str, compatibility_row: Rows) -> None:
    row = compatibility_row(*row_names.python("confluent-kafka"))
    import confluent_kafka

    login: dict[str, Any] = {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        login["oauth_cb"] = lambda config: (token(), time.time() + 600)
    else:
        login |= {"sasl.username": "alice", "sasl.password": USERS["alice"]}
    topic = f"librdkafka-{mechanism}"
    producer = confluent_kafka.Producer(login)
    producer.poll(1)
    producer.produce(topic, b"hello")
    assert producer.flush(30) == 0
    consumer = confluent_kafka.Consumer({**login, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = consumer.poll(30)
    assert message is not None and message.value() == b"hello"
    consumer.close()
    row.does("login", what=mechanism)
