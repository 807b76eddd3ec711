"""Writes metrics as OpenTelemetry's `metrics.proto` has them; by hand, as its library is not a dependency."""

from __future__ import annotations

import struct


def _varint(number: int) -> bytes:
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*written, number])


def part(number: int, content: bytes | str) -> bytes:
    """A field of bytes, text or a message."""
    data = content.encode() if isinstance(content, str) else content
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def whole(number: int, value: int) -> bytes:
    """A field of an integer."""
    return _varint(number << 3) + _varint(value)


def point(value: float, **attributes: str) -> bytes:
    """A number with its attributes."""
    written = b"".join(part(7, part(1, name) + part(2, part(1, text))) for name, text in attributes.items())
    is_whole = isinstance(value, int)
    return written + bytes([(6 if is_whole else 4) << 3 | 1]) + struct.pack("<q" if is_whole else "<d", value)


def gauge(name: str, value: float, **attributes: str) -> bytes:
    """A metric that rises and falls."""
    return part(1, name) + part(5, part(1, point(value, **attributes)))


def counter(name: str, value: float, *, delta: bool = False, **attributes: str) -> bytes:
    """A metric that only rises."""
    return part(1, name) + part(
        7, part(1, point(value, **attributes)) + whole(2, 1 if delta else 2) + whole(3, 1)
    )


def metrics(*written: bytes) -> bytes:
    """A push of metrics."""
    return part(1, part(2, b"".join(part(2, metric) for metric in written)))
