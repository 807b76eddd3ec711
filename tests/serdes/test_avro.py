"""Avro's serializer and deserializer, against the registry of the test kit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import pytest

pytest.importorskip("fastavro")

from odradek.client.errors import ConfigError, SerializationError
from odradek.serdes import (
    AvroDeserializer,
    AvroSerializer,
    Schema,
    SchemaError,
    SchemaReference,
    SchemaRegistryClient,
    SerializationContext,
)
from odradek.testing import SchemaRegistry

R1 = '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":"int"}]}'
R2 = (
    '{"type":"record","name":"R","namespace":"n","fields":'
    '[{"name":"a","type":"int"},{"name":"b","type":"int","default":1}]}'
)
ONLY_B = '{"type":"record","name":"R","namespace":"n","fields":[{"name":"b","type":"int","default":1}]}'
VALUE, KEY = SerializationContext("t"), SerializationContext("t", "key")
NO_REGISTERING = {"auto.register.schemas": False}


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry(compatibility="BACKWARD") as registry:
        yield registry


@pytest.fixture
def client(registry: SchemaRegistry) -> SchemaRegistryClient:
    return SchemaRegistryClient(url=registry.url, max_retries=0)


@dataclass
class R:
    a: int


def test_there_and_back(client: SchemaRegistryClient) -> None:
    data = AvroSerializer(client, R1)({"a": 5}, VALUE)
    assert data == b"\x00\x00\x00\x00\x01\x0a"
    assert client.get_subjects() == ["t-value"]
    assert AvroDeserializer(client)(data, VALUE) == {"a": 5}


def test_a_tombstone_asks_for_nothing(registry: SchemaRegistry, client: SchemaRegistryClient) -> None:
    assert AvroSerializer(client, R1)(None, VALUE) is None
    assert AvroSerializer(client, R1).for_field("value")("t", None) is None
    assert AvroDeserializer(client)(None, VALUE) is None
    assert registry.requests == []


def test_the_reader_s_schema_projects(client: SchemaRegistryClient) -> None:
    data = AvroSerializer(client, R2)({"a": 5, "b": 7}, VALUE)
    assert AvroDeserializer(client, ONLY_B)(data, VALUE) == {"b": 7}
    assert AvroDeserializer(client, R1)(data, VALUE) == {"a": 5}
    older = AvroSerializer(client, R1)({"a": 5}, SerializationContext("u"))
    assert AvroDeserializer(client, R2)(older, VALUE) == {"a": 5, "b": 1}
    with pytest.raises(SerializationError, match="cannot be read by the Avro schema"):
        AvroDeserializer(client, '"string"')(older, VALUE)


def test_objects_by_hooks(client: SchemaRegistryClient) -> None:
    contexts: list[Any] = []

    def with_context(value: R, ctx: SerializationContext) -> dict[str, int]:
        contexts.append(ctx)
        return {"a": value.a}

    for hook in (asdict, with_context):
        data = AvroSerializer(client, R1, hook)(R(5), VALUE)
        assert AvroDeserializer(client, from_dict=lambda fields: R(**fields))(data, VALUE) == R(5)
    assert AvroDeserializer(client, None, lambda fields, ctx: (ctx.topic, R(**fields)))(data, VALUE) == (
        "t",
        R(5),
    )
    assert contexts == [VALUE]


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        ("TOPIC", "t-key"),
        ("RECORD", "n.R"),
        ("TOPIC_RECORD", "t-n.R"),
        ("io.confluent.kafka.serializers.subject.RecordNameStrategy", "n.R"),
        (lambda ctx, name: f"{name}/{ctx.topic}/{ctx.field}", "n.R/t/key"),
    ],
)
def test_subjects(client: SchemaRegistryClient, strategy: Any, subject: str) -> None:
    AvroSerializer(client, R1, conf={"subject.name.strategy": strategy})({"a": 1}, KEY)
    assert client.get_subjects() == [subject]


def test_a_union_has_no_name(client: SchemaRegistryClient) -> None:
    serializer = AvroSerializer(client, f'["null",{R1}]', conf={"subject.name.strategy.type": "RECORD"})
    with pytest.raises(SerializationError, match="its schema has no name"):
        serializer({"a": 1}, VALUE)


def test_what_is_not_registered_is_found_or_refused(client: SchemaRegistryClient) -> None:
    serializer = AvroSerializer(client, R1, conf=NO_REGISTERING)
    with pytest.raises(SerializationError, match="does not have this schema in the subject 't-value'"):
        serializer({"a": 1}, VALUE)
    client.register_schema("t-value", Schema(R1))
    # What could not be found is asked for again.
    assert serializer({"a": 1}, VALUE) == b"\x00\x00\x00\x00\x01\x02"


def test_what_the_registry_refuses_is_not_written(client: SchemaRegistryClient) -> None:
    AvroSerializer(client, R1)({"a": 1}, VALUE)
    with pytest.raises(SerializationError, match=r"a new schema for the subject 't-value'.*incompatible"):
        AvroSerializer(client, '"string"')("x", VALUE)


def test_the_newest_version_is_taken(registry: SchemaRegistry, client: SchemaRegistryClient) -> None:
    client.register_schema("t-value", Schema(R1))
    serializer = AvroSerializer(client, conf={"use.latest.version": True})
    assert serializer({"a": 1}, VALUE) == b"\x00\x00\x00\x00\x01\x02"
    client.register_schema("t-value", Schema(R2))
    assert serializer({"a": 1}, VALUE) == b"\x00\x00\x00\x00\x01\x02"
    fresh = SchemaRegistryClient(url=registry.url, cache_latest_ttl_sec=0)
    data = AvroSerializer(fresh, conf={"use.latest.version": True})({"a": 1}, VALUE)
    assert data == b"\x00\x00\x00\x00\x02\x02\x02"
    reader = AvroDeserializer(fresh, conf={"use_latest_version": True})
    assert reader(b"\x00\x00\x00\x00\x01\x02", VALUE) == {"a": 1, "b": 1}


def test_the_newest_with_metadata_is_taken(client: SchemaRegistryClient) -> None:
    for schema, application in ((R1, "old"), (R2, "new")):
        metadata = {"properties": {"application": application, "owner": "me"}}
        client.register_schema("t-value", Schema(schema, metadata=metadata))
    conf = {"use.latest.with.metadata": {"application": "old"}}
    assert AvroSerializer(client, conf=conf)({"a": 1}, VALUE) == b"\x00\x00\x00\x00\x01\x02"
    data = b"\x00\x00\x00\x00\x02\x02\x04"
    assert AvroDeserializer(client, conf=conf)(data, VALUE) == {"a": 1}
    with pytest.raises(SerializationError, match=r"with the metadata \{'application': 'none'\}"):
        AvroSerializer(client, conf={"use.latest.with.metadata": {"application": "none"}})({}, VALUE)


def test_the_schema_of_an_id_is_taken(client: SchemaRegistryClient) -> None:
    number = client.register_schema("elsewhere", Schema(R1))
    data = AvroSerializer(client, conf={"use.schema.id": number})({"a": 1}, VALUE)
    assert data == b"\x00\x00\x00\x00\x01\x02"
    assert client.get_subjects() == ["elsewhere"]
    client.register_schema("j", Schema('{"type":"object"}', "JSON"))
    with pytest.raises(SerializationError, match="is of type JSON, not AVRO"):
        AvroSerializer(client, conf={"use.schema.id": 2})({"a": 1}, VALUE)


def test_there_has_to_be_a_schema(client: SchemaRegistryClient) -> None:
    with pytest.raises(SerializationError, match=r"needs a schema: give one, or use\.latest"):
        AvroSerializer(client)({"a": 1}, VALUE)


def test_references(client: SchemaRegistryClient) -> None:
    client.register_schema("inner", Schema(R1))
    outer = Schema(
        '{"type":"record","name":"O","fields":[{"name":"r","type":"n.R"}]}',
        references=[SchemaReference("n.R", "inner", 1)],
    )
    data = AvroSerializer(client, outer)({"r": {"a": 5}}, VALUE)
    assert AvroDeserializer(client)(data, VALUE) == {"r": {"a": 5}}
    assert AvroDeserializer(client, outer)(data, VALUE) == {"r": {"a": 5}}


def test_bytes_are_written_without_their_length(client: SchemaRegistryClient) -> None:
    """As Confluent's serializers do."""
    decimal = '{"type":"bytes","logicalType":"decimal","precision":4}'
    for schema in ('"bytes"', '{"type":"bytes"}', decimal):
        data = AvroSerializer(client, schema)(b"abc", VALUE)
        assert data is not None
        assert data[5:] == b"abc"
        assert AvroDeserializer(client)(data, VALUE) == b"abc"
        with pytest.raises(SerializationError, match="it is int, and its Avro schema wants bytes"):
            AvroSerializer(client, schema)(5, VALUE)


def test_values_that_do_not_fit(client: SchemaRegistryClient) -> None:
    for value in ({"a": "x"}, {}, 5, {"a": 2**70}):
        with pytest.raises(SerializationError, match="does not fit the Avro schema"):
            AvroSerializer(client, R1)(value, VALUE)
    strict = AvroSerializer(client, R1, conf={"validate.strict": True})
    with pytest.raises(SerializationError, match="does not fit the Avro schema"):
        strict({"a": 1, "unknown": 2}, VALUE)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"\x00\x00", "too few"),
        (b"plain text", "first byte is 112"),
        (b"\x00\x00\x00\x00\x01", "cannot be read"),
        (b"\x00\x00\x00\x00\x01\x02more", "something follows"),
        (b"\x00\x00\x00\x00\x09\x02", "does not have the schema with id 9"),
    ],
)
def test_bytes_that_cannot_be_read(client: SchemaRegistryClient, data: bytes, told: str) -> None:
    client.register_schema("t-value", Schema(R1))
    with pytest.raises((SerializationError, ValueError), match=told):
        AvroDeserializer(client)(data, VALUE)


def test_a_schema_is_asked_for_once(registry: SchemaRegistry, client: SchemaRegistryClient) -> None:
    serializer, deserializer = AvroSerializer(client, R1), AvroDeserializer(client)
    for number in range(3):
        assert deserializer(serializer({"a": number}, VALUE), VALUE) == {"a": number}
    assert registry.requests == ["POST /subjects/t-value/versions", "GET /schemas/ids/1"]


def test_rules_are_not_passed_over(client: SchemaRegistryClient) -> None:
    """They may say to encrypt a field."""
    rules = {"domainRules": [{"name": "encrypt the card", "kind": "TRANSFORM", "type": "ENCRYPT"}]}
    client.register_schema("t-value", Schema(R1, rule_set=rules))
    with pytest.raises(SerializationError, match="rules, which are not carried out here: encrypt the card"):
        AvroSerializer(client, conf={"use.latest.version": True})({"a": 1}, VALUE)
    with pytest.raises(SerializationError, match="rules, which are not carried out here"):
        AvroDeserializer(client)(b"\x00\x00\x00\x00\x01\x02", VALUE)


@pytest.mark.parametrize("schema", ["", "{", '{"type":"record"}', '"unknown"'])
def test_a_schema_that_is_none_is_refused_at_once(client: SchemaRegistryClient, schema: str) -> None:
    for kind in (AvroSerializer, AvroDeserializer):
        with pytest.raises(SchemaError):
            kind(client, schema)


@pytest.mark.parametrize(
    ("conf", "told"),
    [
        ({"auto.register": True}, "did you mean auto.register.schemas"),
        ({"auto.register.schemas": "perhaps"}, "neither true nor false"),
        ({"use.latest.version": True, "auto.register.schemas": True}, "exclude each other"),
        ({"use.latest.version": True, "use.schema.id": 1}, "exclude each other"),
        ({"use.schema.id": "one"}, "not the id of a schema"),
        ({"use.latest.with.metadata": "x"}, "give a mapping"),
        ({"subject.name.strategy": "BY_MOON"}, "give a callable, or one of TOPIC, RECORD"),
        ({"validate": True}, "AvroSerializer has no such config"),
    ],
)
def test_configs_that_cannot_be_used(client: SchemaRegistryClient, conf: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        AvroSerializer(client, R1, conf=conf)


def test_a_context_is_needed(client: SchemaRegistryClient) -> None:
    with pytest.raises(SerializationError, match="needs a SerializationContext"):
        AvroSerializer(client, R1)({"a": 1})
