"""Our data source beside `spark-sql-kafka-0-10`, on one broker of ours and one topic, in one session.

    python -m benchmarks.spark_peers read|recent|map|write|exactly-once|latency|more [--rows 2000000]
        [--runs 3] [--size 100]

Each scenario runs the connector with its defaults, the connector tuned, and ours in turns, after a run of
each that warms up; the table has medians, the ratio to the connector, and the CPU seconds per million rows of
the JVM, of Spark's Python processes and of the broker. The session is `local[2]` with the settings of
`odradek.spark.session`, which the connector profits from too; `--plain` takes Spark's own settings instead.

    read     all columns, discarded
    recent   how many records the last 1 % by time are: with a filter, and as the options allow it
    map      all columns through `mapInArrow`, discarded
    write    rows with a key of 8 bytes, from memory
    exactly-once  the same, ours exactly once and the connector at least once, which is all it has
    latency  topic to topic, --rate records a second: from a record's time in the one topic to the other's
    more     session start and first query, count(), headers, toArrow(), toPandas()
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.spark_load import (
    AVRO,
    CONNECTOR,
    BrokerProcess,
    CpuClock,
    fill,
    fill_by_time,
    make_topics,
    produce_at_rate,
)

PARTITIONS = 4
SOURCE = "benchmark"
JOINED = "odradek, joined"
READERS = {"connector": "kafka", "connector, tuned": "kafka", "odradek": "odradek", JOINED: "odradek"}
TUNED_READ = {
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.receive.buffer.bytes": str(1 << 20),
    "kafka.check.crcs": "false",
}
JOINED_READ = {"minRecordsPerPartition": "5000"}
"""Ours, tuned for latency: one task for a small micro-batch."""
TUNED_WRITE = {"kafka.linger.ms": "20", "kafka.batch.size": str(256 << 10)}


class Compared(NamedTuple):
    """By contender, one figure per round: rows per second; CPU seconds of all processes per million rows."""

    rates: dict[str, list[float]]
    cpu: dict[str, list[float]]


class Bench:
    """A session, a broker, and a topic that is full."""

    def __init__(self, args: argparse.Namespace, broker: BrokerProcess) -> None:
        sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
        from interop import kafka_peer

        self.args = args
        self.broker = broker
        self.start_ms = 0
        # Sections of one run share a JVM, which keeps to the jars of its first session.
        parts = {"spark-connector": CONNECTOR, "spark-avro": AVRO}
        found = [kafka_peer.resolve(name, parts[name], transitive=False) for name in parts]
        jars = ",".join(str(jar) for folder in found for jar in folder.glob("*.jar"))
        began = time.perf_counter()
        if args.plain:
            from pyspark.sql import SparkSession

            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            builder = SparkSession.builder.master("local[2]").config("spark.jars", jars)
            self.spark = builder.config("spark.ui.enabled", "false").getOrCreate()
            self.spark.sparkContext.setLogLevel("OFF")
        else:
            from odradek.spark import session

            self.spark = session("benchmark", "local[2]", log_level="OFF", conf={"spark.jars": jars})
        self.start_s = time.perf_counter() - began

    def reader(self, who: str, stream: bool = False, **options: str) -> Any:
        reader = self.spark.readStream if stream else self.spark.read
        reader = reader.format(READERS[who]).option("kafka.bootstrap.servers", self.broker.servers)
        tuned = {"connector, tuned": TUNED_READ, JOINED: JOINED_READ}.get(who, {})
        return reader.options(**tuned, **options)

    def source(self, who: str, **options: str) -> Any:
        return self.reader(who, subscribe=SOURCE, **options).load()

    def compare(self, title: str, cases: dict[str, Callable[[], Any]], rows: int) -> Compared:
        """Run the cases in turns, and print."""
        cpu = CpuClock(self.broker.process.pid)
        seconds: dict[str, list[float]] = {who: [] for who in cases}
        spent: dict[str, list[list[float]]] = {who: [] for who in cases}
        for turn in range(self.args.runs + 1):
            for who, case in cases.items():
                before, began = cpu.read(), time.perf_counter()
                case()
                took, after = time.perf_counter() - began, cpu.read()
                if turn or self.args.runs == 1:
                    seconds[who].append(took)
                    spent[who].append([b - a for a, b in zip(before, after, strict=True)])
        print(f"\n{title}: {rows:,} rows, {self.args.runs} runs")
        print(
            f"{'':18} {'rows/s':>12} {'ratio':>6}   CPU s per 1,000,000 rows: JVM, Python, broker (runs, s)"
        )
        rates = {who: rows / statistics.median(times) for who, times in seconds.items()}
        first = next(iter(rates.values()))
        for who, rate in rates.items():
            cpus = [statistics.median(s[i] for s in spent[who]) * 1e6 / rows for i in range(3)]
            shown = " ".join(f"{used:8.2f}" for used in cpus)
            times = ", ".join(f"{s:.2f}" for s in seconds[who])
            print(f"{who:18} {rate:12,.0f} {rate / first:6.2f}   {shown}   ({times})", flush=True)
        return Compared(
            {who: [rows / took for took in times] for who, times in seconds.items()},
            {who: [sum(used) * 1e6 / rows for used in rounds] for who, rounds in spent.items()},
        )


def discard(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def same(batches: Any) -> Any:
    return batches


def run_read(bench: Bench) -> Compared:
    return bench.compare(
        "batch read, all columns, discarded",
        {who: lambda who=who: discard(bench.source(who)) for who in chosen(bench)},
        bench.args.rows,
    )


def run_recent(bench: Bench) -> Compared:
    """The same question to all, and once more as who knows the connector's options would ask it."""
    rows = bench.args.rows
    since_ms = bench.start_ms + rows - rows // 100

    def ask(who: str, **options: str) -> None:
        frame = bench.source(who, **options).where(f"timestamp >= timestamp_millis({since_ms})")
        found = frame.count()
        assert found == rows // 100, (who, found)

    cases = {
        "connector": lambda: ask("connector"),
        "connector, startingTimestamp": lambda: ask("connector", startingTimestamp=str(since_ms)),
        "odradek": lambda: ask("odradek", where=f"timestamp >= timestamp_millis({since_ms})"),
    }
    return bench.compare("the last 1 % by time, counted", cases, rows)


def run_map(bench: Bench) -> Compared:
    def case(who: str) -> None:
        frame = bench.source(who)
        discard(frame.mapInArrow(same, frame.schema))

    return bench.compare(
        "batch read through mapInArrow, all columns, discarded",
        {who: lambda who=who: case(who) for who in chosen(bench)},
        bench.args.rows,
    )


def run_write(bench: Bench) -> Compared:
    from pyspark.sql import functions as fn

    rows, size = bench.args.rows, bench.args.size
    made = bench.spark.range(0, rows, 1, 4).select(
        fn.lpad(fn.col("id").cast("string"), 8, "0").cast("binary").alias("key"),
        fn.lpad(fn.col("id").cast("string"), size, "x").cast("binary").alias("value"),
    )
    frame = made.cache()
    assert frame.count() == rows

    exactly_once = bench.args.scenario == "exactly-once"

    def case(who: str) -> None:
        target = f"sink-{READERS[who]}"
        writer = frame.write.format(READERS[who]).option("kafka.bootstrap.servers", bench.broker.servers)
        writer = writer.options(**TUNED_WRITE) if who == "connector, tuned" else writer
        if exactly_once and who == "odradek":
            # With a name, so that everything of a stream's batch is done.
            write_id = f"{target}-{time.monotonic_ns()}"
            writer = writer.option("deliveryGuarantee", "exactly-once").option("writeId", write_id)
        writer.option("topic", target).mode("append").save()

    make_topics(bench.broker.servers, ["sink-kafka", "sink-odradek"], PARTITIONS)
    title = "write, ours exactly once" if exactly_once else "write"
    return bench.compare(title, {who: lambda who=who: case(who) for who in chosen(bench)}, rows)


def run_more(bench: Bench) -> None:
    print(f"\nsession start {bench.start_s:.2f} s")
    for who in ("odradek", "connector"):
        began = time.perf_counter()
        discard(bench.source(who))
        print(f"first query, {who}: {time.perf_counter() - began:.2f} s")
    rows = bench.args.rows
    wanted: dict[str, Callable[[Any], Any]] = {
        "count()": lambda frame: frame.count(),
        "sum(length(value))": lambda frame: frame.selectExpr("sum(length(value))").collect(),
        "toArrow()": lambda frame: frame.toArrow(),
        "toPandas()": lambda frame: frame.toPandas(),
    }
    for title, use in wanted.items():
        if bench.args.only and bench.args.only not in title:
            continue
        cases = {who: partial(lambda use, who: use(bench.source(who)), use, who) for who in chosen(bench)}
        bench.compare(title, cases, rows)
    if not bench.args.only or bench.args.only == "headers":
        bench.compare(
            "with includeHeaders",
            {who: lambda who=who: discard(bench.source(who, includeHeaders="true")) for who in chosen(bench)},
            rows,
        )


class Latency(NamedTuple):
    """From a record to its copy: ms; CPU seconds of all processes per second."""

    p50: int
    p99: int
    cpu: float


def run_latency(bench: Bench) -> dict[str, list[Latency]]:
    """The contenders in turns; by contender one figure of each round.

    A round before them warms the JVM up for all, which compiles for a minute: who goes first pays for it.
    """
    servers, args = bench.broker.servers, bench.args
    rate = f"{args.rate:,} records a second"
    print(f"\ntopic to topic, {rate}, {PARTITIONS} partitions, {args.runs} rounds of {args.seconds} s each")
    found: dict[str, list[Latency]] = {who: [] for who in chosen(bench)}
    for turn in range(args.runs + 1):
        for who, figures in found.items():
            name = f"{who.replace(', ', '-')}-{turn}"
            make_topics(servers, [f"from-{name}", f"to-{name}"], PARTITIONS)
            with tempfile.TemporaryDirectory() as folder:
                warm_s = args.warm if turn == 0 else max(1, args.warm // 4)
                figure = latency_of(bench, who, f"from-{name}", f"to-{name}", folder, warm_s)
            if turn:
                figures.append(figure)
    return found


def latency_of(bench: Bench, who: str, source: str, sink: str, folder: str, warm_s: int) -> Latency:
    from odradek.client import RawReader

    servers, seconds = bench.broker.servers, bench.args.seconds
    frame = bench.reader(who, stream=True, subscribe=source, startingOffsets="earliest").load()
    writer = frame.select("key", "value").writeStream.format(READERS[who])
    if who == "connector, tuned":
        writer = writer.options(**TUNED_STREAM)
    query = (
        writer.option("kafka.bootstrap.servers", servers)
        .option("topic", sink)
        .option("checkpointLocation", folder)
        .start()
    )
    warm = produce_at_rate(servers, source, PARTITIONS, bench.args.rate, warm_s)
    cpu = CpuClock(bench.broker.process.pid)
    before = cpu.read()
    sent = warm + produce_at_rate(servers, source, PARTITIONS, bench.args.rate, seconds, first=warm)
    spent = [b - a for a, b in zip(before, cpu.read(), strict=True)]
    times: list[int] = []
    with RawReader(servers) as reader:
        # A session's first batch takes half a minute where much else runs.
        deadline = time.monotonic() + 120
        while (copied := sum(reader.end_offsets([(sink, p) for p in range(PARTITIONS)]).values())) < sent:
            if time.monotonic() > deadline or query.exception():
                raise RuntimeError(f"{who}: {copied} of {sent} records are copied: {query.exception()}")
            time.sleep(0.05)
        progress = [json.loads(p.json) for p in query.recentProgress]
        query.stop()
        ends = reader.end_offsets([(sink, p) for p in range(PARTITIONS)])
        for (topic, partition), end in ends.items():
            for rows in reader.fetch_columns(topic, partition, 0, end):
                stamps = rows.column("value").to_pylist()
                for value, stamp in zip(stamps, rows.column("timestamp").to_pylist(), strict=True):
                    number, when = value[:8], value[9:22]
                    if int(number) >= warm:
                        times.append(stamp - int(when))
    times.sort()
    busy = [p for p in progress if p["numInputRows"] > 0]
    steps: dict[str, list[float]] = {}
    for p in busy[len(busy) // 3 :]:
        for step, took in p["durationMs"].items():
            steps.setdefault(step, []).append(took)
    shown = ", ".join(f"{step} {statistics.median(t):.0f}" for step, t in sorted(steps.items()))
    print(
        f"{who:18} p50 {times[len(times) // 2]:5} ms  p99 {times[int(len(times) * 0.99)]:5} ms   "
        f"CPU s per s: {', '.join(f'{s / seconds:.2f}' for s in spent)}   {len(busy)} batches: {shown}",
        flush=True,
    )
    return Latency(times[len(times) // 2], times[int(len(times) * 0.99)], sum(spent) / seconds)


TUNED_STREAM = {"kafka.linger.ms": "0"}


def chosen(bench: Bench) -> list[str]:
    if bench.args.who:
        return list(bench.args.who.split(";"))
    return [who for who in READERS if who != JOINED or bench.args.scenario == "latency"]


SCENARIOS: dict[str, Callable[[Bench], Any]] = {
    "read": run_read,
    "recent": run_recent,
    "map": run_map,
    "write": run_write,
    "exactly-once": run_write,
    "more": run_more,
    "latency": run_latency,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--size", type=int, default=100, help="bytes of a value")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=10, help="of each latency measurement")
    parser.add_argument("--rate", type=int, default=100, help="records a second of each latency measurement")
    parser.add_argument("--warm", type=int, default=20, help="seconds before it")
    parser.add_argument("--plain", action="store_true", help="Spark's own settings")
    parser.add_argument("--who", help="only these, with ';' between them")
    parser.add_argument("--only", help="of `more`: only what has this in its title")
    args = parser.parse_args()
    measure(args)


def measure(args: argparse.Namespace) -> Any:
    """Run one scenario on a broker and a session of its own; what its function returns."""
    with BrokerProcess() as broker:
        if args.scenario in ("read", "map", "more"):
            make_topics(broker.servers, [SOURCE], PARTITIONS)
            fill(broker.servers, SOURCE, args.rows, args.size, PARTITIONS, headers=args.only == "headers")
        bench = Bench(args, broker)
        if args.scenario == "recent":
            bench.start_ms = time.time_ns() // 1_000_000 - args.rows - 3_600_000
            make_topics(broker.servers, [SOURCE], PARTITIONS)
            fill_by_time(broker.servers, SOURCE, args.rows, args.size, PARTITIONS, bench.start_ms)
        try:
            return SCENARIOS[args.scenario](bench)
        finally:
            bench.spark.stop()


if __name__ == "__main__":
    main()
