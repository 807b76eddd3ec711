"""Values of columns as JSON, as Spark's own `to_json` writes it: members that are null are left out."""

from __future__ import annotations

import base64
import datetime
import math
from collections.abc import Callable
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any

from pyspark.sql import types as spark

from odradek.serdes.errors import SchemaError
from odradek.spark.formats.options import SideOptions

Write = Callable[[Any], str]


@dataclass(frozen=True)
class JsonEncoding:
    """A column as JSON."""

    type: Any

    def encoder(self) -> Callable[[Any], bytes]:
        write = writer_of(self.type)
        return lambda value: write(value).encode()


def encoding(options: SideOptions, data_type: Any) -> JsonEncoding:
    """Return how a column of `data_type` becomes JSON.

    Raises:
        SchemaError: JSON here does not have the type.
        ValueError: an option asks for a schema.
    """
    side = options.side
    if options.registry is not None:
        raise ValueError(
            f"{side}.schema.registry.url: JSON is written without a schema of a registry; leave "
            "the option out"
        )
    if options.schema:
        raise ValueError(f"{side}.schema: JSON is written as the column's type says; leave the option out")
    writer_of(data_type)
    return JsonEncoding(data_type)


def writer_of(data_type: Any) -> Write:
    """Return what writes values of a type.

    Raises:
        SchemaError: JSON here does not have the type.
    """
    if isinstance(data_type, spark.StructType):
        return _struct(data_type)
    if isinstance(data_type, spark.ArrayType):
        element = _or_null(writer_of(data_type.elementType))
        return lambda value: "[" + ",".join([element(item) for item in value]) + "]"
    if isinstance(data_type, spark.MapType):
        if not isinstance(data_type.keyType, spark.StringType):
            raise SchemaError("the keys of a JSON object are strings; cast the map's")
        inner = _or_null(writer_of(data_type.valueType))
        return lambda value: (
            "{" + ",".join([f"{encode_basestring(key)}:{inner(item)}" for key, item in _pairs(value)]) + "}"
        )
    plain = _PLAIN.get(type(data_type))
    if plain is None:
        raise SchemaError(f"JSON has no {data_type.simpleString()}")
    return plain


def _struct(data_type: Any) -> Write:
    fields = [
        (field.name, encode_basestring(field.name) + ":", writer_of(field.dataType))
        for field in data_type.fields
    ]

    def write(value: Any) -> str:
        return (
            "{"
            + ",".join(
                [
                    label + inner(member)
                    for name, label, inner in fields
                    if (member := value[name]) is not None
                ]
            )
            + "}"
        )

    return write


def _or_null(write: Write) -> Write:
    return lambda value: "null" if value is None else write(value)


def _pairs(value: Any) -> Any:
    return value.items() if isinstance(value, dict) else value


def _real(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def _moment(value: datetime.datetime) -> str:
    """As Spark: milliseconds, or microseconds where there are some."""
    digits = "milliseconds" if value.microsecond % 1000 == 0 else "microseconds"
    text = value.replace(tzinfo=None).isoformat(timespec=digits)
    return f'"{text}Z"' if value.tzinfo is not None else f'"{text}"'


_PLAIN: dict[type, Write] = {
    spark.BooleanType: lambda value: "true" if value else "false",
    spark.ByteType: str,
    spark.ShortType: str,
    spark.IntegerType: str,
    spark.LongType: str,
    spark.FloatType: _real,
    spark.DoubleType: _real,
    spark.DecimalType: lambda value: f"{value:f}",
    spark.StringType: encode_basestring,
    spark.BinaryType: lambda value: f'"{base64.b64encode(value).decode()}"',
    spark.DateType: lambda value: f'"{value.isoformat()}"',
    spark.TimestampType: _moment,
    spark.TimestampNTZType: _moment,
}
