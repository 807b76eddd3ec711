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
from collections.abc import Iterator
from typing import Any

import cramjam

from odradek.records.codecs import MAX_BLOCKS, TooLargeError, joined

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
    """Return what all blocks hold.

    Raises:
        TooLargeError: that is more than `max_size` bytes.
        ValueError: the data is not snappy, or cut off.
    """
    return joined(list(pieces(data, max_size)))


def pieces(data: memoryview, max_size: int) -> Iterator[Any]:
    """Yield what each block holds.

    Raises:
        TooLargeError: that is more than `max_size` bytes.
        ValueError: the data is not snappy, or cut off.
    """
    left = max_size
    length_of, unpacked = cramjam.snappy.decompress_raw_len, cramjam.snappy.decompress_raw
    try:
        for block in blocks(data):
            # A snappy block cannot shrink data by more than some 1:22 (a copy of 64 bytes takes three), and
            # it names its size; both are checked, so that a lie of 4 GiB in five bytes costs nothing.
            declared = length_of(block)
            if declared > 24 * len(block) + 64:
                raise ValueError(f"a snappy block of {len(block)} bytes cannot hold {declared}")
            left -= declared
            if left < 0:
                raise TooLargeError
            yield unpacked(block)
    except cramjam.DecompressionError as problem:
        raise ValueError(str(problem)) from problem


def blocks(data: memoryview) -> Iterator[memoryview]:
    """Yield the raw snappy blocks in `data`, framed or not.

    Raises:
        ValueError: the frame is broken.
    """
    if len(data) < len(_HEADER) or data[: len(MAGIC)] != MAGIC:
        yield data
        return
    count = 0
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
        count += 1
        if count > MAX_BLOCKS:
            raise ValueError(f"more than {MAX_BLOCKS} blocks")
        yield data[position : position + length]
        position += length
