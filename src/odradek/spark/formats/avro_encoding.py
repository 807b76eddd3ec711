"""Values of columns as Avro, by a given schema or one made of the columns' types."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import types as spark

from odradek.serdes.avro_schemas import parsed_avro
from odradek.serdes.errors import SchemaError
from odradek.serdes.schemas import AVRO, Schema
from odradek.serdes.wire_format import frame_of
from odradek.spark.formats.avro_schema import (
    NO_DEFAULT,
    AvroType,
    parse_schema,
    spark_type,
    union_members,
    widest,
)
from odradek.spark.formats.errors import UnwritableRowError
from odradek.spark.formats.layouts import subject_of
from odradek.spark.formats.options import SideOptions
from odradek.spark.formats.registry import schemas_of
from odradek.util.extras import install

Convert = Callable[[Any], Any]
_NAMES: dict[type, Any] = {
    spark.BooleanType: "boolean",
    spark.ByteType: "int",
    spark.ShortType: "int",
    spark.IntegerType: "int",
    spark.LongType: "long",
    spark.FloatType: "float",
    spark.DoubleType: "double",
    spark.StringType: "string",
    spark.BinaryType: "bytes",
    spark.DateType: {"type": "int", "logicalType": "date"},
    spark.TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
    spark.TimestampNTZType: {"type": "long", "logicalType": "local-timestamp-micros"},
}
_WIDER = {"int": ("tinyint", "smallint"), "bigint": ("tinyint", "smallint", "int"), "double": ("float",)}


@dataclass(frozen=True)
class AvroEncoding:
    """A column as Avro.

    Attributes:
        schema: what is written by, as JSON.
        references: schemas that it uses.
        frame: the bytes before each record.
    """

    schema: str
    references: tuple[str, ...]
    frame: bytes

    def encoder(self) -> Callable[[Any], bytes]:
        import fastavro

        parsed = parsed_avro(self.schema, self.references)
        schema = parse_schema(self.schema, self.references)
        convert = converter(schema) or (lambda value: value)
        frame = self.frame
        # Confluent's serializers write no length there (AbstractKafkaAvroSerializer).
        is_bare = bool(frame) and schema.type == "bytes"

        def encode(value: Any) -> bytes:
            out = io.BytesIO()
            try:
                fastavro.schemaless_writer(out, parsed, convert(value))
            except (ValueError, TypeError, OverflowError, KeyError, AttributeError) as problem:
                raise UnwritableRowError(f"a row does not fit the Avro schema: {problem}") from problem
            data = out.getvalue()
            if is_bare:
                # The length ends with the first byte that does not say that another follows.
                data = data[next(at for at, byte in enumerate(data) if byte < 0x80) + 1 :]
            return frame + data

        return encode


def encoding(options: SideOptions, data_type: Any, topics: tuple[str, ...]) -> AvroEncoding:
    """Return the way of a column into Avro.

    Raises:
        SchemaError: the column's values cannot be written by the schema, or fastavro is missing.
        ValueError: the options do not go together.
        RegistryError: the registry cannot be asked, or refuses.
    """
    try:
        import fastavro  # noqa: F401
    except ImportError:
        raise SchemaError(f"Avro is written with the package fastavro: {install('avro')}") from None
    if options.registry is None:
        text = options.schema or json.dumps(avro_of(data_type))
        _check(data_type, parse_schema(text), options.side)
        return AvroEncoding(text, (), b"")
    schemas = schemas_of(options.registry)
    subject = subject_of(options, topics)
    if options.register:
        text = options.schema or json.dumps(avro_of(data_type))
        _check(data_type, parse_schema(text), options.side)
        return AvroEncoding(text, (), frame_of(schemas.client.register_schema(subject, Schema(text))))
    if options.schema:
        raise ValueError(
            f"{options.side}.schema.register is false: the schema of the registry is used; leave "
            f"{options.side}.schema out"
        )
    newest = schemas.version(subject, "latest")
    if newest.schema_type != AVRO:
        raise SchemaError(f"the newest schema of the subject '{subject}' is of type {newest.schema_type}")
    references = tuple(text for _, text in newest.references)
    _check(data_type, parse_schema(newest.text, references), options.side)
    return AvroEncoding(newest.text, references, frame_of(newest.schema_id))


def avro_of(data_type: Any, name: str = "topLevelRecord") -> Any:
    """An Avro schema for a type, as JSON has it: all below the top may be null.

    Raises:
        SchemaError: Avro has no such type.
    """
    if isinstance(data_type, spark.StructType):
        fields = [
            {
                "name": field.name,
                "type": ["null", avro_of(field.dataType, f"{name}.{field.name}")],
                "default": None,
            }
            for field in data_type.fields
        ]
        space, _, short = name.rpartition(".")
        return {"type": "record", "name": short, **({"namespace": space} if space else {}), "fields": fields}
    if isinstance(data_type, spark.ArrayType):
        return {"type": "array", "items": ["null", avro_of(data_type.elementType, f"{name}.element")]}
    if isinstance(data_type, spark.MapType) and isinstance(data_type.keyType, spark.StringType):
        return {"type": "map", "values": ["null", avro_of(data_type.valueType, f"{name}.value")]}
    if isinstance(data_type, spark.DecimalType):
        return {
            "type": "bytes",
            "logicalType": "decimal",
            "precision": data_type.precision,
            "scale": data_type.scale,
        }
    if type(data_type) not in _NAMES:
        raise SchemaError(f"Avro has no {data_type.simpleString()}")
    return _NAMES[type(data_type)]


def _check(data_type: Any, schema: AvroType, path: str) -> None:
    """Check that values of a type can be written by a schema.

    Raises:
        SchemaError: they cannot.
    """
    members = union_members(schema) if schema.type == "union" else []
    if len(members) == 1:
        return _check(data_type, members[0], path)
    if schema.type == "record" and isinstance(data_type, spark.StructType):
        there = set(data_type.fieldNames())
        for field in schema.fields:
            if field.name in there:
                _check(data_type[field.name].dataType, field.type, f"{path}.{field.name}")
            elif field.default is NO_DEFAULT:
                raise SchemaError(
                    f"the schema's field '{path}.{field.name}' has no default, and no column is called so"
                )
        unknown = there - {field.name for field in schema.fields}
        if unknown:
            raise SchemaError(f"the schema has no field '{path}.{min(unknown)}'; leave the column out")
        return None
    if schema.type == "array" and isinstance(data_type, spark.ArrayType):
        assert schema.items is not None
        return _check(data_type.elementType, schema.items, f"{path}.element")
    if schema.type == "map" and isinstance(data_type, spark.MapType):
        assert schema.items is not None
        return _check(data_type.valueType, schema.items, f"{path}.value")
    schema_type = spark_type(schema).simpleString()
    column_type = data_type.simpleString()
    if column_type != schema_type and column_type not in _WIDER.get(schema_type, ()):
        raise SchemaError(f"'{path}' is of type {column_type}, and the schema wants {schema_type}; cast it")
    return None


def converter(schema: AvroType) -> Convert | None:
    """Return what makes of a value of Arrow's one that fastavro takes; None where they are the same."""
    return _converter(schema, {})


def _converter(schema: AvroType, by_type: dict[AvroType, Convert | None]) -> Convert | None:
    """As `converter`. A type is looked at once: it may be used many times, or in itself."""
    if schema not in by_type:
        converters: list[Convert | None] = []

        def inside(value: Any) -> Any:
            convert = converters[0]
            return value if convert is None else convert(value)

        by_type[schema] = inside
        converters.append(_made(schema, by_type))
        by_type[schema] = converters[0]
    return by_type[schema]


def _made(schema: AvroType, by_type: dict[AvroType, Convert | None]) -> Convert | None:
    if schema.type == "union":
        return _of_union(schema, by_type)
    if schema.type == "record":
        inner = [(field.name, _converter(field.type, by_type)) for field in schema.fields]
        needed = [(name, convert) for name, convert in inner if convert is not None]
        if not needed:
            return None

        def record(value: Any) -> Any:
            encoded = dict(value)
            for name, convert in needed:
                if encoded.get(name) is not None:
                    encoded[name] = convert(encoded[name])
            return encoded

        return record
    if schema.type == "array":
        assert schema.items is not None
        element = _converter(schema.items, by_type)
        if element is None:
            return None
        return lambda value: [None if item is None else element(item) for item in value]
    if schema.type == "map":
        assert schema.items is not None
        inner_value = _converter(schema.items, by_type)
        if inner_value is None:
            return dict
        return lambda value: {
            key: None if item is None else inner_value(item) for key, item in dict(value).items()
        }
    return None


def _of_union(schema: AvroType, by_type: dict[AvroType, Convert | None]) -> Convert | None:
    members = union_members(schema)
    if len(members) == 1:
        return _converter(members[0], by_type)
    if widest(members):
        return None
    branches = [
        (f"member{number}", member.name or member.type, _converter(member, by_type))
        for number, member in enumerate(members)
    ]

    def union(value: Any) -> Any:
        for name, branch, inner in branches:
            chosen = value[name]
            if chosen is not None:
                chosen = chosen if inner is None else inner(chosen)
                # A record says by its name which branch it is; other values by their own type.
                return (branch, chosen)
        return None

    return union
