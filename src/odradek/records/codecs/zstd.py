"""zstd frames (RFC 8878)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.records.codecs import MAX_BLOCKS, MAX_FRAMES, TooLargeError

if TYPE_CHECKING:
    import zstandard

_MAGIC: Final = 0xFD2FB528
_SKIPPABLE: Final = 0x184D2A50
"""The first of the sixteen magic numbers of frames that hold nothing for a reader."""
_SINGLE_SEGMENT, _HAS_CHECKSUM = 0x20, 0x04
_CONTENT_SIZE_BYTES = (0, 2, 4, 8)
_DICTIONARY_ID_BYTES = (0, 1, 2, 4)
_BLOCK_BYTES: Final = 128 * 1024
_RLE, _COMPRESSED = 1, 2

_contexts = threading.local()
"""One of each kind for a thread: making one takes as long as unpacking some 16 KiB."""


def pack(data: bytes | bytearray | memoryview, level: int) -> bytes:
    """Return one frame; `level` is at most 22, and may be below 0."""
    kept: tuple[int, zstandard.ZstdCompressor] | None = getattr(_contexts, "compressor", None)
    if kept is None or kept[0] != level:
        import zstandard  # some 10 ms, which who never meets zstd does not pay

        kept = _contexts.compressor = level, zstandard.ZstdCompressor(level=level)
    return kept[1].compress(data)


def unpack(data: memoryview, max_size: int) -> memoryview:
    """Return what all frames hold. Raises `TooLargeError`, `ValueError`."""
    parts = []
    left = max_size
    position = 0
    for _ in range(MAX_FRAMES):
        frame = _frame(data, position)
        if not frame.is_skippable:
            parts.append(_unpack_frame(data[position : frame.end], frame, left))
            left -= len(parts[-1])
        position = frame.end
        if position == len(data):
            return memoryview(parts[0] if len(parts) == 1 else b"".join(parts))
    raise ValueError(f"more than {MAX_FRAMES} frames")


def _unpack_frame(packed: memoryview, frame: _Frame, left: int) -> bytes:
    if frame.says is not None and frame.says > left:
        raise TooLargeError
    try:
        decompressor: zstandard.ZstdDecompressor = _contexts.decompressor
    except AttributeError:
        import zstandard

        decompressor = _contexts.decompressor = zstandard.ZstdDecompressor()
        _contexts.error = zstandard.ZstdError
    # With no room at all the library would ask the frame for its size.
    room = max(1, min(frame.bound, left))
    try:
        part = decompressor.decompress(packed, max_output_size=room)
    except _contexts.error as problem:
        # The whole frame is there, so that the room was too little for it.
        if room < frame.bound and "did not decompress full frame" in str(problem):
            raise TooLargeError from problem
        raise ValueError(str(problem)) from problem
    if len(part) > left:
        raise TooLargeError
    return part


class _Frame(NamedTuple):
    """The end of a frame, at most how many bytes it unpacks to, and how many it says, if it does."""

    end: int
    bound: int = 0
    says: int | None = None
    is_skippable: bool = False


def _frame(data: memoryview, start: int) -> _Frame:
    """Walk over a frame.

    Raises `ValueError`: it is none, or is cut off, or says that it holds more than it can.
    """
    magic = int.from_bytes(data[start : start + 4], "little")
    if magic & ~15 == _SKIPPABLE:
        size = int.from_bytes(data[start + 4 : start + 8], "little")
        return _Frame(_within(data, start + 8 + size), is_skippable=True)
    if magic != _MAGIC or len(data) < start + 6:
        raise ValueError("no zstd frame")
    descriptor = data[start + 4]
    single_segment = descriptor & _SINGLE_SEGMENT
    size_bytes = _CONTENT_SIZE_BYTES[descriptor >> 6] or (1 if single_segment else 0)
    position = start + 5 + (0 if single_segment else 1) + _DICTIONARY_ID_BYTES[descriptor & 3]
    says = None
    if size_bytes:
        says = int.from_bytes(data[position : position + size_bytes], "little") + 256 * (size_bytes == 2)
    position += size_bytes
    bound = 0
    for _ in range(MAX_BLOCKS):
        header = int.from_bytes(data[position : position + 3], "little")
        kind, size = header >> 1 & 3, header >> 3
        bound += _BLOCK_BYTES if kind == _COMPRESSED else size
        position = _within(data, position + 3 + (1 if kind == _RLE else size))
        if header & 1:
            break
    else:
        raise ValueError(f"more than {MAX_BLOCKS} blocks")
    if says is not None and says > bound:
        raise ValueError(f"a frame whose blocks hold {bound} bytes at most says that it holds {says}")
    end = _within(data, position + (4 if descriptor & _HAS_CHECKSUM else 0))
    return _Frame(end, bound, says)


def _within(data: memoryview, position: int) -> int:
    if position > len(data):
        raise ValueError("the data is cut off")
    return position
