"""A message type laid over the columns: the plan that `decode_protobuf` runs."""

from __future__ import annotations

from typing import Any

from odradek.spark.formats import kinds
from odradek.spark.formats import protobuf_schema as schema
from odradek.spark.formats import protobuf_types as types
from odradek.spark.formats.errors import ResolutionError
from odradek.spark.formats.tree import Column, Description, numbered

_TYPES = {
    schema.DOUBLE: types.P_DOUBLE,
    schema.FLOAT: types.P_FLOAT,
    schema.INT64: types.P_INT64,
    schema.UINT64: types.P_UINT64,
    schema.INT32: types.P_INT32,
    schema.FIXED64: types.P_FIXED64,
    schema.FIXED32: types.P_FIXED32,
    schema.BOOL: types.P_BOOL,
    schema.STRING: types.P_STRING,
    schema.BYTES: types.P_BYTES,
    schema.UINT32: types.P_UINT32,
    schema.ENUM: types.P_ENUM,
    schema.SFIXED32: types.P_SFIXED32,
    schema.SFIXED64: types.P_SFIXED64,
    schema.SINT32: types.P_SINT32,
    schema.SINT64: types.P_SINT64,
}
FieldPlan = tuple[int, int, int, bool, int, int, bool, int, tuple[tuple[int, bytes], ...]]
"""(number, type, column, repeated, where absent, oneof or -1, closed enum, message or -1, enum's names)."""
MessagePlan = tuple[int, tuple[FieldPlan, ...]]


def plan(message: Any, description: Description) -> list[MessagePlan]:
    """The messages, the whole one first.

    Raises:
        ResolutionError: a column has another type.
    """
    messages: list[MessagePlan | None] = []
    _message(message, numbered(description), messages)
    return [message for message in messages if message is not None]


def _message(message: Any, column: Column, messages: list[MessagePlan | None]) -> int:
    at = len(messages)
    messages.append(None)
    children = {child.name: child for child in column.below}
    fields = [
        _field(message.fields_by_name[name], child, messages)
        for name, child in children.items()
        if name in message.fields_by_name
    ]
    missing = children.keys() - message.fields_by_name.keys()
    # A column whose field another version of the type does not have: no tag has number 0.
    fields += [_nowhere(children[name]) for name in sorted(missing)]
    messages[at] = (column.number, tuple(sorted(fields, key=lambda field: field[0])))
    return at


def _nowhere(column: Column) -> FieldPlan:
    """A field that no message has: it is empty where it is a list or a map, else null."""
    repeated = column.kind in (kinds.LIST, kinds.MAP)
    if column.kind == kinds.MAP:
        kind = types.P_ENTRY
    else:
        kind = _type_for(column.below[0] if repeated else column)
    return (0, kind, column.number, repeated, types.NULL_IF_ABSENT, -1, False, 0, ())


def _type_for(column: Column) -> int:
    """Any type that the column could hold."""
    return next((candidate for candidate, kind in types.KIND.items() if kind == column.kind), types.P_INT64)


def _field(field: Any, column: Column, messages: list[MessagePlan | None]) -> FieldPlan:
    repeated = schema.is_repeated(field)
    if schema.is_map(field):
        if column.kind != kinds.MAP:
            raise ResolutionError(f"field '{field.full_name}' is a map, and its column is not")
        entry = _entry(field, column, messages)
        return (
            field.number,
            types.P_ENTRY,
            column.number,
            True,
            types.NULL_IF_ABSENT,
            -1,
            False,
            entry,
            (),
        )
    single = column
    if repeated:
        if column.kind != kinds.LIST:
            raise ResolutionError(f"field '{field.full_name}' is repeated, and its column is no array")
        single = column.below[0]
    kind = _type_of(field)
    if types.KIND.get(kind, single.kind) != single.kind or (
        kind not in types.KIND and single.kind not in (kinds.INT32, kinds.INT64)
    ):
        raise ResolutionError(f"field '{field.full_name}' has another type than its column")
    inner = _message(field.message_type, single, messages) if kind == types.P_MESSAGE else -1
    closed, symbols = _enum(field)
    oneof = field.containing_oneof.index if field.containing_oneof is not None else -1
    return (field.number, kind, column.number, repeated, _absent(field), oneof, closed, inner, symbols)


def _entry(field: Any, column: Column, messages: list[MessagePlan | None]) -> int:
    at = len(messages)
    messages.append(None)
    pair = [
        _field(field.message_type.fields_by_name[name], child, messages)
        for name, child in zip(("key", "value"), column.below, strict=True)
    ]
    # Of a pair nothing is null.
    messages[at] = (column.number, tuple((*entry[:4], types.ZERO_IF_ABSENT, *entry[5:]) for entry in pair))
    return at


def _type_of(field: Any) -> int:
    if field.type != schema.MESSAGE:
        return _TYPES[field.type]
    return {schema.STAMP: types.P_STAMP, schema.SPAN: types.P_SPAN}.get(
        field.message_type.full_name, types.P_MESSAGE
    )


def _absent(field: Any) -> int:
    if schema.is_required(field):
        return types.REQUIRED
    return types.NULL_IF_ABSENT if field.has_presence else types.ZERO_IF_ABSENT


def _enum(field: Any) -> tuple[bool, tuple[tuple[int, bytes], ...]]:
    if field.enum_type is None:
        return False, ()
    names: dict[int, bytes] = {}
    for symbol in field.enum_type.values:
        names.setdefault(symbol.number, symbol.name.encode())
    return bool(field.enum_type.is_closed), tuple(names.items())
