"""Snappy as Kafka's clients write it: the block format of the Java library snappy-java ("xerial").

    magic      0x82 'S' 'N' 'A' 'P' 'P' 'Y' 0x00
    version    int32, 1
    compatible int32, 1
    blocks     (length int32, raw snappy of `length` bytes)*

All integers are big-endian. Some clients send one raw snappy block without this frame; Kafka's Java reader
takes both, and so does this one.
"""

from __future__ import annotations

import struct

import cramjam

from odradek.records.codecs import TooLargeError

MAGIC = b"\x82SNAPPY\x00"
_HEADER = MAGIC + struct.pack(">ii", 1, 1)
_INT32 = struct.Struct(">i")
BLOCK_BYTES = 32 * 1024
"""Uncompressed bytes per block, snappy-java's default."""


def pack(data: memoryview) -> bytes:
    """Return `data` in xerial blocks of `BLOCK_BYTES`."""
    parts: list[bytes] = [_HEADER]
    for start in range(0, len(data), BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + BLOCK_BYTES]))
        parts.append(_INT32.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def unpack(data: memoryview, max_size: int) -> memoryview:
    """Return what all blocks hold. Raises `TooLargeError`, `ValueError`."""
    found = blocks(data)
    # A snappy block cannot shrink data by more than some 1:22 (a copy of 64 bytes takes three), and it
    # names its size; both are checked, so that a lie of 4 GiB in five bytes costs nothing.
    size = 0
    try:
        for block in found:
            declared = cramjam.snappy.decompress_raw_len(block)
            if declared > 24 * len(block) + 64:
                raise ValueError(f"a snappy block of {len(block)} bytes cannot hold {declared}")
            size += declared
            if size > max_size:
                raise TooLargeError
        if len(found) == 1:
            return memoryview(cramjam.snappy.decompress_raw(found[0]))
        return memoryview(b"".join(bytes(cramjam.snappy.decompress_raw(block)) for block in found))
    except cramjam.DecompressionError as problem:
        raise ValueError(str(problem)) from problem


def blocks(data: memoryview) -> list[memoryview]:
    """Return the raw snappy blocks in `data`, framed or not. Raises `ValueError`: the frame is broken."""
    if len(data) < len(_HEADER) or data[: len(MAGIC)] != MAGIC:
        return [data]
    found = []
    position = len(_HEADER)
    end = len(data)
    while position < end:
        # snappy-java lets streams follow one another, each with its own header.
        if end - position >= len(_HEADER) and data[position : position + len(MAGIC)] == MAGIC:
            position += len(_HEADER)
            continue
        if end - position < 4:
            raise ValueError("a snappy frame ends within a block's length")
        (length,) = _INT32.unpack_from(data, position)
        position += 4
        if not 0 <= length <= end - position:
            raise ValueError(f"a snappy block of {length} bytes, but {end - position} are left")
        found.append(data[position : position + length])
        position += length
    return found
