"""A field's default, which a schema has as JSON, in Avro's binary encoding. Pure."""

from __future__ import annotations

import struct
from typing import Any

from odradek.records.varint import encode_varlong
from odradek.spark.formats.avro_schema import NO_DEFAULT, AvroType
from odradek.spark.formats.errors import SchemaError


def encode_default(schema: AvroType, value: Any) -> bytes:
    """Encode `value` as `schema`. Raises `SchemaError` where it does not fit."""
    try:
        return _encode(schema, value)
    except (TypeError, ValueError, AttributeError, struct.error) as problem:
        raise SchemaError(
            f"the default {value!r} does not fit the Avro type '{schema.name or schema.type}' ({problem})"
        ) from None


def zigzag(number: int) -> bytes:
    """A long."""
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError("it does not fit 64 bits")
    return encode_varlong(number)


def _encode(schema: AvroType, value: Any) -> bytes:
    kind = schema.type
    if kind == "null":
        if value is not None:
            raise ValueError("it is not null")
        return b""
    if kind == "boolean":
        if not isinstance(value, bool):
            raise ValueError("it is not true or false")
        return bytes([value])
    if kind in ("int", "long"):
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError("it is not a whole number")
        return zigzag(value)
    if kind in ("float", "double"):
        return struct.pack("<f" if kind == "float" else "<d", float(value))
    if kind == "string":
        return _sized(value.encode())
    if kind == "bytes":
        return _sized(value.encode("latin-1"))
    if kind == "fixed":
        data: bytes = value.encode("latin-1")
        if len(data) != schema.size:
            raise ValueError(f"it has not {schema.size} bytes")
        return data
    if kind == "enum":
        return zigzag(schema.symbols.index(value))
    assert schema.items is not None or kind in ("record", "union")
    if kind == "array":
        items = b"".join(_encode(schema.items, one) for one in value)  # type: ignore[arg-type]
        return (zigzag(len(value)) + items if value else b"") + b"\x00"
    if kind == "map":
        pairs = b"".join(
            _sized(key.encode()) + _encode(schema.items, one)  # type: ignore[arg-type]
            for key, one in value.items()
        )
        return (zigzag(len(value)) + pairs if value else b"") + b"\x00"
    if kind == "union":
        return _branch(schema, value)
    return b"".join(_field(value, one.name, one.type, one.default) for one in schema.fields)


def _sized(data: bytes) -> bytes:
    return zigzag(len(data)) + data


def _branch(schema: AvroType, value: Any) -> bytes:
    """The first branch that the value fits."""
    for number, branch in enumerate(schema.branches):
        try:
            return zigzag(number) + _encode(branch, value)
        except (TypeError, ValueError, AttributeError, struct.error):
            continue
    raise ValueError("no branch of the union is of its type")


def _field(record: Any, name: str, schema: AvroType, default: Any) -> bytes:
    value = record.get(name, default)
    if value is NO_DEFAULT:
        raise ValueError(f"it lacks '{name}'")
    return _encode(schema, value)
