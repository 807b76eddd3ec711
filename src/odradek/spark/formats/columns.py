"""The columns of a typed read: which there are, what they are called, and what has to be decoded for them.

The option `columns` may name, beside a topic's own columns, members of a typed key or value: `value.*`,
`value.user`, `value.user AS who`. Only what is named is decoded.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from pyspark.sql import types as spark

from odradek.serdes.errors import SchemaError
from odradek.spark.columns import ALL_COLUMNS, BASE_COLUMNS, HEADERS
from odradek.spark.formats import options as typed_options
from odradek.spark.formats.bounds import ColumnCount
from odradek.spark.formats.layouts import Layout, layout_of, older_layouts
from odradek.spark.formats.options import PERMISSIVE, Malformed, SideOptions
from odradek.spark.option_values import Given
from odradek.spark.schema import SPARK_TYPES

CORRUPT = "_corrupt"
CORRUPT_TYPE = (
    spark.StructType()
    .add("key", spark.BinaryType())
    .add("value", spark.BinaryType())
    .add("reason", spark.StringType())
)
HEADERS_MAP_TYPE = spark.MapType(spark.StringType(), spark.BinaryType())
_ITEM = re.compile(
    r"\s*(?:(?P<side>key|value)\s*\.\s*(?P<member>\*|`[^`]+`|[^\s,`.*]+)|(?P<column>[^\s,`.]+))"
    r"(?:\s+as\s+(?P<name>`[^`]+`|[^\s,`]+))?\s*(?:,|$)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class TypedColumn:
    """A column of the table.

    Attributes:
        source: key, value, another column of a topic's, or `_corrupt`.
        member: of the key's or value's struct, or None for the whole.
    """

    name: str
    source: str
    member: str | None
    type: Any


@dataclass(frozen=True)
class TypedSide:
    """The decoded form of keys or values.

    Attributes:
        layout: the reader's schema.
        type: of the tree that is filled: the whole, or a struct of the members that are wanted.
    """

    options: SideOptions
    layout: Layout
    type: Any


@dataclass(frozen=True)
class TypedRead:
    """Everything that a task has to know to make typed columns."""

    columns: tuple[TypedColumn, ...]
    sides: tuple[TypedSide, ...]
    headers_map: bool
    malformed: Malformed

    @property
    def schema(self) -> Any:
        """The table's schema, every column nullable."""
        return spark.StructType(
            [spark.StructField(column.name, column.type, nullable=True) for column in self.columns]
        )

    @property
    def raw_columns(self) -> tuple[str, ...]:
        """The columns that have to be fetched for these."""
        needed = {column.source for column in self.columns if column.source in ALL_COLUMNS}
        if self.malformed.dead_letter_topic is not None:
            needed.add(HEADERS)
        return tuple(name for name in ALL_COLUMNS if name in needed)


def typed_read(given: Given, wanted_schema: Any = None) -> TypedRead | None:
    """The typed columns that the options ask for; None where they ask for none.

    Args:
        given: the options.
        wanted_schema: of the table as it was made; what a registry has since must not change it.

    Raises:
        ValueError: an option cannot be used; names it.
        RegistryError: the registry cannot be asked.
    """
    if not typed_options.wants_types(given):
        return None
    sides = typed_options.source_sides(given)
    topics = _topics(given)
    layouts = {side: layout_of(side_options, topics) for side, side_options in sides.items()}
    typed = _with_layouts(given, sides, layouts)
    if wanted_schema is None or typed.schema == wanted_schema:
        return typed
    for side, side_options in sides.items():
        for older in older_layouts(side_options, topics):
            try:
                other = _with_layouts(given, sides, {**layouts, side: older})
            except ValueError:
                continue
            if other.schema == wanted_schema:
                return other
    return typed


def _topics(given: Given) -> tuple[str, ...]:
    names = [name.strip() for name in (given.text("subscribe") or "").split(",") if name.strip()]
    if not names and "assign" in given:
        try:
            names = list(json.loads(given.text("assign") or "{}"))
        except ValueError:
            names = []
    return tuple(dict.fromkeys(names))


def _with_layouts(given: Given, sides: dict[str, SideOptions], layouts: dict[str, Layout]) -> TypedRead:
    malformed = typed_options.malformed(given)
    headers_map = typed_options.headers_as_map(given)
    with_headers = given.boolean("includeHeaders", False) or "headers.format" in given
    chosen = given.text("columns")
    if chosen is None:
        names = [*BASE_COLUMNS, *([HEADERS] if with_headers else ())]
        if sides and malformed.mode == PERMISSIVE:
            names.append(CORRUPT)
        items: list[tuple[str, str, str | None]] = [(name, name, None) for name in names]
    else:
        items = _items(chosen, layouts)
        if with_headers and not any(source == HEADERS for _, source, _ in items):
            items.append((HEADERS, HEADERS, None))
    columns = []
    counts: dict[str, ColumnCount] = {}
    for name, source, member in items:
        columns.append(TypedColumn(name, source, member, _type(source, member, layouts, headers_map)))
        if source in layouts:
            _count(columns[-1], counts.setdefault(source, ColumnCount(f"the {source}'s schema")))
    _refuse_twice(columns)
    judged = malformed != Malformed() or any(column.source == CORRUPT for column in columns)
    used = []
    for side, layout in layouts.items():
        tree = _tree(side, columns)
        if tree is None and judged:
            # No column wants it, and still it may be malformed.
            tree = _type(side, None, layouts, headers_map)
        if tree is not None:
            used.append(TypedSide(sides[side], layout, tree))
    return TypedRead(tuple(columns), tuple(used), headers_map, malformed)


def _items(chosen: str, layouts: dict[str, Layout]) -> list[tuple[str, str, str | None]]:
    """(name, source, member) of what the option `columns` names."""
    items: list[tuple[str, str, str | None]] = []
    by_lower = {name.lower(): name for name in (*ALL_COLUMNS, CORRUPT)}
    at = 0
    while at < len(chosen):
        match = _ITEM.match(chosen, at)
        if match is None:
            raise ValueError(
                f"columns: cannot read '{chosen[at:].strip()}'. Name columns as in 'value.*, "
                "value.user AS who, timestamp'"
            )
        at = match.end()
        name = match["name"].strip("`") if match["name"] else None
        if match["side"]:
            items += _members(match["side"].lower(), match["member"].strip("`"), name, layouts)
            continue
        source = by_lower.get(match["column"].lower())
        if source is None:
            raise ValueError(
                f"columns: no column '{match['column']}'; there are {', '.join(by_lower.values())}, "
                f"and members of {' and '.join(layouts) or 'typed keys and values'} as in 'value.name'"
            )
        items.append((name or source, source, None))
    if not items:
        raise ValueError("columns: no column is named")
    return items


def _members(
    side: str, member: str, name: str | None, layouts: dict[str, Layout]
) -> list[tuple[str, str, str | None]]:
    layout = layouts.get(side)
    if layout is None:
        raise ValueError(f"columns: '{side}.{member}' needs {side}.format, which says what is in the {side}")
    there = layout.members()
    if there is None:
        raise ValueError(f"columns: the {side} is a single value, it has no member '{member}'; say '{side}'")
    if member == "*":
        if name is not None:
            raise ValueError(f"columns: '{side}.*' are several columns, they cannot be called '{name}'")
        return [(field, side, field) for field in there]
    if member not in there:
        raise ValueError(f"columns: the {side} has no member '{member}'; there are {', '.join(there)}")
    return [(name or member, side, member)]


def _type(source: str, member: str | None, layouts: dict[str, Layout], headers_map: bool) -> Any:
    if source == CORRUPT:
        return CORRUPT_TYPE
    if source == HEADERS and headers_map:
        return HEADERS_MAP_TYPE
    layout = layouts.get(source)
    if layout is None:
        return SPARK_TYPES[source]
    try:
        return layout.whole() if member is None else layout.member(member)
    except SchemaError as problem:
        raise ValueError(f"{source}.schema: {problem}") from None


def _count(column: TypedColumn, count: ColumnCount) -> None:
    """Count a column that is a whole key or value, or a member of one, with all that is in it."""
    try:
        waiting = [column.type]
        while waiting:
            datatype = waiting.pop()
            count.add(0)
            if isinstance(datatype, spark.StructType):
                waiting += [field.dataType for field in datatype.fields]
            elif isinstance(datatype, spark.ArrayType):
                waiting.append(datatype.elementType)
            elif isinstance(datatype, spark.MapType):
                waiting += [datatype.keyType, datatype.valueType]
    except SchemaError as problem:
        raise ValueError(f"{column.source}.schema: {problem}") from None


def _refuse_twice(columns: list[TypedColumn]) -> None:
    names = [column.name.lower() for column in columns]
    for column in columns:
        if names.count(column.name.lower()) > 1:
            where = f"{column.source}.{column.member}" if column.member else column.source
            raise ValueError(
                f"columns: two columns are called '{column.name}'; give one another name, as in '{where} AS "
                f"other_{column.name}'"
            )


def _tree(side: str, columns: list[TypedColumn]) -> Any:
    """The type of what is decoded of one side; None where no column wants any of it."""
    mine = [column for column in columns if column.source == side]
    for column in mine:
        if column.member is None:
            return column.type
    fields = {column.member: spark.StructField(column.member, column.type, nullable=True) for column in mine}
    return spark.StructType(list(fields.values())) if fields else None
