"""lz4 frames (https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md)."""

from __future__ import annotations

from collections.abc import Iterator

import lz4.frame

from odradek.records.codecs import PIECE_BYTES, TooLargeError, joined

_MAGIC = b"\x04\x22\x4d\x18"
_BLOCK_BYTES = {4: 64 * 1024, 5: 256 * 1024, 6: 1024 * 1024, 7: 4 * 1024 * 1024}
_WORTH_COUNTING = 1_024
"""A frame of more blocks gets what room there is."""


def pack(data: bytes | bytearray | memoryview, level: int) -> bytes:
    """Return one frame of independent blocks, without which Kafka's reader refuses it.

    Args:
        level: below 3 the fast compressor, else that of lz4 HC, at most 12.
    """
    frame: bytes = lz4.frame.compress(
        data,
        compression_level=level,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return frame


def unpack(data: memoryview, max_size: int) -> memoryview:
    """Return what the first frame holds.

    Kafka's reader ends with it, whatever follows (`Lz4BlockInputStream`), and librdkafka's takes nothing that
    does: what a further frame holds would be there for nobody but us.

    Raises:
        TooLargeError: that is more than `max_size` bytes.
        ValueError: the data is no lz4 frame, or cut off.
    """
    # One byte more than it may be, so that a frame that fits ends before there is no room.
    return joined(list(_frame(data, max_size, min(_bound(data, max_size), max_size) + 1)))


def pieces(data: memoryview, max_size: int) -> Iterator[bytes]:
    """Yield what `unpack` returns."""
    return _frame(data, max_size, PIECE_BYTES)


def _frame(data: memoryview, max_size: int, piece_bytes: int) -> Iterator[bytes]:
    """Yield what the first frame holds, in pieces of so many bytes at most."""
    left = max_size
    context = lz4.frame.create_decompression_context()
    ended = False
    while not ended:
        try:
            piece, used, ended = lz4.frame.decompress_chunk(context, data, max_length=piece_bytes)
        except RuntimeError as problem:
            raise ValueError(str(problem)) from problem
        data = data[used:]
        left -= len(piece)
        if left < 0:
            raise TooLargeError
        if piece:
            yield piece
        elif not ended and not used:
            raise ValueError("the data is cut off")


def _bound(data: memoryview, enough: int) -> int:
    """Return at most how many bytes a frame unpacks to; `enough` where that is more, or not easily known."""
    if len(data) < 7 or data[:4] != _MAGIC:
        return enough
    flags = data[4]
    block_bytes = _BLOCK_BYTES.get(data[5] >> 4 & 7)
    if block_bytes is None:
        return enough
    position = 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    trailer = 4 if flags & 0x10 else 0
    bound = 0
    for _ in range(_WORTH_COUNTING):
        size = int.from_bytes(data[position : position + 4], "little") & 0x7FFF_FFFF
        if size == 0:  # the end, also of what is cut off
            return bound
        # lz4 cannot do better than 255:1, which is the tighter bound for small blocks.
        bound += min(block_bytes, 255 * size + 64)
        if bound >= enough:
            break
        position += 4 + size + trailer
    return enough
