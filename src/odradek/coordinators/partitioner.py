"""The partition of an internal topic that a group or a transactional id belongs to."""

from __future__ import annotations

import codecs

from odradek.errors import NotCoordinatorError

# Looked up here: the first use of an encoding imports it, which would hold up a request.
_encode_utf16 = codecs.lookup("utf-16-le").encode


def java_string_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 code units, wrapped to a signed 32-bit integer."""
    units, _ = _encode_utf16(text, "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] | units[at + 1] << 8)) & 0xFFFFFFFF
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
