"""Serializers in producers and consumers, with a broker and a registry."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("fastavro")
pytest.importorskip("jsonschema")
pytest.importorskip("grpc_tools.protoc")

from odradek import AsyncConsumer, AsyncProducer, Consumer, Producer
from odradek.client.errors import SerializationError
from odradek.serdes import (
    AvroDeserializer,
    AvroSerializer,
    JSONDeserializer,
    JSONSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    SchemaRegistryClient,
)
from odradek.testing import Broker, SchemaRegistry
from waiting import WITHIN_S, gathered

from .messages import message_class

WITHIN_MS = WITHIN_S * 1000
ORDER = '{"type":"record","name":"Order","fields":[{"name":"a","type":"int"}]}'
DOCUMENT = '{"title":"Order","type":"object","properties":{"a":{"type":"integer"}}}'


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker(num_partitions=1) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as registry:
        yield registry


def client(registry: SchemaRegistry) -> SchemaRegistryClient:
    return SchemaRegistryClient(url=registry.url, max_retries=0)


@pytest.mark.parametrize("language", ["avro", "json", "protobuf"])
def test_there_and_back(servers: str, registry: SchemaRegistry, language: str) -> None:
    schemas = client(registry)
    inner = message_class("serdes.inner.Inner")
    serializer, deserializer, value = {
        "avro": (AvroSerializer(schemas, ORDER), AvroDeserializer(schemas), {"a": 5}),
        "json": (JSONSerializer(DOCUMENT, schemas), JSONDeserializer(DOCUMENT), {"a": 5}),
        "protobuf": (
            ProtobufSerializer(inner, schemas),
            ProtobufDeserializer(inner, None, schemas),
            inner(s="a"),
        ),
    }[language]
    topic = f"there-{language}"
    with Producer(
        bootstrap_servers=servers, key_serializer=serializer, value_serializer=serializer
    ) as producer:
        producer.send(topic, value, key=value)
        producer.send(topic, None, key=value)
    assert schemas.get_subjects() == [f"{topic}-key", f"{topic}-value"]
    with Consumer(
        topic,
        bootstrap_servers=servers,
        group_id=topic,
        auto_offset_reset="earliest",
        key_deserializer=deserializer,
        value_deserializer=deserializer,
    ) as consumer:
        read = gathered(
            lambda: [(record.key, record.value) for record in consumer.poll(100)],
            2,
            f"the records of {topic}",
        )
    assert read == [(value, value), (value, None)]


def test_coroutines(servers: str, registry: SchemaRegistry) -> None:
    async def run() -> list[Any]:
        schemas = client(registry)
        async with AsyncProducer(
            bootstrap_servers=servers, value_serializer=AvroSerializer(schemas, ORDER)
        ) as producer:
            await producer.send_and_wait("coroutines", {"a": 5})
        async with AsyncConsumer(
            "coroutines",
            bootstrap_servers=servers,
            group_id="coroutines",
            auto_offset_reset="earliest",
            value_deserializer=AvroDeserializer(client(registry)),
        ) as consumer:
            return [record.value for record in await consumer.poll(WITHIN_MS)]

    assert asyncio.run(run()) == [{"a": 5}]


def test_what_a_registry_says_reaches_the_application(servers: str, registry: SchemaRegistry) -> None:
    schemas = client(registry)
    serializer = AvroSerializer(schemas, ORDER, conf={"auto.register.schemas": False})
    with Producer(bootstrap_servers=servers, value_serializer=serializer) as producer:
        with pytest.raises(
            SerializationError,
            match=r"the value for topic 'said' cannot be serialized: the schema registry at "
            rf"{registry.url} does not have this schema in the subject 'said-value'",
        ):
            producer.send("said", {"a": 5})
        registry.failures = 1
        with pytest.raises(SerializationError, match=r"HTTP 503 not now .*Check url"):
            producer.send("said", {"a": 5})


def test_a_consumer_goes_on_when_its_registry_does(servers: str, registry: SchemaRegistry) -> None:
    with Producer(
        bootstrap_servers=servers, value_serializer=AvroSerializer(client(registry), ORDER)
    ) as producer:
        producer.send("goes-on", {"a": 1})
        producer.send("goes-on", {"a": 2})
    registry.failures = 1
    with Consumer(
        bootstrap_servers=servers,
        auto_offset_reset="earliest",
        value_deserializer=AvroDeserializer(client(registry)),
    ) as consumer:
        consumer.assign([("goes-on", 0)])
        with pytest.raises(
            SerializationError, match=r"the value of goes-on-0 at offset 0 cannot be deserialized: .*HTTP 503"
        ):
            consumer.poll(WITHIN_MS)
        assert [record.value for record in consumer.poll(WITHIN_MS)] == [{"a": 1}, {"a": 2}]
