"""Fields read from a frame, for the short cuts in pure Python; the twin of `odradek._frames`.

Whatever is not usual raises `Unusual`; so may what is too short raise `IndexError` or `struct.error`.
"""

from __future__ import annotations

from struct import Struct

INT16 = Struct(">h")
INT32 = Struct(">i")


class Unusual(Exception):
    """The ordinary way is to look at the frame."""


def compact(data: bytes, at: int) -> tuple[int, int]:
    """A length of at most three bytes, less one, and the position after it."""
    value = 0
    for shift in (0, 7, 14):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value - 1, at
    raise Unusual


def uvarint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned varint of at most five bytes, and the position after it."""
    value = 0
    for shift in (0, 7, 14, 21, 28):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise Unusual


def length(data: bytes, at: int, flexible: bool) -> tuple[int, int]:
    """A text's length, and the position after it."""
    if flexible:
        return compact(data, at)
    return INT16.unpack_from(data, at)[0], at + 2


def count(data: bytes, at: int, flexible: bool) -> tuple[int, int]:
    """An array's length, which is not negative, and the position after it."""
    if flexible:
        number, at = compact(data, at)
    else:
        number, at = INT32.unpack_from(data, at)[0], at + 4
    if number < 0:
        raise Unusual
    return number, at


def text(data: bytes, at: int, size: int) -> tuple[str, int]:
    """So many bytes of ASCII, and the position after them."""
    found = data[at : at + size] if size >= 0 else b""
    if len(found) != size or not found.isascii():
        raise Unusual
    return found.decode("ascii"), at + size


def no_tags(data: bytes, at: int) -> int:
    """The position after an empty list of tagged fields."""
    if data[at]:
        raise Unusual
    return at + 1
