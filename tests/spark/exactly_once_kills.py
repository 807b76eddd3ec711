"""Kills at every step of exactly-once writes: of the driver, of Spark's Python workers, of the broker.

    make kills [KILLS=100] [SEED=N]
    python tests/spark/exactly_once_kills.py --without-spark --kills 500

A streaming query copies a topic while processes are killed at steps that the seed chooses; then it is left to
finish. The copy, as read_committed readers see it, must hold every row of the source exactly once. Without
Spark, a small driver of the same steps (`small_job`) stands in its place, which starts much sooner.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from spark.killed_job import STEPS
from spark.small_job import rows_of

VICTIMS = ("self", "driver", "broker")
_SECONDS_TO_REACH_A_STEP = 600


def say(line: str) -> None:
    """Tell how far it is."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class BrokerProcess:
    """`odradek server`, that can be found dead and started again on its port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._child: subprocess.Popen[str] | None = None
        self.port = 0

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [sys.executable, "-m", "odradek", "server", "--data", str(self._folder / "data")]
        command += ["--port", str(self.port), "--set", "transaction.two.phase.commit.enable=true"]
        with (self._folder / "broker.log").open("ab") as log:
            self._child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        assert line.startswith("ready "), (self._folder / "broker.log").read_text()[-3000:]
        self.port = int(line.rsplit(":", 1)[1])
        (self._folder / "broker.pid").write_text(str(self._child.pid))

    def revive(self) -> None:
        """Start it again if it is dead."""
        if self._child is not None and self._child.poll() is not None:
            assert self._child.stdout is not None
            self._child.stdout.close()
            self.start()

    def await_death(self) -> None:
        """Somebody is about to kill it."""
        assert self._child is not None
        self._child.wait(30)

    def stop(self) -> None:
        if self._child is not None:
            self._child.terminate()
            self._child.wait(30)
            assert self._child.stdout is not None
            self._child.stdout.close()


class Job:
    """The streaming query's driver, started again whenever it is dead."""

    def __init__(self, folder: Path, servers: str, options: Sequence[str], program: str) -> None:
        self._folder = folder
        self._program = Path(__file__).with_name(program)
        self._words = [servers, "source", "target", str(folder)]
        self._options = options
        self._child: subprocess.Popen[bytes] | None = None

    def command(self, mode: str) -> list[str]:
        return [sys.executable, str(self._program), *self._words, mode, *self._options]

    def revive(self) -> None:
        if self._child is None or self._child.poll() is not None:
            with (self._folder / "driver.log").open("ab") as log:
                self._child = subprocess.Popen(
                    self.command("run"), stdout=log, stderr=log, start_new_session=True, env=_env()
                )

    def kill(self) -> None:
        if self._child is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()


def create_topics(servers: str) -> None:
    from odradek.client import Admin, NewTopic

    with Admin(bootstrap_servers=servers) as admin:
        topics = [NewTopic(name, num_partitions=2, replication_factor=1) for name in ("source", "target")]
        admin.create_topics(topics)


def produce(servers: str, start: int, count: int) -> None:
    """Rows that differ; a row that was sent again may be there twice, which the copy must have, too."""
    from odradek.client import Producer

    with Producer(bootstrap_servers=servers) as producer:
        for number in range(start, start + count):
            producer.send("source", str(number), key=str(number))


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


def _env() -> dict[str, str]:
    # Most drivers do not live long enough for the second compiler to pay.
    return {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", **os.environ}


def _last_words(folder: Path) -> str:
    files = [folder / name for name in ("failures", "driver.log", "broker.log")]
    return "\n".join(f"{file.name}: {file.read_text()[-2500:]}" for file in files if file.exists())


def plan(kills: int, seed: int) -> list[tuple[str, str]]:
    """(step, victim): every combination before any comes again."""
    chance = random.Random(seed)
    every = [(step, victim) for step in STEPS for victim in VICTIMS]
    chosen: list[tuple[str, str]] = []
    while len(chosen) < kills:
        chosen += chance.sample(every, len(every))
    return chosen[:kills]


def run(
    folder: Path, kills: Sequence[tuple[str, str]], options: Sequence[str] = (), *, spark: bool = True
) -> int:
    """Do the kills, let the query finish, and compare. Returns how many rows; raises `AssertionError`."""
    wanted = folder / "kill"
    wanted.mkdir()
    with cluster(folder) as broker:
        create_topics(broker.servers)
        job = Job(folder, broker.servers, options, "killed_job.py" if spark else "small_job.py")
        produced = 0
        try:
            for step, victim in kills:
                broker.revive()
                if spark:
                    produce(broker.servers, produced, 400)
                    produced += 400
                file = wanted / step.replace(" ", "-")
                file.with_name("new").write_text(victim)
                file.with_name("new").rename(file)
                began = time.monotonic()
                while file.exists():
                    job.revive()
                    broker.revive()
                    if time.monotonic() - began > _SECONDS_TO_REACH_A_STEP:
                        raise AssertionError(f"'{step}' was not reached\n{_last_words(folder)}")
                    time.sleep(0.02)
                if victim == "broker":
                    broker.await_death()
                say(f"{step}: {victim} after {time.monotonic() - began:.1f} s")
        finally:
            job.kill()
        broker.revive()
        subprocess.run(job.command("drain"), check=True, timeout=600, capture_output=True)
        if spark:
            expected = values(broker.servers, "source", "read_uncommitted")
        else:
            last = int((folder / "done").read_text())
            expected = Counter(row.encode() for batch in range(last + 1) for row in rows_of(batch))
        found = values(broker.servers, "target", "read_committed")
    lost, more = expected - found, found - expected
    assert not lost and not more, (
        f"{lost.total()} rows are missing, such as {list(lost)[:5]}; {more.total()} too many, such as "
        f"{list(more)[:5]}"
    )
    return expected.total()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--option", action="append", default=[], help="name=value, of the sink")
    parser.add_argument("--without-spark", action="store_true")
    given = parser.parse_args()
    say(f"seed {given.seed}")
    with tempfile.TemporaryDirectory() as folder:
        rows = run(Path(folder), plan(given.kills, given.seed), given.option, spark=not given.without_spark)
    say(f"{given.kills} kills, {rows} rows, each of them there once")


if __name__ == "__main__":
    main()
