"""Records decoded per CPU second: ours (native, twin), aiokafka, kafka-python, interleaved in one run.

    python benchmarks/records_decode.py [--records N] [--value-bytes N] [--codec NAME] [--rounds N]

Each round runs every contender once on the same bytes, so that a busy machine slows all of them alike; the
best and the median round are printed. "to Arrow" fills columns; "objects" makes one object per record and
looks at its key and value.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType

from odradek.records import _pykernel, batch, columns
from odradek.records.builder import BatchBuilder
from odradek.records.compression import Codec

PER_BATCH = 1000


def make_batches(records: int, value_bytes: int, codec: Codec) -> list[bytes]:
    """The batches of one partition: 8-byte keys, values of `value_bytes`, no headers."""
    rng = random.Random(1)
    words = [rng.randbytes(10) for _ in range(50)]
    batches = []
    for base in range(0, records, PER_BATCH):
        builder = BatchBuilder(codec=codec, base_offset=base)
        for i in range(min(PER_BATCH, records - base)):
            value = b"".join(rng.choices(words, k=value_bytes // 10 + 1))[:value_bytes]
            builder.append(1_700_000_000_000 + i, b"%08d" % i, value)
        batches.append(builder.build())
    return batches


def arrow(kernel: ModuleType, batches: list[bytes]) -> int:
    """Ours, column by column."""
    original, columns.kernel = columns.kernel, kernel
    try:
        return sum(b.num_rows for b in columns.iter_columns(batches, batch_rows=50_000))
    finally:
        columns.kernel = original


def objects(kernel: ModuleType, batches: list[bytes]) -> int:
    """Ours, record by record."""
    original, batch.kernel = batch.kernel, kernel
    try:
        count = 0
        for raw in batches:
            for record in batch.iter_records(raw):
                _ = record.key, record.value
                count += 1
        return count
    finally:
        batch.kernel = original


def peer(memory_records: Callable[[bytes], object], batches: list[bytes]) -> int:
    """aiokafka or kafka-python, as their consumers do it."""
    count = 0
    for raw in batches:
        records = memory_records(raw)
        while (found := records.next_batch()) is not None:  # type: ignore[attr-defined]
            found.validate_crc()
            for record in found:
                _ = record.key, record.value
                count += 1
    return count


def contenders() -> Iterator[tuple[str, float, Callable[[list[bytes]], int]]]:
    """(name, share of the records that it gets, what it does)"""
    try:
        from odradek.records import _kernel
    except ImportError:
        print("no compiled kernel: only the twin runs")
    else:
        yield "odradek native, to Arrow", 1.0, lambda batches: arrow(_kernel, batches)
        yield "odradek native, objects", 0.5, lambda batches: objects(_kernel, batches)
    yield "odradek twin, to Arrow", 0.1, lambda batches: arrow(_pykernel, batches)
    yield "odradek twin, objects", 0.1, lambda batches: objects(_pykernel, batches)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from aiokafka.record.memory_records import MemoryRecords as AioRecords

            yield "aiokafka, objects", 0.5, lambda batches: peer(AioRecords, batches)
        except ImportError:
            print("aiokafka is not installed")
        try:
            from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

            yield "kafka-python, objects", 0.1, lambda batches: peer(KafkaPythonRecords, batches)
        except ImportError:
            print("kafka-python is not installed")


def main() -> None:
    """Run and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--codec", type=Codec.parse, default=Codec.NONE)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()

    batches = make_batches(options.records, options.value_bytes, options.codec)
    size = sum(map(len, batches))
    print(
        f"{options.records} records, values of {options.value_bytes} bytes, "
        f"{options.codec.name.lower()}, {size} bytes"
    )
    field = list(contenders())
    rates: dict[str, list[float]] = {name: [] for name, _, _ in field}
    for _ in range(options.rounds):
        for name, share, run in list(field):
            part = batches[: max(1, int(len(batches) * share))]
            gc.collect()
            start = time.process_time()
            try:
                count = run(part)
            except Exception as problem:  # a peer without this codec's library
                print(f"{name}: {problem}")
                field = [contender for contender in field if contender[0] != name]
                del rates[name]
                continue
            rates[name].append(count / (time.process_time() - start) / 1e6)
    print(f"{'':28} {'best':>8} {'median':>8}  M records per CPU second")
    for name, found in rates.items():
        print(f"{name:28} {max(found):8.2f} {statistics.median(found):8.2f}")


if __name__ == "__main__":
    main()
