"""The partition of an internal topic that a group or a transactional id belongs to."""

from __future__ import annotations

import codecs
import sys
from array import array
from functools import cache
from itertools import accumulate, repeat
from operator import mul

from odradek.errors import NotCoordinatorError

# Looked up here: the first use of an encoding imports it, which would hold up a request.
_encode_utf16 = codecs.lookup("utf-16-le").encode


@cache
def _powers(count: int) -> tuple[int, ...]:
    """The first powers of 31, in 32 bits."""
    return tuple(accumulate(repeat(31, count - 1), lambda power, base: power * base & 0xFFFFFFFF, initial=1))


def java_string_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 code units, wrapped to a signed 32-bit integer."""
    units = array("H", _encode_utf16(text, "surrogatepass")[0])
    if sys.byteorder == "big":
        units.byteswap()
    powers = _powers(256 if len(units) <= 256 else 1 << len(units).bit_length())
    # Summed up by what is compiled: names come from strangers, and may be of 32 KiB.
    value: int = sum(map(mul, reversed(units), powers)) & 0xFFFFFFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


def partition_for(key: str, partition_count: int) -> int:
    """The partition that coordinates `key`.

    Args:
        key: a group id or a transactional id.
        partition_count: partitions of the internal topic; 0 while it does not exist.

    Raises:
        NotCoordinatorError: the topic does not exist yet, so nobody coordinates.
    """
    if partition_count <= 0:
        raise NotCoordinatorError
    hashed = java_string_hash(key)
    # abs(-2**31) does not fit Java's int; Kafka takes 0 for it.
    return (0 if hashed == -0x8000_0000 else abs(hashed)) % partition_count
