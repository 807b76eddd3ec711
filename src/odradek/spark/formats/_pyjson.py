"""JSON into a tree of columns in pure Python: the twin of `_json`, whose contract these docstrings
are.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

from odradek.spark.formats import kinds
from odradek.spark.formats._pytimes import read_date, read_timestamp
from odradek.spark.formats._pytree import (
    Found,
    MalformedError,
    Node,
    Records,
    Tree,
    decimal,
    single,
    whole_number,
)

_BLANKS = re.compile(rb"[ \t\r\n]*")
# Wider than JSON's numbers: strings that hold decimals may be `+1` and `.5`.
_LOOSE = re.compile(rb"([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+))?", re.ASCII)
_PLAIN = re.compile(rb'[^"\\\x00-\x1f]*')
_SHORT = {0x22: '"', 0x5C: "\\", 0x2F: "/", 0x6E: "\n", 0x74: "\t", 0x72: "\r", 0x62: "\b", 0x66: "\f"}
_HEX = re.compile(rb"[0-9a-fA-F]{4}")
_WORDS = {0x74: b"true", 0x66: b"false", 0x6E: b"null"}


def decode_json(tree: Tree, records: Records, start: int, framed: bool) -> list[Found]:
    """Push the rows from `start` on.

    Args:
        framed: five bytes of a registry come before each document.

    Returns the malformed rows, which are null: documents (RFC 8259) that are not, or that do not fit the
    columns. A member that no column has is skipped, a missing member is null, and of a member that is there
    twice the last counts. A column of strings takes any value, as it is written.
    """
    problems: list[Found] = []
    for row in range(start, len(records)):
        data = records.row(row)
        if data is None:
            tree.values.append(None)
            continue
        reader = _Reader(data)
        try:
            if framed:
                # Confluent's format: a 0 and the schema's id, which JSON does not need to be read.
                if len(data) < 5 or data[0] != 0:
                    raise MalformedError(kinds.BAD_MAGIC)
                reader.at = 5
            value = reader.value(tree.root, 0)
            reader.blanks()
            if reader.at < len(data):
                raise MalformedError(kinds.TRAILING)
        except MalformedError as problem:
            # What stands behind the document is no column's fault.
            if problem.code == kinds.TRAILING:
                reader.column = 0
            problems.append((row, problem.code, reader.at, reader.column))
            value = None
        tree.values.append(value)
    return problems


class _Reader:
    """Reads one document, and stands at `at`."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0
        self.column = 0
        """The column that was filled last: whose value is wrong where the document is."""

    def blanks(self) -> None:
        blanks = _BLANKS.match(self._data, self.at)
        assert blanks is not None
        self.at = blanks.end()

    def _peek(self) -> int:
        """The next byte that is not blank."""
        self.blanks()
        if self.at == len(self._data):
            raise MalformedError(kinds.TRUNCATED)
        return self._data[self.at]

    def value(self, node: Node | None, depth: int) -> Any:
        """Read a value, and return what its column has of it; a value without a column is passed."""
        if node is not None:
            self.column = node.number
        return self._value(node, depth)

    def _value(self, node: Node | None, depth: int) -> Any:
        first = self._peek()
        if depth > kinds.DEEPEST:
            raise MalformedError(kinds.TOO_DEEP)
        if first == 0x6E:
            self._word(b"null")
            return None
        if first == 0x22:
            self.at += 1
            text = self._string()
            return None if node is None else _of_string(node, text)
        # As it is written: Spark's `from_json` keeps objects in strings as well, but without their blanks.
        if node is not None and node.kind == kinds.STRING:
            begin = self.at
            self._value(None, depth)
            return self._data[begin : self.at]
        if first in b"{[":
            return self._nested(node, first, depth)
        if first in _WORDS:
            self._word(_WORDS[first])
            if node is not None and node.kind != kinds.BOOL:
                raise MalformedError(kinds.WRONG_KIND)
            return first == 0x74
        if first not in b"-0123456789":
            raise MalformedError(kinds.SYNTAX)
        text = self._number()
        if node is None:
            return None
        # Columns without a width are texts and such as have others in them.
        if not node.width or node.kind in (kinds.BOOL, kinds.DATE, kinds.DURATION):
            raise MalformedError(kinds.WRONG_KIND)
        return _of_number(node, text)

    def _nested(self, node: Node | None, first: int, depth: int) -> Any:
        if node is not None:
            fitting_kinds = (kinds.STRUCT, kinds.MAP) if first == 0x7B else (kinds.LIST,)
            if node.kind not in fitting_kinds:
                raise MalformedError(kinds.WRONG_KIND)
        elif depth == kinds.DEEPEST:
            raise MalformedError(kinds.TOO_DEEP)
        self.at += 1
        return self._object(node, depth) if first == 0x7B else self._array(node, depth)

    def _array(self, node: Node | None, depth: int) -> list[Any]:
        elements: list[Any] = []
        element = node.children[0] if node is not None else None
        if self._maybe(0x5D):
            return elements
        while True:
            elements.append(self.value(element, depth + 1))
            if self._end(0x5D):
                return elements

    def _object(self, node: Node | None, depth: int) -> Any:
        pairs: list[tuple[bytes, Any]] = []
        if not self._maybe(0x7D):
            while True:
                if self._peek() != 0x22:
                    raise MalformedError(kinds.SYNTAX)
                self.at += 1
                # Members of a struct are names; keys of a map are a column, and may be what is wrong.
                if node is not None and node.kind == kinds.MAP:
                    self.column = node.children[0].number
                name = self._string()
                if self._peek() != 0x3A:
                    raise MalformedError(kinds.SYNTAX)
                self.at += 1
                pairs.append((name, self.value(_below(node, name), depth + 1)))
                if self._end(0x7D):
                    break
        if node is None:
            return None
        if node.kind == kinds.MAP:
            return pairs
        # A map keeps a key that is there twice (docs/typed_columns.md); of a member the last counts.
        last = dict(pairs)
        return tuple(last.get(child.name) for child in node.children)

    def _maybe(self, sign: int) -> bool:
        self.blanks()
        if self._data[self.at : self.at + 1] == bytes([sign]):
            self.at += 1
            return True
        return False

    def _end(self, sign: int) -> bool:
        """Return whether the list ends here; else it goes on behind a comma."""
        sign_here = self._peek()
        if sign_here not in (sign, 0x2C):
            raise MalformedError(kinds.SYNTAX)
        self.at += 1
        return sign_here == sign

    def _word(self, word: bytes) -> None:
        there = self._data[self.at : self.at + len(word)]
        if there != word:
            raise MalformedError(kinds.TRUNCATED if word.startswith(there) else kinds.SYNTAX)
        self.at += len(word)

    def _string(self) -> bytes:
        """A string's characters, from behind its opening quote."""
        parts: list[bytes] = []
        while True:
            plain = _PLAIN.match(self._data, self.at)
            assert plain is not None
            parts.append(plain[0])
            self.at = plain.end()
            if self.at == len(self._data):
                raise MalformedError(kinds.TRUNCATED)
            sign = self._data[self.at]
            self.at += 1
            if sign == 0x22:
                break
            if sign != 0x5C:
                raise MalformedError(kinds.SYNTAX)
            parts.append(self._escape().encode())
        text = b"".join(parts)
        try:
            text.decode()
        except UnicodeDecodeError:
            raise MalformedError(kinds.NOT_UTF8) from None
        return text

    def _escape(self) -> str:
        if self.at == len(self._data):
            raise MalformedError(kinds.TRUNCATED)
        sign = self._data[self.at]
        self.at += 1
        if sign in _SHORT:
            return _SHORT[sign]
        if sign != 0x75:
            raise MalformedError(kinds.SYNTAX)
        code = self._hex()
        # Beyond the first plane a character is written as a pair of surrogates (RFC 8259, 7); one of them
        # alone is no character, and has no UTF-8.
        if not 0xD800 <= code < 0xE000:
            return chr(code)
        if code >= 0xDC00:
            raise MalformedError(kinds.NOT_UTF8)
        if len(self._data) - self.at < 2:
            raise MalformedError(kinds.TRUNCATED)
        if self._data[self.at : self.at + 2] != b"\\u":
            raise MalformedError(kinds.NOT_UTF8)
        self.at += 2
        low = self._hex()
        if not 0xDC00 <= low < 0xE000:
            raise MalformedError(kinds.NOT_UTF8)
        return chr(0x10000 + ((code - 0xD800) << 10) + low - 0xDC00)

    def _hex(self) -> int:
        if len(self._data) - self.at < 4:
            raise MalformedError(kinds.TRUNCATED)
        if not _HEX.match(self._data, self.at):
            raise MalformedError(kinds.SYNTAX)
        self.at += 4
        return int(self._data[self.at - 4 : self.at], 16)

    def _number(self) -> bytes:
        begin = self.at
        data = self._data
        self.at += data[begin : begin + 1] == b"-"
        # Behind a leading 0 there are no further digits (RFC 8259, 6).
        if data[self.at : self.at + 1] == b"0":
            self.at += 1
        else:
            self._digits()
        if data[self.at : self.at + 1] == b".":
            self.at += 1
            self._digits()
        if data[self.at : self.at + 1] in (b"e", b"E"):
            self.at += 1
            self.at += data[self.at : self.at + 1] in (b"+", b"-")
            self._digits()
        return data[begin : self.at]

    def _digits(self) -> None:
        begin = self.at
        while self.at < len(self._data) and 0x30 <= self._data[self.at] <= 0x39:
            self.at += 1
        if self.at == begin:
            raise MalformedError(kinds.TRUNCATED if self.at == len(self._data) else kinds.SYNTAX)


def _below(node: Node | None, name: bytes) -> Node | None:
    if node is None:
        return None
    if node.kind == kinds.MAP:
        return node.children[1]
    return next((child for child in node.children if child.name == name), None)


def _of_string(node: Node, text: bytes) -> Any:
    if node.kind == kinds.STRING:
        return text
    if node.kind == kinds.BINARY:
        return _base64(text)
    if node.kind in (kinds.DATE, kinds.TIMESTAMP):
        moment = read_date(text) if node.kind == kinds.DATE else read_timestamp(text)
        if moment is None:
            raise MalformedError(kinds.BAD_TIME)
        return moment
    if node.kind == kinds.DECIMAL:
        return _of_number(node, text)
    if node.kind in (kinds.DOUBLE, kinds.FLOAT):
        special = {
            b"Infinity": "inf",
            b"INF": "inf",
            b"+Infinity": "inf",
            b"+INF": "inf",
            b"NaN": "nan",
            b"+NaN": "nan",
        }
        negative = {b"-Infinity": "-inf", b"-INF": "-inf"}
        if text in special or text in negative:
            return float({**special, **negative}[text])
    raise MalformedError(kinds.WRONG_KIND)


def _base64(text: bytes) -> bytes:
    # Both alphabets (RFC 4648), and with the padding or without; with it, it has to be right.
    plain = text
    while len(text) - len(plain) < 2 and plain.endswith(b"="):
        plain = plain[:-1]
    padding = len(text) - len(plain)
    if len(plain) % 4 == 1 or (padding and len(text) % 4):
        raise MalformedError(kinds.BAD_BASE64)
    plain = plain.translate(bytes.maketrans(b"-_", b"+/"))
    try:
        data = base64.b64decode(plain + b"=" * (-len(plain) % 4), validate=True)
    except binascii.Error:
        raise MalformedError(kinds.BAD_BASE64) from None
    # The last character may hold bits that are no byte's; there they have to be zero.
    if base64.b64encode(data).rstrip(b"=") != plain:
        raise MalformedError(kinds.BAD_BASE64)
    return data


def _of_number(node: Node, text: bytes) -> Any:
    """The number that is all of the bytes, which may be any text."""
    match = _LOOSE.fullmatch(text)
    if match is None or not (match[2] or match[3]):
        raise MalformedError(kinds.BAD_NUMBER)
    below = match[3] or b""
    digits = ((match[2] or b"") + below).lstrip(b"0")
    # Six digits of an exponent are more than any column has room for, and no work for `int`.
    exponent = int((match[4] or b"").lstrip(b"+-0")[:6] or b"0")
    exponent = -exponent if (match[4] or b"").startswith(b"-") else exponent
    # 38 digits are the most that a decimal of Spark's has; of the others it counts whether they are zero.
    exponent += max(len(digits) - 38, 0) - len(below)
    exact = not digits[38:].strip(b"0")
    if node.kind in (kinds.DOUBLE, kinds.FLOAT):
        value = float(text)
        return single(value) if node.kind == kinds.FLOAT else value
    number = int(digits[:38] or b"0")
    number = -number if match[1] == b"-" else number
    if node.kind == kinds.DECIMAL:
        return _decimal(node, number, exponent)
    # 1.0 and 1e3 are no whole numbers, for Spark's `from_json` neither.
    if match[4] is not None or b"." in text:
        raise MalformedError(kinds.WRONG_KIND)
    if not exact or exponent or not -(1 << 63) <= number < 1 << 63:
        raise MalformedError(kinds.OUT_OF_RANGE)
    return whole_number(node, number)


def _decimal(node: Node, number: int, exponent: int) -> int:
    # Far below any scale, and so large that 38 digits cannot hold it: both before a power is computed.
    if number == 0 or exponent < -1000:
        return 0
    if exponent > 76:
        raise MalformedError(kinds.OUT_OF_RANGE)
    return decimal(node, number, -exponent)
