"""Section `convert`: records converted down for old consumers, and up from old producers, in this process.

A log of record batches as producers send them (16 KiB uncompressed, 64 KiB of records compressed), through
`DownConversion` piece by piece; message sets of the same records through validation and `messages_to_batch`.
Megabytes are those of keys and values with the overhead of a record. With gzip this measures zlib-ng, at the
level that is Kafka's default.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.records.batch import HEADER_BYTES
from odradek.records.builder import BatchBuilder
from odradek.records.compression import Codec
from odradek.records.conversion.down_conversion import DownConversion
from odradek.records.conversion.up_conversion import messages_to_batch
from odradek.records.message_sets.message_kernel import NATIVE
from odradek.records.message_sets.message_validation import validate_message_set

from .results import Measure, Outcome

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from records.message_set_builder import MessageSetBuilder

if TYPE_CHECKING:
    from .sections import Context

NOW_MS = 1_700_000_000_000
LEAST = 100.0
"""MB/s."""
SIZES = (100, 1000)
CODECS = (Codec.NONE, Codec.LZ4, Codec.SNAPPY, Codec.GZIP)
WORDS = (b"amber", b"birch", b"cedar", b"delta", b"ember", b"fjord", b"grove", b"heron", b"islet", b"juniper")


def values(size: int, count: int) -> list[bytes]:
    """Half words, half noise, so that compression has something to do and does not win everything."""
    rng = random.Random(size)
    noise = size // 2
    return [
        (b" ".join(rng.choice(WORDS) for _ in range(size // 8))[: size - noise]).ljust(size - noise)
        + rng.randbytes(noise)
        for _ in range(count)
    ]


def _pieces(size: int, codec: Codec, total: int) -> list[list[bytes]]:
    per_batch = max(1, (16 if codec is Codec.NONE else 64) * 1024 // size)
    sample = values(size, per_batch)
    return [sample] * max(1, total // (per_batch * size))


def down(size: int, codec: Codec, total: int) -> tuple[Callable[[], object], int]:
    """What to run, and how many bytes of records it converts."""
    log = bytearray()
    offset = plain = 0
    for batch in _pieces(size, codec, total):
        builder = BatchBuilder(codec=codec, base_offset=offset)
        for number, value in enumerate(batch):
            builder.append(NOW_MS + number, b"key-%06d" % number, value, ())
        plain += builder.size_estimate() - HEADER_BYTES
        offset += len(batch)
        log += builder.build()
    whole = bytes(log)

    def run() -> None:
        for _ in DownConversion(whole, 1).pieces():
            pass

    return run, plain


def up(size: int, codec: Codec, total: int) -> tuple[Callable[[], object], int]:
    """As `down`."""
    sets = []
    plain = 0
    for batch in _pieces(size, codec, total):
        builder = MessageSetBuilder(1, codec)
        for number, value in enumerate(batch):
            builder.append(NOW_MS + number, b"key-%06d" % number, value)
        plain += builder.size_estimate()
        sets.append(builder.build())

    def run() -> None:
        for one in sets:
            messages_to_batch(validate_message_set(one, max_message_bytes=1 << 24, now_ms=NOW_MS))

    return run, plain


def run(name: str, context: Context) -> Outcome:
    """Measure."""
    total = 2 * 1024 * 1024 if context.quick else 8 * 1024 * 1024
    measures = []
    for direction, prepare in (("down to magic 1", down), ("up from magic 1", up)):
        for size in SIZES:
            for codec in CODECS:
                work, plain = prepare(size, codec, total)
                rates = []
                for _ in range(context.rounds):
                    began = time.process_time()
                    work()
                    rates.append(plain / (time.process_time() - began) / 1e6)
                case = f"{direction}, {size:,} B, {codec.name.lower()}"
                limit = LEAST if direction.startswith("down") and codec is not Codec.GZIP and NATIVE else None
                measures.append(
                    Measure(case, "MB of records per CPU second", {"odradek": rates}, limit=limit)
                )
                context.say(f"{case}: {sorted(rates)[len(rates) // 2]:,.0f} MB/s")
    kernel = "compiled" if NATIVE else "Python"
    settings = {"rounds": context.rounds, "bytes per round": total, "kernel": kernel}
    return Outcome(name, "Conversion between message formats", ["odradek"], {}, measures, settings)
