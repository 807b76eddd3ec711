"""Typed columns beside the serializers of the clients: each reads what the other has written."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

pytest.importorskip("fastavro")
pytest.importorskip("jsonschema")
pytest.importorskip("google.protobuf")
pytest.importorskip("grpc_tools.protoc")

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from odradek import serdes
from odradek.spark.formats.encoding import typed_write
from odradek.spark.formats.options import sink_sides
from odradek.spark.option_values import Given
from odradek.testing import SchemaRegistry
from odradek.util.protobuf_text import compile_text

from .decoded import decode, side

VALUE = serdes.SerializationContext("t")
SCHEMA = (
    '{"type":"record","name":"R","fields":[{"name":"a","type":"long"},'
    '{"name":"s","type":["null","string"],"default":null}]}'
)
PROTO = """
syntax = "proto3"; package beside;
message First {}
message R { map<string, int32> m = 1; message Inner { int64 a = 1; string s = 2; } }
"""
COLUMNS = spark.StructType().add("a", "long").add("s", "string")
ROWS = [{"a": 5, "s": "ü"}, {"a": -1, "s": "x"}]


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as registry:
        yield registry


@pytest.fixture
def client(registry: SchemaRegistry) -> serdes.SchemaRegistryClient:
    return serdes.SchemaRegistryClient(url=registry.url)


def read(registry: SchemaRegistry, records: list[bytes | None], **options: str) -> list[Any]:
    rows, problems = decode(side(**options, value_schema_registry_url=registry.url), records)
    assert problems == []
    return rows


def written(registry: SchemaRegistry, **options: str) -> list[bytes]:
    given = {name.replace("_", "."): value for name, value in options.items()}
    sides = sink_sides(Given({**given, "value.schema.registry.url": registry.url}))
    batch = pa.RecordBatch.from_pylist(ROWS, pa.schema([("a", pa.int64()), ("s", pa.string())]))
    return typed_write(sides, COLUMNS, "t").rows(batch).column("value").to_pylist()


@pytest.fixture
def inner(tmp_path: Path) -> tuple[Any, str]:
    """The class of the message beside.R.Inner, and a file of descriptors."""
    files = compile_text([("beside.proto", PROTO)])
    pool = descriptor_pool.DescriptorPool()
    descriptors = descriptor_pb2.FileDescriptorSet()
    for data in files:
        pool.AddSerializedFile(data)
        descriptors.file.add().MergeFromString(data)
    path = tmp_path / "beside.desc"
    path.write_bytes(descriptors.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("beside.R.Inner")), str(path)


def test_avro_of_a_serializer_is_read(registry: SchemaRegistry, client: serdes.SchemaRegistryClient) -> None:
    serialize = serdes.AvroSerializer(client, SCHEMA)
    records = [serialize(row, VALUE) for row in [*ROWS, None]]
    assert read(registry, records, value_format="avro") == [*ROWS, None]


def test_a_deserializer_reads_avro_of_the_pipeline(
    registry: SchemaRegistry, client: serdes.SchemaRegistryClient
) -> None:
    deserialize = serdes.AvroDeserializer(client)
    for options in ({}, {"value_schema": SCHEMA}):
        records = written(registry, value_format="avro", **options)
        assert [deserialize(record, VALUE) for record in records] == ROWS
    assert records == [serdes.AvroSerializer(client, SCHEMA)(row, VALUE) for row in ROWS]


def test_avro_that_is_bytes_alone_has_no_length(
    registry: SchemaRegistry, client: serdes.SchemaRegistryClient
) -> None:
    """So Confluent's serializers write it (AbstractKafkaAvroSerializer)."""
    long = serdes.AvroSerializer(client, '"long"', conf={"subject.name.strategy": "RECORD"})
    data = serdes.AvroSerializer(client, '"bytes"')
    values = [b"", b"abc", b"x" * 100, None, b"\x00"]
    records = [data(value, VALUE) for value in values]
    for _ in range(2):
        assert read(registry, records, value_format="avro") == values
    bad = [*records, long(7, VALUE)]
    rows, problems = decode(side(value_format="avro", value_schema_registry_url=registry.url), bad)
    assert rows == [*values, None]
    assert [problem.row for problem in problems] == [5]
    sides = sink_sides(Given({"value.format": "avro", "value.schema.registry.url": registry.url}))
    batch = pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary())})
    schema = spark.StructType().add("value", "binary")
    assert typed_write(sides, schema, "t").rows(batch).column("value").to_pylist() == records


def test_decimals_that_are_bytes_alone(registry: SchemaRegistry, client: serdes.SchemaRegistryClient) -> None:
    values = [Decimal("12.34"), Decimal("-0.01"), Decimal("300.00"), None]
    sides = sink_sides(Given({"value.format": "avro", "value.schema.registry.url": registry.url}))
    batch = pa.RecordBatch.from_pydict({"value": pa.array(values, pa.decimal128(10, 2))})
    schema = spark.StructType().add("value", "decimal(10,2)")
    records = typed_write(sides, schema, "t").rows(batch).column("value").to_pylist()
    assert records[0] == b"\x00\x00\x00\x00\x01" + (1234).to_bytes(2, "big")
    assert read(registry, records, value_format="avro") == values
    assert serdes.AvroDeserializer(client)(records[0], VALUE) == (1234).to_bytes(2, "big")


@pytest.mark.parametrize("schema", ['["null","string"]', '{"type":"array","items":"R"}', '"R"'])
def test_names_of_references(
    registry: SchemaRegistry, client: serdes.SchemaRegistryClient, schema: str
) -> None:
    client.register_schema("r", serdes.Schema(SCHEMA))
    given = serdes.Schema(schema, references=[serdes.SchemaReference("R", "r", 1)])
    value: Any = {'"R"': ROWS[0], '["null","string"]': "s"}.get(schema, ROWS)
    record = serdes.AvroSerializer(client, given)(value, VALUE)
    row = read(registry, [record], value_format="avro")[0]
    # What is no record stands in a column of its own.
    assert row in (value, {"value": value})


def test_json_of_a_serializer_is_read(registry: SchemaRegistry, client: serdes.SchemaRegistryClient) -> None:
    serialize = serdes.JSONSerializer('{"type":"object"}', client)
    records = [serialize(row, VALUE) for row in ROWS]
    assert read(registry, records, value_format="json", value_schema="a BIGINT, s STRING") == ROWS


def test_protobuf_of_a_serializer_is_read(
    registry: SchemaRegistry, client: serdes.SchemaRegistryClient, inner: tuple[Any, str]
) -> None:
    kind, _ = inner
    serialize = serdes.ProtobufSerializer(kind, client)
    records = [serialize(kind(**row), VALUE) for row in ROWS]
    options = {"value_format": "protobuf", "value_schema_message": "beside.R.Inner"}
    assert read(registry, records, **options) == ROWS


def test_protobuf_that_counts_no_entries_is_read(
    registry: SchemaRegistry, client: serdes.SchemaRegistryClient, inner: tuple[Any, str]
) -> None:
    """So does Confluent's serializer for Java, of a schema that is registered in protobuf's language."""
    kind, _ = inner
    number = registry.register("t-value", PROTO, "PROTOBUF")
    frame = b"\x00" + number.to_bytes(4, "big") + b"\x04\x02\x00"
    records = [frame + kind(**row).SerializeToString() for row in ROWS]
    options = {"value_format": "protobuf", "value_schema_message": "beside.R.Inner"}
    assert read(registry, records, **options) == ROWS
    deserialize = serdes.ProtobufDeserializer(kind, None, client)
    assert [deserialize(record, VALUE).a for record in records] == [5, -1]


def test_a_deserializer_reads_protobuf_of_the_pipeline(
    registry: SchemaRegistry, client: serdes.SchemaRegistryClient, inner: tuple[Any, str]
) -> None:
    kind, path = inner
    options = {"value_format": "protobuf", "value_schema": path, "value_schema_message": "beside.R.Inner"}
    records = written(registry, **options)
    deserialize = serdes.ProtobufDeserializer(kind, None, client)
    assert [deserialize(record, VALUE) for record in records] == [kind(**row) for row in ROWS]
    assert records == [serdes.ProtobufSerializer(kind, client)(kind(**row), VALUE) for row in ROWS]
