"""Mutated and random bytes give records or a `KafkaError`, nothing else, in bounded memory and time."""

from __future__ import annotations

import contextlib
import random
import tracemalloc

import pytest

from odradek.errors import KafkaError, ProtocolError
from odradek.records.batch import BatchHeader, compute_crc, iter_batches, iter_records
from odradek.records.builder import build_batch
from odradek.records.columns import iter_columns
from odradek.records.compression import Codec, decompress
from odradek.records.control import parse_end_marker
from records.validating import validate_batches
from seeds import seed

from .golden import RELEASES, log_batches, wire_record_sets

MAX_SIZE = 4 * 1024 * 1024
SEED = seed(20260101)


def corpus() -> list[bytes]:
    batches = [raw for release in RELEASES for _, raw, _ in log_batches(release) if len(raw) < 4000]
    own = [
        build_batch([(i, b"k", b"v" * 20, [("h", b"x")]) for i in range(20)], codec=codec) for codec in Codec
    ]
    return batches[::7] + wire_record_sets() + wire_record_sets(0) + wire_record_sets(1) + own


def mutate(rng: random.Random, seed: bytes) -> bytes:
    data = bytearray(seed)
    for _ in range(rng.randrange(1, 5)):
        if not data:
            break
        at = rng.randrange(len(data))
        kind = rng.randrange(6)
        if kind == 0:
            data[at] = rng.randrange(256)
        elif kind == 1:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del data[at : at + rng.randrange(1, 20)]
        elif kind == 3:
            data[at:at] = rng.randbytes(rng.randrange(1, 20))
        elif kind == 4:
            data[at : at + 4] = rng.choice(
                [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", bytes(4)]
            )
        else:
            data += data[at : at + 100]
    # The CRC would catch nearly everything; what lies behind it must hold too.
    if rng.random() < 0.7 and len(data) > 61:
        if rng.random() < 0.8:
            data[8:12] = (len(data) - 12).to_bytes(4, "big")
        data[17:21] = compute_crc(data).to_bytes(4, "big")
    return bytes(data)


def read_every_way(data: bytes) -> int:
    """How many of the ways in took the bytes."""
    taken = 0
    for way in (
        lambda: BatchHeader.parse(data),
        lambda: list(iter_batches(data)),
        lambda: [
            parse_end_marker(r.key, r.value)
            for r in iter_records(data, include_control=True, max_size=MAX_SIZE)
        ],
        lambda: list(iter_records(data, check_crcs=False, max_size=MAX_SIZE)),
        lambda: [
            batch.validate(full=True)
            for batch in iter_columns(data, with_headers=True, batch_rows=50, max_size=MAX_SIZE)
        ],
        lambda: validate_batches(
            data, max_message_bytes=1 << 20, now_ms=0, max_decompressed_bytes=MAX_SIZE, compacted=True
        ),
        lambda: validate_batches(
            data, max_message_bytes=1 << 20, now_ms=0, from_client=False, max_decompressed_bytes=MAX_SIZE
        ),
    ):
        try:
            way()
        except (KafkaError, ProtocolError):
            continue
        taken += 1
    return taken


@pytest.mark.fuzz
@pytest.mark.parametrize("part", range(4))
def test_mutated_batches(part: int) -> None:
    rng = random.Random(SEED + part)
    seeds = corpus()
    taken = sum(read_every_way(mutate(rng, rng.choice(seeds))) for _ in range(1500))
    assert taken > 500, f"seed {SEED + part}: else the mutations would test the first check alone"


@pytest.mark.fuzz
def test_noise() -> None:
    rng = random.Random(SEED)
    for _ in range(2000):
        read_every_way(rng.randbytes(rng.randrange(200)))


@pytest.mark.fuzz
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_mutated_compressed_data(codec: Codec) -> None:
    rng = random.Random(SEED)
    seeds = [raw[61:] for raw in corpus() if len(raw) > 61 and raw[16] == 2 and raw[22] & 7 == codec]
    assert seeds
    for _ in range(3000):
        data = mutate(rng, rng.choice(seeds))
        with contextlib.suppress(KafkaError):
            assert len(decompress(codec, data, 100_000)) <= 100_000


def test_memory_is_bounded_by_the_input() -> None:
    # A count of 2^31-1, whether packed or not, must not make room for as many records.
    batch = bytearray(build_batch([(0, None, b"v", [])]))
    batch[57:61] = (2**31 - 1).to_bytes(4, "big")
    batch[23:27] = (2**31 - 2).to_bytes(4, "big")
    batch[17:21] = compute_crc(batch).to_bytes(4, "big")
    tracemalloc.start()
    assert read_every_way(bytes(batch)) == 2
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000
