"""Spark's types as a tree of columns for the decoders, and Arrow arrays of what they have filled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as spark

from odradek.spark.formats import kinds

if TYPE_CHECKING:
    import pyarrow as pa

Description = tuple[int, bytes, int, int, int, tuple[Any, ...]]
"""(kind, name, precision, scale, microseconds in a unit of a time, columns below)"""

_KINDS: dict[type, int] = {
    spark.BooleanType: kinds.BOOL,
    spark.ByteType: kinds.INT8,
    spark.ShortType: kinds.INT16,
    spark.IntegerType: kinds.INT32,
    spark.LongType: kinds.INT64,
    spark.FloatType: kinds.FLOAT,
    spark.DoubleType: kinds.DOUBLE,
    spark.DecimalType: kinds.DECIMAL,
    spark.DateType: kinds.DATE,
    spark.TimestampType: kinds.TIMESTAMP,
    spark.TimestampNTZType: kinds.TIMESTAMP,
    spark.DayTimeIntervalType: kinds.DURATION,
    spark.StringType: kinds.STRING,
    spark.BinaryType: kinds.BINARY,
    spark.StructType: kinds.STRUCT,
    spark.ArrayType: kinds.LIST,
    spark.MapType: kinds.MAP,
}


def kind_of(data_type: Any) -> int:
    """The kind of column for a Spark type.

    Raises:
        ValueError: no format here has the type.
    """
    kind = _KINDS.get(type(data_type))
    if kind is None:
        raise ValueError(f"columns of type {data_type.simpleString()} cannot be decoded")
    return kind


def describe(data_type: Any, unit_us: int = 1_000_000, name: str = "") -> Description:
    """The description that `Tree` takes.

    Args:
        data_type: of Spark's.
        unit_us: microseconds in a plain number that stands for a timestamp.
    """
    kind = kind_of(data_type)
    precision = data_type.precision if kind == kinds.DECIMAL else 0
    scale = data_type.scale if kind == kinds.DECIMAL else 0
    below: tuple[Description, ...] = ()
    if kind == kinds.STRUCT:
        below = tuple(describe(field.dataType, unit_us, field.name) for field in data_type.fields)
    elif kind == kinds.LIST:
        below = (describe(data_type.elementType, unit_us, "element"),)
    elif kind == kinds.MAP:
        key, value = (
            describe(data_type.keyType, unit_us, "key"),
            describe(data_type.valueType, unit_us, "value"),
        )
        below = (key, value)
    return kind, name.encode(), precision, scale, unit_us, below


@dataclass(frozen=True)
class Column:
    """A column of the tree, with its number."""

    number: int
    kind: int
    name: str
    precision: int
    scale: int
    unit_us: int
    below: tuple[Column, ...]


def numbered(description: Description, first: int = 0) -> Column:
    """The columns of a tree with the numbers that `Tree` gives them."""
    kind, name, precision, scale, unit_us, below = description
    columns: list[Column] = []
    following = first + 1
    for child in below:
        columns.append(numbered(child, following))
        following += _size(child)
    return Column(first, kind, name.decode(), precision, scale, unit_us, tuple(columns))


def _size(description: Description) -> int:
    return 1 + sum(_size(child) for child in description[5])


def paths(description: Description, above: str = "") -> list[str]:
    """The dotted name of each column, by its number in the tree."""
    name = description[1].decode()
    here = f"{above}.{name}" if above and name else above or name
    names = [here]
    for below in description[5]:
        names += paths(below, here)
    return names


def arrow_array(parts: tuple[Any, ...], arrow_type: Any) -> pa.Array:
    """Make an array of what `Tree.finish` has handed out, without copying."""
    import pyarrow as pa

    rows, nulls, validity, offsets, values, below = parts
    bits = None if validity is None else pa.py_buffer(validity)
    if pa.types.is_struct(arrow_type):
        buffers = [bits]
        types = [arrow_type.field(number).type for number in range(arrow_type.num_fields)]
    elif pa.types.is_map(arrow_type):
        buffers = [bits, pa.py_buffer(offsets)]
        entries = pa.struct([arrow_type.key_field, arrow_type.item_field])
        pairs = [
            arrow_array(part, field.type)
            for part, field in zip(below, (arrow_type.key_field, arrow_type.item_field), strict=True)
        ]
        inside = pa.Array.from_buffers(entries, below[0][0], [None], 0, children=pairs)
        return pa.Array.from_buffers(arrow_type, rows, buffers, nulls, children=[inside])
    elif pa.types.is_list(arrow_type):
        buffers = [bits, pa.py_buffer(offsets)]
        types = [arrow_type.value_type]
    elif offsets is not None:
        buffers = [bits, pa.py_buffer(offsets), pa.py_buffer(values)]
        types = []
    else:
        buffers = [bits, pa.py_buffer(values)]
        types = []
    children = [arrow_array(part, child_type) for part, child_type in zip(below, types, strict=True)]
    return pa.Array.from_buffers(arrow_type, rows, buffers, nulls, children=children or None)
