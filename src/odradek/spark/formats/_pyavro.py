"""Avro's binary encoding into a tree of columns in pure Python: the twin of `_avro`, whose contract
these docstrings are.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from odradek.spark.formats import avro_steps as steps
from odradek.spark.formats import kinds
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


class Plan:
    """A writer's schema resolved to a tree.

    Args:
        tree: whose columns are filled.
        plan: of `avro_plan.plan`; the first step decodes a record. A step is (what, column or -1 to skip,
            a, b, steps below, constants). A time is its number times `a` by `b`; a decimal of bytes has the
            scale `b`, a fixed has `a` bytes; a member of a union fills the `a`th column below, and makes
            its neighbours null.

    Raises:
        ValueError: a step is not whole, or cannot fill its column.
    """

    def __init__(self, tree: Tree, plan: Sequence[Any]) -> None:
        self.tree = tree
        self.steps = list(plan)
        for number, (op, target, a, b, below, pieces) in enumerate(self.steps):
            if target >= len(tree.nodes):
                raise ValueError(f"the tree has no column {target}")
            if any(not 0 <= step < len(self.steps) for step in below):
                raise ValueError(f"the plan has no step {below}")
            if (op in (steps.MEMBER, steps.CONSTANT) and len(below) != 1) or (
                op == steps.CONSTANT and len(pieces) != 1
            ) or (op in (steps.ABSENT, steps.MEMBER) and target < 0) or (
                op == steps.FIXED and a < 0
            ):  # fmt: skip
                raise ValueError(f"step {number} is not whole")
            if target >= 0 and not _fits(op, tree.nodes[target], len(below), b):
                raise ValueError(f"step {number} cannot fill a column of kind {tree.nodes[target].kind}")


def _fits(op: int, node: Node, below: int, b: int) -> bool:
    kind = node.kind
    if op in (steps.INT, steps.LONG):
        return node.width > 0 and kind != kinds.BOOL and b > 0
    kinds_of_op = {
        steps.TEXT: (kinds.STRING, kinds.BINARY, kinds.DECIMAL),
        steps.FIXED: (kinds.STRING, kinds.BINARY, kinds.DECIMAL),
        steps.ENUM: (kinds.STRING,),
        steps.ARRAY: (kinds.LIST,) if below == 1 else (),
        steps.MAPPING: (kinds.MAP,) if below == 2 else (),
        steps.RECORD: (kinds.STRUCT,),
        steps.MEMBER: (kinds.STRUCT,),
        steps.REAL32: (kinds.FLOAT, kinds.DOUBLE),
        steps.REAL64: (kinds.DOUBLE,),
        steps.BOOLEAN: (kinds.BOOL,),
    }
    return op not in kinds_of_op or kind in kinds_of_op[op]


def decode_avro(
    tree: Tree, records: Records, start: int, plans: Mapping[Any, Any], framed: bool
) -> tuple[int, int | None, list[Found]]:
    """Push the rows from `start` on.

    Args:
        plans: by the id of the writer's schema, None for schemas that do not resolve; without frames under
            None.
        framed: a zero and four bytes with the id come before each record.

    Returns (the row to go on with, the id whose plan is missing or None, the malformed rows, which are null).
    """
    problems: list[Found] = []
    for row in range(start, len(records)):
        data = records.row(row)
        if data is None:
            tree.values.append(None)
            continue
        plan: Any = None
        if framed:
            if len(data) < 5 or data[0] != 0:
                problems.append((row, kinds.BAD_MAGIC, 0, 0))
                tree.values.append(None)
                continue
            schema_id = int.from_bytes(data[1:5], "big")
            if schema_id not in plans:
                return row, schema_id, problems
            plan = plans[schema_id]
            if plan is None:
                problems.append((row, kinds.UNRESOLVED, 0, 0))
                tree.values.append(None)
                continue
        else:
            plan = plans[None]
        if plan.tree is not tree:
            raise ValueError("the plan is for another tree")
        reader = _Reader(plan, data, 5 if framed else 0)
        try:
            value = reader.run(0, 0)
            if reader.at != len(data):
                reader.column = 0
                raise MalformedError(kinds.TRAILING)
        except MalformedError as problem:
            problems.append((row, problem.code, reader.at, reader.column))
            value = None
        tree.values.append(value)
    return len(records), None, problems


class _Reader:
    """Runs a plan over the bytes of one record."""

    def __init__(self, plan: Plan, data: bytes, at: int) -> None:
        self._plan = plan
        self._data = data
        self.at = at
        self.column = 0
        self._empty = 0

    def run(self, number: int, depth: int) -> Any:
        """The value of one step."""
        op, target, a, b, below, pieces = self._plan.steps[number]
        if depth > kinds.DEEPEST:
            raise MalformedError(kinds.TOO_DEEP)
        node = self._plan.tree.nodes[target] if target >= 0 else None
        if node is not None:
            self.column = node.number
        if op in (steps.LONG, steps.INT):
            value = self._long()
            if op == steps.INT and not -(1 << 31) <= value < 1 << 31:
                raise MalformedError(kinds.OUT_OF_RANGE)
            return None if node is None else _number(node, value, a, b)
        if op in (steps.TEXT, steps.FIXED):
            data = self._take(self._length() if op == steps.TEXT else a)
            return None if node is None else _data(node, data, b)
        if op == steps.UNION:
            value = self._long()
            if not 0 <= value < len(below):
                raise MalformedError(kinds.BAD_BRANCH)
            return self.run(below[value], depth + 1)
        if op == steps.RECORD:
            return self._record(node, below, depth)
        if op in (steps.NOTHING, steps.ABSENT):
            return None
        if op in (steps.REAL32, steps.REAL64):
            return struct.unpack(
                "<f" if op == steps.REAL32 else "<d", self._take(4 if op == steps.REAL32 else 8)
            )[0]
        if op == steps.BOOLEAN:
            flag = self._take(1)[0]
            if flag > 1:
                self.at -= 1
                raise MalformedError(kinds.WRONG_KIND)
            return bool(flag)
        if op == steps.ENUM:
            value = self._long()
            if not 0 <= value < len(pieces) or pieces[value] is None:
                raise MalformedError(kinds.BAD_SYMBOL)
            return pieces[value]
        if op in (steps.ARRAY, steps.MAPPING):
            return self._blocks(node, below, depth)
        if op == steps.MEMBER:
            assert node is not None
            value = self.run(below[0], depth + 1)
            return tuple(value if number == a else None for number in range(len(node.children)))
        if op == steps.CONSTANT:
            return _Reader(self._plan, pieces[0], 0).run(below[0], depth + 1)
        raise MalformedError(kinds.UNRESOLVED)

    def _record(self, node: Node | None, below: Sequence[int], depth: int) -> Any:
        filled: dict[int, Any] = {}
        for step in below:
            value = self.run(step, depth + 1)
            filled[self._plan.steps[step][1]] = value
        return None if node is None else tuple(filled.get(child.number) for child in node.children)

    def _blocks(self, node: Node | None, below: Sequence[int], depth: int) -> Any:
        elements: list[Any] = []
        while count := self._long():
            if abs(count) > kinds.LARGEST:
                raise MalformedError(kinds.TOO_LARGE)
            if count < 0:
                count = -count
                size = self._length()
                if node is None:
                    self.at += size
                    continue
            for _ in range(count):
                began = self.at
                values = [self.run(step, depth + 1) for step in below]
                if self.at == began:
                    self._empty += 1
                    if self._empty > steps.MOST_EMPTY:
                        raise MalformedError(kinds.TOO_LARGE)
                elements.append(values[0] if len(values) == 1 else tuple(values))
        return elements

    def _take(self, length: int) -> bytes:
        if length > len(self._data) - self.at:
            raise MalformedError(kinds.TRUNCATED)
        self.at += length
        return self._data[self.at - length : self.at]

    def _length(self) -> int:
        length = self._long()
        if length < 0:
            raise MalformedError(kinds.BAD_LENGTH)
        if length > len(self._data) - self.at:
            raise MalformedError(kinds.TRUNCATED)
        return length

    def _long(self) -> int:
        raw = shift = 0
        while True:
            byte = self._take(1)[0]
            if shift == 63 and byte > 1:
                raise MalformedError(kinds.OUT_OF_RANGE)
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (raw >> 1) ^ -(raw & 1)
            shift += 7


def _number(node: Node, value: int, a: int, b: int) -> Any:
    if node.kind in (kinds.TIMESTAMP, kinds.DURATION):
        return in_range(node, value * a // b)
    return whole_number(node, value)


def _data(node: Node, data: bytes, scale: int) -> Any:
    if node.kind == kinds.STRING:
        return text(node, data)
    if node.kind == kinds.BINARY:
        return data
    number = int.from_bytes(data, "big", signed=True)
    if not -(1 << 127) <= number < 1 << 127:
        raise MalformedError(kinds.OUT_OF_RANGE)
    return decimal(node, number, scale)
