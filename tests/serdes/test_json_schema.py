"""JSON Schema's serializer and deserializer, against the registry of the test kit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("jsonschema")

from odradek.client.errors import SerializationError
from odradek.serdes import (
    JSONDeserializer,
    JSONSerializer,
    Schema,
    SchemaError,
    SchemaReference,
    SchemaRegistryClient,
    SerializationContext,
)
from odradek.testing import SchemaRegistry

ORDER = '{"title":"Order","type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}'
VALUE = SerializationContext("t")


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as registry:
        yield registry


@pytest.fixture
def client(registry: SchemaRegistry) -> SchemaRegistryClient:
    return SchemaRegistryClient(url=registry.url, max_retries=0)


def test_there_and_back(client: SchemaRegistryClient) -> None:
    data = JSONSerializer(ORDER, client)({"x": 5, "é": [None]}, VALUE)
    assert data == b"\x00\x00\x00\x00\x01" + '{"x":5,"é":[null]}'.encode()
    for schema in (None, ORDER):
        assert JSONDeserializer(schema, None, client)(data, VALUE) == {"x": 5, "é": [None]}
    assert JSONDeserializer(ORDER)(data, VALUE) == {"x": 5, "é": [None]}
    assert JSONSerializer(ORDER, client)(None, VALUE) is None


def test_hooks(client: SchemaRegistryClient) -> None:
    serializer = JSONSerializer(ORDER, client, lambda number, ctx: {"x": number, "topic": ctx.topic})
    data = serializer(5, VALUE)
    assert JSONDeserializer(ORDER, lambda fields: fields["topic"])(data, VALUE) == "t"
    data = JSONSerializer(ORDER, client, json_encode=lambda value: b'{"x": 7}')({"x": 5}, VALUE)
    assert data == b'\x00\x00\x00\x00\x01{"x": 7}'
    assert JSONDeserializer(ORDER, json_decode=lambda text: {"x": len(text)})(data, VALUE) == {"x": 8}


def test_the_title_is_the_record_s_name(client: SchemaRegistryClient) -> None:
    JSONSerializer(ORDER, client, conf={"subject.name.strategy": "RECORD"})({"x": 1}, VALUE)
    assert client.get_subjects() == ["Order"]


def test_what_is_not_as_the_schema_says(client: SchemaRegistryClient) -> None:
    with pytest.raises(SerializationError, match=r"what its JSON schema says: \$\.x: 'a' is not of type"):
        JSONSerializer(ORDER, client)({"x": "a"}, VALUE)
    unchecked = JSONSerializer(ORDER, client, conf={"validate": False})({"x": "a"}, VALUE)
    for schema in (None, ORDER):
        with pytest.raises(SerializationError, match="'a' is not of type 'integer'"):
            JSONDeserializer(schema, schema_registry_client=client)(unchecked, VALUE)
    reader = JSONDeserializer(ORDER, schema_registry_client=client, conf={"validate": False})
    assert reader(unchecked, VALUE) == {"x": "a"}


def test_references(client: SchemaRegistryClient) -> None:
    client.register_schema("inner", Schema('{"type":"integer"}', "JSON"))
    schema = Schema(
        '{"title":"O","type":"object","properties":{"x":{"$ref":"i.json"}}}',
        "JSON",
        [SchemaReference("i.json", "inner", 1)],
    )
    serializer = JSONSerializer(schema, client)
    data = serializer({"x": 5}, VALUE)
    for reader in (None, schema):
        assert JSONDeserializer(reader, schema_registry_client=client)(data, VALUE) == {"x": 5}
    with pytest.raises(SerializationError, match="'a' is not of type 'integer'"):
        serializer({"x": "a"}, VALUE)


def test_the_newest_version_is_what_a_reader_wants(client: SchemaRegistryClient) -> None:
    data = JSONSerializer('{"type":"object"}', client)({"x": "a"}, VALUE)
    client.register_schema("t-value", Schema(ORDER, "JSON"))
    reader = JSONDeserializer(None, None, client, {"use.latest.version": True})
    with pytest.raises(SerializationError, match="'a' is not of type 'integer'"):
        reader(data, VALUE)


@pytest.mark.parametrize("schema", ["", "[]", '{"type": 5}', '{"$schema": 5}'])
def test_a_schema_that_is_none_is_refused_at_once(client: SchemaRegistryClient, schema: str) -> None:
    with pytest.raises(SchemaError, match="not a JSON schema"):
        JSONSerializer(schema, client)
    with pytest.raises(SchemaError, match="not a JSON schema"):
        JSONDeserializer(schema)


def test_without_a_registry_there_has_to_be_a_schema() -> None:
    with pytest.raises(SchemaError, match="without schema_registry_client it needs a schema"):
        JSONDeserializer(None)


@pytest.mark.parametrize(
    ("value", "told"), [({"x": float("nan")}, "JSON"), ({"x": 1, "y": {1, 2}}, "JSON cannot say it")]
)
def test_what_json_cannot_say(client: SchemaRegistryClient, value: Any, told: str) -> None:
    with pytest.raises(SerializationError, match=told):
        JSONSerializer(ORDER, client)(value, VALUE)


def test_what_is_not_json(client: SchemaRegistryClient) -> None:
    data = JSONSerializer(ORDER, client)({"x": 5}, VALUE)
    assert data is not None
    with pytest.raises(SerializationError, match="it is not JSON"):
        JSONDeserializer(ORDER)(data + b"}", VALUE)
