"""The codecs of a record batch: none, gzip, snappy, lz4, zstd.

Compressed data comes from strangers: `decompress` never allocates more than the caller's `max_size`. How each
format is packed and unpacked stands in `records.codecs`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Protocol, TypeAlias

from odradek.errors import CorruptRecordError, RecordTooLargeError, UnsupportedCompressionTypeError
from odradek.records.codecs import TooLargeError, gzip, lz4, snappy, zstd

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
        """The codec of a number.

        Raises:
            UnsupportedCompressionTypeError: there is none.
        """
        try:
            return cls(number)
        except ValueError:
            raise _unknown(number) from None

    @classmethod
    def parse(cls, name: str) -> Codec:
        """The codec of a `compression.type`, in any case; 'uncompressed' is a broker's word for none.

        Raises:
            ValueError: a name that Kafka does not know ('producer' is a policy, not a codec).
        """
        key = name.strip().upper()
        if key == "UNCOMPRESSED":
            return cls.NONE
        try:
            return cls[key]
        except KeyError:
            names = ", ".join(codec.name.lower() for codec in cls)
            raise ValueError(f"unknown compression {name!r}: one of {names}") from None


def compress(codec: Codec, data: Buffer, level: int | None = None) -> Buffer:
    """`data` in the form that Kafka's own clients write for `codec`.

    `level` is that of `compression.<codec>.level`; None is Kafka's default for the codec.

    Raises:
        ValueError: the level is outside of the codec's range.
    """
    if codec is Codec.NONE:
        return data
    if codec is Codec.GZIP:
        if level is not None and level != -1 and not 1 <= level <= 9:
            raise ValueError(f"gzip level {level} is not within 1 and 9, nor -1")
        return gzip.pack(data, 6 if level is None or level == -1 else level)
    if codec is Codec.SNAPPY:
        return snappy.pack(memoryview(data))
    if codec is Codec.LZ4:
        return lz4.pack(data, _lz4_level(level))
    if level is not None and not -131072 <= level <= 22:
        raise ValueError(f"zstd level {level} is not within -131072 and 22")
    return zstd.pack(data, 3 if level is None else level)


def decompress(codec: Codec | int, data: Buffer, max_size: int = MAX_DECOMPRESSED_BYTES) -> memoryview:
    """Return what `compress` or any other client compressed: raw or framed snappy, linked lz4 blocks, several
    members of gzip or frames of zstd.

    Raises:
        KafkaError: UNSUPPORTED_COMPRESSION_TYPE for an unknown codec, CORRUPT_MESSAGE for data that does not
            unpack, MESSAGE_TOO_LARGE for more than `max_size` bytes.
    """
    if codec == Codec.NONE:
        return memoryview(data)
    try:
        return _form(codec).unpack(memoryview(data), max_size)
    except TooLargeError as problem:
        raise RecordTooLargeError(f"compressed records unpack to more than {max_size} bytes") from problem
    except ValueError as problem:
        name = Codec(codec).name.lower()
        raise CorruptRecordError(f"{name} data does not unpack: {problem}") from problem


def unpack_pieces(codec: Codec | int, data: Buffer, max_size: int) -> Iterator[Buffer]:
    """Yield what `decompress` returns, piece by piece; a piece is good until the next one is asked for.

    Fresh memory is what costs most of unpacking much that is packed well.

    Raises:
        KafkaError: as `decompress`; pieces may have come before then.
    """
    left = max_size
    try:
        for piece in _form(codec).pieces(memoryview(data), max_size):
            left -= len(piece)
            if left < 0:
                raise TooLargeError
            yield piece
    except TooLargeError as problem:
        raise RecordTooLargeError(f"compressed records unpack to more than {max_size} bytes") from problem
    except ValueError as problem:
        name = Codec(codec).name.lower()
        raise CorruptRecordError(f"{name} data does not unpack: {problem}") from problem


class _Form(Protocol):
    """A module of `records.codecs`."""

    def unpack(self, data: memoryview, max_size: int) -> memoryview: ...

    def pieces(self, data: memoryview, max_size: int) -> Iterator[Buffer]: ...


_FORMS: Mapping[int, _Form] = {
    Codec.GZIP: gzip,
    Codec.SNAPPY: snappy,
    Codec.LZ4: lz4,
    Codec.ZSTD: zstd,
}


def _form(codec: int) -> _Form:
    form = _FORMS.get(codec)
    if form is None:
        raise _unknown(codec)
    return form


def _unknown(number: int) -> UnsupportedCompressionTypeError:
    return UnsupportedCompressionTypeError(f"unknown compression type {int(number)}")


def _lz4_level(level: int | None) -> int:
    if level is None or level == 9:  # Kafka's default, 9, stands for the fast compressor
        return 1
    if not 1 <= level <= 17:
        raise ValueError(f"lz4 level {level} is not within 1 and 17")
    # Below 3 this library compresses fast, above 12 it knows no level; Kafka's all mean the slow compressor.
    return max(3, min(level, 12))
