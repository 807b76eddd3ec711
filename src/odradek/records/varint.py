"""Zigzag varints of the record format: 32 bits in at most 5 bytes, 64 bits in at most 10.

The same encoding as Protocol Buffers' sint32 and sint64. Bits beyond the width that the last allowed byte
carries are dropped, as Kafka's own reader does.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.errors import ProtocolError

MAX_VARINT_BYTES = 5
MAX_VARLONG_BYTES = 10


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


def varint_size(value: int) -> int:
    """How many bytes `encode_varint(value)` takes."""
    zigzag = (value << 1) ^ (value >> 63)
    return 1 if zigzag < 0x80 else (zigzag.bit_length() + 6) // 7


def decode_varint(buffer: Sequence[int], offset: int) -> tuple[int, int]:
    """Read a 32-bit varint: (value, offset after it). `ProtocolError` when it does not end in time."""
    raw, end = _decode(buffer, offset, MAX_VARINT_BYTES)
    raw &= 0xFFFF_FFFF
    return (raw >> 1) ^ -(raw & 1), end


def decode_varlong(buffer: Sequence[int], offset: int) -> tuple[int, int]:
    """Read a 64-bit varint: (value, offset after it). `ProtocolError` when it does not end in time."""
    raw, end = _decode(buffer, offset, MAX_VARLONG_BYTES)
    raw &= 0xFFFF_FFFF_FFFF_FFFF
    return (raw >> 1) ^ -(raw & 1), end


def _decode(buffer: Sequence[int], offset: int, max_bytes: int) -> tuple[int, int]:
    raw = shift = 0
    limit = min(len(buffer), offset + max_bytes)
    while offset < limit:
        byte = buffer[offset]
        offset += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return raw, offset
        shift += 7
    raise ProtocolError("a varint runs past its last byte")
