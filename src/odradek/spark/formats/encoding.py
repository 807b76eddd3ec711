"""Rows written in a format: the columns `key` and `value` encoded as the records' bytes.

Without a column `value`, a JSON, Avro or protobuf value is made of all columns that are not a record's own
(key, topic, partition, headers).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql import types as spark

from odradek.serdes.errors import SchemaError
from odradek.spark.formats import avro_encoding, json_encoding, protobuf_encoding
from odradek.spark.formats.columns import HEADERS_MAP_TYPE
from odradek.spark.formats.ddl import parse_ddl
from odradek.spark.formats.options import SCALARS, STRUCTURED, SideOptions

if TYPE_CHECKING:
    import pyarrow as pa

OWN_COLUMNS = ("topic", "key", "value", "headers", "partition")
_PACKED = {
    "boolean": ">?",
    "short": ">h",
    "int": ">i",
    "integer": ">i",
    "long": ">q",
    "float": ">f",
    "double": ">d",
}

Encode = Callable[[Any], bytes]
"""A value of Python's as bytes; raises `UnwritableRowError`."""


class Encoding(Protocol):
    """The way in which one side is written; it can be sent to other processes. `encoder` is made there."""

    def encoder(self) -> Encode: ...


@dataclass(frozen=True)
class Scalar:
    """One of Kafka's serdes of single values."""

    format: str

    def encoder(self) -> Encode:
        if self.format in ("string", "uuid"):
            return lambda value: bytes(value.encode())
        return struct.Struct(_PACKED[self.format]).pack


@dataclass(frozen=True)
class WrittenSide:
    """One side of a write.

    Attributes:
        columns: what it is made of: one column, or those that become members of a struct.
        whole: whether the one column is the value itself.
    """

    side: str
    columns: tuple[str, ...]
    whole: bool
    type: Any
    encoding: Encoding

    @cached_property
    def _encode(self) -> Encode:
        return self.encoding.encoder()

    def encoded(self, batch: pa.RecordBatch) -> pa.Array:
        """The records' bytes; null stays null.

        Raises:
            UnwritableRowError: a row cannot be encoded.
        """
        import pyarrow as pa

        if self.whole:
            values: Iterable[Any] = batch.column(self.columns[0]).to_pylist()
        else:
            columns = [batch.column(name).to_pylist() for name in self.columns]
            names = self.columns
            values = (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
        encode = self._encode
        return pa.array([None if value is None else encode(value) for value in values], pa.binary())

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_encode"}


@dataclass(frozen=True)
class TypedWrite:
    """A write with formats.

    Attributes:
        columns: the columns of the rows that are needed.
        plain: those of a record's that are written as they are.
        headers_map: whether the headers are a map.
    """

    sides: tuple[WrittenSide, ...]
    plain: tuple[str, ...]
    headers_map: bool

    @property
    def columns(self) -> tuple[str, ...]:
        named = [*self.plain, *(name for side in self.sides for name in side.columns)]
        return tuple(dict.fromkeys(named))

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows as records.

        Raises:
            UnwritableRowError: a row cannot be encoded.
        """
        import pyarrow as pa

        columns = {name: batch.column(name) for name in self.plain}
        if self.headers_map:
            columns["headers"] = _headers(columns["headers"])
        for side in self.sides:
            columns[side.side] = side.encoded(batch)
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def typed_write(sides: Mapping[str, SideOptions], schema: Any, topic: str | None) -> TypedWrite:
    """Return how rows of `schema` are written.

    Where the options say so, the schemas are registered.

    Raises:
        ValueError: a column or an option cannot be used; names it.
        RegistryError: the registry cannot be asked, or refuses.
    """
    topics = (topic,) if topic is not None else ()
    written = tuple(_side(options, schema, topics) for options in sides.values())
    used = {name for side in written for name in side.columns} | set(sides)
    headers_map = "headers" in schema.fieldNames() and isinstance(schema["headers"].dataType, spark.MapType)
    if headers_map:
        map_type = HEADERS_MAP_TYPE.simpleString()
        if schema["headers"].dataType.simpleString() != map_type:
            raise ValueError(f"headers attribute must be a {map_type}, or an array of key and value")
    plain = tuple(
        name
        for name in schema.fieldNames()
        if name in OWN_COLUMNS and name not in used and not (topic and name == "topic")
    )
    return TypedWrite(written, plain, headers_map)


def _side(options: SideOptions, schema: Any, topics: tuple[str, ...]) -> WrittenSide:
    side, names = options.side, schema.fieldNames()
    if side in names:
        columns: tuple[str, ...] = (side,)
        data_type = schema[side].dataType
    elif side == "value" and options.format in STRUCTURED:
        columns = tuple(name for name in names if name not in OWN_COLUMNS)
        data_type = spark.StructType([schema[name] for name in columns])
        if not columns:
            raise ValueError(
                f"{side}.format '{options.format}' needs a column '{side}', or columns to make it of"
            )
    else:
        raise ValueError(f"{side}.format '{options.format}' needs a column '{side}'")
    try:
        encoding = _encoding(options, data_type, topics)
    except SchemaError as problem:
        raise ValueError(f"column '{side}' cannot be written as {options.format}: {problem}") from None
    return WrittenSide(side, columns, side in names, data_type, encoding)


def _encoding(options: SideOptions, data_type: Any, topics: tuple[str, ...]) -> Encoding:
    if options.format in SCALARS:
        wanted = parse_ddl(SCALARS[options.format])
        if data_type != wanted:
            raise SchemaError(
                f"it is of type {data_type.simpleString()}, not {wanted.simpleString()}; cast it, or choose "
                f"another {options.side}.format"
            )
        return Scalar(options.format)
    if options.format == "json":
        return json_encoding.encoding(options, data_type)
    if options.format == "avro":
        return avro_encoding.encoding(options, data_type, topics)
    return protobuf_encoding.encoding(options, data_type, topics)


def _headers(headers: pa.Array) -> pa.Array:
    """A map as the list that a record has."""
    import pyarrow as pa

    from odradek.records.columns import HEADERS_TYPE

    entries = pa.StructArray.from_arrays([headers.keys, headers.items], names=["key", "value"])
    return pa.Array.from_buffers(
        HEADERS_TYPE,
        len(headers),
        headers.buffers()[:2],
        headers.null_count,
        headers.offset,
        children=[entries],
    )
