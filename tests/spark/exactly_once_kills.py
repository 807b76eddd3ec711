"""Kills at every step of exactly-once writes: of the driver, of Spark's Python workers, of the broker.

    make kills [KILLS=100] [SEED=N] [CLUSTER=1]
    python tests/spark/exactly_once_kills.py --without-spark --kills 500

A streaming query copies a topic, to which rows are added all the while, and processes are killed at steps
that the seed chooses; then it is left to finish. The copy, as read_committed readers see it, must hold every
row of the source exactly once. On a cluster executors die as well, and machines with all that runs on them.
Without Spark, a small driver of the same steps (`small_job`) stands in its place, which starts much sooner.
"""

import argparse
import itertools
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import forking
from ports import free_port
from spark import java_classes, worker_python
from spark.killed_job import STEPS
from spark.small_job import rows_of
from spark_cluster import SparkCluster
from waiting import WITHIN_S, joined

Kill = tuple[str, str]
"""A step of `STEPS`, and who dies there, as in `killed_job`."""

_CHEAP_VICTIMS = ("self", "workers", "broker")
_OF_A_CLUSTER = ("executor", "machine")
_DRIVERS_IN_A_ROUND = 2
"""After the first, which has one at every step: Spark's start takes longer than ten other kills."""
_SECONDS_TO_REACH_A_STEP = 600


def say(line: str) -> None:
    """Tell how far it is."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class BrokerProcess:
    """`odradek server`, that can be found dead and started again on its port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._child: forking.Forked | None = None
        self.port = free_port()

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        arguments = ["server", "--data", str(self._folder / "data"), "--port", str(self.port)]
        arguments += ["--set", "transaction.two.phase.commit.enable=true"]
        with (self._folder / "broker.log").open("ab") as log:
            self._child = forking.start(arguments, log)
        line = self._child.stdout.readline()
        assert line.startswith("ready "), (self._folder / "broker.log").read_text(encoding="utf-8")[-3000:]
        (self._folder / "broker.pid").write_text(str(self._child.pid), encoding="utf-8")

    def revive(self) -> None:
        """Start it again if it is dead."""
        if self._child is not None and self._child.poll() is not None:
            self._child.stdout.close()
            self.start()

    def await_death(self) -> None:
        """Somebody is about to kill it."""
        assert self._child is not None
        self._child.wait(30)

    def stop(self) -> None:
        if self._child is not None:
            self._child.send_signal(signal.SIGTERM)
            self._child.wait(30)
            self._child.stdout.close()


class Job:
    """The streaming query's driver, started again whenever it is dead."""

    def __init__(self, folder: Path, servers: str, options: Sequence[str], program: str) -> None:
        self._folder = folder
        words = [str(Path(__file__).with_name(program)), servers, "source", "target", str(folder)]
        self._command = [sys.executable, *words, *options]
        self._child: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def revive(self) -> None:
        """Start it if it does not run."""
        if self._child is None or self._child.poll() is not None:
            self.starts += 1
            with (self._folder / "driver.log").open("ab") as log:
                self._child = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)

    def finish(self, broker: BrokerProcess) -> None:
        """Let it copy what is there and end, started again as often as it takes."""
        asked = self._folder / "finish"
        asked.touch()
        deadline = time.monotonic() + _SECONDS_TO_REACH_A_STEP
        while True:
            broker.revive()
            self.revive()
            assert self._child is not None
            with suppress(subprocess.TimeoutExpired):
                if self._child.wait(0.2) == 0:
                    break
            assert time.monotonic() < deadline, f"the copy was not finished\n{_last_words(self._folder)}"
        asked.unlink()

    def kill(self) -> None:
        if self._child is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait(WITHIN_S)


class Machines:
    """The workers of a cluster of Spark's; those that were killed come back."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "machines"
        self._cluster = SparkCluster(folder / "spark")
        self.url = self._cluster.url

    def __enter__(self) -> "Machines":
        self._cluster.__enter__()
        self.revive()
        return self

    def __exit__(self, *problem: object) -> None:
        self._cluster.stop()

    def revive(self) -> None:
        """Start those again that do not run, and say which processes they are."""
        self._cluster.revive()
        pids = " ".join(str(worker.pid) for worker in self._cluster.workers)
        self._file.with_suffix(".new").write_text(pids, encoding="utf-8")
        self._file.with_suffix(".new").rename(self._file)


def create_topics(servers: str) -> None:
    from odradek.client import Admin, NewTopic

    with Admin(bootstrap_servers=servers) as admin:
        topics = [NewTopic(name, num_partitions=2, replication_factor=1) for name in ("source", "target")]
        admin.create_topics(topics)


@contextmanager
def rows_coming(servers: str, first: int = 0) -> Iterator[None]:
    """Rows are added to the source, from a number on, twenty at once and more until the block ends.

    A row that was sent again may be there twice, which the copy must have, too.
    """
    from odradek.client import Producer

    stop = threading.Event()

    def produce() -> None:
        numbers = itertools.count(first)
        with Producer(bootstrap_servers=servers) as producer:
            coming = True
            while coming:
                for number in itertools.islice(numbers, 20):
                    producer.send("source", str(number), key=str(number))
                coming = not stop.wait(0.25)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        joined(thread)


def values(servers: str, topic: str, isolation: str) -> Counter[bytes]:
    from odradek.client import RawReader

    found: Counter[bytes] = Counter()
    with RawReader(servers, {"isolation.level": isolation}) as reader:
        partitions = [(topic, number) for number in reader.partitions_for(topic)]
        for (name, number), end in reader.end_offsets(partitions).items():
            for rows in reader.fetch_columns(name, number, 0, end):
                found.update(rows.column("value").to_pylist())
    return found


@contextmanager
def cluster(folder: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(folder)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def _last_words(folder: Path) -> str:
    files = [folder / name for name in ("failures", "driver.log", "broker.log")]
    return "\n".join(
        f"{file.name}: {file.read_text(encoding='utf-8')[-2500:]}" for file in files if file.exists()
    )


def plan(kills: int, seed: int, *, spark: bool = True, cluster: bool = False) -> list[Kill]:
    """Kills in rounds: every step with every victim, later on with few drivers; without Spark always all."""
    chance = random.Random(seed)
    drivers = [(step, "driver") for step in STEPS]
    victims = (*_CHEAP_VICTIMS, *(_OF_A_CLUSTER if cluster else ()))
    cheap = [(step, victim) for step in STEPS for victim in victims if spark or victim != "workers"]
    chosen: list[Kill] = []
    while len(chosen) < kills:
        some = chance.sample(drivers, _DRIVERS_IN_A_ROUND) if spark and chosen else drivers
        chosen += chance.sample(cheap + some, len(cheap + some))
    return chosen[:kills]


@dataclass
class Outcome:
    """Of a run in which every row was there once.

    Attributes:
        rows: of the source.
        aborted: rows of attempts that failed, which only readers of uncommitted rows see.
        starts: how often a driver was started.
    """

    rows: int
    aborted: int
    starts: int


def run(
    folder: Path,
    kills: Sequence[Kill],
    options: Sequence[str] = (),
    *,
    spark: bool = True,
    on_cluster: bool = False,
) -> Outcome:
    """Do the kills, let the query finish, and compare. Raises `AssertionError`."""
    for name in ("kill", "workers"):
        (folder / name).mkdir()
    with ExitStack() as running:
        broker = running.enter_context(cluster(folder))
        machines = running.enter_context(Machines(folder)) if on_cluster else None
        create_topics(broker.servers)
        words = [machines.url if machines else "local[2,4]", *options] if spark else options
        job = Job(folder, broker.servers, words, "killed_job.py" if spark else "small_job.py")
        try:
            with rows_coming(broker.servers):
                began = time.monotonic()
                for number, (step, victim) in enumerate(kills, 1):
                    seconds = _kill(folder, step, victim, broker, job, machines)
                    at = time.monotonic() - began
                    say(f"{number}/{len(kills)} {step}: {victim} ({seconds:.1f} s, at {at:.0f} s)")
                broker.revive()
                if machines:
                    machines.revive()
            job.finish(broker)
        finally:
            job.kill()
        if spark:
            expected = values(broker.servers, "source", "read_uncommitted")
        else:
            last = int((folder / "done").read_text(encoding="utf-8"))
            expected = Counter(row.encode() for batch in range(last + 1) for row in rows_of(batch))
        found = values(broker.servers, "target", "read_committed")
        written = values(broker.servers, "target", "read_uncommitted")
    lost, more = expected - found, found - expected
    assert not lost and not more, (
        f"{lost.total()} rows are missing, such as {list(lost)[:5]}; {more.total()} too many, such as "
        f"{list(more)[:5]}"
    )
    return Outcome(expected.total(), written.total() - found.total(), job.starts)


def _kill(
    folder: Path, step: str, victim: str, broker: BrokerProcess, job: Job, machines: Machines | None
) -> float:
    """Have the victim die when the step is reached next. Returns the seconds that this took."""
    broker.revive()
    if machines:
        machines.revive()
    file = folder / "kill" / step.replace(" ", "-")
    file.with_name("new").write_text(victim, encoding="utf-8")
    file.with_name("new").rename(file)
    began = time.monotonic()
    while file.exists():
        job.revive()
        broker.revive()
        if machines:
            machines.revive()
        if time.monotonic() - began > _SECONDS_TO_REACH_A_STEP:
            raise AssertionError(f"'{step}' was not reached\n{_last_words(folder)}")
        time.sleep(0.02)
    if victim == "broker":
        broker.await_death()
    return time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--option", action="append", default=[], help="name=value, of the sink")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--without-spark", action="store_true")
    where.add_argument("--cluster", action="store_true", help="on a Spark cluster of two workers")
    given = parser.parse_args()
    say(f"seed {given.seed}")
    spark = not given.without_spark
    kills = plan(given.kills, given.seed, spark=spark, cluster=given.cluster)
    if spark:
        java_classes.use()
        worker_python.use()
        java_classes.make()
    with tempfile.TemporaryDirectory() as folder:
        outcome = run(Path(folder), kills, given.option, spark=spark, on_cluster=given.cluster)
    for name, whats in zip(("step", "victim"), zip(*kills, strict=True), strict=True):
        say(f"by {name}: {dict(Counter(whats))}")
    say(
        f"{len(kills)} kills; {outcome.starts} starts of a driver; {outcome.rows} rows, each of them there "
        f"once; {outcome.aborted} rows of failed attempts, aborted"
    )


if __name__ == "__main__":
    main()
