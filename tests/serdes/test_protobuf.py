"""Protobuf's serializer and deserializer, against the registry of the test kit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("google.protobuf")
pytest.importorskip("grpc_tools.protoc")

from odradek.client.errors import ConfigError, SerializationError
from odradek.serdes import (
    ProtobufDeserializer,
    ProtobufSerializer,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SerializationContext,
)
from odradek.testing import SchemaRegistry

from .messages import INNER, SALE, message_class

VALUE = SerializationContext("t")


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as registry:
        yield registry


@pytest.fixture
def client(registry: SchemaRegistry) -> SchemaRegistryClient:
    return SchemaRegistryClient(url=registry.url, max_retries=0)


def test_there_and_back(client: SchemaRegistryClient) -> None:
    sale = message_class("serdes.Sale")
    message = sale(x=4, m={"k": 1})
    message.inside.s = "y"
    data = ProtobufSerializer(sale, client)(message, VALUE)
    assert data is not None
    assert data.startswith(b"\x00\x00\x00\x00\x02\x02\x02")
    assert client.get_subjects() == ["serdes_inner.proto", "t-value"]
    references = client.get_latest_version("t-value").schema.references
    assert references == (SchemaReference("serdes_inner.proto", "serdes_inner.proto", 1),)
    assert ProtobufDeserializer(sale)(data, VALUE) == message
    assert ProtobufDeserializer(sale, {"use.deprecated.format": False}, client)(data, VALUE) == message
    assert ProtobufSerializer(sale, client)(None, VALUE) is None


def test_a_message_within_another(client: SchemaRegistryClient) -> None:
    line = message_class("serdes.Sale.Line")
    data = ProtobufSerializer(line, client)(line(number=3), VALUE)
    assert data == b"\x00\x00\x00\x00\x02" + b"\x04\x02\x00" + b"\x08\x03"
    assert ProtobufDeserializer(line, schema_registry_client=client)(data, VALUE).number == 3


def test_the_first_message_of_a_file(client: SchemaRegistryClient) -> None:
    inner = message_class("serdes.inner.Inner")
    data = ProtobufSerializer(inner, client)(inner(s="a"), VALUE)
    assert data == b"\x00\x00\x00\x00\x01" + b"\x00" + b"\x0a\x01a"
    assert ProtobufDeserializer(inner, schema_registry_client=client)(data, VALUE).s == "a"


def test_nothing_is_registered_where_that_is_said(
    registry: SchemaRegistry, client: SchemaRegistryClient
) -> None:
    inner = message_class("serdes.inner.Inner")
    serializer = ProtobufSerializer(inner, client, {"auto.register.schemas": False})
    with pytest.raises(SerializationError, match="does not have this schema in the subject 't-value'"):
        serializer(inner(s="a"), VALUE)
    registry.register("t-value", INNER, "PROTOBUF")
    assert serializer(inner(s="a"), VALUE) == b"\x00\x00\x00\x00\x01\x00\x0a\x01a"


def test_the_place_is_that_in_the_schema_that_is_taken(client: SchemaRegistryClient) -> None:
    """Another may have put its messages into another order."""
    turned = INNER.replace("message Inner", "message First {} message Inner")
    client.register_schema("t-value", Schema(turned, "PROTOBUF"))
    inner = message_class("serdes.inner.Inner")
    for conf in ({"use.latest.version": True}, {"use.schema.id": 1}):
        data = ProtobufSerializer(inner, client, conf)(inner(s="a"), VALUE)
        assert data == b"\x00\x00\x00\x00\x01" + b"\x02\x02" + b"\x0a\x01a"
        assert ProtobufDeserializer(inner, None, client)(data, VALUE).s == "a"


def test_a_schema_without_the_message_is_not_taken(client: SchemaRegistryClient) -> None:
    client.register_schema("t-value", Schema(INNER.replace("Inner", "Another"), "PROTOBUF"))
    inner = message_class("serdes.inner.Inner")
    with pytest.raises(SerializationError, match=r"no message type 'serdes.inner.Inner'"):
        ProtobufSerializer(inner, client, {"use.latest.version": True})(inner(s="a"), VALUE)


def test_subjects_by_the_message_s_name(client: SchemaRegistryClient) -> None:
    inner = message_class("serdes.inner.Inner")
    ProtobufSerializer(inner, client, {"subject.name.strategy.type": "TOPIC_RECORD"})(inner(), VALUE)
    assert client.get_subjects() == ["t-serdes.inner.Inner"]


def test_other_messages_are_refused(client: SchemaRegistryClient) -> None:
    inner, other = message_class("serdes.inner.Inner"), message_class("serdes.Other")
    with pytest.raises(SerializationError, match=r"it is Inner, not a message of the type 'serdes.Other'"):
        ProtobufSerializer(other, client)(inner(), VALUE)
    data = ProtobufSerializer(inner, client)(inner(s="a"), VALUE)
    with pytest.raises(SerializationError, match=r"of the message type 'serdes.inner.Inner', not 'serdes.O"):
        ProtobufDeserializer(other, None, client)(data, VALUE)


def test_what_is_no_whole_message(client: SchemaRegistryClient) -> None:
    required = message_class("serdes.two.Required")
    with pytest.raises(SerializationError, match=r"no whole message of the type 'serdes.two.Required'"):
        ProtobufSerializer(required, client)(required(), VALUE)
    with pytest.raises(SerializationError, match=r"no message of the type 'serdes.two.Required'"):
        ProtobufDeserializer(required)(b"\x00\x00\x00\x00\x01\x00\x08", VALUE)


def test_a_schema_as_text_is_the_same(client: SchemaRegistryClient) -> None:
    client.register_schema("serdes_inner.proto", Schema(INNER, "PROTOBUF"))
    reference = SchemaReference("serdes_inner.proto", "serdes_inner.proto", 1)
    number = client.register_schema("t-value", Schema(SALE, "PROTOBUF", [reference]))
    sale = message_class("serdes.Sale")
    data = ProtobufSerializer(sale, client, {"auto.register.schemas": False})(sale(x=1), VALUE)
    assert data == b"\x00" + number.to_bytes(4, "big") + b"\x02\x02" + b"\x08\x01"


def test_the_format_before_zigzag_is_refused(client: SchemaRegistryClient) -> None:
    with pytest.raises(ConfigError, match=r"use\.deprecated\.format"):
        ProtobufSerializer(message_class("serdes.Other"), client, {"use.deprecated.format": True})
