"""confluent-kafka's client of schema registries, and its serializers, against ours."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

pytest.importorskip("fastavro")
pytest.importorskip("jsonschema")
pytest.importorskip("google.protobuf")
pytest.importorskip("grpc_tools.protoc")
with warnings.catch_warnings():
    # Its own imports warn of what they import.
    warnings.simplefilter("ignore")
    for name in ("", ".avro", ".json_schema", ".protobuf"):
        pytest.importorskip(
            f"confluent_kafka.schema_registry{name}",
            reason="needs pip install 'confluent-kafka[avro,json,protobuf]'",
        )

from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    dual_schema_id_deserializer,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from odradek.testing import SchemaRegistry
from odradek.util.protobuf_text import compile_text

pytestmark = pytest.mark.filterwarnings("ignore")
R1 = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
R2 = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":"int","default":1}]}'
R3 = '{"type":"record","name":"R","fields":[{"name":"c","type":"string"}]}'
INNER = 'syntax = "proto3"; package in; message In { string s = 1; }'
OUTER = """
syntax = "proto3"; package out; import "in.proto"; import "google/protobuf/timestamp.proto";
message Other {}
message Sale {
  int32 x = 1; in.In inside = 2; google.protobuf.Timestamp at = 3; map<string, int64> m = 4;
  optional string o = 5; oneof q { int32 a = 6; string b = 7; }
}
"""


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry("me:secret", compatibility="BACKWARD") as registry:
        yield registry


@pytest.fixture
def client(registry: SchemaRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url, "basic.auth.user.info": "me:secret"}) as client:
        yield client


def value_of(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def test_avro(client: SchemaRegistryClient) -> None:
    data = AvroSerializer(client, R1)({"a": 5}, value_of("t"))
    assert data == b"\x00\x00\x00\x00\x01\x0a"
    assert AvroDeserializer(client)(data, value_of("t")) == {"a": 5}
    assert AvroDeserializer(client, R2)(data, value_of("t")) == {"a": 5, "b": 1}
    with pytest.raises(Exception, match="incompatible"):
        AvroSerializer(client, R3)({"c": ""}, value_of("t"))


def test_a_guid_in_a_header(client: SchemaRegistryClient, registry: SchemaRegistry) -> None:
    context = SerializationContext("t", MessageField.VALUE, [])
    config = {"schema.id.serializer": header_schema_id_serializer}
    value = {"c": "tea and milk"}  # the deserializer takes less than six bytes for no data of its own
    data = AvroSerializer(client, R3, conf=config)(value, context)
    assert data == b"\x18tea and milk"
    [(name, header)] = context.headers
    assert (name, header[:1]) == ("__value_schema_id", b"\x01")
    with SchemaRegistryClient({"url": registry.url, "basic.auth.user.info": "me:secret"}) as other:
        config = {"schema.id.deserializer": dual_schema_id_deserializer}
        assert AvroDeserializer(other, conf=config)(data, context) == value
        guid = str(UUID(bytes=header[1:]))
        assert other.get_schema_by_guid(guid).schema_str == R3
        with pytest.raises(SchemaRegistryError, match="40403"):
            other.get_schema_by_guid(str(UUID(int=0)))
    registered = client.register_schema_full_response("u", Schema(R2, "AVRO"))
    assert (registered.version, registered.guid is not None) == (1, True)


def test_json(client: SchemaRegistryClient) -> None:
    schema = '{"title": "j", "type": "object", "properties": {"x": {"type": "integer"}}}'
    data = JSONSerializer(schema, client)({"x": 5}, value_of("t"))
    assert JSONDeserializer(None, schema_registry_client=client)(data, value_of("t")) == {"x": 5}


def test_json_with_references(client: SchemaRegistryClient) -> None:
    client.register_schema("inner", Schema('{"type":"integer"}', "JSON"))
    schema = Schema(
        '{"title":"j","type":"object","properties":{"x":{"$ref":"i.json"}}}',
        "JSON",
        [SchemaReference("i.json", "inner", 1)],
    )
    data = JSONSerializer(schema, client)({"x": 5}, value_of("t"))
    read = JSONDeserializer(schema, schema_registry_client=client)(data, value_of("t"))
    assert read == {"x": 5}


def sale() -> Any:
    """Return the class of a message, made as generated code makes it."""
    pool = descriptor_pool.Default()
    for data in compile_text([("in.proto", INNER), ("out.proto", OUTER)]):
        if not descriptor_pb2.FileDescriptorProto.FromString(data).name.startswith("google/"):
            pool.AddSerializedFile(data)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("out.Sale"))


def test_protobuf(client: SchemaRegistryClient) -> None:
    kind = sale()
    configs = {"use.deprecated.format": False}
    message = kind(x=4, m={"k": 1}, b="z")
    message.inside.s = "y"
    data = ProtobufSerializer(kind, client, configs)(message, value_of("t"))
    assert data is not None and data.startswith(b"\x00\x00\x00\x00\x02\x02\x02")
    assert ProtobufDeserializer(kind, configs, client)(data, value_of("t")) == message
    assert client.get_subjects() == ["in.proto", "t-value"]
    version = client.get_latest_version("t-value")
    assert version.schema.references == [SchemaReference("in.proto", "in.proto", 1)]
    assert "message Sale {" in version.schema.schema_str
    # The same, as text: one schema.
    text = Schema(OUTER, "PROTOBUF", version.schema.references)
    assert client.register_schema("t-value", text) == version.schema_id


def test_what_an_administrator_asks(client: SchemaRegistryClient) -> None:
    assert client.register_schema("s", Schema(R1, "AVRO")) == 1
    assert client.register_schema("s", Schema(R2, "AVRO")) == 2
    assert client.lookup_schema("s", Schema(R1, "AVRO")).version == 1
    assert client.get_schema(2).schema_str == R2
    assert client.get_versions("s") == [1, 2]
    assert client.get_version("s", 1).schema_id == 1
    assert client.test_compatibility("s", Schema(R3, "AVRO")) is False
    with pytest.raises(SchemaRegistryError) as caught:
        client.register_schema("s", Schema(R3, "AVRO"))
    assert (caught.value.http_status_code, caught.value.error_code) == (409, 409)
    assert client.get_compatibility() == "BACKWARD"
    client.set_compatibility("s", "NONE")
    assert client.get_compatibility("s") == "NONE"
    assert client.register_schema("s", Schema(R3, "AVRO")) == 3
    assert client.delete_version("s", 2) == 2
    assert client.delete_subject("s") == [1, 3]
    assert client.get_subjects() == []
    with pytest.raises(SchemaRegistryError) as caught:
        client.get_latest_version("s")
    assert caught.value.error_code == 40401
