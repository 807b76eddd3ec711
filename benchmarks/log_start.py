"""How long a start takes over many logs: 1,000 partitions of 10 segments, beside Kafka on the same folder.

    python benchmarks/log_start.py [--partitions N] [--segments N] [--rounds N] [--no-kafka]

Three folders: after a clean stop; killed, with complete segments flushed as the broker does every second; and
killed before anything was flushed, so that all has to be read again. Each broker gets a copy of its own, in
memory where the machine has such a folder. A figure is the median time from the start of the process to its
first answer; "logs" is that without the time that the same broker takes over an empty folder.

Kafka runs on ZooKeeper and does not know the topics: it loads the logs and serves none. odradek knows them,
and serves all when it answers.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from interop import kafka_peer
from odradek.broker.app import Broker
from odradek.broker.config.broker_config import BrokerConfig
from odradek.cluster.controller.topic_manager import NewTopic
from odradek.records.builder import build_batch
from odradek.util.clock import SystemClock

KAFKA = "3.9.1"
BARS = {"clean": 2.0}
TOPIC = "load"
BATCH_RECORDS, VALUE_BYTES, BATCHES = 10, 200, 4
KINDS = ("clean", "killed", "killed unflushed")


async def write(folder: Path, partitions: int, segments: int) -> None:
    """Fill a folder; leaves copies as after a clean stop and after kills beside it."""
    properties = {"log.dirs": str(folder), "listeners": "PLAINTEXT://127.0.0.1:0"}
    broker = Broker(BrokerConfig(properties))
    await broker.start()
    for first in range(0, partitions, 100):
        count = min(100, partitions - first)
        broker.controller.create_topic(NewTopic(f"{TOPIC}{first}", count, 1))
    now_ms = SystemClock().now_ms()
    data = bytes(build_batch([(now_ms, b"key-%d" % n, b"v" * VALUE_BYTES, ()) for n in range(BATCH_RECORDS)]))
    for log in broker.logs.all():
        for number in range(segments):
            if number:
                log.roll(now_ms)
            for _ in range(BATCHES):
                log.append(data, leader_epoch=0, now_ms=now_ms)
        log.commit_all()
    # As a kill leaves them: index files with their room, no mark of a clean stop.
    copy(folder, folder.with_name("killed unflushed"))
    jobs = broker.logs.begin_flushes(now_ms)
    for job in jobs:
        job.run()
    broker.logs.finish_flushes(jobs)
    broker.logs.checkpoint()
    copy(folder, folder.with_name("killed"))
    await broker.stop()


def copy(source: Path, target: Path) -> None:
    """A copy that keeps holes in files."""
    subprocess.run(["cp", "-r", "--sparse=always", str(source), str(target)], check=True)


def ours(folder: Path | None, scratch: Path) -> float:
    """Seconds from the start of a process to its first answer."""
    data = scratch / "data"
    if folder is not None:
        copy(folder, data)
    port = kafka_peer.free_ports(1)[0]
    words = [sys.executable, "-m", "odradek", "server", "--data", str(data), "--port", str(port)]
    began = time.monotonic()
    process = subprocess.Popen([*words, "--log-level", "error"])
    try:
        while not kafka_peer.answers_api_versions(port):
            if process.poll() is not None:
                raise RuntimeError("the broker has ended")
            time.sleep(0.002)
        return time.monotonic() - began
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(data)


def kafkas(folder: Path | None, scratch: Path) -> float:
    """As `ours`, of Kafka."""
    directory = scratch / "kafka"
    directory.mkdir()
    if folder is not None:
        copy(folder, directory / "data")
        for name in ("meta.properties", ".lock"):
            (directory / "data" / name).unlink(missing_ok=True)
        for path in (directory / "data").glob("metadata.sqlite*"):
            path.unlink()
    kafka = kafka_peer.RealKafka(KAFKA, directory, collector=kafka_peer.SERVER_COLLECTOR)
    try:
        kafka.start()
        return kafka.ready_s
    finally:
        kafka.stop()
        shutil.rmtree(directory)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--segments", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-kafka", action="store_true")
    parser.add_argument("--keep", type=Path, help="where the folders are made, and found the next time")
    arguments = parser.parse_args()
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as made:
        root = arguments.keep or Path(made)
        clean = root / "clean"
        if not clean.exists():
            root.mkdir(exist_ok=True)
            asyncio.run(write(clean, arguments.partitions, arguments.segments))
        brokers = {"odradek": ours}
        if not arguments.no_kafka:
            brokers[f"Kafka {KAFKA}"] = kafkas
        times: dict[tuple[str, str], list[float]] = {}
        for _ in range(arguments.rounds):
            for kind in ("empty", *KINDS):
                for name, measure in brokers.items():
                    folder = None if kind == "empty" else root / kind
                    times.setdefault((name, kind), []).append(measure(folder, Path(made)))
        print(f"{arguments.partitions} partitions of {arguments.segments} segments, seconds")
        print(f"{'folder':18}" + "".join(f"{name:>16}{'logs':>8}" for name in brokers) + f"{'ratio':>8}")
        for kind in ("empty", *KINDS):
            row, logs = f"{kind:18}", []
            for name in brokers:
                taken = statistics.median(times[name, kind])
                logs.append(taken - statistics.median(times[name, "empty"]))
                row += f"{taken:16.2f}{logs[-1]:8.2f}"
            if len(logs) > 1 and logs[1] > 0:
                row += f"{logs[0] / logs[1]:8.2f}"
            bar = BARS.get(kind)
            print(row + (f"  (bar: {bar:g} s)" if bar else ""))


if __name__ == "__main__":
    main()
