"""gzip (RFC 1952): a member, or several that follow one another."""

from __future__ import annotations

import io

from zlib_ng import gzip_ng, zlib_ng

from odradek.records.codecs import TooLargeError

_ERRORS: tuple[type[Exception], ...] = (zlib_ng.error, OSError, EOFError)  # type: ignore[assignment]
_WBITS = 31
"""A window of 32 KiB, with gzip's header and trailer."""


def pack(data: bytes | bytearray | memoryview, level: int) -> bytes:
    """Return one member; `level` is 1 to 9."""
    member = zlib_ng.compressobj(level, zlib_ng.DEFLATED, _WBITS)
    return b"".join((member.compress(data), member.flush()))


def unpack(data: memoryview, max_size: int) -> memoryview:
    """Return what all members hold. Raises `TooLargeError`, `ValueError`."""
    member = zlib_ng.decompressobj(wbits=_WBITS)
    try:
        first = member.decompress(data, max_size + 1)
        if not member.eof and len(first) <= max_size:
            raise ValueError("the data is cut off")
        # Writers make one; the reader of files goes on without copying the rest for each that follows.
        rest = member.unused_data
        others = gzip_ng.GzipNGFile(fileobj=io.BytesIO(rest)).read(max_size + 1 - len(first)) if rest else b""
    except _ERRORS as problem:
        raise ValueError(str(problem)) from problem
    if len(first) + len(others) > max_size:
        raise TooLargeError
    return memoryview(first + others if others else first)
