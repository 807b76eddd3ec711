"""The pipelines of `examples/`, run as docs/howto/spark.md has it, each checked against plain Python."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from waiting import WITHIN_S

pytest.importorskip("pyspark")

from odradek.client import RawReader
from odradek.testing import Broker

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "howto" / "spark.md").read_text(encoding="utf-8")
LIMIT_S = 400

Record = dict[str, Any]


@pytest.fixture
def broker() -> Iterator[Broker]:
    # The examples' clicks have times of months ago, which retention would take after five minutes.
    with Broker(num_partitions=2, log_retention_ms=-1) as running:
        yield running


class OneSpark:
    """A process that runs examples (`one_spark`)."""

    def __init__(self, log: Path) -> None:
        self._log = log
        with log.open("wb") as file:
            self._child = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("one_spark.py"))],
                env=environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                start_new_session=True,
            )

    def __call__(self, example: str, folder: Path, *servers: str) -> str:
        """Run an example to its end; what it printed."""
        assert self._child.stdin is not None and self._child.stdout is not None
        words = words_of(example, folder, *servers)[1:]
        self._child.stdin.write(json.dumps(words) + "\n")
        self._child.stdin.flush()
        answer = self._child.stdout.readline()
        assert answer, self._log.read_text(encoding="utf-8")[-4000:]
        printed, failure = json.loads(answer)
        assert failure is None, failure
        return str(printed)

    def end(self) -> None:
        """End it with its JVM."""
        os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait(WITHIN_S)
        for pipe in (self._child.stdin, self._child.stdout):
            assert pipe is not None
            pipe.close()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneSpark]:
    """Runs examples."""
    one = OneSpark(tmp_path_factory.mktemp("spark") / "log")
    yield one
    one.end()


def words_of(example: str, folder: Path, *servers: str) -> list[str]:
    """The command of the page, for these servers, with its folder in another.

    Where the page has one cluster at 9092, and where it has a second one at 9192.
    """
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"python examples/{example}.py")]
    words = shlex.split(line.split("#")[0])
    ports = dict(zip(("127.0.0.1:9092", "127.0.0.1:9192"), servers, strict=False))
    words = [sys.executable, str(ROOT / words[1]), *(ports.get(word, word) for word in words[2:])]
    if "--servers" not in words and "127.0.0.1:9092" not in line:
        words += ["--servers", servers[0]]
    for option in ("--output", "--checkpoint"):
        if option in words:
            words[words.index(option) + 1] = str(folder / "output")
    return words


def run_alone(example: str, folder: Path, *servers: str) -> str:
    """Run an example to its end in a process of its own; what it printed."""
    done = subprocess.run(
        words_of(example, folder, *servers),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def environment() -> dict[str, str]:
    from odradek.spark.sessions.java import find_java

    return {**os.environ, "JAVA_HOME": str(find_java().home), "SPARK_LOCAL_IP": "127.0.0.1"}


def fill(servers: str, first: int, count: int) -> None:
    words = ["--servers", servers, "--first", str(first), "--count", str(count)]
    subprocess.run([sys.executable, str(ROOT / "examples" / "shop.py"), *words], check=True, timeout=120)


def records(servers: str, topic: str) -> list[Record]:
    """What is in a topic and was committed, by partition and offset."""
    found: list[Record] = []
    with RawReader(servers, {"isolation.level": "read_committed"}) as reader:
        partitions = [(topic, number) for number in reader.partitions_for(topic)]
        for (_, number), end in sorted(reader.end_offsets(partitions).items()):
            for rows in reader.fetch_columns(topic, number, 0, end, with_headers=True):
                found += [{**row, "partition": number} for row in rows.to_pylist()]
    return found


def documents(servers: str, topic: str) -> list[Record]:
    """The values that are JSON documents with all that they should have."""
    found = []
    for record in records(servers, topic):
        try:
            found.append(json.loads(record["value"]))
        except ValueError:
            continue
    return found


def same(found: list[Record], expected: list[Record]) -> bool:
    """The same documents, each as often, in whatever order."""
    return Counter(map(repr_of, found)) == Counter(map(repr_of, expected))


def repr_of(document: Record) -> str:
    return json.dumps(document, sort_keys=True)


def test_change_data(broker: Broker, run: OneSpark, tmp_path: Path) -> None:
    """The table is the latest state of each key, after the first batch and after more have been merged."""
    import pyarrow.parquet as pq

    sys.path.insert(0, str(ROOT / "examples"))
    try:
        from change_data import newest
    finally:
        sys.path.pop(0)
    servers = broker.bootstrap_servers
    for first, count in ((0, 40), (40, 37)):
        fill(servers, first, count)
        printed = run("change_data", tmp_path, servers)
        state: dict[str, Record] = {}
        for record in records(servers, "customers"):
            key = record["key"].decode()
            state.pop(key, None)
            if record["value"] is not None:
                state[key] = {"customer": key, **json.loads(record["value"])}
        version = newest(tmp_path / "output" / "table")
        assert version is not None
        table = pq.read_table(version).to_pylist()
        assert {row["customer"]: row for row in table} == state
        assert len(table) == len(state)
        assert "Customer" in printed
    assert 0 < len(state) < 20


def sessions_of(clicks: list[Record]) -> list[Record]:
    """The sessions that are over, worked out from all clicks at once."""
    gap, watermark = 30 * 60_000, max(click["time_ms"] for click in clicks) - 60_000
    times = defaultdict(list)
    for click in clicks:
        times[click["customer"]].append(click["time_ms"])
    found = []
    for customer, all_times in times.items():
        session: list[int] = []
        for moment in [*sorted(all_times), None]:
            if session and (moment is None or moment - session[-1] > gap):
                found.append((customer, session))
                session = []
            if moment is not None:
                session.append(moment)
    return [
        {"customer": customer, "start_ms": session[0], "end_ms": session[-1], "clicks": len(session)}
        for customer, session in found
        if session[-1] + gap <= watermark
    ]


def test_sessions(broker: Broker, run: OneSpark, tmp_path: Path) -> None:
    """Those that are open at the end of a run go on in the next."""
    servers = broker.bootstrap_servers
    for first, count in ((0, 350), (350, 250)):
        fill(servers, first, count)
        run("sessions", tmp_path, servers)
        expected = sessions_of(documents(servers, "clicks"))
        found = documents(servers, "sessions")
        assert same(found, expected)
    assert len(found) > 20


def test_dead_letters(broker: Broker, run: OneSpark, tmp_path: Path) -> None:
    servers = broker.bootstrap_servers
    fill(servers, 0, 500)
    run("dead_letters", tmp_path, servers)
    good, bad = [], []
    for record in records(servers, "clicks"):
        try:
            json.loads(record["value"])
            good.append(record)
        except ValueError:
            bad.append(record)
    assert len(bad) == 10

    def key_and_value(found: list[Record]) -> list[tuple[bytes, bytes]]:
        return sorted((record["key"], record["value"]) for record in found)

    assert key_and_value(records(servers, "clicks-good")) == key_and_value(good)
    rejected = records(servers, "clicks-rejected")
    assert key_and_value(rejected) == key_and_value(bad)
    sources = {f"clicks-{record['partition']}-{record['offset']}": record["value"] for record in bad}
    for record in rejected:
        headers = {header["key"]: header["value"].decode() for header in record["headers"]}
        assert headers["reason"] == "not JSON"
        assert sources.pop(headers["source"]) == record["value"]
    assert not sources


def test_backfill_then_live(broker: Broker, run: OneSpark, tmp_path: Path) -> None:
    """Started twice, with more clicks in between: from the time on, each click is there once."""
    servers = broker.bootstrap_servers
    since_ms = 1_767_225_600_000 + 3_600_000
    # The first offset that is not before the time, by partition.
    fill(servers, 0, 300)
    with RawReader(servers) as reader:
        starts = reader.offsets_for_times({("clicks", number): since_ms for number in range(2)})
    for first, count in ((300, 0), (300, 150)):
        fill(servers, first, count)
        run("backfill", tmp_path, servers)
        expected = []
        for record in records(servers, "clicks"):
            start = starts["clicks", record["partition"]]
            if start is not None and record["offset"] >= start:
                try:
                    click = json.loads(record["value"])
                except ValueError:
                    continue
                expected.append({name: click[name] for name in ("customer", "time_ms")})
        assert same(documents(servers, "clicks-by-page"), expected)
    assert 150 < len(expected) < 450


def test_an_exact_copy_between_clusters_whose_driver_is_killed(
    broker: Broker, run: OneSpark, tmp_path: Path
) -> None:
    """Keys, values, headers and partitions are the same, each record once; the driver was killed once."""
    from odradek import Producer

    with Broker(log_retention_ms=-1) as target:
        ours, theirs = broker.bootstrap_servers, target.bootstrap_servers
        fill(ours, 0, 500)
        with Producer(bootstrap_servers=ours) as producer:
            sent = producer.send("clicks", value=None, key="no value", headers=[("a", b"1"), ("a", None)])
            sent.result(WITHIN_S)
        words = [word for word in words_of("copy_cluster", tmp_path, ours, theirs) if word != "--once"]
        with (tmp_path / "log").open("wb") as log:
            driver = subprocess.Popen(
                words, env=environment(), stdout=log, stderr=log, start_new_session=True
            )
        try:
            deadline = time.monotonic() + LIMIT_S
            while not copied(theirs):
                assert driver.poll() is None and time.monotonic() < deadline, (tmp_path / "log").read_text(
                    encoding="utf-8"
                )
                time.sleep(0.1)
            fill(ours, 500, 500)
        finally:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait(WITHIN_S)
        fill(ours, 1000, 10)
        run("copy_cluster", tmp_path, ours, theirs)

        def told(servers: str) -> Counter[str]:
            names = ("partition", "key", "value", "headers")
            return Counter(repr([record[name] for name in names]) for record in records(servers, "clicks"))

        assert told(theirs) == told(ours)
        assert told(ours).total() == 1011


def copied(servers: str) -> bool:
    """Whether something has been copied."""
    from odradek.errors import OdradekError

    try:
        return bool(records(servers, "clicks"))
    except OdradekError:
        return False


def test_delta_on_a_spark_that_it_has_no_release_for_says_which_it_wants(tmp_path: Path) -> None:
    if version("pyspark").startswith("4.2."):
        pytest.skip("this is the Spark that Delta Lake is released for: tests/interop/test_delta.py runs it")
    example = ROOT / "examples" / "change_data_delta.py"
    done = subprocess.run(
        [sys.executable, str(example), "--once", "--output", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "pip install 'pyspark==4.2.*'" in done.stderr
