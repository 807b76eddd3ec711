"""murmur2 in pure Python."""

from __future__ import annotations

import struct

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFF_FFFF


def murmur2(data: bytes | bytearray | memoryview) -> int:
    """32-bit murmur2 with Kafka's seed, as a signed integer."""
    data = bytes(data)
    length = len(data)
    words = length >> 2
    value = (_SEED ^ length) & _MASK
    for word in struct.unpack_from(f"<{words}I", data):
        word = (word * _M) & _MASK
        word ^= word >> 24
        word = (word * _M) & _MASK
        value = ((value * _M) & _MASK) ^ word
    tail = data[words * 4 :]
    if tail:
        value ^= int.from_bytes(tail, "little")
        value = (value * _M) & _MASK
    value ^= value >> 13
    value = (value * _M) & _MASK
    value ^= value >> 15
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value
