"""Soak a broker: everything at once, for long; memory, descriptors and latencies have to stay as they are.

    make soak                       an hour
    make soak SOAK_MINUTES=5        shorter
    python -m benchmarks.soak --minutes 5 --rate 0.5 --types

A broker in its own process gets: small frames of the common kinds, plain and idempotent producers in all
codecs, consumers with fetch sessions, group members that join, commit and leave, topics that are created,
written to and deleted, connections that come and go in every way; retention cuts logs of small segments.
Every few seconds a sample is taken. At the end a table says what was found and what the bounds are; the exit
code is 1 when one is passed. Samples are written to `samples.csv` and plotted in `soak.png`.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.soak.load import KINDS, Load
from benchmarks.soak.verdict import MOST_RSS_MIB, Line, judge, percentile

SETTINGS = (
    "log.retention.check.interval.ms=5000",
    "offsets.topic.num.partitions=5",
    "offsets.topic.segment.bytes=1048576",
    "group.initial.rebalance.delay.ms=100",
    "max.incremental.fetch.session.cache.slots=200",
)


class BrokerProcess:
    """The broker of `benchmarks.soak.broker`, seen from outside."""

    def __init__(
        self, data: Path, log: Path, *, trace: bool = False, settings: Sequence[str] = SETTINGS
    ) -> None:
        environment = {**os.environ, "PYTHONTRACEMALLOC": "1"} if trace else None
        command = [sys.executable, "-m", "benchmarks.soak.broker", str(data), *settings]
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment
            )
        word, _, address = self._line().partition(" ")
        if word != "ready":
            raise RuntimeError(f"the broker did not start, see {log}")
        self.address = address
        self.pid = self._process.pid

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().decode().strip()

    def ask(self, question: str) -> dict[str, Any]:
        """Ask it."""
        assert self._process.stdin is not None
        self._process.stdin.write(question.encode() + b"\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._line())
        return answer

    def outside(self) -> dict[str, float]:
        """Memory, descriptors, threads and processor time, as the system sees them."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8")
        fields = dict(line.split(":", 1) for line in status.splitlines())
        times = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return {
            "rss_mib": int(fields["VmRSS"].split()[0]) / 1024,
            "threads": int(fields["Threads"]),
            "files": len(os.listdir(f"/proc/{self.pid}/fd")),  # noqa: PTH208 - names are all that is wanted
            "cpu_s": (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK"),
        }

    def stop(self) -> int:
        """End it in good order; its exit code."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def sample(broker: BrokerProcess, load: Load, began: float) -> dict[str, float]:
    """One row."""
    row = {"s": time.monotonic() - began, **broker.outside()}
    inside = broker.ask("sample")
    row["stalls"] = inside.get("EventLoop.StallCount", 0)
    row["starved_stalls"] = inside.get("EventLoop.StarvedStallCount", 0)
    row["stall_ms_max"] = inside.get("EventLoop.StallTimeMsMax", 0)
    for generation in "012":
        row[f"gc{generation}"] = inside[f"GarbageCollector.Count.{generation}"]
        row[f"gc{generation}_ms_max"] = inside[f"GarbageCollector.TimeMsMax.{generation}"]
    row["gc_collected"] = inside["GarbageCollector.CollectedObjects"]
    row["sessions"] = inside["FetchSessionCache.NumIncrementalFetchSessions"]
    row["waiting"] = inside["DelayedOperationPurgatory.PurgatorySize"]
    row["partitions"] = inside["ReplicaManager.PartitionCount"]
    for kind, values in load.latencies.take().items():
        row[f"{kind}_n"] = len(values)
        row[f"{kind}_p50_ms"] = percentile(values, 0.5)
        row[f"{kind}_p99_ms"] = percentile(values, 0.99)
    return row


def write_samples(path: Path, rows: list[dict[str, float]]) -> None:
    """As CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows({name: round(value, 3) for name, value in row.items()} for row in rows)


def plot(path: Path, rows: list[dict[str, float]]) -> None:
    """Memory, descriptors and latencies over time; nothing where there is no matplotlib."""
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    minutes = [row["s"] / 60 for row in rows]
    figure, axes = pyplot.subplots(3, 1, figsize=(10, 11), sharex=True)
    axes[0].plot(minutes, [row["rss_mib"] for row in rows])
    axes[0].set_ylabel("resident memory, MiB")
    axes[0].set_ylim(0, max(MOST_RSS_MIB, *(row["rss_mib"] for row in rows)) * 1.05)
    axes[0].axhline(MOST_RSS_MIB, linestyle=":", color="grey")
    for name in ("files", "threads", "sessions", "waiting"):
        axes[1].plot(minutes, [row[name] for row in rows], label=name)
    axes[1].set_ylabel("number")
    axes[1].legend()
    for kind in KINDS:
        axes[2].plot(minutes, [row[f"{kind}_p99_ms"] for row in rows], label=kind)
    axes[2].set_ylabel("p99, ms")
    axes[2].set_yscale("log")
    axes[2].set_xlabel("minutes")
    axes[2].legend(ncols=4, fontsize="small")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def show(lines: list[Line], load: Load, rows: list[dict[str, float]]) -> None:
    """Print what was done and what was found."""
    for name, number in sorted(load.done.items()):
        print(f"  {name:<34} {number:>10}")
    cpu = (rows[-1]["cpu_s"] - rows[0]["cpu_s"]) / (rows[-1]["s"] - rows[0]["s"])
    print(f"  {'broker, share of a processor':<34} {cpu:>10.1%}")
    print(f"\n  {'':<2} {'':<40} {'found':<26} {'at most'}")
    for line in lines:
        print(f"  {'ok' if line.well else '--'} {line.subject:<40} {line.found:<26} {line.bound}")
    if load.last_failure:
        print(f"\n  the last failure: {load.last_failure}")


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=float, default=1.0, help="1 is 2,000 records, 250 requests a second")
    parser.add_argument("--every", type=float, default=5, help="seconds between samples")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--out", type=Path, default=Path("build/soak"))
    parser.add_argument(
        "--types", action="store_true", help="count objects by type after the warm-up and at the end"
    )
    parser.add_argument("--cycles", action="store_true", help="say what only the collector could free")
    parser.add_argument("--trace", action="store_true", help="and where their memory was taken (slow)")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    print(f"soak: {options.minutes:g} minutes, seed {options.seed}, results in {options.out}", flush=True)
    rows: list[dict[str, float]] = []
    types: list[tuple[dict[str, Any], dict[str, Any]]] = []
    with tempfile.TemporaryDirectory(prefix="odradek-soak-") as folder:
        broker = BrokerProcess(Path(folder) / "data", options.out / "broker.log", trace=options.trace)
        load = Load(broker.address, options.rate, options.seed)
        try:
            load.start()
            if options.cycles:
                broker.ask("cycles")
            began = time.monotonic()
            while time.monotonic() - began < options.minutes * 60:
                time.sleep(options.every)
                rows.append(sample(broker, load, began))
                write_samples(options.out / "samples.csv", rows)
                if options.types and not types and rows[-1]["s"] > options.minutes * 20:
                    types.append((broker.ask("types"), broker.ask("memory")))
            if options.types:
                types.append((broker.ask("types"), broker.ask("memory")))
            if options.cycles:
                for name, (number, holders) in broker.ask("cycles").items():
                    print(f"  {number:>7} {name:<60} held by {holders}")
            load.stop()
        finally:
            code = broker.stop()
    if len(types) == 2:
        show_types(types)
    failures = {part: load.failures[part] for part in sorted(load.failures)} | {"exit code": code}
    lines = judge(rows, KINDS, failures)
    show(lines, load, rows)
    plot(options.out / "soak.png", rows)
    return 0 if all(line.well for line in lines) else 1


def show_types(types: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    """What there is more of at the end than after the warm-up."""
    (before, _), (after, memory) = types
    for name in sorted(after, key=lambda one: before.get(one, 0) - after[one])[:25]:
        if after[name] > before.get(name, 0):
            print(f"  {name:<60} {before.get(name, 0):>8} → {after[name]:>8}")
    for line, (size, count) in memory.items():
        print(f"  {size:>+12} B {count:>+8} {line}")
    print()


if __name__ == "__main__":
    sys.exit(main())
