"""gzip (RFC 1952): a member, or several that follow one another.

What follows the last member and is none is passed over, as Java's `GZIPInputStream` does: zeros up to the end
of a block, or anything.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from zlib_ng import zlib_ng

from odradek.records.codecs import MAX_FRAMES, PIECE_BYTES, TooLargeError, joined

_WBITS = 31
"""A window of 32 KiB, with gzip's header and trailer."""
_BEGINNING = b"\x1f\x8b\x08"
_SHORTEST = 19
"""Less than this is no member: a header, a trailer and not even an empty block."""
_GIVEN_BYTES = 16 * 1024
"""So much is handed over at once where something is left of it, which is copied then: after each piece, and
behind a member."""


def pack(data: bytes | bytearray | memoryview, level: int) -> bytes:
    """Return one member; `level` is 1 to 9."""
    member = zlib_ng.compressobj(level, zlib_ng.DEFLATED, _WBITS)
    return b"".join((member.compress(data), member.flush()))


def unpack(data: memoryview, max_size: int) -> memoryview:
    """Return what all members hold.

    Raises:
        TooLargeError: that is more than `max_size` bytes.
        ValueError: the data is not gzip, or cut off.
    """
    # Writers make one member, which is handed over whole.
    return joined(list(_members(data, max_size, sys.maxsize, sys.maxsize)))


def pieces(data: memoryview, max_size: int) -> Iterator[bytes]:
    """Yield what `unpack` returns."""
    return _members(data, max_size, _GIVEN_BYTES, PIECE_BYTES)


def _members(data: memoryview, max_size: int, given_bytes: int, piece_bytes: int) -> Iterator[bytes]:
    """Yield what all members hold, in pieces of so many bytes at most; `given_bytes` of the first at once."""
    left = max_size
    position = 0
    for _ in range(MAX_FRAMES):
        member = zlib_ng.decompressobj(wbits=_WBITS)
        given = data[:0]
        while not member.eof:
            if not len(given):
                given = data[position : position + given_bytes]
                position += len(given)
            was_given = len(given)
            try:
                piece = member.decompress(given, min(piece_bytes, left + 1))
            except zlib_ng.error as problem:  # type: ignore[misc]
                raise ValueError(str(problem)) from problem
            given = memoryview(member.unconsumed_tail)
            left -= len(piece)
            if left < 0:
                raise TooLargeError
            if piece:
                yield piece
            elif not was_given and not member.eof:
                raise ValueError("the data is cut off")
        position -= len(member.unused_data)
        if len(data) - position < _SHORTEST or data[position : position + 3] != _BEGINNING:
            return
        given_bytes = _GIVEN_BYTES
    raise ValueError(f"more than {MAX_FRAMES} members")
