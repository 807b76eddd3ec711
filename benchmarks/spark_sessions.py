"""What a whole session of Spark takes: until its first query is done, and over 10,000 partitions.

Each round of a contender is a process of its own with a session of its own, which ours starts without the
connector's jars. On its own, a round of one:

    python -m benchmarks.spark_sessions SERVERS WHO TOPIC [--jars JARS] [--seconds 120]

prints JSON: seconds until the session was there, seconds of its first query, which reads all columns of the
topic and discards them, tasks that were done, MiB at most of the JVM, of the largest Python process and of
all.
A query that takes longer than `--seconds` is stopped there.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from benchmarks.peers import resident_mib
from benchmarks.results import Measure, Outcome
from benchmarks.sections import Context
from benchmarks.spark_load import CONNECTOR, BrokerProcess, below, fill, make_topics, process_stats

JOINED = "odradek, joined"
SOURCE = "source"
TITLES = {
    "spark-first": "Spark: the first query of a session",
    "spark-wide": "Spark: a topic of 10,000 partitions, read in a session of its own",
}
CONTENDERS = {
    "spark-first": ["odradek", "connector"],
    "spark-wide": [JOINED, "odradek", "connector"],
}
WORKER_MIB = 300
"""What a Python worker may take, as with records of 1 MiB."""


def run(name: str, context: Context) -> Outcome:
    """Fill a topic, and let the contenders begin sessions in turns."""
    wide = name == "spark-wide"
    partitions = (500 if context.quick else 10_000) if wide else 4
    rows, rounds = 10 * partitions if wide else 100_000, 1 if wide else context.rounds
    contenders = CONTENDERS[name]
    versions = {who: version("odradek") if "odradek" in who else CONNECTOR[0][2] for who in contenders}
    versions["pyspark"] = version("pyspark")
    from benchmarks.spark_section import missing

    skipped = missing()
    if skipped:
        return Outcome(name, TITLES[name], contenders, versions, [], skipped={"connector": skipped})
    found: dict[str, list[dict[str, Any]]] = {who: [] for who in contenders}
    limit = 60 if context.quick else 120
    with BrokerProcess() as broker:
        make_topics(broker.servers, [SOURCE], partitions)
        fill(broker.servers, SOURCE, rows, 100, partitions)
        for turn in range(rounds):
            for who in contenders:
                found[who].append(_child(broker.servers, who, limit))
                context.say(f"round {turn + 1}, {who}: {found[who][-1]}")
    settings = {"partitions": partitions, "rows": rows, "master": "local[2]", "rounds": rounds}
    settings["seconds at most"] = limit
    measures = _wide(found, partitions) if wide else _first(found)
    notes = [f"{who} was stopped after {limit} s." for who in contenders if found[who][0]["stopped"]]
    return Outcome(name, TITLES[name], contenders, versions, measures, settings, notes)


def _values(found: dict[str, list[dict[str, Any]]], key: str) -> dict[str, list[float]]:
    return {who: [float(one[key]) for one in rounds] for who, rounds in found.items()}


def _first(found: dict[str, list[dict[str, Any]]]) -> list[Measure]:
    case = "100,000 rows of 100 B"
    bars = {"connector": 1.0}
    return [
        Measure(case, "s until it is done", _values(found, "query_s"), True, bars),
        Measure(case, "s from the session's start on", _values(found, "both_s"), True),
    ]


def _wide(found: dict[str, list[dict[str, Any]]], partitions: int) -> list[Measure]:
    case = f"{partitions:,} partitions of 10 records"
    workers = {who: values for who, values in _values(found, "python_mib").items() if "odradek" in who}
    rates = {
        who: [one["share"] * partitions / one["query_s"] for one in rounds] for who, rounds in found.items()
    }
    return [
        Measure(case, "partitions/s", rates),
        Measure(case, "partitions read", {w: [o["share"] * partitions for o in r] for w, r in found.items()}),
        Measure(case, "MiB at most, all processes", _values(found, "all_mib"), True),
        Measure(case, "MiB at most, JVM", _values(found, "jvm_mib"), True),
        Measure(case, "MiB at most, largest Python process", workers, True, limit=WORKER_MIB),
    ]


def _child(servers: str, who: str, seconds: int) -> dict[str, Any]:
    words = [sys.executable, "-m", "benchmarks.spark_sessions", servers, who, SOURCE]
    words += ["--seconds", str(seconds)]
    if who == "connector":
        from interop import kafka_peer

        folder = kafka_peer.resolve("spark-connector", CONNECTOR, transitive=False)
        words += ["--jars", ",".join(str(jar) for jar in folder.glob("*.jar"))]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, timeout=seconds + 300, check=True)
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


class Peaks:
    """The most memory (resident, MiB) of the processes below this one, by what they are."""

    def __init__(self) -> None:
        self.jvm = self.python = self.together = 0.0
        self._done = threading.Event()

    @contextlib.contextmanager
    def watched(self) -> Iterator[Peaks]:
        """Look at them ten times a second until the block ends."""
        thread = threading.Thread(target=self._watch, daemon=True)
        thread.start()
        yield self
        self._done.set()
        thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.1):
            stats = process_stats()
            now = 0.0
            for pid in below(os.getpid(), stats) - {os.getpid()}:
                resident = resident_mib(pid)
                now += resident
                if stats[pid][1] == "java":
                    self.jvm = max(self.jvm, resident)
                elif "python" in stats[pid][1]:
                    self.python = max(self.python, resident)
            self.together = max(self.together, now)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("servers")
    parser.add_argument("who", choices=[JOINED, "odradek", "connector"])
    parser.add_argument("topic")
    parser.add_argument("--jars", default="")
    parser.add_argument("--seconds", type=float, default=120)
    args = parser.parse_args()
    from odradek.spark import session

    began = time.perf_counter()
    conf = {"spark.jars": args.jars} if args.jars else {}
    spark = session("benchmark", "local[2]", log_level="OFF", conf=conf)
    there = time.perf_counter()
    reader = spark.read.format("kafka" if args.who == "connector" else "odradek")
    reader = reader.option("kafka.bootstrap.servers", args.servers).option("subscribe", args.topic)
    if args.who == JOINED:
        reader = reader.option("minRecordsPerPartition", "5000")
    context = spark.sparkContext
    context.setJobGroup("measured", "measured", True)
    done = threading.Event()

    def stop() -> None:
        late = args.seconds
        # A query that is still planned has no jobs to cancel.
        while not done.wait(late):
            context.cancelJobGroup("measured")
            late = 1

    threading.Thread(target=stop, daemon=True).start()
    stopped = False
    with Peaks().watched() as peaks:
        try:
            reader.load().write.format("noop").mode("overwrite").save()
        except Exception:
            stopped = time.perf_counter() - there >= args.seconds
            if not stopped:
                raise
        took = time.perf_counter() - there
    done.set()
    finished, tasks = _tasks(context)
    told = {
        "session_s": there - began,
        "query_s": took,
        "both_s": took + there - began,
        "stopped": stopped,
        "tasks": finished,
        "share": finished / tasks,
        "jvm_mib": peaks.jvm,
        "python_mib": peaks.python,
        "all_mib": peaks.together,
    }
    spark.stop()
    print(json.dumps(told))


def _tasks(context: Any) -> tuple[int, int]:
    """Tasks done, and all, of the query's last stage."""
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup("measured")]
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    found = max((stage for stage in stages if stage), key=lambda stage: stage.numTasks, default=None)
    return (found.numCompletedTasks, found.numTasks) if found else (0, 1)


if __name__ == "__main__":
    main()
