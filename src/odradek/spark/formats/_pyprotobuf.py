"""Protocol buffers into a tree of columns in pure Python: the twin of `_protobuf`, whose contract
these docstrings are.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from odradek.spark.formats import kinds
from odradek.spark.formats import protobuf_types as types
from odradek.spark.formats._pytree import (
    Found,
    MalformedError,
    Node,
    Records,
    Tree,
    decimal,
    in_range,
    text,
    whole_number,
)

_FIXED = {
    types.P_FIXED32: ("<I", 4),
    types.P_SFIXED32: ("<i", 4),
    types.P_FLOAT: ("<f", 4),
    types.P_FIXED64: ("<Q", 8),
    types.P_SFIXED64: ("<q", 8),
    types.P_DOUBLE: ("<d", 8),
}


class Plan:
    """A message type laid over a tree.

    Args:
        tree: whose columns are filled.
        messages: of `protobuf_plan.plan`: (column, fields), the whole message first. A field is (number,
            type, column, repeated, what is done where it is absent, oneof or -1, closed enum, message or
            -1, (number, name) of an enum). An entry of a map is a message whose column is the map's.

    Raises:
        ValueError: a field is not whole, or cannot fill its column.
    """

    def __init__(self, tree: Tree, messages: Sequence[Any]) -> None:
        self.tree = tree
        self.messages = list(messages)
        for column, fields in self.messages:
            if not 0 <= column < len(tree.nodes):
                raise ValueError(f"the tree has no column {column}")
            if tree.nodes[column].kind not in (kinds.STRUCT, kinds.MAP):
                raise ValueError("a message needs a struct")
            for number, kind, node, repeated, _, _, _, message, _ in fields:
                if not 0 <= node < len(tree.nodes):
                    raise ValueError(f"the tree has no column {node}")
                if message >= len(self.messages):
                    raise ValueError(f"the plan has no message {message}")
                if message < 0 and kind in (types.P_MESSAGE, types.P_ENTRY):
                    raise ValueError("a message without its plan")
                if not _fits(kind, tree.nodes[node], repeated):
                    raise ValueError(
                        f"field {number} of type {kind} cannot fill a column of kind {tree.nodes[node].kind}"
                    )


def _fits(kind: int, node: Node, repeated: bool) -> bool:
    if repeated:
        if node.kind != (kinds.MAP if kind == types.P_ENTRY else kinds.LIST):
            return False
        if kind == types.P_ENTRY:
            return True
        node = node.children[0]
    fitting_kind = types.KIND.get(kind)
    if fitting_kind is not None:
        return node.kind == fitting_kind
    # Whole numbers, but for those of 64 bits without a sign, which are decimals.
    return node.kind in (kinds.INT32, kinds.INT64) and kind != types.P_ENTRY


def decode_protobuf(
    tree: Tree, records: Records, start: int, plans: Mapping[Any, Any], framed: bool
) -> tuple[int, bytes | None, list[Found]]:
    """Push the rows from `start` on.

    Args:
        plans: by the bytes of the frame, None for schemas that do not resolve; without frames under None.
        framed: a zero, four bytes with an id and the message's indexes come before each message.

    Returns (the row to go on with, the frame whose plan is missing or None, the malformed rows, which are
    null).
    """
    problems: list[Found] = []
    for row in range(start, len(records)):
        data = records.row(row)
        if data is None:
            tree.values.append(None)
            continue
        key: bytes | None = None
        if framed:
            length = _frame(data)
            if not length:
                problems.append((row, kinds.BAD_MAGIC, 0, 0))
                tree.values.append(None)
                continue
            # The bytes as they are: records of one schema and message have the same ones.
            key = data[:length]
            if key not in plans:
                return row, key, problems
            if plans[key] is None:
                problems.append((row, kinds.UNRESOLVED, length, 0))
                tree.values.append(None)
                continue
        plan = plans[key]
        if plan.tree is not tree:
            raise ValueError("the plan is for another tree")
        reader = _Reader(plan)
        try:
            value = reader.message(data[len(key or b"") :], 0, 0)
        except MalformedError as problem:
            problems.append((row, problem.code, 0, reader.column))
            value = None
        tree.values.append(value)
    return len(records), None, problems


def _frame(data: bytes) -> int:
    """The bytes of magic, id and message indexes; 0 where they are not that."""
    if len(data) < 6 or data[0] != 0:
        return 0
    try:
        # Confluent's format: how many indexes, then as many, all zigzag; a 0 alone is the first message.
        raw, at = _varint(data, 5)
        left = _zigzag(raw)
        if not 0 <= left <= kinds.DEEPEST:
            return 0
        for _ in range(left):
            _, at = _varint(data, at)
    except MalformedError:
        return 0
    return at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    raw = shift = 0
    # Ten bytes at most, of which the last has bits that 64 have no room for; protobuf's parsers cut them.
    while shift < 70:
        if at == len(data):
            raise MalformedError(kinds.TRUNCATED)
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return raw & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
    raise MalformedError(kinds.BAD_LENGTH)


def _zigzag(raw: int) -> int:
    return (raw >> 1) ^ -(raw & 1)


def _signed(raw: int, bits: int) -> int:
    raw &= (1 << bits) - 1
    return raw - (1 << bits) if raw >> (bits - 1) else raw


def _skip(data: bytes, at: int, number: int, wire: int, depth: int) -> int:
    """Return where the field ends."""
    if wire == 0:
        return _varint(data, at)[1]
    if wire in (1, 5):
        end = at + (8 if wire == 1 else 4)
    elif wire == 2:
        length, at = _varint(data, at)
        end = at + length
    elif wire == 3:
        if depth > kinds.DEEPEST:
            raise MalformedError(kinds.TOO_DEEP)
        while True:
            tag, at = _varint(data, at)
            # A field's number has 29 bits, and is not 0.
            if tag >> 32 or not tag >> 3:
                raise MalformedError(kinds.BAD_TAG)
            if tag & 7 == 4:
                if tag >> 3 != number:
                    raise MalformedError(kinds.BAD_TAG)
                return at
            at = _skip(data, at, tag >> 3, tag & 7, depth + 1)
    else:
        # The end of a group that has not begun, or one of the two wire types that there are not.
        raise MalformedError(kinds.BAD_TAG)
    if end > len(data):
        raise MalformedError(kinds.TRUNCATED)
    return end


def _wire(kind: int) -> int:
    if kind <= types.P_ENUM:
        return 0
    if kind <= types.P_FLOAT:
        return 5
    return 1 if kind <= types.P_DOUBLE else 2


_UNSET = object()
"""Stands where nothing was read yet; None is a value, that of a null."""


class _Reader:
    """Reads one record."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._merged = 0
        """Bytes that merging has copied in this record; never more than `MERGED_BYTES`."""
        self.column = 0
        """The column that is being filled, for the reason of a malformed record."""

    def message(self, data: bytes, number: int, depth: int) -> Any:
        """A message as a row of its struct; an entry as a pair."""
        if depth > kinds.DEEPEST:
            raise MalformedError(kinds.TOO_DEEP)
        _, fields = self._plan.messages[number]
        by_number = {field[0]: field for field in fields}
        filled: dict[int, Any] = {field[2]: [] if field[3] else _UNSET for field in fields}
        spans: dict[int, bytes] = {}
        at = 0
        while at < len(data):
            tag, at = _varint(data, at)
            if tag >> 32 or not tag >> 3:
                raise MalformedError(kinds.BAD_TAG)
            field = by_number.get(tag >> 3)
            wire = tag & 7
            # Repeated numbers may be packed or not, whatever the schema says. A field in another wire type
            # than its own counts as unknown, as with protobuf's parsers.
            if field is None or not (wire == _wire(field[1]) or (wire == 2 and field[3])):
                at = _skip(data, at, tag >> 3, wire, depth)
                continue
            # From here on the field is known to end within the data.
            end = _skip(data, at, tag >> 3, wire, depth)
            self.column = field[2]
            self._field(field, fields, data[at:end], wire, filled, spans, depth)
            at = end
        for field in fields:
            if filled[field[2]] is _UNSET:
                filled[field[2]] = self._absent(field, depth)
        # Columns stand in the order of the table, fields in that of their numbers.
        return tuple(filled[field[2]] for field in sorted(fields, key=lambda entry: entry[2]))

    def _field(
        self,
        field: Any,
        fields: Sequence[Any],
        data: bytes,
        wire: int,
        filled: dict[int, Any],
        spans: dict[int, bytes],
        depth: int,
    ) -> None:
        _, kind, column, repeated, _, oneof, *_ = field
        node = self._plan.tree.nodes[column]
        if wire == 2:
            _, at = _varint(data, 0)
            data = data[at:]
        if wire == 2 and kind <= types.P_DOUBLE:
            filled[column] += self._packed(field, node.children[0], data)
            return
        if wire != 2:
            target = node.children[0] if repeated else node
            value, _ = self._scalar(field, target, data, 0)
            # Before the oneof: an unknown number leaves that as it was, too.
            if value is _UNSET:
                return
            if repeated:
                filled[column].append(value)
                return
        elif repeated:
            inner = node if kind == types.P_ENTRY else node.children[0]
            filled[column].append(self._part(field, inner, data, depth))
            return
        # Of the members of a oneof the last that was written counts.
        if oneof >= 0:
            for other in fields:
                if other[5] == oneof and other is not field:
                    filled[other[2]] = _UNSET
        if wire == 2:
            if kind >= types.P_MESSAGE:
                # A message that comes in several pieces is merged, as if they were one text; not over another
                # member of its oneof, which has unset it.
                if filled[column] is not _UNSET:
                    data = spans[column] + data
                    self._merged += len(data)
                    if self._merged > types.MERGED_BYTES:
                        raise MalformedError(kinds.TOO_LARGE)
                spans[column] = data
            value = self._part(field, node, data, depth)
        filled[column] = value

    def _packed(self, field: Any, node: Node, data: bytes) -> list[Any]:
        values = []
        at = 0
        while at < len(data):
            value, at = self._scalar(field, node, data, at)
            if value is not _UNSET:
                values.append(value)
        return values

    def _scalar(self, field: Any, node: Node, data: bytes, at: int) -> tuple[Any, int]:
        kind = field[1]
        if kind in _FIXED:
            form, width = _FIXED[kind]
            if len(data) - at < width:
                raise MalformedError(kinds.TRUNCATED)
            value = struct.unpack_from(form, data, at)[0]
            if kind in (types.P_FLOAT, types.P_DOUBLE):
                return value, at + width
            return _whole(kind, node, value), at + width
        raw, at = _varint(data, at)
        if kind == types.P_ENUM:
            value = _signed(raw, 32)
            # A closed enum does not take a number that it does not know: the field stays as it was.
            if field[6] and value not in dict(field[8]):
                return _UNSET, at
            return _symbol(field, value), at
        if kind == types.P_BOOL:
            return raw != 0, at
        # What is wider than the field's type is cut to it, as protobuf's parsers do.
        if kind == types.P_SINT32:
            return _whole(kind, node, _signed(_zigzag(raw & 0xFFFFFFFF), 32)), at
        if kind == types.P_SINT64:
            return _whole(kind, node, _zigzag(raw)), at
        if kind == types.P_INT32:
            raw = _signed(raw, 32)
        elif kind == types.P_INT64:
            raw = _signed(raw, 64)
        elif kind == types.P_UINT32:
            raw &= 0xFFFFFFFF
        return _whole(kind, node, raw), at

    def _part(self, field: Any, node: Node, data: bytes, depth: int) -> Any:
        kind = field[1]
        if kind == types.P_STRING:
            return text(node, data)
        if kind == types.P_BYTES:
            return data
        if kind in (types.P_STAMP, types.P_SPAN):
            return self._moment(node, data)
        return self.message(data, field[7], depth + 1)

    def _moment(self, node: Node, data: bytes) -> int:
        seconds = nanos = at = 0
        while at < len(data):
            tag, at = _varint(data, at)
            if tag >> 32 or not tag >> 3:
                raise MalformedError(kinds.BAD_TAG)
            # `seconds` and `nanos` are fields 1 and 2 of both messages, varints. The last of each counts.
            if tag in (8, 16):
                raw, at = _varint(data, at)
                if tag == 8:
                    seconds = _signed(raw, 64)
                else:
                    nanos = _signed(raw, 32)
            else:
                at = _skip(data, at, tag >> 3, tag & 7, 0)
        # Nanoseconds are cut toward zero: those of a negative Duration are negative.
        micros = seconds * 1_000_000 + (nanos // 1000 if nanos >= 0 else -(-nanos // 1000))
        try:
            return in_range(node, micros)
        except MalformedError:
            raise MalformedError(kinds.TOO_LARGE) from None

    def _absent(self, field: Any, depth: int) -> Any:
        _, kind, column, _, absent, _, closed, _, symbols = field
        self.column = column
        node = self._plan.tree.nodes[column]
        if absent == types.REQUIRED:
            raise MalformedError(kinds.MISSING_FIELD)
        if absent == types.NULL_IF_ABSENT:
            return None
        if kind == types.P_ENUM:
            # The default of a closed enum is its first symbol; an open one has to have a 0.
            return _symbol(field, symbols[0][0] if closed and symbols else 0)
        if kind >= types.P_STRING:
            return self._part(field, node, b"", depth)
        if kind == types.P_BOOL:
            return False
        return 0.0 if kind in (types.P_FLOAT, types.P_DOUBLE) else _whole(kind, node, 0)


def _whole(kind: int, node: Node, value: int) -> Any:
    if kind in (types.P_UINT64, types.P_FIXED64):
        return decimal(node, value, 0)
    return whole_number(node, value)


def _symbol(field: Any, value: int) -> bytes:
    name: bytes | None = dict(field[8]).get(value)
    return str(value).encode() if name is None else name
