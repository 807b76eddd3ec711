"""Codecs inside message sets of magic 0 and 1: those of `compression`, less zstd, with the lz4 of old.

Kafka's first lz4 writer computed the checksum of the frame's descriptor over the frame's magic number too
(KAFKA-3160). Messages of magic 0 have kept that wrong byte ever since: writers write it, readers look past
it. From magic 1 on the frame is what the lz4 specification says.
"""

from __future__ import annotations

from odradek.errors import InvalidRecordError, UnsupportedCompressionTypeError
from odradek.records.compression import Buffer, Codec, compress, decompress

_LZ4_MAGIC_BYTES = 4
_CONTENT_SIZE_FLAG = 0x08
_DICTIONARY_ID_FLAG = 0x01


def refuse_zstd(codec: Codec, magic: int) -> None:
    """Check that messages can be written with the codec.

    Raises:
        UnsupportedCompressionTypeError: it is zstd.
    """
    if codec is Codec.ZSTD:
        raise UnsupportedCompressionTypeError(f"messages of magic {magic} cannot be compressed with zstd")


def compress_messages(codec: Codec, data: Buffer, magic: int, level: int | None = None) -> Buffer:
    """`data` as the value of a wrapper of `magic`.

    Raises:
        UnsupportedCompressionTypeError: the codec is zstd.
        ValueError: a level that the codec does not have.
    """
    refuse_zstd(codec, magic)
    packed = compress(codec, data, level)
    if codec is Codec.LZ4 and magic == 0:
        return _with_checksum(packed, from_frame_magic=True)
    return packed


def decompress_messages(codec_id: int, data: Buffer, magic: int, max_size: int) -> memoryview:
    """Return what a wrapper of `magic` holds, at most `max_size` bytes.

    Raises:
        KafkaError: INVALID_RECORD for zstd, which messages cannot use; else as `decompress`.
    """
    if codec_id == Codec.ZSTD:
        raise InvalidRecordError(f"a message of magic {magic} cannot be compressed with zstd")
    if codec_id == Codec.LZ4 and magic == 0 and _descriptor_end(data) < len(data):
        # The byte is not looked at, so that a right one and a wrong one both do.
        data = _with_checksum(data, from_frame_magic=False)
    return decompress(codec_id, data, max_size)


def _descriptor_end(frame: Buffer) -> int:
    """Return where the checksum of an lz4 frame's descriptor stands."""
    if len(frame) < 7:
        return len(frame)
    flags = frame[_LZ4_MAGIC_BYTES]
    return 6 + (8 if flags & _CONTENT_SIZE_FLAG else 0) + (4 if flags & _DICTIONARY_ID_FLAG else 0)


def _with_checksum(frame: Buffer, *, from_frame_magic: bool) -> bytes:
    at = _descriptor_end(frame)
    descriptor = bytes(frame[0 if from_frame_magic else _LZ4_MAGIC_BYTES : at])
    return b"".join([frame[:at], bytes([xxhash32(descriptor) >> 8 & 0xFF]), frame[at + 1 :]])


# --- xxHash-32 (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md) --------------------------

_MASK = 0xFFFF_FFFF
_PRIMES = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)


def xxhash32(data: bytes) -> int:
    """xxHash-32 with seed 0, for inputs of a few bytes."""
    p1, p2, p3, p4, p5 = _PRIMES
    position = 0
    if len(data) >= 16:
        lanes = [p1 + p2 & _MASK, p2, 0, -p1 & _MASK]
        while position + 16 <= len(data):
            for lane in range(4):
                word = int.from_bytes(data[position : position + 4], "little")
                lanes[lane] = _rotate(lanes[lane] + word * p2 & _MASK, 13) * p1 & _MASK
                position += 4
        value = sum(_rotate(lane, turn) for lane, turn in zip(lanes, (1, 7, 12, 18), strict=True))
    else:
        value = p5
    value += len(data)
    while position + 4 <= len(data):
        word = int.from_bytes(data[position : position + 4], "little")
        value = _rotate(value + word * p3 & _MASK, 17) * p4
        position += 4
    for byte in data[position:]:
        value = _rotate(value + byte * p5 & _MASK, 11) * p1
    value &= _MASK
    value = (value ^ value >> 15) * p2 & _MASK
    value = (value ^ value >> 13) * p3 & _MASK
    return value ^ value >> 16


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _MASK
