"""The codecs of a record batch: none, gzip, snappy, lz4, zstd.

Compressed data comes from strangers: `decompress` never allocates more than the caller's `max_size`. Where
a format says how much it will unpack to (snappy), that is checked first. Where it does not, its blocks
are counted: each unpacks to at most a known size, so most data is known to fit before it is unpacked.
What could be larger is unpacked into a buffer of exactly `max_size` that the system fills in page by page.
"""

from __future__ import annotations

import mmap
import zlib
from enum import IntEnum
from typing import TypeAlias

import cramjam

from odradek.errors import CorruptRecordError, RecordTooLargeError, UnsupportedCompressionTypeError
from odradek.records import xerial

Buffer: TypeAlias = bytes | bytearray | memoryview

MAX_DECOMPRESSED_BYTES = 128 * 1024 * 1024
"""How far one batch may unpack where the caller sets no limit of its own."""


class Codec(IntEnum):
    """The three lowest bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def of(cls, number: int) -> Codec:
        """The codec of a number. Raises `KafkaError` UNSUPPORTED_COMPRESSION_TYPE if there is none."""
        try:
            return cls(number)
        except ValueError:
            raise UnsupportedCompressionTypeError(f"unknown compression type {int(number)}") from None

    @classmethod
    def parse(cls, name: str) -> Codec:
        """The codec of a `compression.type`, in any case; 'uncompressed' is a broker's word for none.

        Raises `ValueError` for a name that Kafka does not know ('producer' is a policy, not a codec).
        """
        key = name.strip().upper()
        if key == "UNCOMPRESSED":
            return cls.NONE
        try:
            return cls[key]
        except KeyError:
            known = ", ".join(codec.name.lower() for codec in cls)
            raise ValueError(f"unknown compression {name!r}: one of {known}") from None


def compress(codec: Codec, data: Buffer, level: int | None = None) -> Buffer:
    """`data` in the form that Kafka's own clients write for `codec`.

    `level` is that of `compression.<codec>.level`; None is Kafka's default for the codec. Raises
    `ValueError` for a level outside of the codec's range.
    """
    if codec is Codec.NONE:
        return data
    if codec is Codec.GZIP:
        if level is not None and level != -1 and not 1 <= level <= 9:
            raise ValueError(f"gzip level {level} is not within 1 and 9, nor -1")
        return bytes(cramjam.gzip.compress(data, level=6 if level in (None, -1) else level))
    if codec is Codec.SNAPPY:
        return xerial.frame(memoryview(data))
    if codec is Codec.LZ4:
        # Kafka's reader takes independent blocks only, so the library's default frame will not do.
        compressor = cramjam.lz4.Compressor(
            level=_lz4_level(level), content_checksum=False, block_linked=False
        )
        compressor.compress(bytes(data))
        return bytes(compressor.finish())
    if level is not None and not -131072 <= level <= 22:
        raise ValueError(f"zstd level {level} is not within -131072 and 22")
    return bytes(cramjam.zstd.compress(data, level=3 if level is None else level))


def decompress(codec: Codec | int, data: Buffer, max_size: int = MAX_DECOMPRESSED_BYTES) -> memoryview:
    """What `compress` made, or any other client: raw or framed snappy, linked lz4 blocks, several members.

    Raises `KafkaError`: UNSUPPORTED_COMPRESSION_TYPE for an unknown codec, CORRUPT_MESSAGE for data that
    does not unpack, MESSAGE_TOO_LARGE for more than `max_size` bytes.
    """
    view = memoryview(data)
    if codec == Codec.NONE:
        return view
    unpack = _UNPACK[Codec.of(codec)]
    try:
        return unpack(view, max_size)
    except (cramjam.DecompressionError, zlib.error, ValueError) as problem:
        name = Codec(codec).name.lower()
        raise CorruptRecordError(f"{name} data does not unpack: {problem}") from problem


def _too_large(max_size: int) -> RecordTooLargeError:
    return RecordTooLargeError(f"compressed records unpack to more than {max_size} bytes")


def _lz4_level(level: int | None) -> int:
    if level is None or level == 9:  # Kafka's default, 9, stands for the fast compressor
        return 1
    if not 1 <= level <= 17:
        raise ValueError(f"lz4 level {level} is not within 1 and 17")
    return max(3, min(level, 12))


# --- unpacking within bounds -----------------------------------------------------------------------------

_DEFLATE_MAX_RATIO = 1032
"""Deflate cannot do better: 258 bytes for two bits."""


def _gunzip(data: memoryview, max_size: int) -> memoryview:
    if len(data) * _DEFLATE_MAX_RATIO <= max_size:
        return memoryview(cramjam.gzip.decompress(data))
    parts = []
    left = max_size
    rest: Buffer = data
    while rest:
        member = zlib.decompressobj(wbits=31)
        part = member.decompress(rest, left + 1)
        left -= len(part)
        if left < 0:
            raise _too_large(max_size)
        parts.append(part)
        if not member.eof:
            raise ValueError("the gzip data is cut off")
        rest = member.unused_data
    return memoryview(parts[0] if len(parts) == 1 else b"".join(parts))


def _unsnappy(data: memoryview, max_size: int) -> memoryview:
    blocks = xerial.blocks(data)
    # A snappy block cannot shrink data by more than some 1:22 (a copy of 64 bytes takes three), and it
    # names its size; both are checked, so that a lie of 4 GiB in five bytes costs nothing.
    size = 0
    for block in blocks:
        declared = cramjam.snappy.decompress_raw_len(block)
        if declared > 24 * len(block) + 64:
            raise ValueError(f"a snappy block of {len(block)} bytes cannot hold {declared}")
        size += declared
        if size > max_size:
            raise _too_large(max_size)
    if len(blocks) == 1:
        return memoryview(cramjam.snappy.decompress_raw(blocks[0]))
    return memoryview(b"".join(bytes(cramjam.snappy.decompress_raw(block)) for block in blocks))


def _unlz4(data: memoryview, max_size: int) -> memoryview:
    bound = _lz4_bound(data, max_size)
    if bound is not None and bound <= max_size:
        return memoryview(cramjam.lz4.decompress(data))
    return _into_fixed(cramjam.lz4.decompress_into, data, max_size)


def _unzstd(data: memoryview, max_size: int) -> memoryview:
    bound = _zstd_bound(data, max_size)
    if bound is not None and bound <= max_size:
        return memoryview(cramjam.zstd.decompress(data))
    return _into_fixed(cramjam.zstd.decompress_into, data, max_size)


_UNPACK = {Codec.GZIP: _gunzip, Codec.SNAPPY: _unsnappy, Codec.LZ4: _unlz4, Codec.ZSTD: _unzstd}


def _into_fixed(decompress_into: object, data: memoryview, max_size: int) -> memoryview:
    output = mmap.mmap(-1, max(1, max_size))
    try:
        size = decompress_into(data, output)  # type: ignore[operator]
    except cramjam.DecompressionError as problem:
        if "whole buffer" in str(problem):
            raise _too_large(max_size) from problem
        raise
    return memoryview(output)[:size].toreadonly()


def _lz4_bound(data: memoryview, max_size: int) -> int | None:
    """At most how many bytes an lz4 frame unpacks to; None when its shape is not the plain one."""
    if len(data) < 7 or bytes(data[:4]) != b"\x04\x22\x4d\x18":
        return None
    flags = data[4]
    block_bytes = _LZ4_BLOCK_BYTES.get(data[5] >> 4 & 7)
    if block_bytes is None:
        return None
    position = 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    trailer = 4 if flags & 0x10 else 0
    bound = 0
    end = len(data)
    while position + 4 <= end:
        size = int.from_bytes(data[position : position + 4], "little") & 0x7FFF_FFFF
        position += 4
        if size == 0:
            position += 4 if flags & 0x04 else 0
            return bound if position == end else None
        # lz4 cannot do better than 255:1, which is the tighter bound for small blocks.
        bound += min(block_bytes, 255 * size + 64)
        if bound > max_size:
            return bound
        position += size + trailer
    return None


_LZ4_BLOCK_BYTES = {4: 64 * 1024, 5: 256 * 1024, 6: 1024 * 1024, 7: 4 * 1024 * 1024}


def _zstd_bound(data: memoryview, max_size: int) -> int | None:
    """At most how many bytes a zstd frame unpacks to; None when it is not one plain frame (RFC 8878)."""
    if len(data) < 6 or bytes(data[:4]) != b"\x28\xb5\x2f\xfd":
        return None
    descriptor = data[4]
    single_segment = descriptor & 0x20
    content_size_bytes = _ZSTD_CONTENT_SIZE_BYTES[descriptor >> 6] or (1 if single_segment else 0)
    position = 5 + (0 if single_segment else 1) + (0, 1, 2, 4)[descriptor & 3] + content_size_bytes
    bound = 0
    end = len(data)
    while position + 3 <= end:
        header = int.from_bytes(data[position : position + 3], "little")
        kind, size = header >> 1 & 3, header >> 3
        bound += size if kind != 2 else _ZSTD_BLOCK_BYTES
        if bound > max_size:
            return bound
        position += 3 + (1 if kind == 1 else size)
        if header & 1:
            position += 4 if descriptor & 0x04 else 0
            return bound if position == end else None
    return None


_ZSTD_CONTENT_SIZE_BYTES = (0, 2, 4, 8)
_ZSTD_BLOCK_BYTES = 128 * 1024
