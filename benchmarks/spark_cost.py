"""The cost of a query of Spark's: its start, its batches, many at once, many topics.

    python -m benchmarks.spark_cost start|batch|batches|many|wide [--who odradek floor connector] [--runs 5]
        [--rows 2000000] [--topics 2000]

One session (`local[2]`, the settings of `odradek.spark.session`) on one broker of ours; the contenders take
turns, after a turn of each that does not count. For each: seconds, CPU seconds of the JVM and of Spark's
Python processes; of many queries how many processes there are, and their memory (PSS: shared pages once).

    start    a stream (`Trigger.AvailableNow`) over ten records, from its `load()` to its end
    batch    a batch read of the same, likewise
    batches  a stream over --rows records in twenty batches
    many     ten streams that run all the time: processes and memory
    wide     --topics topics of ten records each by pattern, counted

`floor` is a Python source that knows its offsets without asking anybody: what Spark takes for any Python
source.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from benchmarks.spark_load import CONNECTOR, BrokerProcess, CpuClock, below, fill, make_topics, process_stats

PARTITIONS = 4
BATCHES = 20
STREAMS = 10


class Range(InputPartition):
    """Rows `first` to `last` of the floor's."""

    def __init__(self, first: int, last: int) -> None:
        self.first, self.last = first, last


class FloorReader(DataSourceReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Rows out of nothing: `rows` at most, `step` in a batch, in `PARTITIONS` tasks."""

    def __init__(self, rows: int, step: int) -> None:
        self.rows, self.step = rows, step

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"at": 0}

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        from pyspark.sql.streaming.datasource import ReadMaxRows

        return ReadMaxRows(self.step)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """There never comes more."""

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: N802
        return {"at": min(start["at"] + self.step, self.rows)}

    def partitions(  # type: ignore[override]
        self, start: dict[str, int] | None = None, end: dict[str, int] | None = None
    ) -> list[Range]:
        first, last = (start["at"], end["at"]) if start and end else (0, self.rows)
        size = -(-(last - first) // PARTITIONS)
        return [Range(at, min(at + size, last)) for at in range(first, last, size)]

    def read(self, partition: Any) -> Iterator[Any]:
        import pyarrow as pa

        for at in range(partition.first, partition.last, 20_000):
            count = min(20_000, partition.last - at)
            yield pa.record_batch(
                {"value": pa.array([b"x" * 100] * count), "offset": pa.array(range(at, at + count))}
            )


class FloorSource(DataSource):
    """`format("floor")`, with the options `rows` and `step`."""

    @classmethod
    def name(cls) -> str:
        return "floor"

    def schema(self) -> str:
        return "value BINARY, offset BIGINT"

    def reader(self, schema: Any) -> FloorReader:
        return self._reader()

    def streamReader(self, schema: Any) -> FloorReader:  # noqa: N802
        return self._reader()

    def _reader(self) -> FloorReader:
        return FloorReader(int(self.options["rows"]), int(self.options["step"]))


class Bench:
    """A session and a broker."""

    def __init__(self, args: argparse.Namespace, broker: BrokerProcess) -> None:
        from odradek.spark import session

        self.args, self.broker = args, broker
        conf: dict[str, Any] = {}
        if "connector" in args.who:
            sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
            from interop import kafka_peer

            folder = kafka_peer.resolve("spark-connector", CONNECTOR, transitive=False)
            conf["spark.jars"] = ",".join(str(jar) for jar in folder.glob("*.jar"))
        self.spark = session("benchmark", "local[2]", log_level="OFF", conf=conf)
        self.spark.dataSource.register(FloorSource)
        self.cpu = CpuClock(broker.process.pid)
        self.folder = Path(tempfile.mkdtemp())
        self.number = 0

    def load(self, who: str, *, stream: bool, rows: int, step: int, **options: Any) -> Any:
        """A frame of one contender over `options`."""
        reader = self.spark.readStream if stream else self.spark.read
        if who == "floor":
            return reader.format("floor").options(rows=rows, step=step).load()
        reader = reader.format("kafka" if who == "connector" else "odradek")
        reader = reader.option("kafka.bootstrap.servers", self.broker.servers).options(**options)
        if stream:
            reader = reader.options(startingOffsets="earliest", maxOffsetsPerTrigger=step)
        if who == "joined":
            reader = reader.option("minRecordsPerPartition", 5000)
        return reader.load()

    def query(self, frame: Any, **trigger: Any) -> Any:
        """A query that is started, with a checkpoint of its own."""
        self.number += 1
        writer = frame.writeStream.format("noop").trigger(**trigger)
        return writer.option("checkpointLocation", str(self.folder / str(self.number))).start()

    def turns(self, cases: dict[str, Callable[[], Any]]) -> dict[str, list[dict[str, Any]]]:
        """Run the cases in turns; the first turn does not count."""
        found: dict[str, list[dict[str, Any]]] = {who: [] for who in cases}
        for turn in range(self.args.runs + 1):
            for who, case in cases.items():
                before, began = self.cpu.read(), time.perf_counter()
                case()
                took, after = time.perf_counter() - began, self.cpu.read()
                # A process that has ended shows in its parent's count when that has noticed.
                jvm, python, broker = (b - a for a, b in zip(before, after, strict=True))
                row = {
                    "s": took,
                    "jvm": jvm,
                    "python": python,
                    "broker": broker,
                    "cpu": jvm + python + broker,
                }
                print(f"  {turn} {who:10} " + " ".join(f"{k} {v:.2f}" for k, v in row.items()), flush=True)
                if turn:
                    found[who].append(row)
        return found


def memory(root: int) -> dict[str, tuple[int, float]]:
    """By kind of process below `root`: how many there are, and their PSS in MiB."""
    stats, found = process_stats(), {}
    for pid in below(root, stats) - {root}:
        try:
            words = (Path("/proc") / str(pid) / "cmdline").read_text(encoding="utf-8").split("\0")
            pss = (Path("/proc") / str(pid) / "smaps_rollup").read_text(encoding="utf-8")
        except OSError:
            continue
        kib = int(next(line.split()[1] for line in pss.splitlines() if line.startswith("Pss:")))
        kind = "java" if stats[pid][1] == "java" else " ".join(words[1:4])[-60:]
        count, mib = found.get(kind, (0, 0.0))
        found[kind] = (count + 1, mib + kib / 1024)
    return found


def many(bench: Bench, who: str) -> dict[str, tuple[int, float]]:
    """Start streams that run all the time, wait for a batch of each, and look at the processes."""
    queries = [
        bench.query(
            bench.load(who, stream=True, rows=10, step=10, subscribe=f"small-{number}"),
            processingTime="200 milliseconds",
        )
        for number in range(STREAMS)
    ]
    for query in queries:
        query.processAllAvailable()
    before, began = bench.cpu.read(), time.perf_counter()
    time.sleep(10)
    spent = sum(bench.cpu.read()) - sum(before)
    print(f"{who}: idle CPU {spent / (time.perf_counter() - began):.3f} s per s")
    found = memory(os.getpid())
    for query in queries:
        query.stop()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenario", choices=["start", "batch", "batches", "many", "wide"])
    parser.add_argument("--who", nargs="+", default=["odradek", "floor", "connector"])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--topics", type=int, default=2_000)
    args = parser.parse_args()
    with BrokerProcess() as broker:
        bench = Bench(args, broker)
        cases: dict[str, Callable[[], Any]] = {}
        scenario = args.scenario
        if scenario in ("start", "batch"):
            make_topics(broker.servers, ["small"], 1)
            fill(broker.servers, "small", 10, 100, 1)
        elif scenario == "batches":
            make_topics(broker.servers, ["large"], PARTITIONS)
            fill(broker.servers, "large", args.rows, 100, PARTITIONS)
        elif scenario == "many":
            make_topics(broker.servers, [f"small-{number}" for number in range(STREAMS)], 1)
            for number in range(STREAMS):
                fill(broker.servers, f"small-{number}", 10, 100, 1)
        else:
            names = [f"wide-{number}" for number in range(args.topics)]
            make_topics(broker.servers, names, 1)
            from odradek.client import Producer

            with Producer(bootstrap_servers=broker.servers, linger_ms=20) as producer:
                for name in names * 10:
                    producer.send(name, value=b"x" * 100, partition=0)
                producer.flush()
        for who in args.who:
            if scenario == "start":
                cases[who] = lambda who=who: bench.query(
                    bench.load(who, stream=True, rows=10, step=10, subscribe="small"), availableNow=True
                ).awaitTermination()
            elif scenario == "batch":
                cases[who] = lambda who=who: (
                    bench.load(who, stream=False, rows=10, step=10, subscribe="small")
                    .write.format("noop")
                    .mode("overwrite")
                    .save()
                )
            elif scenario == "batches":
                cases[who] = lambda who=who: bench.query(
                    bench.load(
                        who, stream=True, rows=args.rows, step=args.rows // BATCHES, subscribe="large"
                    ),
                    availableNow=True,
                ).awaitTermination()
            elif scenario == "wide":
                cases[who] = lambda who=who: bench.load(
                    who, stream=False, rows=10 * args.topics, step=1, subscribePattern="wide-.*"
                ).count()
        if scenario == "many":
            for who in args.who:
                found = many(bench, who)
                total = sum(mib for _, mib in found.values())
                print(f"{who}: {sum(count for count, _ in found.values())} processes, {total:.0f} MiB")
                for kind, (count, mib) in sorted(found.items(), key=lambda one: -one[1][1]):
                    print(f"    {count:3} {mib:8.0f} MiB  {kind}")
        else:
            for who, rows in bench.turns(cases).items():
                shown = {name: round(statistics.median(row[name] for row in rows), 2) for name in rows[0]}
                print(json.dumps({"who": who, **shown}))
        bench.spark.stop()


if __name__ == "__main__":
    main()
