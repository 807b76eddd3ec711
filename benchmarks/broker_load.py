"""The brokers under the load generator, in turns, scenario by scenario."""

from __future__ import annotations

import random
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import load
from benchmarks.peers import BROKERS, FLOOR, KAFKA, KFAKE, OURS, ROOT, WITH_FLOOR, Peer, running
from benchmarks.results import Measure, Outcome
from benchmarks.sections import Context
from odradek.records.builder import build_batch
from odradek.records.compression import Codec

LABELS = {
    "requests_per_s": ("requests/s", False),
    "mb_per_s": ("MB/s", False),
    "cpu_us_per_request": ("CPU µs per request", True),
    "cpu_s_per_gib": ("CPU s per GiB", True),
    "cpu_s_per_100k": ("CPU s per 100,000 requests", True),
    "p50_ms": ("p50 ms", True),
    "p99_ms": ("p99 ms", True),
    "p999_ms": ("p99.9 ms", True),
    "server_rss_mib": ("resident MiB", True),
}
WARMUP_S = {KAFKA: 5.0}
FIRST_WARMUP_S = {KAFKA: 12.0}
"""Seconds of the discarded round of each scenario, and of a section's first: a JVM compiles while it runs."""


@dataclass(frozen=True)
class Scenario:
    """A case: the generator's mode and options, what of its figures is shown, and what was promised.

    `fill` are the options of a produce run that fills the topic once, before anything is measured. `own_bars`
    are promises by another case of the same section, as `bars` are by contender. `absent` names contenders
    that cannot do it.
    """

    case: str
    mode: str
    options: dict[str, object]
    shown: tuple[str, ...]
    bars: dict[str, dict[str, float]] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)
    fill: dict[str, object] = field(default_factory=dict)
    own_bars: dict[str, dict[str, float]] = field(default_factory=dict)
    absent: tuple[str, ...] = ()


RATE = ("requests_per_s", "cpu_us_per_request", "p50_ms", "p99_ms")
BYTES = ("mb_per_s", "cpu_us_per_request", "cpu_s_per_gib", "p99_ms", "server_rss_mib")
ONE = {"records": 1, "record_bytes": 100}
FOUR_BY_FIVE = {"connections": 4, "in_flight": 5, "partitions": 8}
FULL = FOUR_BY_FIVE | {"batch_bytes": 16_384, "requests": 8_192, "warmup": 0}


def _bars(requests: dict[str, float], cpu: dict[str, float]) -> dict[str, dict[str, float]]:
    return {"requests_per_s": requests, "cpu_us_per_request": cpu}


SCENARIOS: dict[str, tuple[str, list[Scenario]]] = {
    "small": (
        "One record of 100 B per produce request",
        [
            Scenario("1 connection, 1 in flight", "produce", ONE, RATE),
            Scenario(
                "1 connection, 5 in flight",
                "produce",
                ONE | {"in_flight": 5},
                RATE,
                _bars({KAFKA: 4.0, KFAKE: 1.3}, {FLOOR: 2.0, KAFKA: 0.2, KFAKE: 0.7}),
            ),
            Scenario(
                "100 connections, 1 in flight each",
                "produce",
                ONE | {"connections": 100},
                RATE,
                _bars({KAFKA: 1.0, KFAKE: 1.0}, {FLOOR: 2.0, KAFKA: 0.6, KFAKE: 0.9}),
            ),
        ],
    ),
    "produce": (
        "Produce, batches of 16 KiB (147 × 100 B), 4 connections, 5 in flight, 8 partitions",
        [
            Scenario(
                "acks=1",
                "produce",
                FOUR_BY_FIVE,
                BYTES,
                {"mb_per_s": {KAFKA: 1.5}, "cpu_us_per_request": {KAFKA: 0.4, FLOOR: 1.4}},
            ),
            *(
                Scenario(
                    case,
                    "produce",
                    FOUR_BY_FIVE | {"acks": -1} | options,
                    BYTES,
                    own_bars={"cpu_us_per_request": {"acks=1": 1.1}},
                    absent=(FLOOR,) if "transactional" in options else (),
                )
                for case, options in (
                    ("acks=all", {}),
                    ("acks=all, idempotent", {"idempotent": 1}),
                    ("acks=all, transactional", {"transactional": 1}),
                )
            ),
        ],
    ),
    "compressed": (
        "Produce, the same 147 records compressed, 4 connections, 5 in flight, 8 partitions",
        [
            Scenario(
                codec,
                "produce",
                FOUR_BY_FIVE | {"codec": codec},
                RATE,
                _bars({KAFKA: 1.5}, {KAFKA: 0.4}),
            )
            for codec in ("lz4", "zstd", "gzip", "snappy")
        ],
    ),
    "large": (
        "Produce, large batches of 1 KiB records, 4 connections, 5 in flight, 8 partitions",
        [
            Scenario(
                f"batches of {label}",
                "produce",
                FOUR_BY_FIVE | {"batch_bytes": size, "record_bytes": 1024},
                BYTES,
                {"mb_per_s": {KAFKA: 1.2}, "cpu_us_per_request": {FLOOR: 1.1}},
            )
            for label, size in (("512 KiB", 512 << 10), ("1 MiB", 1 << 20))
        ],
    ),
    "partitions": (
        "Produce, 50 partitions × 1 record of 100 B per request, 4 connections, 5 in flight",
        [
            Scenario(
                "50 partitions per request",
                "produce",
                ONE | FOUR_BY_FIVE | {"partitions": 50, "per_request": 50},
                RATE,
                _bars({KAFKA: 2.5, KFAKE: 1.2}, {FLOOR: 2.0, KAFKA: 0.3, KFAKE: 0.7}),
            )
        ],
    ),
    "fetch": (
        "Fetch from the page cache, 8 partitions",
        [
            Scenario(
                "2 × 1 MiB per response, 4 connections",
                "fetch",
                {"connections": 4, "partitions": 8, "per_request": 2, "max_bytes": 1 << 20},
                BYTES,
                {"mb_per_s": {KAFKA: 1.0}, "cpu_s_per_gib": {KAFKA: 1.0}},
                fill=FULL,
            ),
            Scenario(
                "16 KiB per response, 4 connections",
                "fetch",
                {"connections": 4, "partitions": 8, "max_bytes": 16_384},
                BYTES,
                fill=FULL,
            ),
            Scenario(
                "at most 1,000 B per response, 1 connection",
                "fetch",
                {"max_bytes": 1_000},
                RATE,
                _bars({KAFKA: 1.5}, {KAFKA: 0.4}),
                fill=ONE | {"requests": 20_000, "in_flight": 5, "warmup": 0},
            ),
            Scenario(
                "at most 1,000 B per response, 100 connections",
                "fetch",
                {"max_bytes": 1_000, "connections": 100},
                RATE,
                _bars({KAFKA: 1.5}, {KAFKA: 0.4}),
                fill=ONE | {"requests": 20_000, "in_flight": 5, "warmup": 0},
            ),
        ],
    ),
    "latency": (
        "End to end: one record of 100 B, from its produce to the long poll that returns it",
        [
            Scenario(
                "one at a time",
                "latency",
                ONE,
                ("p50_ms", "p99_ms", "p999_ms", "requests_per_s", "cpu_us_per_request"),
                {"p50_ms": {KAFKA: 1.0}, "p99_ms": {KAFKA: 1.0}, "cpu_us_per_request": {KAFKA: 0.4}},
            )
        ],
    ),
    "connections": (
        "5,000 connections, a Metadata request a second on each",
        [
            Scenario(
                "5,000 connections",
                "metadata",
                {"connections": 5_000, "interval_ms": 1_000},
                ("requests_per_s", "p50_ms", "p99_ms", "p999_ms", "cpu_us_per_request", "server_rss_mib"),
                {"p99_ms": {KAFKA: 1.0}},
                {"server_rss_mib": 300.0},
            )
        ],
    ),
}


def compressed_batch(codec: str) -> Path:
    """A file with one batch of 147 records of 100 B, as compressible as the load generator's own."""
    rng = random.Random(16)
    now_ms = time.time_ns() // 1_000_000
    values = [bytes(rng.choices(range(33, 123), k=100)) for _ in range(147)]
    batch = build_batch([(now_ms, None, value, ()) for value in values], codec=Codec[codec.upper()])
    path = ROOT / "build" / f"{codec}.batch"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(batch)
    return path


class Case:
    """A scenario on some brokers."""

    def __init__(self, scenario: Scenario, peers: dict[str, Peer], context: Context, number: int) -> None:
        self.scenario = scenario
        self.peers = {name: peer for name, peer in peers.items() if name not in scenario.absent}
        self.context = context
        self.topic = f"case-{number}"
        self.first = number == 0
        self.figures: dict[str, list[dict[str, Any]]] = {}
        self._runs = 0

    def measure(self, skipped: dict[str, str]) -> list[Measure]:
        """Fill, warm up, and take turns; a broker that fails leaves, with its reason in `skipped`."""
        for number in range(-1, self.context.rounds):
            for name in [name for name in self.peers if name not in skipped]:
                try:
                    self._turn(name, number)
                except load.LoadFailedError as error:
                    skipped[name] = f"{self.scenario.case}: {error}"
                    self.context.say(f"{name} LEAVES: {error}")
        if self.scenario.fill:
            for name in [name for name in self.peers if name not in skipped]:
                load.run("metadata", **self._at(name), topic=self.topic, seconds=0.1, warmup=0, delete=1)
        return self._measures()

    def _at(self, name: str) -> dict[str, object]:
        peer = self.peers[name]
        return {"port": peer.port, "pid": peer.pid, "partitions": self.scenario.options.get("partitions", 1)}

    def _turn(self, name: str, number: int) -> None:
        scenario, context = self.scenario, self.context
        warming = number < 0
        if warming and scenario.fill:
            load.run("produce", **self._at(name) | scenario.fill, topic=self.topic)
        topic = self.topic if scenario.fill else f"{self.topic}-{self._runs}"
        self._runs += 1
        given = dict(scenario.options)
        codec = given.pop("codec", None)
        if codec is not None:
            given["batch_file"] = compressed_batch(str(codec))
        seconds = self._warmup_s(name) if warming else context.seconds
        options = self._at(name) | given | {"topic": topic, "seconds": seconds, "delete": not scenario.fill}
        figures = load.run(scenario.mode, **options, warmup=0.5)
        if warming:
            return
        if "cpu_us_per_request" not in figures:
            raise load.LoadFailedError(f"no request was answered within {seconds:g} s")
        figures["cpu_s_per_100k"] = figures["cpu_us_per_request"] / 10
        self.figures.setdefault(name, []).append(figures)
        words = ", ".join(f"{figures[key]:,.4g} {LABELS[key][0]}" for key in scenario.shown)
        context.say(f"{scenario.case}, round {number + 1}, {name}: {words}")

    def _warmup_s(self, name: str) -> float:
        if self.context.quick:
            return 1.0
        return (FIRST_WARMUP_S if self.first else WARMUP_S).get(name, 1.0)

    def _measures(self) -> list[Measure]:
        measures = []
        for key in self.scenario.shown:
            label, less = LABELS[key]
            values = {name: [one[key] for one in all_of] for name, all_of in self.figures.items()}
            bars = self.scenario.bars.get(key, {})
            limit, own_bars = self.scenario.limits.get(key), self.scenario.own_bars.get(key, {})
            measures.append(Measure(self.scenario.case, label, values, less, bars, limit, own_bars))
        return measures

    def disturbance(self) -> list[float]:
        """Of each measurement the part of one processor that others than load and broker used."""
        return [one["other_cpu_s"] / one["seconds"] for all_of in self.figures.values() for one in all_of]


def run(name: str, context: Context) -> Outcome:
    """One section of `SCENARIOS`: all brokers run, and one at a time has work."""
    title, scenarios = SCENARIOS[name]
    skipped: dict[str, str] = {}
    measures: list[Measure] = []
    others: list[float] = []
    peers_of = WITH_FLOOR if all(one.mode == "produce" for one in scenarios) else BROKERS
    with running(list(peers_of), skipped) as peers:
        for number, scenario in enumerate(scenarios):
            case = Case(scenario, peers, context, number)
            measures += case.measure(skipped)
            others += case.disturbance()
        versions = {who: peer.version for who, peer in peers.items()}
    if OURS in skipped:
        raise RuntimeError(f"{OURS} failed: {skipped[OURS]}")
    settings = {"rounds": context.rounds, "seconds each": context.seconds}
    notes = []
    if others:
        used, worst = statistics.median(others), max(others)
        notes.append(
            f"Other processes and the hypervisor took {used:.2f} of a processor, {worst:.2f} at most."
        )
    return Outcome(name, title, list(peers_of), versions, measures, settings, notes, skipped)
