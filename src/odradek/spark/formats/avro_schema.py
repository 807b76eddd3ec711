"""Avro's schemas (specification 1.12): read from JSON, and as Spark's types.

Spark's types are those of its own `from_avro`: a union of null and another type is that type; of int and
long, bigint; of float and double, double; any other union a struct of `member0`, `member1`, …, of which one
is not null.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import types as spark

from odradek.serdes.errors import SchemaError
from odradek.spark.formats import kinds
from odradek.spark.formats.bounds import ColumnCount

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NO_DEFAULT: Any = object()
_LOGICAL: dict[tuple[str, str], Any] = {
    ("int", "date"): spark.DateType(),
    ("long", "timestamp-millis"): spark.TimestampType(),
    ("long", "timestamp-micros"): spark.TimestampType(),
    ("long", "timestamp-nanos"): spark.TimestampType(),
    ("long", "local-timestamp-millis"): spark.TimestampNTZType(),
    ("long", "local-timestamp-micros"): spark.TimestampNTZType(),
    ("long", "local-timestamp-nanos"): spark.TimestampNTZType(),
}
_PLAIN: dict[str, Any] = {
    "boolean": spark.BooleanType(),
    "int": spark.IntegerType(),
    "long": spark.LongType(),
    "float": spark.FloatType(),
    "double": spark.DoubleType(),
    "bytes": spark.BinaryType(),
    "string": spark.StringType(),
    "enum": spark.StringType(),
    "fixed": spark.BinaryType(),
}


@dataclass(eq=False)
class AvroField:
    """A field of a record. `default` is as in JSON, `NO_DEFAULT` where there is none."""

    name: str
    type: AvroType
    aliases: tuple[str, ...] = ()
    default: Any = NO_DEFAULT


@dataclass(eq=False)
class AvroType:
    """One type. Of the attributes those have a meaning that the type has."""

    type: str
    name: str = ""
    logical: str = ""
    precision: int = 0
    scale: int = 0
    size: int = 0
    symbols: tuple[str, ...] = ()
    default_symbol: str | None = None
    items: AvroType | None = None
    fields: list[AvroField] = field(default_factory=list)
    branches: list[AvroType] = field(default_factory=list)
    aliases: tuple[str, ...] = ()

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def is_decimal(self) -> bool:
        return self.logical == "decimal"

    @property
    def unit_us(self) -> tuple[int, int] | None:
        """(factor, divisor) to microseconds, of a timestamp."""
        if not self.logical.removeprefix("local-").startswith("timestamp-"):
            return None
        return {"millis": (1000, 1), "micros": (1, 1), "nanos": (1, 1000)}[self.logical.rpartition("-")[2]]


def parse_schema(text: str, references: Iterable[str] = ()) -> AvroType:
    """Read a schema.

    `references`: schemas whose named types it uses, those first that others use.

    Raises:
        SchemaError: the text is no schema, or its types are nested too deep.
    """
    reader = _Reader()
    try:
        for reference in references:
            reader.read(_from_json(reference), "")
        return reader.read(_from_json(text), "")
    except RecursionError:
        raise SchemaError("the Avro schema has types that are nested too deep") from None


def _from_json(text: str) -> Any:
    stripped = text.strip()
    if stripped.strip('"') in PRIMITIVES:
        return stripped.strip('"')
    try:
        return json.loads(stripped)
    except ValueError as problem:
        raise SchemaError(f"the Avro schema is not JSON: {problem}") from None


class _Reader:
    """Reads types; knows those that have a name."""

    def __init__(self) -> None:
        self._named: dict[str, AvroType] = {}

    def read(self, definition: Any, namespace: str) -> AvroType:
        if isinstance(definition, str):
            if definition in PRIMITIVES:
                return AvroType(definition)
            named_type = self._named.get(_full(definition, namespace)) or self._named.get(definition)
            if named_type is None:
                raise SchemaError(f"the Avro schema uses a type '{definition}' that it does not define")
            return named_type
        if isinstance(definition, list):
            union = AvroType("union")
            union.branches = [self.read(branch, namespace) for branch in definition]
            if any(branch.type == "union" for branch in union.branches):
                raise SchemaError("in Avro a union cannot be directly in a union")
            return union
        if not isinstance(definition, dict) or "type" not in definition:
            raise SchemaError(f"not an Avro type: {definition!r}")
        kind = definition["type"]
        if isinstance(kind, dict | list) or (isinstance(kind, str) and kind not in _COMPLEX):
            return (
                _with_logical(self.read(kind, namespace), definition)
                if kind in PRIMITIVES
                else self.read(kind, namespace)
            )
        return self._complex(kind, definition, namespace)

    def _complex(self, kind: str, definition: dict[str, Any], namespace: str) -> AvroType:
        try:
            if kind == "array":
                return AvroType("array", items=self.read(definition["items"], namespace))
            if kind == "map":
                return AvroType("map", items=self.read(definition["values"], namespace))
            name = _full(definition["name"], definition.get("namespace", namespace))
            inside = name.rpartition(".")[0]
            schema = AvroType("record" if kind == "error" else kind, name)
            schema.aliases = tuple(_full(alias, inside) for alias in definition.get("aliases", ()))
            if name in self._named:
                raise SchemaError(f"the Avro schema defines '{name}' twice")
            self._named[name] = schema
            if kind == "enum":
                schema.symbols = tuple(definition["symbols"])
                schema.default_symbol = definition.get("default")
            elif kind == "fixed":
                schema.size = _size(definition["size"], name)
                return _with_logical(schema, definition)
            else:
                schema.fields = [self._field(field, inside) for field in definition["fields"]]
            return schema
        except (KeyError, TypeError) as problem:
            raise SchemaError(f"the Avro {kind} lacks {problem}: {json.dumps(definition)[:200]}") from None

    def _field(self, definition: dict[str, Any], namespace: str) -> AvroField:
        field = AvroField(definition["name"], self.read(definition["type"], namespace))
        field.aliases = tuple(definition.get("aliases", ()))
        field.default = definition.get("default", NO_DEFAULT)
        return field


_COMPLEX = ("record", "error", "enum", "fixed", "array", "map")


def _size(definition: Any, name: str) -> int:
    if (
        not isinstance(definition, int)
        or isinstance(definition, bool)
        or not 0 <= definition <= kinds.LARGEST
    ):
        raise SchemaError(
            f"the size of the Avro fixed '{name}' is {definition!r:.50}, and no length in bytes"
        )
    return definition


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _with_logical(schema: AvroType, definition: dict[str, Any]) -> AvroType:
    """A logical type that does not fit its type is ignored, as the specification says."""
    logical = definition.get("logicalType", "")
    if logical == "decimal" and schema.type in ("bytes", "fixed"):
        precision, scale = definition.get("precision"), definition.get("scale", 0)
        if (
            isinstance(precision, int)
            and isinstance(scale, int)
            and 0 <= scale <= precision
            and precision > 0
        ):
            schema.logical, schema.precision, schema.scale = logical, precision, scale
    elif (schema.type, logical) in _LOGICAL:
        schema.logical = logical
    return schema


def spark_type(schema: AvroType) -> Any:
    """The type of a column for `schema`.

    Raises:
        SchemaError: there is none, or it is too large.
    """
    name = f"the Avro schema '{schema.name}'" if schema.name else f"the Avro {schema.type}"
    return _spark_type(schema, (), ColumnCount(name))


def _spark_type(schema: AvroType, inside: tuple[AvroType, ...], count: ColumnCount) -> Any:
    count.add(len(inside))
    if schema in inside:
        raise SchemaError(
            f"the Avro record '{schema.name}' contains itself, which no column can. Leave the "
            "field out: name the ones that you want in the option columns"
        )
    if schema.is_decimal:
        if schema.precision > 38:
            raise SchemaError(f"a decimal of {schema.precision} digits; Spark's have up to 38")
        return spark.DecimalType(schema.precision, schema.scale)
    if schema.logical:
        return _LOGICAL[schema.type, schema.logical]
    if schema.type in _PLAIN:
        return _PLAIN[schema.type]
    within = (*inside, schema)
    if schema.type == "record":
        return spark.StructType(
            [
                spark.StructField(field.name, _spark_type(field.type, within, count), nullable=True)
                for field in schema.fields
            ]
        )
    if schema.type == "array":
        assert schema.items is not None
        return spark.ArrayType(_spark_type(schema.items, within, count), containsNull=True)
    if schema.type == "map":
        assert schema.items is not None
        return spark.MapType(
            spark.StringType(), _spark_type(schema.items, within, count), valueContainsNull=True
        )
    if schema.type == "union":
        members = union_members(schema)
        if not members:
            raise SchemaError("an Avro union of nothing but null has no column")
        if len(members) == 1:
            return _spark_type(members[0], within, count)
        wide = widest(members)
        if wide is not None:
            return _PLAIN[wide]
        return spark.StructType(
            [
                spark.StructField(f"member{number}", _spark_type(member, within, count), nullable=True)
                for number, member in enumerate(members)
            ]
        )
    raise SchemaError(f"an Avro {schema.type} has no column")


def union_members(schema: AvroType) -> list[AvroType]:
    """The branches that are not null."""
    return [branch for branch in schema.branches if branch.type != "null"]


def widest(members: list[AvroType]) -> str | None:
    """The type that a union of two widths of a number is; None for other unions."""
    kinds = {member.type for member in members}
    if any(member.logical for member in members):
        return None
    return {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}.get(
        frozenset(kinds)
    )
