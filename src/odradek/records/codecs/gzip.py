"""gzip (RFC 1952): a member, or several that follow one another.

What follows the last member and is none is passed over, as Java's `GZIPInputStream` does: zeros up to the end
of a block, or anything.
"""

from __future__ import annotations

import sys

from zlib_ng import zlib_ng

from odradek.records.codecs import MAX_FRAMES, TooLargeError, joined

_WBITS = 31
"""A window of 32 KiB, with gzip's header and trailer."""
_BEGINNING = b"\x1f\x8b\x08"
_SHORTEST = 19
"""Less than this is no member: a header, a trailer and not even an empty block."""
_PIECE_BYTES = 16 * 1024
"""How much of what follows the first member is handed over at a time: what is left of it is copied."""


def pack(data: bytes | bytearray | memoryview, level: int) -> bytes:
    """Return one member; `level` is 1 to 9."""
    member = zlib_ng.compressobj(level, zlib_ng.DEFLATED, _WBITS)
    return b"".join((member.compress(data), member.flush()))


def unpack(data: memoryview, max_size: int) -> memoryview:
    """Return what all members hold. Raises `TooLargeError`, `ValueError`."""
    parts: list[bytes] = []
    left = max_size
    position = 0
    # Writers make one, which is handed over whole.
    piece_bytes = sys.maxsize
    for _ in range(MAX_FRAMES):
        member = zlib_ng.decompressobj(wbits=_WBITS)
        while not member.eof:
            piece = data[position : position + piece_bytes]
            if not piece:
                raise ValueError("the data is cut off")
            try:
                part = member.decompress(piece, left + 1)
            except zlib_ng.error as problem:  # type: ignore[misc]
                raise ValueError(str(problem)) from problem
            left -= len(part)
            if left < 0:
                raise TooLargeError
            parts.append(part)
            position += len(piece) - len(member.unused_data)
        if len(data) - position < _SHORTEST or data[position : position + 3] != _BEGINNING:
            return joined(parts)
        piece_bytes = _PIECE_BYTES
    raise ValueError(f"more than {MAX_FRAMES} members")
