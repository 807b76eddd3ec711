"""zstd frames (RFC 8878)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from odradek.records.codecs import MAX_BLOCKS, MAX_FRAMES, PIECE_BYTES, TooLargeError, joined

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
    """Return what all frames hold.

    Raises:
        TooLargeError: that is more than `max_size` bytes.
        ValueError: the data is not zstd, or cut off.
    """
    parts = []
    left = max_size
    for frame, bound, says in _frames(data):
        if says is not None and says > left:
            raise TooLargeError
        parts.append(_unpack_frame(frame, bound, left))
        left -= len(parts[-1])
    return joined(parts)


def pieces(data: memoryview, max_size: int) -> Iterator[memoryview]:
    """Yield what `unpack` returns, in memory that is used again."""
    import zstandard

    left = max_size
    buffer = bytearray(PIECE_BYTES)
    view = memoryview(buffer)
    for frame, _, says in _frames(data):
        if says is not None and says > left:
            raise TooLargeError
        unpacked = 0
        try:
            reader = zstandard.ZstdDecompressor().stream_reader(frame)
            while size := reader.readinto(buffer):
                unpacked += size
                left -= size
                if left < 0:
                    raise TooLargeError
                yield view[:size]
        except zstandard.ZstdError as problem:
            raise ValueError(str(problem)) from problem
        if says is not None and says != unpacked:
            raise ValueError(f"a frame that says that it holds {says} bytes holds {unpacked}")


def _frames(data: memoryview) -> Iterator[tuple[memoryview, int, int | None]]:
    """Yield the frames that hold something, at most how many bytes each unpacks to, and how many it says.

    Raises:
        ValueError: the data is not zstd, cut off, or of too many frames.
    """
    position = 0
    for _ in range(MAX_FRAMES):
        try:
            end, bound, says = _walk(data, position)
        except IndexError:
            end, bound, says = len(data) + 1, 0, None
        if end > len(data):
            raise ValueError("the data is cut off")
        if bound is not None:
            yield data[position:end], bound, says
        position = end
        if position == len(data):
            return
    raise ValueError(f"more than {MAX_FRAMES} frames")


def _unpack_frame(frame: memoryview, bound: int, left: int) -> bytes:
    try:
        decompressor: zstandard.ZstdDecompressor = _contexts.decompressor
    except AttributeError:
        import zstandard

        decompressor = _contexts.decompressor = zstandard.ZstdDecompressor()
        _contexts.error = zstandard.ZstdError
    # With no room at all the library would ask the frame for its size.
    room = max(1, min(bound, left))
    try:
        part = decompressor.decompress(frame, max_output_size=room)
    except _contexts.error as problem:
        # The whole frame is there, so that the room was too little for it.
        if room < bound and "did not decompress full frame" in str(problem):
            raise TooLargeError from problem
        raise ValueError(str(problem)) from problem
    if len(part) > left:
        raise TooLargeError
    return part


def _walk(data: memoryview, start: int) -> tuple[int, int | None, int | None]:
    """Walk over a frame.

    Returns: where it ends, which may be beyond the data; at most how many bytes it unpacks to, None: it is
    not to be unpacked; and how many it says, if it does.

    Raises:
        ValueError: it is no frame, or says that it holds more than it can.
        IndexError: it is cut off.
    """
    magic = int.from_bytes(data[start : start + 4], "little")
    if magic != _MAGIC:
        if magic & ~15 != _SKIPPABLE:
            raise ValueError("no zstd frame")
        return start + 8 + int.from_bytes(data[start + 4 : start + 8], "little"), None, None
    descriptor = data[start + 4]
    single_segment = descriptor & _SINGLE_SEGMENT
    size_bytes = _CONTENT_SIZE_BYTES[descriptor >> 6] or (1 if single_segment else 0)
    position = start + 5 + (0 if single_segment else 1) + _DICTIONARY_ID_BYTES[descriptor & 3]
    says = None
    if size_bytes:
        says = int.from_bytes(data[position : position + size_bytes], "little")
        if size_bytes == 2:
            says += 256
        position += size_bytes
    bound = 0
    for _ in range(MAX_BLOCKS):
        header = data[position] | data[position + 1] << 8 | data[position + 2] << 16
        kind, size = header >> 1 & 3, header >> 3
        bound += _BLOCK_BYTES if kind == _COMPRESSED else size
        position += 3 + (1 if kind == _RLE else size)
        if header & 1:
            break
    else:
        raise ValueError(f"more than {MAX_BLOCKS} blocks")
    if says is not None and says > bound:
        raise ValueError(f"a frame whose blocks hold {bound} bytes at most says that it holds {says}")
    return position + (4 if descriptor & _HAS_CHECKSUM else 0), bound, says
