"""Which settings of the garbage collector serve a broker best: latencies of small produces, and its pauses.

    python -m benchmarks.collector_settings [--seconds N] [--only 700,10,10]

A broker is given much to keep: topics, groups with offsets, idle connections. Then records are produced one
by one over one connection, five in flight, while others ask what makes many objects: metadata of many topics,
offsets of groups, long polls, connections that come and go.
"""

from __future__ import annotations

import argparse
import random
import socket
import tempfile
import threading
from pathlib import Path

from benchmarks import load
from benchmarks.soak.__main__ import BrokerProcess
from benchmarks.soak.load import Raw
from odradek import Admin, NewTopic
from odradek.wire.api import ApiKey
from odradek.wire.messages import fetch, metadata, offset_commit, offset_fetch

SETTINGS = ("700,10,10", "5000,10,10", "10000,10,20", "50000,20,50", "off")
TOPICS, PARTITIONS, GROUPS, CONNECTIONS = 200, 3, 300, 1_000


def fill(broker: BrokerProcess, address: tuple[str, int]) -> list[socket.socket]:
    """Give it what it has to keep; returns the idle connections."""
    names = [f"kept-{number}" for number in range(TOPICS)]
    with Admin(bootstrap_servers=broker.address) as admin:
        for start in range(0, TOPICS, 50):
            admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names[start : start + 50]])
    raw = Raw(address)
    commit_part = offset_commit.OffsetCommitRequestPartition
    for number in range(GROUPS):
        parts = [commit_part(partition_index=i, committed_offset=7) for i in range(PARTITIONS)]
        topics = [offset_commit.OffsetCommitRequestTopic(name=name, partitions=parts) for name in names[:10]]
        request = offset_commit.OffsetCommitRequest(group_id=f"kept-{number}", topics=topics)
        raw.call(ApiKey.OFFSET_COMMIT, 5, request)
    raw.close()
    return [socket.create_connection(address) for _ in range(CONNECTIONS)]


def ask(address: tuple[str, int], stop: threading.Event) -> None:
    """Questions that make many objects, some 200 a second."""
    rng = random.Random(1)
    raw = Raw(address)
    while not stop.wait(0.01):
        topics = [metadata.MetadataRequestTopic(name=f"kept-{rng.randrange(TOPICS)}") for _ in range(50)]
        raw.call(ApiKey.METADATA, 9, metadata.MetadataRequest(topics=topics))
        group = offset_fetch.OffsetFetchRequest(group_id=f"kept-{rng.randrange(GROUPS)}", topics=None)
        raw.call(ApiKey.OFFSET_FETCH, 5, group)
        part = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        wanted = [fetch.FetchTopic(topic=f"kept-{rng.randrange(TOPICS)}", partitions=[part])]
        raw.call(ApiKey.FETCH, 11, fetch.FetchRequest(max_wait_ms=1, min_bytes=1, topics=wanted))
        Raw(address).close()
    raw.close()


def measure(setting: str, seconds: float, data: Path) -> None:
    """One line."""
    broker = BrokerProcess(data / "data", data / "log", settings=(f"gc={setting}", "num.partitions=1"))
    try:
        host, _, port = broker.address.rpartition(":")
        address = (host, int(port))
        idle = fill(broker, address)
        before = broker.ask("sample")
        stop = threading.Event()
        asking = threading.Thread(target=ask, args=(address, stop), daemon=True)
        asking.start()
        found = load.run(
            "produce", port=port, pid=broker.pid, connections=1, in_flight=5, records=1, seconds=seconds
        )
        stop.set()
        asking.join()
        after = broker.ask("sample")
        kind = "GarbageCollector"
        pauses = "  ".join(
            f"gen {g}: {after[f'{kind}.Count.{g}'] - before[f'{kind}.Count.{g}']:>4.0f} × "
            f"≤ {after[f'{kind}.TimeMsMax.{g}']:>6.2f} ms"
            for g in range(3)
        )
        print(
            f"{setting:<12} {found['requests_per_s']:>8.0f} req/s  p50 {found['p50_ms']:.3f}  "
            f"p99 {found['p99_ms']:.3f}  p99.9 {found['p999_ms']:.3f}  max {found['max_ms']:.1f} ms  "
            f"{pauses}  "
            f"freed {after[f'{kind}.CollectedObjects'] - before[f'{kind}.CollectedObjects']:.0f}  "
            f"{broker.outside()['rss_mib']:.0f} MiB",
            flush=True,
        )
        for one in idle:
            one.close()
    finally:
        broker.stop()


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--only", action="append")
    options = parser.parse_args()
    memory = Path("/dev/shm")
    for setting in options.only or SETTINGS:
        with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as data:
            measure(setting, options.seconds, Path(data))


if __name__ == "__main__":
    main()
