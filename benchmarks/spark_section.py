"""The sections of Spark: our data source beside `spark-sql-kafka-0-10`, as `spark_peers` measures it."""

from __future__ import annotations

import argparse
import statistics
import sys
from importlib.metadata import version
from pathlib import Path

from benchmarks import spark_peers
from benchmarks.results import Measure, Outcome
from benchmarks.sections import Context
from benchmarks.spark_load import CONNECTOR

CONTENDERS = ["odradek", "connector", "connector, tuned"]
OTHERS = {
    "spark-recent": ["odradek", "connector", "connector, startingTimestamp"],
    "spark-latency": ["odradek, joined", "odradek", "connector", "connector, tuned"],
    "spark-latency-10k": ["odradek, joined", "odradek", "connector", "connector, tuned"],
}
"""The contenders of sections that have others."""
TITLES = {
    "spark-read": "Spark: batch read, all columns, discarded",
    "spark-map": "Spark: batch read through mapInArrow, all columns, discarded",
    "spark-write": "Spark: write",
    "spark-exactly-once": "Spark: write, ours exactly once, the connector at least once",
    "spark-recent": "Spark: the last 1 % of a topic by time, counted",
    "spark-latency": "Spark: topic to topic, 100 records a second",
    "spark-latency-10k": "Spark: topic to topic, 10,000 records a second",
}
BARS = {
    "spark-read": {"connector": 2.5, "connector, tuned": 2.2},
    "spark-map": {"connector": 2.0},
    "spark-write": {"connector": 2.0},
    "spark-exactly-once": {"connector": 1.9},
    "spark-recent": {"connector": 20.0},
    "spark-latency": {"connector, tuned": 0.8},
    "spark-latency-10k": {"connector, tuned": 0.8},
}


def run(name: str, context: Context) -> Outcome:
    """One scenario: a session and a broker of its own, the contenders in turns."""
    contenders = OTHERS.get(name, CONTENDERS)
    versions = {who: version("odradek") if "odradek" in who else CONNECTOR[0][2] for who in contenders}
    versions["pyspark"] = version("pyspark")
    skipped = missing()
    if skipped:
        return Outcome(name, TITLES[name], contenders, versions, [], skipped={"connector": skipped})
    latency = name.startswith("spark-latency")
    args = argparse.Namespace(
        scenario="latency" if latency else name.removeprefix("spark-"),
        rows=300_000 if context.quick else 20_000_000 if name == "spark-recent" else 2_000_000,
        rate=10_000 if name.endswith("-10k") else 100,
        size=100,
        runs=context.rounds,
        seconds=3 if context.quick else 10,
        warm=3 if context.quick else 20,
        plain=False,
        who=None,
        only=None,
    )
    found = spark_peers.measure(args)
    settings = {"partitions": spark_peers.PARTITIONS, "value bytes": args.size, "master": "local[2]"}
    if latency:
        settings |= {"seconds": args.seconds, "seconds of warming up": args.warm, "rounds": args.runs}
        measures = _latency(found, BARS[name])
    else:
        settings |= {"rows": args.rows, "rounds": args.runs}
        rate = Measure("100 B records", "rows/s", found.rates, bars=BARS[name])
        cpu = Measure("100 B records", "CPU s per 1,000,000 rows", found.cpu, less_is_better=True)
        measures = [rate, cpu]
    for measure in measures:
        shown = {who: f"{statistics.median(values):,.2f}" for who, values in measure.values.items()}
        context.say(f"{measure.name}: {shown}")
    return Outcome(name, TITLES[name], contenders, versions, measures, settings)


def _latency(found: dict[str, list[spark_peers.Latency]], bars: dict[str, float]) -> list[Measure]:
    names = ("p50 ms", "p99 ms", "CPU s per second")
    return [
        Measure(
            "record to copy",
            name,
            {who: [float(one[index]) for one in figures] for who, figures in found.items()},
            less_is_better=True,
            # The CPU of the connector's, at the most.
            bars=bars if index < 2 else dict.fromkeys(bars, 1.0),
        )
        for index, name in enumerate(names)
    ]


def missing() -> str | None:
    """Why the connector cannot run here; None where it can."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from interop import kafka_peer

    return kafka_peer.missing_toolchain()
