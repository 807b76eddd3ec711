"""The tree of Arrow columns in pure Python: the twin of `_tree`, whose contract these docstrings are.

Decoders here make Python values, which `finish` turns into the buffers of columns.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from odradek.spark.formats import kinds

_WIDTHS = {
    kinds.BOOL: 1,
    kinds.INT8: 1,
    kinds.INT16: 2,
    kinds.INT32: 4,
    kinds.INT64: 8,
    kinds.FLOAT: 4,
    kinds.DOUBLE: 8,
    kinds.DECIMAL: 16,
    kinds.DATE: 4,
    kinds.TIMESTAMP: 8,
    kinds.DURATION: 8,
}
_NESTED = (kinds.STRING, kinds.BINARY, kinds.STRUCT, kinds.LIST, kinds.MAP)
_RANGES = {
    kinds.INT8: 8,
    kinds.INT16: 16,
    kinds.INT32: 32,
    kinds.INT64: 64,
    kinds.DATE: 32,
    kinds.TIMESTAMP: 64,
    kinds.DURATION: 64,
}


class MalformedError(Exception):
    """A record is malformed.

    Attributes:
        code: of `kinds`.
        at: bytes from the record's beginning.
        column: the number of the column that was to be filled.
    """

    def __init__(self, code: int, at: int = 0, column: int = 0) -> None:
        super().__init__(code, at, column)
        self.code = code
        self.at = at
        self.column = column


class Node:
    """A column: what the tree's description says of it."""

    def __init__(self, description: Any, nodes: list[Node]) -> None:
        self.kind, name, self.precision, self.scale, self.factor, below = description
        self.name = bytes(name)
        if self.kind not in _WIDTHS and self.kind not in _NESTED:
            raise ValueError(f"no kind {self.kind}")
        child_count = {kinds.LIST: 1, kinds.MAP: 2}.get(self.kind, 0)
        if self.kind != kinds.STRUCT and len(below) != child_count:
            raise ValueError(f"{len(below)} children of a column of kind {self.kind}")
        if not 0 <= self.precision <= 38 or not 0 <= self.scale <= 38:
            raise ValueError("a decimal has up to 38 digits")
        self.number = len(nodes)
        nodes.append(self)
        self.children = [Node(child, nodes) for child in below]

    @property
    def width(self) -> int:
        """Bytes of a value; 0 where they differ."""
        return _WIDTHS.get(self.kind, 0)


class Tree:
    """Columns that grow.

    Args:
        description: `tree.Description`: (kind, name, precision, scale, microseconds in a unit, columns
            below).

    Raises:
        ValueError: the description is not that.
    """

    def __init__(self, description: Any) -> None:
        self.nodes: list[Node] = []
        self.root = Node(description, self.nodes)
        self.values: list[Any] = []

    @property
    def rows(self) -> int:
        """The number of rows pushed since the last `finish`."""
        return len(self.values)

    def finish(self) -> tuple[Any, ...]:
        """Hand out what was pushed, and begin anew.

        Returns (rows, nulls, validity bits or None, offsets or None, values or None, the same of the
        columns below) as Arrow has them; a list's offsets count its child's rows.
        """
        values, self.values = self.values, []
        return _parts(self.root, values)


def _parts(node: Node, values: Sequence[Any]) -> tuple[Any, ...]:
    nulls = sum(value is None for value in values)
    validity = _bits([value is not None for value in values]) if nulls else None
    if node.kind == kinds.STRUCT:
        below = [
            _parts(child, [None if value is None else value[number] for value in values])
            for number, child in enumerate(node.children)
        ]
        return len(values), nulls, validity, None, None, below
    if node.kind == kinds.BOOL:
        return len(values), nulls, validity, None, _bits([bool(value) for value in values]), []
    if node.width:
        return len(values), nulls, validity, None, b"".join(_fixed(node.kind, value) for value in values), []
    ends = [0]
    for value in values:
        ends.append(ends[-1] + (0 if value is None else len(value)))
    offsets = struct.pack(f"={len(ends)}i", *ends)
    there = [value for value in values if value is not None]
    if node.kind in (kinds.STRING, kinds.BINARY):
        return len(values), nulls, validity, offsets, b"".join(there), []
    elements = [element for value in there for element in value]
    if node.kind == kinds.LIST:
        return len(values), nulls, validity, offsets, None, [_parts(node.children[0], elements)]
    pairs = [_parts(node.children[number], [element[number] for element in elements]) for number in (0, 1)]
    return len(values), nulls, validity, offsets, None, pairs


def _bits(flags: Sequence[bool]) -> bytes:
    bits = bytearray((len(flags) + 7) // 8)
    for number, flag in enumerate(flags):
        bits[number >> 3] |= flag << (number & 7)
    return bytes(bits)


def _fixed(kind: int, value: Any) -> bytes:
    if kind in (kinds.FLOAT, kinds.DOUBLE):
        return struct.pack("=f" if kind == kinds.FLOAT else "=d", 0.0 if value is None else value)
    number: int = value or 0
    return number.to_bytes(_WIDTHS[kind], "little", signed=True)


def whole_number(node: Node, value: int) -> Any:
    """A whole number as a value of the column.

    Raises:
        MalformedError: the column cannot hold it, or is of another kind.
    """
    if node.kind in (kinds.TIMESTAMP, kinds.DURATION):
        return in_range(node, value * node.factor)
    if node.kind in _RANGES:
        return in_range(node, value)
    if node.kind == kinds.DOUBLE:
        return float(value)
    if node.kind == kinds.FLOAT:
        return single(float(value))
    if node.kind == kinds.DECIMAL:
        return decimal(node, value, 0)
    raise MalformedError(kinds.WRONG_KIND, column=node.number)


def in_range(node: Node, value: int) -> int:
    """The number, if its column can hold it.

    Raises:
        MalformedError: it cannot.
    """
    half = 1 << (_RANGES[node.kind] - 1)
    if not -half <= value < half:
        raise MalformedError(kinds.OUT_OF_RANGE, column=node.number)
    return value


def single(value: float) -> float:
    """The nearest number of 32 bits; infinite where there is none."""
    try:
        return float(struct.unpack("=f", struct.pack("=f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def decimal(node: Node, digits: int, scale: int) -> int:
    """`digits` * 10**-`scale`, rounded half up to what the column holds, unscaled.

    Raises:
        MalformedError: it has more digits than the column.
    """
    if scale > node.scale:
        factor = 10 ** (scale - node.scale)
        value, rest = divmod(abs(digits), factor)
        value += rest * 2 >= factor
        value = value if digits > 0 else -value
    else:
        value = digits * 10 ** (node.scale - scale)
    if abs(value) >= 10**node.precision:
        raise MalformedError(kinds.OUT_OF_RANGE, column=node.number)
    return value


def text(node: Node, data: bytes) -> bytes:
    """Characters, if they are UTF-8.

    Raises:
        MalformedError: they are not.
    """
    try:
        data.decode()
    except UnicodeDecodeError:
        raise MalformedError(kinds.NOT_UTF8, column=node.number) from None
    return data


class Records:
    """A binary array as decoders take it.

    Args:
        validity: bits, or None where no row is null.
        offsets: as Arrow has them, of 32 bits.
        data: the bytes, or None.
        first: the first row that counts.
        length: rows from there on.

    Raises:
        ValueError: the buffers are not that.
    """

    def __init__(self, validity: Any, offsets: Any, data: Any, first: int, length: int) -> None:
        if first < 0 or length < 0:
            raise ValueError("negative offset or length")
        self._validity = None if validity is None else bytes(validity)
        self._data = b"" if data is None else bytes(data)
        self._first = first
        self._length = length
        packed = bytes(offsets)
        if length and len(packed) < 4 * (first + length + 1):
            raise ValueError("the offsets are too short")
        if self._validity is not None and len(self._validity) * 8 < first + length:
            raise ValueError("the validity bits are too short")
        self._ends = struct.unpack_from(f"={length + 1}i", packed, 4 * first) if length else (0,)
        rising = list(self._ends) == sorted(self._ends)
        if self._ends[0] < 0 or not rising or self._ends[-1] > len(self._data):
            raise ValueError("the offsets do not fit the data")

    def __len__(self) -> int:
        return self._length

    def row(self, number: int) -> bytes | None:
        """The bytes of a record; None where it has none."""
        at = self._first + number
        if self._validity is not None and not self._validity[at >> 3] >> (at & 7) & 1:
            return None
        return self._data[self._ends[number] : self._ends[number + 1]]


Found = tuple[int, int, int, int]
"""(row, what is wrong, bytes from the record's beginning, number of the column)"""


def decode_fixed(tree: Tree, records: Records, width: int) -> list[Found]:
    """Push numbers of `width` bytes, the highest first; the malformed rows, which are null."""
    if width not in (1, 2, 4, 8) or tree.root.width != width:
        raise ValueError(f"no number of {width} bytes for this column")
    form = {kinds.DOUBLE: ">d", kinds.FLOAT: ">f"}.get(tree.root.kind)
    problems: list[Found] = []
    for row in range(len(records)):
        data = records.row(row)
        value: Any = None
        if data is not None and len(data) != width:
            problems.append((row, kinds.BAD_LENGTH, 0, 0))
        elif data is not None and tree.root.kind == kinds.BOOL:
            value = bool(data[0]) if data[0] <= 1 else None
            if value is None:
                problems.append((row, kinds.WRONG_KIND, 0, 0))
        elif data is not None:
            value = struct.unpack(form, data)[0] if form else int.from_bytes(data, "big", signed=True)
        tree.values.append(value)
    return problems


def decode_text(tree: Tree, records: Records) -> list[Found]:
    """Push characters; the rows that are not UTF-8, which are null."""
    if tree.root.kind != kinds.STRING:
        raise ValueError("characters need a column of strings")
    problems: list[Found] = []
    for row in range(len(records)):
        data = records.row(row)
        try:
            tree.values.append(None if data is None else text(tree.root, data))
        except MalformedError as problem:
            problems.append((row, problem.code, 0, 0))
            tree.values.append(None)
    return problems
