"""Three brokers, three replicas, acks=all: what a request costs.

One cluster runs at a time, in turns, round by round: three brokers of each would leave the machine no room.
All partitions of a topic are led by one broker, as the load generator has one broker's connections; the CPU
is that of all three.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from benchmarks import load
from benchmarks.clusters import CLUSTERS, KAFKA_KRAFT, KAFKA_ZK, OURS, Cluster, in_turns
from benchmarks.results import Measure, Outcome
from benchmarks.sections import Context

LEADER = 1
WARMUP_S = {OURS: 1.0}
JVM_WARMUP_S = 8.0

CASES: list[tuple[str, dict[str, object], dict[str, tuple[str, bool]]]] = [
    (
        "one record of 100 B per request, 4 connections, 5 in flight",
        {"records": 1, "record_bytes": 100, "connections": 4, "in_flight": 5, "partitions": 8, "acks": -1},
        {
            "requests_per_s": ("requests/s", False),
            "cpu_us_per_request": ("CPU µs per request, all brokers", True),
            "p50_ms": ("p50 ms", True),
            "p99_ms": ("p99 ms", True),
        },
    ),
    (
        "idempotent batches of 16 KiB, 4 connections, 5 in flight",
        {
            "batch_bytes": 16_384,
            "connections": 4,
            "in_flight": 5,
            "partitions": 8,
            "acks": -1,
            "idempotent": True,
        },
        {
            "mb_per_s": ("MB/s", False),
            "cpu_s_per_gib": ("CPU s per GiB, all brokers", True),
            "p99_ms": ("p99 ms", True),
        },
    ),
]
BARS: dict[str, dict[str, float]] = {
    "requests/s": {KAFKA_KRAFT: 2.0, KAFKA_ZK: 2.0},
    "p50 ms": {KAFKA_KRAFT: 1.0, KAFKA_ZK: 1.0},
    "p99 ms": {KAFKA_KRAFT: 1.0, KAFKA_ZK: 1.0},
    "MB/s": {KAFKA_KRAFT: 2.0, KAFKA_ZK: 2.0},
    "CPU s per GiB, all brokers": {KAFKA_KRAFT: 0.5, KAFKA_ZK: 0.5},
}
_topics = count()


def run(name: str, context: Context) -> Outcome:
    """All cases on each cluster, in turns."""
    measures: dict[tuple[str, str], Measure] = {}

    def measure(number: int, cluster: Cluster) -> None:
        for case, label, less, value in _loads(cluster, context):
            bars = BARS.get(label, {})
            one = measures.setdefault((case, label), Measure(case, label, {}, less, dict(bars)))
            one.values.setdefault(cluster.name, []).append(value)
            context.say(f"round {number}: {cluster.name}: {case}: {value:,.4g} {label}")

    versions, skipped = in_turns(dict.fromkeys(CLUSTERS, context.rounds), measure)
    settings = {"rounds": context.rounds, "seconds each": context.seconds}
    return Outcome(
        name,
        "Three brokers, three replicas, acks=all, min.insync.replicas=2",
        list(CLUSTERS),
        versions,
        list(measures.values()),
        settings,
        skipped=skipped,
    )


def _loads(cluster: Cluster, context: Context) -> list[tuple[str, str, bool, float]]:
    found = []
    warmup_s = 1.0 if context.quick else WARMUP_S.get(cluster.name, JVM_WARMUP_S)
    for case, options, shown in CASES:
        topic = f"load-{next(_topics)}"
        cluster.create_topic(topic, int(str(options["partitions"])), LEADER)
        at: dict[str, Any] = {"port": cluster.ports[LEADER], "pid": list(cluster.pids.values())}
        load.run("produce", **at | options, topic=topic, seconds=warmup_s, warmup=0)
        figures = load.run("produce", **at | options, topic=topic, seconds=context.seconds, warmup=0.5)
        found += [(case, label, less, float(figures[key])) for key, (label, less) in shown.items()]
    return found
