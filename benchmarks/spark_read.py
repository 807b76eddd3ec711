"""How fast Spark reads and writes topics through odradek: rows per second, median of some runs.

    python benchmarks/spark_read.py [--rows 1000000] [--size 100] [--partitions 4] [--servers HOST:PORT]

Without `--servers` a broker of ours runs beside Spark, on the same processors. Compare only runs that were
made in turns on one machine.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TOPIC = "benchmark"
COPY = "benchmark-copy"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=100, help="bytes of a value")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--servers", help="measure against these brokers")
    args = parser.parse_args()
    with brokers(args.servers) as servers:
        fill(servers, args.rows, args.size, args.partitions)
        measure(servers, args.rows, args.runs)


@contextmanager
def brokers(given: str | None) -> Iterator[str]:
    """`given`, or a broker of ours in a process and a folder of its own."""
    if given:
        yield given
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "odradek", "server", "--data", folder, "--port", "0"]
        with (
            (Path(folder) / "log").open("wb") as log,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as broker,
        ):
            assert broker.stdout is not None
            yield broker.stdout.readline().split()[1]
            broker.terminate()


def fill(servers: str, rows: int, size: int, partitions: int) -> None:
    """Write `rows` rows of `size` bytes with keys of 8, unless the topic is there already."""
    import pyarrow as pa

    from odradek.client import Admin, NewTopic, RawReader, RawWriter

    with RawReader(servers) as reader:
        if TOPIC in reader.topics():
            return
    with Admin(bootstrap_servers=servers) as admin:
        names = (TOPIC, COPY)
        admin.create_topics(
            [NewTopic(name, num_partitions=partitions, replication_factor=1) for name in names]
        )
    step = 20_000
    with RawWriter(servers) as writer:
        for first in range(0, rows, step):
            numbers = range(first, min(first + step, rows))
            batch = pa.record_batch(
                {
                    "key": pa.array([b"%08d" % number for number in numbers]),
                    "value": pa.array([b"%08d" % number + b"x" * (size - 8) for number in numbers]),
                    "partition": pa.array([number % partitions for number in numbers], pa.int32()),
                }
            )
            writer.write_columns(batch, TOPIC)


def measure(servers: str, rows: int, runs: int) -> None:
    from odradek.spark import session

    spark = session("benchmark", "local[2]", log_level="OFF")

    def read(**options: str) -> Any:
        reader = spark.read.format("odradek").option("kafka.bootstrap.servers", servers)
        return reader.option("subscribe", TOPIC).options(**options).load()

    def discard(frame: Any) -> None:
        frame.write.format("noop").mode("overwrite").save()

    def same(batches: Any) -> Any:
        return batches

    def copy() -> None:
        frame = read(columns="key,value").write.format("odradek").option("kafka.bootstrap.servers", servers)
        frame.option("topic", COPY).mode("append").save()

    def arrow() -> None:
        assert read().toArrow().num_rows == rows

    cases: dict[str, Callable[[], Any]] = {
        "all columns, discarded": lambda: discard(read()),
        "value only, discarded": lambda: discard(read(columns="value")),
        "count()": lambda: read(columns="offset").count(),
        "through mapInArrow": lambda: discard(read().mapInArrow(same, read().schema)),
        "toArrow()": arrow,
        "topic to topic": copy,
    }
    print(f"{rows:,} rows; Spark {spark.version}, {spark.sparkContext.defaultParallelism} cores")
    for name, case in cases.items():
        seconds = []
        for _ in range(runs + 1):
            began = time.perf_counter()
            case()
            seconds.append(time.perf_counter() - began)
        typical = statistics.median(seconds[1:])  # the first run warms up
        print(
            f"{name:26} {rows / typical:12,.0f} rows/s   (runs: {', '.join(f'{s:.2f} s' for s in seconds)})"
        )
    spark.stop()


if __name__ == "__main__":
    main()
