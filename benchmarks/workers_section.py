"""`odradek server --workers 2` beside `--workers 1`: what does a second process of a two-core machine gain?

Two load generators, one for each half of the connections: with two workers each has a worker of its own and a
topic that it leads, with one both have the same. They take their share of the two cores as well: where all
processors are busy, two workers can gain no more. With one small request in flight on each connection a
generator takes half of what a worker takes, with five in flight a quarter.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, product
from pathlib import Path
from typing import Any

from benchmarks import load
from benchmarks.clusters import own_version
from benchmarks.peers import in_memory
from benchmarks.results import Measure, Outcome
from benchmarks.sections import Context
from odradek.client import Admin, NewTopic

TWO, ONE = "two workers", "one worker"
WORKERS = {TWO: 2, ONE: 1}
GENERATORS = 2
RATE = "requests/s"
BAR = 1.7
SMALL: dict[str, object] = {"records": 1, "record_bytes": 100, "connections": 50, "partitions": 8}
CASES: list[tuple[str, dict[str, object]]] = [
    ("one record of 100 B per request, 100 connections, 1 in flight", SMALL),
    ("the same, 5 in flight", SMALL | {"in_flight": 5}),
    (
        "batches of 16 KiB, 4 connections, 5 in flight",
        {"batch_bytes": 16_384, "connections": 2, "in_flight": 5, "partitions": 8},
    ),
]
_topics = count()


def run(name: str, context: Context) -> Outcome:
    """Both numbers of workers in turns, round by round."""
    measures: dict[tuple[str, str], Measure] = {}
    for number in range(context.rounds):
        for (case, options), (who, workers) in product(CASES, WORKERS.items()):
            # A server of its own: what a case has written does not make memory dearer for the next.
            with _running(workers) as server:
                rate, cpu_us, load_cpu_us, busy = _load(server, options, context)
            for label, less, value in (
                (RATE, False, rate),
                ("CPU µs per request, all workers", True, cpu_us),
                ("CPU µs per request, load generators", True, load_cpu_us),
                ("processors busy", True, busy),
            ):
                bars = {ONE: BAR} if label == RATE else {}
                one = measures.setdefault((case, label), Measure(case, label, {}, less, bars))
                one.values.setdefault(who, []).append(value)
                context.say(f"round {number + 1}: {who}: {case}: {value:,.4g} {label}")
    notes = [
        "What the kernel does for no process in particular, much of what goes over loopback, counts among "
        "the busy processors alone."
    ]
    settings = {"rounds": context.rounds, "seconds each": context.seconds, "load generators": GENERATORS}
    title = "Workers: one machine's cores as brokers of one cluster, acks=1"
    versions = {"odradek": own_version()}
    return Outcome(name, title, [TWO, ONE], versions, list(measures.values()), settings, notes)


class _Server:
    """The brokers of one `odradek server`: ports by broker id, and their processes."""

    def __init__(self, ports: dict[int, int], pids: list[int]) -> None:
        self.ports = ports
        self.pids = pids


@contextmanager
def _running(workers: int) -> Iterator[_Server]:
    with tempfile.TemporaryDirectory(prefix="bench-", dir=in_memory()) as folder:
        words = [sys.executable, "-m", "odradek", "server", "--data", folder, "--port", "0"]
        words += ["--workers", str(workers), "--log-level", "warning"]
        with (Path(folder) / "log").open("wb") as log:
            child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert child.stdout is not None
            ready = child.stdout.readline()
            if not ready.startswith("ready "):
                raise RuntimeError(
                    f"no workers: {(Path(folder) / 'log').read_text(encoding='utf-8')[-2000:]}"
                )
            with Admin(bootstrap_servers=ready.split()[1].split(",")[0]) as admin:
                brokers = admin.describe_cluster().nodes
            children = (
                Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text(encoding="utf-8").split()
            )
            pids = [child.pid, *map(int, children)]
            yield _Server({broker.id: broker.port for broker in brokers}, pids)
        finally:
            child.send_signal(signal.SIGTERM)
            child.wait(60)


def _load(server: _Server, options: dict[str, object], context: Context) -> tuple[float, float, float, float]:
    """Returns requests/s, CPU µs per request of workers and of generators, and the busy processors."""
    found: list[dict[str, Any]] = []
    failed: list[BaseException] = []
    brokers = sorted(server.ports)

    def generate(number: int) -> None:
        broker = brokers[number % len(brokers)]
        topic = f"load-{next(_topics)}"
        try:
            with Admin(bootstrap_servers=f"127.0.0.1:{server.ports[broker]}") as admin:
                assignment = {index: [broker] for index in range(int(str(options["partitions"])))}
                admin.create_topics([NewTopic(topic, replica_assignment=assignment)])
            at: dict[str, Any] = {"port": server.ports[broker], "pid": server.pids}
            seconds = context.seconds
            found.append(load.run("produce", **at | options, topic=topic, seconds=seconds, warmup=1.0))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=generate, args=(number,)) for number in range(GENERATORS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    rate = sum(float(one["requests_per_s"]) for one in found)
    # Each generator has measured the time of all workers, and of all else that the machine did.
    cpu_s = sum(float(one["server_cpu_s"]) / float(one["seconds"]) for one in found) / len(found)
    load_cpu = sum(float(one["load_cpu_s"]) / float(one["seconds"]) for one in found)
    busy = sum(
        (float(one["server_cpu_s"]) + float(one["load_cpu_s"]) + float(one["other_cpu_s"]))
        / float(one["seconds"])
        for one in found
    ) / len(found)
    return rate, 1e6 * cpu_s / rate, 1e6 * load_cpu / rate, busy
