"""Zigzag varints of the record format, written: 32 bits in at most 5 bytes, 64 bits in at most 10.

The same encoding as Protocol Buffers' sint32 and sint64.
"""

from __future__ import annotations


def encode_varlong(value: int) -> bytes:
    """A 64-bit signed integer as a zigzag varint; equal to `encode_varint` within 32 bits."""
    zigzag = (value << 1) ^ (value >> 63)
    if zigzag < 0x80:
        return _ONE_BYTE[zigzag]
    out = bytearray()
    while zigzag >= 0x80:
        out.append((zigzag & 0x7F) | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


_ONE_BYTE = [bytes([value]) for value in range(0x80)]

encode_varint = encode_varlong
