"""Compaction beside Kafka's cleaner on the same folder, and what a producer notices of it.

    python benchmarks/compaction.py [--megabytes N] [--rounds N] [--no-kafka] [--no-latency]

The folder has one partition of uncompressed batches; of ten records of a key one stays. Each pass gets a
copy of its own, in memory where the machine has such a folder. Ours is the time of the worker's process, from
its start to its outcome, and of the swap. Kafka's is that of its cleaner's thread, from when it begins to use
the processor until its checkpoint is written.

The second table has the latency of produce requests (acks=1, one batch of 1 KiB each 2 ms, another topic), in
microseconds, of a broker that has nothing to compact and of one that compacts the folder.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from interop import kafka_peer
from odradek import Admin, NewTopic
from odradek.log import LogConfig, LogManager, RealFileSystem
from odradek.log.cleaner import CleanResult, clean_range, make_job, swap_in
from odradek.records.builder import build_batch
from odradek.util.clock import SystemClock
from odradek.wire.headers import encode_request
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

KAFKA = "3.9.1"
TOPIC, BUSY = "compacted", "busy"
BATCH_RECORDS, VALUE_BYTES, PER_KEY = 140, 100, 10
CONFIG = LogConfig(segment_bytes=32 * 2**20, cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.01)
SETTINGS = {
    "log.cleanup.policy": "compact",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.backoff.ms": "100",
    "log.retention.ms": "-1",
}
PACE_S, REQUESTS = 0.002, 2_000


def write(folder: Path, megabytes: int) -> None:
    """Fill a folder."""
    manager = LogManager([folder], RealFileSystem(), SystemClock(), CONFIG)
    manager.load()
    log = manager.create(TOPIC, 0, CONFIG)
    chance, now_ms = random.Random(1), SystemClock().now_ms()
    keys = megabytes * 2**20 // (VALUE_BYTES + 30) // PER_KEY
    while log.size_bytes < megabytes * 2**20:
        records = [
            (now_ms, b"key-%d" % chance.randrange(keys), b"v" * VALUE_BYTES, ()) for _ in range(BATCH_RECORDS)
        ]
        log.append(build_batch(records), leader_epoch=0, now_ms=now_ms)
    log.roll(now_ms)
    log.append(build_batch([(now_ms, b"last", b"", ())]), leader_epoch=0, now_ms=now_ms)
    log.commit_all()
    manager.close()


def ours(folder: Path, scratch: Path) -> tuple[float, float, int]:
    """Seconds of a pass, those of the processor, and the bytes that stay."""
    data = scratch / "data"
    shutil.copytree(folder, data)
    manager = LogManager([data], RealFileSystem(), SystemClock(), CONFIG)
    manager.load()
    log = manager.get(TOPIC, 0)
    assert log is not None
    log.commit_all()
    now_ms = SystemClock().now_ms()
    job = make_job(log, clean_range(log, 0, now_ms), now_ms)
    began, before = time.monotonic(), os.times()
    done = subprocess.run(
        [sys.executable, "-m", "odradek.log.cleaner.worker"],
        input=job.to_json() + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    result = CleanResult.from_json(done.stdout)
    assert swap_in(log, job, result, now_ms)
    took, after = time.monotonic() - began, os.times()
    manager.unlock()
    shutil.rmtree(data)
    cpu = sum(after[:4]) - sum(before[:4])
    return took, cpu, result.bytes_kept


def kafkas(folder: Path, scratch: Path) -> tuple[float, float, int]:
    """As `ours`, of Kafka."""
    directory = scratch / "kafka"
    directory.mkdir()
    data = directory / "data"
    kafka = kafka_peer.RealKafka(
        KAFKA, directory, {"log.cleaner.backoff.ms": "6000"}, collector=kafka_peer.SERVER_COLLECTOR
    )
    try:
        # Kafka cleans what it leads: it has to know the topic before it finds the records.
        kafka.start()
        with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
            configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
            configs["segment.bytes"] = str(CONFIG.segment_bytes)
            admin.create_topics([NewTopic(TOPIC, 1, 1, configs=configs)])
        kafka.stop()
        partition = data / f"{TOPIC}-0"
        for path in partition.glob("0*"):
            path.unlink()
        for path in (folder / f"{TOPIC}-0").glob("0*"):
            shutil.copy(path, partition)
        kafka.start()
        thread = _cleaner_of(kafka.pid)
        idle, deadline = _cpu_s(thread), time.monotonic() + 60
        began = None
        while time.monotonic() < deadline:
            now, used = time.monotonic(), _cpu_s(thread) - idle
            if began is None and used >= 0.02:
                began = now - used
            checkpoint = data / "cleaner-offset-checkpoint"
            if checkpoint.exists() and TOPIC in checkpoint.read_text(encoding="utf-8"):
                break
            time.sleep(0.005)
        else:
            raise RuntimeError("Kafka has not compacted the folder within a minute")
        assert began is not None
        kept = sum(
            path.stat().st_size for path in (data / f"{TOPIC}-0").iterdir() if path.name.endswith(".log")
        )
        return now - began, used, kept
    finally:
        kafka.stop()
        shutil.rmtree(directory)


def _cleaner_of(pid: int) -> Path:
    for task in Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text(encoding="utf-8").startswith("kafka-log-clean"):
            return task
    raise RuntimeError("Kafka has no cleaner")


def _cpu_s(task: Path) -> float:
    fields = (task / "stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def latencies(folder: Path | None, scratch: Path) -> tuple[list[float], bool]:
    """Microseconds of produce requests, and whether all of them were sent during the compaction."""
    data = scratch / "busy"
    if folder is not None:
        shutil.copytree(folder, data)
    port = kafka_peer.free_ports(1)[0]
    words = [sys.executable, "-m", "odradek", "server", "--data", str(data), "--port", str(port)]
    for name, value in SETTINGS.items():
        words += ["--set", f"{name}={value}"]
    process = subprocess.Popen(
        [*words, "--log-level", "error"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while not kafka_peer.answers_api_versions(port):
            time.sleep(0.002)
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            file = client.makefile("rb")

            def ask(frame: bytes) -> None:
                client.sendall(frame)
                file.read(int.from_bytes(file.read(4)))

            topic = CreatableTopic(name=BUSY, num_partitions=1, replication_factor=1)
            ask(_frame(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 5))
            checkpoint, found = data / "cleaner-offset-checkpoint", []
            ended = None
            for number in range(REQUESTS):
                records = build_batch([(SystemClock().now_ms(), b"%d" % number, b"v" * 1000, ())])
                began = time.perf_counter()
                ask(_frame(_produce(records), 9))
                found.append((time.perf_counter() - began) * 1e6)
                if ended is None and checkpoint.exists():
                    ended = number
                time.sleep(max(0.0, PACE_S - (time.perf_counter() - began)))
        during = found[: ended or REQUESTS] if folder is not None else found
        return during[20:], ended is None
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(data)


def _produce(records: bytes) -> ProduceRequest:
    part = PartitionProduceData(index=0, records=records)
    return ProduceRequest(
        acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name=BUSY, partition_data=[part])]
    )


def _frame(message: object, version: int) -> bytes:
    return b"".join(encode_request(message.API_KEY, version, 1, "bench", message))  # type: ignore[attr-defined]


def _p(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-kafka", action="store_true")
    parser.add_argument("--no-latency", action="store_true")
    parser.add_argument("--keep", type=Path, help="where the folder is made, and found the next time")
    parser.add_argument("--json", action="store_true", help="print the raw figures as well")
    arguments = parser.parse_args()
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as made:
        scratch = Path(made)
        folder = arguments.keep or scratch / "folder"
        if not folder.exists():
            write(folder, arguments.megabytes)
        size = sum(path.stat().st_size for path in folder.rglob("*.log"))
        cleaners = {"odradek": ours} if arguments.no_kafka else {"odradek": ours, f"Kafka {KAFKA}": kafkas}
        passes: dict[str, list[tuple[float, float, int]]] = {}
        for _ in range(arguments.rounds):
            for name, clean in cleaners.items():
                passes.setdefault(name, []).append(clean(folder, scratch))
        print(f"one pass over {size / 2**20:.0f} MiB")
        print(f"{'':14}{'seconds':>9}{'MB/s':>8}{'CPU s':>8}{'MiB kept':>10}")
        for name, found in passes.items():
            took, cpu, kept = (statistics.median(column) for column in zip(*found, strict=True))
            print(f"{name:14}{took:9.2f}{size / took / 1e6:8.0f}{cpu:8.2f}{kept / 2**20:10.1f}")
        if len(passes) > 1:
            mine, theirs = (statistics.median(one[0] for one in found) for found in passes.values())
            print(f"{'ratio':14}{mine / theirs:9.2f}  (bar: 2)")
        if arguments.json:
            print(json.dumps(passes))
        if not arguments.no_latency:
            print(f"\nproduce, µs{'':9}{'p50':>8}{'p99':>8}{'requests':>10}")
            rows = {}
            for name, busy in (("idle", None), ("compacting", folder)):
                found, _ = latencies(busy, scratch)
                rows[name] = _p(found, 0.99)
                print(f"{name:20}{_p(found, 0.5):8.0f}{rows[name]:8.0f}{len(found):10}")
            print(f"{'ratio':20}{'':8}{rows['compacting'] / rows['idle']:8.2f}  (bar: 2)")


if __name__ == "__main__":
    main()
