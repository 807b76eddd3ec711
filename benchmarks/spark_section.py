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
TITLES = {
    "spark-read": "Spark: batch read, all columns, discarded",
    "spark-map": "Spark: batch read through mapInArrow, all columns, discarded",
    "spark-write": "Spark: write",
    "spark-exactly-once": "Spark: write, ours exactly once, the connector at least once",
    "spark-latency": "Spark: topic to topic, 100 records a second",
}
BARS = {
    "spark-read": {"connector": 2.0, "connector, tuned": 1.0},
    "spark-map": {"connector": 2.0, "connector, tuned": 1.5},
    "spark-write": {"connector": 1.5, "connector, tuned": 1.0},
    "spark-exactly-once": {"connector": 1.0, "connector, tuned": 1.0},
    "spark-latency": {"connector, tuned": 1.0},
}


def run(name: str, context: Context) -> Outcome:
    """One scenario: a session and a broker of its own, the contenders in turns."""
    versions = {"odradek": version("odradek"), "connector": CONNECTOR[0][2], "pyspark": version("pyspark")}
    versions["connector, tuned"] = versions["connector"]
    missing = _missing()
    if missing:
        return Outcome(name, TITLES[name], CONTENDERS, versions, [], skipped={"connector": missing})
    args = argparse.Namespace(
        scenario=name.removeprefix("spark-"),
        rows=300_000 if context.quick else 2_000_000,
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
    if name == "spark-latency":
        settings |= {"seconds": args.seconds, "seconds of warming up": args.warm}
        measures = _latency(found, BARS[name])
    else:
        settings |= {"rows": args.rows, "rounds": args.runs}
        rate = Measure("100 B records", "rows/s", found.rates, bars=BARS[name])
        cpu = Measure("100 B records", "CPU s per 1,000,000 rows", found.cpu, less_is_better=True)
        measures = [rate, cpu]
    for measure in measures:
        shown = {who: f"{statistics.median(values):,.2f}" for who, values in measure.values.items()}
        context.say(f"{measure.name}: {shown}")
    return Outcome(name, TITLES[name], CONTENDERS, versions, measures, settings)


def _latency(found: dict[str, tuple[int, int, float]], bars: dict[str, float]) -> list[Measure]:
    names = ("p50 ms", "p99 ms", "CPU s per second")
    return [
        Measure(
            "record to copy",
            name,
            {who: [float(figures[index])] for who, figures in found.items()},
            less_is_better=True,
            bars=bars if index == 0 else {},
        )
        for index, name in enumerate(names)
    ]


def _missing() -> str | None:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from interop import kafka_peer

    return kafka_peer.missing_toolchain()
