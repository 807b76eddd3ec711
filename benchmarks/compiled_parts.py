"""What each part of the compiled kernel gains over its twin in Python: the figures of `odradek doctor`.

    python benchmarks/compiled_parts.py

Both run in processes of their own, in alternation; each figure is the best of some rounds, in microseconds.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable

ROUNDS = 2
NOW_MS = 1_700_000_000_000


def best_us(work: Callable[[], object], times: int) -> float:
    """Microseconds of one `work()`."""
    work()
    found = []
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(times):
            work()
        found.append((time.perf_counter() - began) / times * 1e6)
    return min(found)


def records(rng: random.Random) -> dict[str, float]:
    """Part `_kernel`."""
    from odradek.records.builder import build_batch
    from odradek.records.columns import decode_columns

    many = build_batch([(NOW_MS, None, rng.randbytes(100), ()) for _ in range(5_000)])
    return {
        "_kernel: 5,000 records to Arrow": best_us(lambda: decode_columns(many, from_offset=0), 5),
    }


def produces(rng: random.Random) -> dict[str, float]:
    """Part `_validate`."""
    from odradek.records.builder import build_batch
    from odradek.records.validate import BatchLimits

    limits = BatchLimits(max_message_bytes=1 << 20)
    found = {}
    for count, what in ((1, "a produced batch of 1 record"), (147, "a produced batch of 16 KiB")):
        batch = build_batch([(NOW_MS, None, rng.randbytes(100), ()) for _ in range(count)])

        def check(batch: bytes = batch) -> None:
            limits.validate_batches(batch, NOW_MS, from_client=True, produce_version=None)

        found[f"_validate: {what}"] = best_us(check, 1000 // count + 10)
    return found


def old_formats(rng: random.Random) -> dict[str, float]:
    """Part `_messages`."""
    from odradek.records.message_sets.message_kernel import message_kernel
    from odradek.records.message_sets.message_writer import append_message

    messages = bytearray()
    for offset in range(147):
        append_message(messages, 1, offset, NOW_MS, 0, None, rng.randbytes(100))
    return {
        "_messages: 147 messages to records": best_us(
            lambda: message_kernel.messages_to_records(messages, 1, bytearray()), 200
        )
    }


def producer(rng: random.Random) -> dict[str, float]:
    """Part `_client`."""
    from odradek import Producer
    from odradek.testing import Broker

    value = rng.randbytes(100)
    found = []
    with Broker() as broker:
        broker.create_topic("t")
        configs = {"linger_ms": 1000, "batch_size": 1 << 20}
        with Producer(bootstrap_servers=broker.bootstrap_servers, **configs) as sender:
            sender.send("t", value).result(10)
            for _ in range(6):
                began = time.thread_time()
                for _ in range(2000):
                    sender.send("t", value)
                found.append((time.thread_time() - began) / 2000 * 1e6)
                sender.flush()
    return {"_client: Producer.send of a record": min(found)}


def compaction(rng: random.Random) -> dict[str, float]:
    """Part `_cleaner`."""
    from odradek.log.cleaner.key_map import KeyMap

    keys = [rng.randbytes(12) for _ in range(2000)]

    def note() -> None:
        found = KeyMap(1 << 22, 0.9)
        for offset, key in enumerate(keys):
            found.put(key, offset)

    return {"_cleaner: 2,000 keys noted": best_us(note, 5)}


def typed_columns(rng: random.Random) -> dict[str, float]:
    """Parts `_tree`, `_json`, `_avro`, `_protobuf`: a thousand rows of four columns."""
    import pyarrow as pa
    from pyspark.sql import types as spark

    from odradek.spark.formats import avro_steps, kernels, protobuf_types, tree

    ddl = {"a": spark.LongType(), "b": spark.StringType(), "c": spark.DoubleType(), "d": spark.BooleanType()}
    kind = spark.StructType([spark.StructField(name, one) for name, one in ddl.items()])
    made = kernels.tree_kernel.Tree(tree.describe(kind))
    json_rows = [
        b'{"a": %d, "b": "%s", "c": 1.25, "d": true}' % (n, rng.randbytes(8).hex().encode())
        for n in range(1000)
    ]
    avro_rows = [b"\x02\x20" + rng.randbytes(8).hex().encode() + bytes(8) + b"\x01" for _ in range(1000)]
    message = b"\x08\x07\x12\x10%s\x19" + bytes(8) + b"\x20\x01"
    protobuf_rows = [message % rng.randbytes(8).hex().encode() for _ in range(1000)]
    ops = (avro_steps.LONG, avro_steps.TEXT, avro_steps.REAL64, avro_steps.BOOLEAN)
    steps = [(avro_steps.RECORD, 0, 0, 1, (1, 2, 3, 4), ())]
    steps += [(op, number, 0, 1, (), ()) for number, op in enumerate(ops, 1)]
    types = (protobuf_types.P_INT64, protobuf_types.P_STRING, protobuf_types.P_DOUBLE, protobuf_types.P_BOOL)
    fields = tuple((n, one, n, False, 0, -1, False, -1, ()) for n, one in enumerate(types, 1))

    def best(rows: list[bytes], decode: Callable[[object], object]) -> float:
        array = pa.array(rows, pa.binary())

        def work() -> None:
            decode(kernels.records_of(array))
            made.finish()

        return best_us(work, 3)

    avro = kernels.avro_kernel.Plan(made, steps)
    protobuf = kernels.protobuf_kernel.Plan(made, [(0, fields)])
    return {
        "_json: 1,000 documents to Arrow": best(
            json_rows, lambda rows: kernels.json_kernel.decode_json(made, rows, 0, False)
        ),
        "_avro: 1,000 records to Arrow": best(
            avro_rows, lambda rows: kernels.avro_kernel.decode_avro(made, rows, 0, {None: avro}, False)
        ),
        "_protobuf: 1,000 messages to Arrow": best(
            protobuf_rows,
            lambda rows: kernels.protobuf_kernel.decode_protobuf(made, rows, 0, {None: protobuf}, False),
        ),
    }


def measure() -> None:
    """In this process's mode, as JSON."""
    found: dict[str, float] = {}
    for part in (records, produces, old_formats, producer, compaction, typed_columns):
        found |= part(random.Random(1))
    print(json.dumps(found))


def main() -> None:
    """Both modes."""
    best: dict[str, dict[str, float]] = {"native": {}, "python": {}}
    for _ in range(ROUNDS):
        for mode, figures in best.items():
            done = subprocess.run(
                [sys.executable, __file__, "--here"],
                env={**os.environ, "ODRADEK_KERNEL": mode},
                capture_output=True,
                check=True,
            )
            for name, value in json.loads(done.stdout).items():
                figures[name] = min(value, figures.get(name, value))
    print(f"{'':<44} {'compiled':>12} {'Python':>12}")
    for name, native in best["native"].items():
        python = best["python"][name]
        print(f"{name:<44} {native:>9.2f} µs {python:>9.2f} µs  {python / native:>5.1f} ×")


if __name__ == "__main__":
    measure() if "--here" in sys.argv else main()
