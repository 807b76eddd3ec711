"""A field's default, which a schema has as JSON, in Avro's binary encoding. Pure."""

from __future__ import annotations

import struct
from typing import Any

from odradek.records.varint import encode_varlong
from odradek.serdes.errors import SchemaError
from odradek.spark.formats.avro_schema import NO_DEFAULT, AvroType
from odradek.spark.formats.bounds import MOST_STEPS


def encode_default(schema: AvroType, value: Any) -> bytes:
    """Encode `value` as `schema`.

    Raises:
        SchemaError: it does not fit, or is of too many values: fields that it lacks have their own defaults,
            in which others may be lacking.
    """
    encoder = _Encoder()
    try:
        return encoder.encode(schema, value)
    except RecursionError:
        raise SchemaError(
            f"the default of the Avro type '{schema.name or schema.type}' is nested too deep"
        ) from None
    except (TypeError, ValueError, AttributeError, struct.error) as problem:
        if encoder.values > MOST_STEPS:
            raise SchemaError(
                f"the default of the Avro type '{schema.name or schema.type}' has more than {MOST_STEPS:,} "
                "values, which is the most"
            ) from None
        raise SchemaError(
            f"the default {value!r} does not fit the Avro type '{schema.name or schema.type}' ({problem})"
        ) from None


def zigzag(number: int) -> bytes:
    """A long."""
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError("it does not fit 64 bits")
    return encode_varlong(number)


def _sized(data: bytes) -> bytes:
    return zigzag(len(data)) + data


class _Encoder:
    """Encodes one default.

    Attributes:
        values: how many have been so far, those inside others counted.
    """

    def __init__(self) -> None:
        self.values = 0

    def encode(self, schema: AvroType, value: Any) -> bytes:
        """Encode a value of which a default is made."""
        self.values += 1
        if self.values > MOST_STEPS:
            raise ValueError("too many")
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
            items = b"".join(self.encode(schema.items, item) for item in value)  # type: ignore[arg-type]
            return (zigzag(len(value)) + items if value else b"") + b"\x00"
        if kind == "map":
            pairs = b"".join(
                _sized(key.encode()) + self.encode(schema.items, item)  # type: ignore[arg-type]
                for key, item in value.items()
            )
            return (zigzag(len(value)) + pairs if value else b"") + b"\x00"
        if kind == "union":
            return self._branch(schema, value)
        return b"".join(self._field(value, field.name, field.type, field.default) for field in schema.fields)

    def _branch(self, schema: AvroType, value: Any) -> bytes:
        """The first branch that the value fits."""
        for number, branch in enumerate(schema.branches):
            try:
                return zigzag(number) + self.encode(branch, value)
            except (TypeError, ValueError, AttributeError, struct.error):
                continue
        raise ValueError("no branch of the union is of its type")

    def _field(self, record: Any, name: str, schema: AvroType, default: Any) -> bytes:
        value = record.get(name, default)
        if value is NO_DEFAULT:
            raise ValueError(f"it lacks '{name}'")
        return self.encode(schema, value)
