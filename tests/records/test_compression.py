"""The codecs: both ways, as other clients frame them, and never beyond the given size."""

from __future__ import annotations

import contextlib
import gzip
import random
import struct
import tracemalloc
import zlib

import cramjam
import pytest
import zstandard

from odradek.errors import (
    CorruptRecordError,
    KafkaError,
    RecordTooLargeError,
    UnsupportedCompressionTypeError,
)
from odradek.records.codecs import MAX_BLOCKS, MAX_FRAMES, snappy
from odradek.records.compression import (
    MAX_DECOMPRESSED_BYTES,
    Buffer,
    Codec,
    compress,
    unpack_pieces,
)
from odradek.records.compression import decompress as decompress_whole
from seeds import seed

SEED = seed(20261125)
PACKED = [codec for codec in Codec if codec is not Codec.NONE]
TEXT = b"".join(b"line %d of something that repeats itself\n" % i for i in range(5000))
NOISE = random.Random(1).randbytes(100_000)


def decompress(codec: Codec | int, data: Buffer, max_size: int = MAX_DECOMPRESSED_BYTES) -> memoryview:
    """As one and piece by piece, with the same outcome."""
    crc = size = 0
    in_pieces: type[KafkaError] | None = None
    try:
        for piece in unpack_pieces(codec, data, max_size) if codec else ():
            size += len(piece)
            crc = zlib.crc32(piece, crc)
    except KafkaError as error:
        in_pieces = type(error)
    try:
        whole = decompress_whole(codec, data, max_size)
    except KafkaError as error:
        # Of what is both too much and damaged either may be told.
        assert in_pieces is type(error) or {in_pieces, type(error)} == {
            RecordTooLargeError,
            CorruptRecordError,
        }
        raise
    assert in_pieces is None
    assert not codec or (size, crc) == (len(whole), zlib.crc32(whole))
    return whole


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize(
    "data", [b"", b"x", TEXT, NOISE, bytes(300_000)], ids=["empty", "one", "text", "noise", "zeros"]
)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_round_trip(codec: Codec, data: bytes, kind: type) -> None:
    packed = compress(codec, kind(data))
    assert bytes(decompress(codec, packed, len(data))) == data
    assert bytes(decompress(codec, memoryview(bytearray(packed)))) == data


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("data", [TEXT, NOISE, bytes(3_000_000)], ids=["text", "noise", "zeros"])
def test_one_byte_too_much_is_refused(codec: Codec, data: bytes) -> None:
    packed = compress(codec, data)
    assert len(decompress(codec, packed, len(data))) == len(data)
    with pytest.raises(RecordTooLargeError):
        decompress(codec, packed, len(data) - 1)


@pytest.mark.parametrize("codec", PACKED)
def test_a_bomb_does_not_go_off(codec: Codec) -> None:
    # 256 MiB of zeros, written in one go or in members that the formats let follow one another.
    member = compress(codec, bytes(16 * 1024 * 1024))
    bomb = bytes(member) * 16
    tracemalloc.start()
    with pytest.raises((RecordTooLargeError, CorruptRecordError)):
        decompress(codec, bomb, 1024 * 1024)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 32 * 1024 * 1024


def test_a_snappy_block_that_lies_about_its_size() -> None:
    lie = b"\xff\xff\xff\xff\x0f" + b"\x00" * 10  # says 4 GiB
    with pytest.raises(CorruptRecordError):
        decompress(Codec.SNAPPY, lie)


@pytest.mark.parametrize("codec", PACKED)
def test_damaged_data_is_corrupt(codec: Codec) -> None:
    packed = bytes(compress(codec, TEXT))
    for damaged in (packed[: len(packed) // 2], packed[:-1], packed[:5], b"", b"\x00" * 40):
        with pytest.raises(CorruptRecordError):
            unpacked = decompress(codec, damaged, 1 << 20)
            # Snappy frames may end after any block; what is missing then shows in the records.
            if codec is Codec.SNAPPY and len(unpacked) < len(TEXT):
                raise CorruptRecordError("shorter")


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize(
    "data", [b"", b"x", TEXT[:300], NOISE[:300]], ids=["nothing", "one", "text", "noise"]
)
def test_what_is_cut_off_anywhere_is_corrupt(codec: Codec, data: bytes) -> None:
    """Snappy's frame has no end: what is cut between its blocks is whole."""
    packed = bytes(compress(codec, data))
    assert decompress(codec, packed, len(data)) == data
    for end in range(len(packed)):
        with pytest.raises(CorruptRecordError):
            decompress(codec, packed[:end], len(data))


@pytest.mark.parametrize("number", [5, 6, 7])
def test_unknown_codecs(number: int) -> None:
    with pytest.raises(UnsupportedCompressionTypeError):
        decompress(number, b"abc")


def test_raw_snappy_as_some_clients_send_it() -> None:
    raw = bytes(cramjam.snappy.compress_raw(TEXT))
    assert bytes(decompress(Codec.SNAPPY, raw)) == TEXT


def test_empty_snappy_blocks_without_end() -> None:
    head, empty = bytes(compress(Codec.SNAPPY, b"")), b"\x00\x00\x00\x01\x00"
    assert bytes(decompress(Codec.SNAPPY, head + empty * MAX_BLOCKS)) == b""
    with pytest.raises(CorruptRecordError, match="more than 65536 blocks"):
        decompress(Codec.SNAPPY, head + empty * (MAX_BLOCKS + 1))


def test_snappy_streams_that_follow_one_another() -> None:
    packed = bytes(compress(Codec.SNAPPY, TEXT)) + bytes(compress(Codec.SNAPPY, NOISE))
    assert bytes(decompress(Codec.SNAPPY, packed)) == TEXT + NOISE


def test_the_xerial_frame() -> None:
    packed = compress(Codec.SNAPPY, TEXT)
    assert packed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    sizes = [cramjam.snappy.decompress_raw_len(block) for block in snappy.blocks(memoryview(packed))]
    assert sizes[:-1] == [snappy.BLOCK_BYTES] * (len(sizes) - 1)
    for length in (-1, 1 << 30):
        broken = packed[:16] + struct.pack(">i", length) + packed[20:]
        with pytest.raises(CorruptRecordError):
            decompress(Codec.SNAPPY, broken)


def test_the_lz4_frame_is_one_that_kafka_reads() -> None:
    packed = bytes(compress(Codec.LZ4, TEXT))
    assert packed[:4] == b"\x04\x22\x4d\x18"
    flags = packed[4]
    assert flags >> 6 == 1, "version"
    assert flags & 0x20, "blocks must be independent"
    assert not flags & 0x03, "reserved bits, dictionary"


def test_lz4_with_linked_blocks_and_checksums() -> None:
    assert bytes(decompress(Codec.LZ4, bytes(cramjam.lz4.compress(TEXT)))) == TEXT
    compressor = cramjam.lz4.Compressor(level=4, content_checksum=True, block_linked=True)
    compressor.compress(TEXT)
    assert bytes(decompress(Codec.LZ4, bytes(compressor.finish()))) == TEXT


def test_gzip_members_that_follow_one_another() -> None:
    packed = gzip.compress(TEXT) + gzip.compress(NOISE)
    assert bytes(decompress(Codec.GZIP, packed)) == TEXT + NOISE
    # The same where the size could be too large, which takes the other way through.
    assert bytes(decompress(Codec.GZIP, packed, len(TEXT + NOISE))) == TEXT + NOISE
    with pytest.raises(CorruptRecordError):
        decompress(Codec.GZIP, packed[:-3], len(TEXT + NOISE))


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.ZSTD])
def test_frames_that_follow_one_another(codec: Codec) -> None:
    packed = b"".join(bytes(compress(codec, data)) for data in (TEXT, b"", NOISE))
    size = len(TEXT + NOISE)
    assert bytes(decompress(codec, packed, size)) == TEXT + NOISE
    with pytest.raises(RecordTooLargeError):
        decompress(codec, packed, size - 1)
    if codec is not Codec.SNAPPY:  # of which every end of a block is a good one
        with pytest.raises(CorruptRecordError):
            decompress(codec, packed[:-3], size)
    if codec is Codec.ZSTD:
        with pytest.raises(CorruptRecordError):
            decompress(codec, packed + b"\x01\x02\x03\x04\x05\x06\x07\x08", size)


TRAILERS = {
    "a zero": b"\0",
    "zeros": bytes(40),
    "junk": b"junk" * 20,
    "little junk": b"junk",
    "a header alone": gzip.compress(TEXT)[:12],
    "a skippable frame": bytes.fromhex("502a4d18") + b"\x04\0\0\0abcd",
}
"""What Kafka 4.3.1 takes behind the last member of gzip, and behind a frame of lz4."""


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4])
@pytest.mark.parametrize("trailer", TRAILERS.values(), ids=TRAILERS.keys())
def test_what_follows_and_is_no_data_is_passed_over(codec: Codec, trailer: bytes) -> None:
    packed = bytes(compress(codec, TEXT)) + trailer
    assert bytes(decompress(codec, packed)) == TEXT
    assert bytes(decompress(codec, packed, len(TEXT))) == TEXT


@pytest.mark.parametrize("trailer", TRAILERS.values(), ids=TRAILERS.keys())
def test_it_may_follow_several_members(trailer: bytes) -> None:
    packed = gzip.compress(TEXT) + gzip.compress(b"") + gzip.compress(NOISE)
    assert bytes(decompress(Codec.GZIP, packed + trailer)) == TEXT + NOISE


def test_a_member_that_follows_and_is_damaged_is_corrupt() -> None:
    first, second = gzip.compress(TEXT), gzip.compress(NOISE)
    for damaged in (second[:-6], second[:-8] + bytes(8), second[:40] + b"x" + second[41:]):
        with pytest.raises(CorruptRecordError):
            decompress(Codec.GZIP, first + damaged)
    with pytest.raises(CorruptRecordError):
        decompress(Codec.GZIP, first[:-8] + bytes(8))


def test_lz4_ends_with_its_first_frame() -> None:
    """As for Kafka's reader; what the second holds is missed by whoever counts the records."""
    packed = bytes(compress(Codec.LZ4, TEXT)) + bytes(compress(Codec.LZ4, NOISE))
    assert bytes(decompress(Codec.LZ4, packed)) == TEXT
    assert bytes(decompress(Codec.LZ4, bytes(compress(Codec.LZ4, b"")) + packed)) == b""
    assert bytes(decompress(Codec.LZ4, packed[:-7])) == TEXT


@pytest.mark.parametrize(("codec", "what"), [(Codec.GZIP, "members"), (Codec.ZSTD, "frames")])
def test_empty_frames_without_end(codec: Codec, what: str) -> None:
    empty = bytes(compress(codec, b""))
    assert bytes(decompress(codec, empty * MAX_FRAMES)) == b""
    with pytest.raises(CorruptRecordError, match=f"more than {MAX_FRAMES} {what}"):
        decompress(codec, empty * (MAX_FRAMES + 1))


def test_skippable_frames() -> None:
    skippable = bytes.fromhex("5a2a4d18") + b"\x05\x00\x00\x00" + b"12345"
    assert bytes(decompress(Codec.LZ4, skippable + bytes(compress(Codec.LZ4, TEXT)))) == b""
    for data in (
        skippable + bytes(compress(Codec.ZSTD, TEXT)),
        bytes(compress(Codec.ZSTD, TEXT)) + skippable,
    ):
        assert bytes(decompress(Codec.ZSTD, data)) == TEXT
    with pytest.raises(CorruptRecordError, match="cut off"):
        decompress(Codec.ZSTD, skippable[:-1])


def test_zstd_as_java_writes_it() -> None:
    """A stream does not know how much it will hold, and is flushed now and then."""
    stream = zstandard.ZstdCompressor(write_content_size=False, write_checksum=True).compressobj()
    parts = [TEXT[:70_000], NOISE, TEXT[70_000:]]
    packed = b"".join(
        stream.compress(part) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) for part in parts
    )
    packed += stream.flush()
    assert zstandard.frame_content_size(packed) == -1
    assert bytes(decompress(Codec.ZSTD, packed, len(TEXT + NOISE))) == b"".join(parts)
    with pytest.raises(RecordTooLargeError):
        decompress(Codec.ZSTD, packed, len(TEXT + NOISE) - 1)
    with pytest.raises(CorruptRecordError):
        decompress(Codec.ZSTD, packed[:-1] + bytes([packed[-1] ^ 1]))


def test_a_zstd_frame_that_lies_about_its_size() -> None:
    magic, empty_block = bytes.fromhex("28b52ffd"), b"\x01\x00\x00"
    for says in (1, 1 << 30, (1 << 64) - 1):
        frame = magic + b"\xe0" + says.to_bytes(8, "little") + empty_block
        with pytest.raises(CorruptRecordError, match=f"says that it holds {says}"):
            decompress(Codec.ZSTD, frame)
    # Empty blocks, of which the last never comes.
    with pytest.raises(CorruptRecordError, match="more than 65536 blocks"):
        decompress(Codec.ZSTD, magic + b"\x00\x50" + bytes(3 * 65_600))


@pytest.mark.fuzz
@pytest.mark.parametrize("codec", PACKED)
def test_any_damage_is_an_error_or_bytes_within_the_bound(codec: Codec) -> None:
    chance = random.Random(SEED)
    packed = bytes(compress(codec, TEXT[:3000])) + bytes(compress(codec, NOISE[:500]))
    for _ in range(300):
        damaged = bytearray(packed)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        del damaged[chance.choice((len(damaged), chance.randrange(len(damaged)))) :]
        with contextlib.suppress(CorruptRecordError, RecordTooLargeError):
            assert len(decompress(codec, damaged, 4000)) <= 4000, f"seed {SEED}"


def test_gzip_is_readable_by_the_standard_library() -> None:
    assert zlib.decompress(compress(Codec.GZIP, TEXT), wbits=31) == TEXT


@pytest.mark.parametrize(
    ("codec", "levels"), [(Codec.GZIP, [-1, 1, 9]), (Codec.LZ4, [1, 9, 17]), (Codec.ZSTD, [-5, 1, 3, 19])]
)
def test_levels(codec: Codec, levels: list[int]) -> None:
    for level in levels:
        assert bytes(decompress(codec, compress(codec, TEXT, level))) == TEXT


@pytest.mark.parametrize(
    ("codec", "level"), [(Codec.GZIP, 0), (Codec.GZIP, 10), (Codec.LZ4, 0), (Codec.LZ4, 18), (Codec.ZSTD, 23)]
)
def test_levels_out_of_range(codec: Codec, level: int) -> None:
    with pytest.raises(ValueError, match="level"):
        compress(codec, TEXT, level)


def test_names() -> None:
    assert [Codec.parse(name) for name in ("none", "gzip", "Snappy", "LZ4", "zstd")] == list(Codec)
    assert Codec.parse("uncompressed") is Codec.NONE
    for name in ("producer", "brotli", ""):
        with pytest.raises(ValueError, match="compression"):
            Codec.parse(name)
