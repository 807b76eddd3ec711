"""What the Spark benchmarks need around Spark: a broker, topics with records in them, clocks for CPU time."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

CONNECTOR = [
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
]
"""The newest connector, the releases that it needs, and nothing that Spark has itself."""
AVRO = [("org.apache.spark", "spark-avro_2.13", "4.2.0")]
"""What `from_avro` needs."""

_TICKS = os.sysconf("SC_CLK_TCK")


class BrokerProcess:
    """A broker of ours in a process and a folder of its own."""

    def __enter__(self) -> BrokerProcess:
        shared = Path("/dev/shm")
        self._folder = tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None)
        command = [sys.executable, "-m", "odradek", "server", "--data", self._folder.name, "--port", "0"]
        self._log = (Path(self._folder.name) / "stderr").open("wb")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._log, text=True)
        assert self.process.stdout is not None
        self.servers = self.process.stdout.readline().split()[1]
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.terminate()
        self.process.wait(20)
        self._log.close()
        self._folder.cleanup()


def make_topics(servers: str, names: list[str], partitions: int) -> None:
    """Create topics."""
    from odradek.client import Admin, NewTopic

    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics(
            [NewTopic(name, num_partitions=partitions, replication_factor=1) for name in names]
        )


def fill(servers: str, topic: str, rows: int, size: int, partitions: int, *, headers: bool = False) -> None:
    """Write `rows` rows with keys of 8 bytes and values of `size`, with two headers each if wanted."""
    import pyarrow as pa

    from odradek.client import RawWriter

    step = 20_000
    # Batches as a producer with batch.size=16 KiB of many records makes them, not one of a megabyte.
    with RawWriter(servers, {"max.request.size": "1000000"}) as writer:
        for first in range(0, rows, step):
            numbers = range(first, min(first + step, rows))
            columns: dict[str, Any] = {
                "key": pa.array([b"%08d" % number for number in numbers]),
                "value": pa.array([b"%08d" % number + b"x" * (size - 8) for number in numbers]),
                "partition": pa.array([number % partitions for number in numbers], pa.int32()),
            }
            if headers:
                pair = [{"key": "trace", "value": b"0123456789abcdef"}, {"key": "kind", "value": b"order"}]
                kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
                columns["headers"] = pa.array([pair] * len(numbers), kind)
            writer.write_columns(pa.record_batch(columns), topic)


def fill_by_time(servers: str, topic: str, rows: int, size: int, partitions: int, start_ms: int) -> None:
    """Write `rows` rows, one for each millisecond from `start_ms` on, in order; all have the same value."""
    import pyarrow as pa

    from odradek.client import RawWriter

    step = 20_000
    values = pa.array([b"x" * size] * step)
    places = pa.array([number % partitions for number in range(step)], pa.int32())
    with RawWriter(servers, {"max.request.size": "1000000"}) as writer:
        for first in range(0, rows, step):
            count = min(step, rows - first)
            times = pa.array(range(start_ms + first, start_ms + first + count), pa.int64())
            columns = {"value": values[:count], "partition": places[:count], "timestamp": times}
            writer.write_columns(pa.record_batch(columns), topic)


def produce_at_rate(
    servers: str, topic: str, partitions: int, per_second: int, seconds: float, *, first: int = 0
) -> int:
    """Send one record after another, its number and the time (epoch ms) in its value; how many were sent."""
    from odradek.client import Producer

    count = int(per_second * seconds)
    with Producer(bootstrap_servers=servers, linger_ms=0) as producer:
        began = time.monotonic()
        for number in range(count):
            wait = began + number / per_second - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            value = b"%08d %013d" % (first + number, time.time_ns() // 1_000_000)
            producer.send(topic, value.ljust(100), partition=number % partitions)
        producer.flush()
    return count


class CpuClock:
    """CPU seconds used so far by the JVM, by Python processes below it, and by the broker."""

    def __init__(self, broker_pid: int) -> None:
        self._broker = broker_pid

    def read(self) -> tuple[float, float, float]:
        """(JVM, Python, broker)."""
        stats = process_stats()
        jvms = {pid for pid, (_, name, _, _) in stats.items() if name == "java"}
        jvms &= below(os.getpid(), stats)
        jvm = sum(stats[pid][2] for pid in jvms)
        python = 0.0
        for root in jvms:
            # Processes that have ended are in the parent's count, those of the JVM's own children too.
            python += stats[root][3]
            python += sum(stats[pid][2] + stats[pid][3] for pid in below(root, stats) - {root})
        return jvm, python, stats[self._broker][2] if self._broker in stats else 0.0


def process_stats() -> dict[int, tuple[int, str, float, float]]:
    """pid → (parent, name, own CPU seconds, those of children that have ended)."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            head, _, tail = (folder / "stat").read_text(encoding="utf-8").rpartition(")")
        except OSError:
            continue
        fields = tail.split()
        times = [int(field) / _TICKS for field in fields[11:15]]
        name = head.partition("(")[2]
        found[int(folder.name)] = (int(fields[1]), name, times[0] + times[1], times[2] + times[3])
    return found


def below(root: int, stats: dict[int, tuple[int, str, float, float]]) -> set[int]:
    """`root` and all its descendants."""
    found = {root}
    grew = True
    while grew:
        new = {pid for pid, (parent, *_) in stats.items() if parent in found} - found
        found |= new
        grew = bool(new)
    return found
