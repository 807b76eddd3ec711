"""On a Spark cluster of a master and two workers: what dies, is slow, comes and goes there costs no row."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from waiting import WITHIN_S

pytest.importorskip("pyspark")

from odradek.client import Admin, NewTopic, Producer
from ports import free_port
from spark.exactly_once_kills import rows_coming, values
from spark_cluster import SparkCluster, descendants, environment, lives, session_settings, spark_home

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

HERE = Path(__file__).parent
ROWS = 4000
LIMIT_S = 300


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """The cluster of this file."""
    with SparkCluster(tmp_path_factory.mktemp("spark")) as running:
        yield running


@pytest.fixture
def servers() -> Iterator[str]:
    """A broker with two topics of four partitions, the first of which has rows."""
    from odradek.testing import Broker

    with Broker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(name, 4, 1) for name in ("source", "target")])
        with Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=5) as producer:
            for number in range(ROWS):
                producer.send("source", str(number), key=str(number), partition=number % 4)
        yield broker.bootstrap_servers


EXPECTED = Counter(str(number).encode() for number in range(ROWS))


class Driver:
    """A process that does what `cluster_job` can."""

    def __init__(self, cluster: SparkCluster, log: Path) -> None:
        self._log = log
        with log.open("ab") as file:
            self._child = subprocess.Popen(
                [sys.executable, str(HERE / "cluster_job.py"), cluster.url],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                start_new_session=True,
            )

    def begin(self, scenario: str, servers: str, folder: Path) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(f"{scenario} {servers} {folder}\n")
        self._child.stdin.flush()

    def __call__(self, scenario: str, servers: str, folder: Path) -> Any:
        """Have it do something, and wait for what it tells of it."""
        self.begin(scenario, servers, folder)
        assert self._child.stdout is not None
        told = self._child.stdout.readline()
        assert told, self.words()
        return json.loads(told)

    def words(self) -> str:
        """What it said last."""
        return self._log.read_text(encoding="utf-8")[-4000:]

    def runs(self) -> bool:
        return self._child.poll() is None

    def kill(self) -> None:
        """End it with its JVM."""
        if self.runs():
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait(WITHIN_S)
        for pipe in (self._child.stdin, self._child.stdout):
            assert pipe is not None
            pipe.close()


@pytest.fixture(scope="module")
def run(cluster: SparkCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """The driver of the tests that leave it alone."""
    driver = Driver(cluster, tmp_path_factory.mktemp("driver") / "log")
    yield driver
    driver.kill()


def test_reading_goes_on_when_executors_die_and_a_task_fails(
    run: Driver, servers: str, tmp_path: Path
) -> None:
    found = run("read", servers, tmp_path)
    assert Counter(value.encode() for value in found) == EXPECTED
    assert {"executor-of-1", "executor-of-2", "task-failed"} <= {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
@pytest.mark.parametrize("what", ["executor-dies", "one-is-slow"])
def test_each_row_is_written_when_tasks_run_again(
    what: str, guarantee: str, run: Driver, servers: str, tmp_path: Path
) -> None:
    """After an executor was killed, or a task failed; or beside each other, by speculation."""
    run(f"{what}:{guarantee}", servers, tmp_path)
    found = values(servers, "target", "read_committed")
    if guarantee == "exactly-once":
        assert found == EXPECTED
    else:
        assert found.keys() == EXPECTED.keys()
    happened = {path.name for path in tmp_path.iterdir()}
    assert {"executor-of-1", "task-failed"} <= happened or {"attempt-0", "attempt-1"} <= happened


def test_executors_come_and_go_with_the_work(run: Driver, servers: str, tmp_path: Path) -> None:
    before, at_work, after = run("dynamic", servers, tmp_path)
    assert before == after == 1
    assert at_work > 1
    assert values(servers, "target", "read_committed") == EXPECTED


def test_executors_get_logins_and_certificates_by_options_alone(run: Driver, tmp_path: Path) -> None:
    """A client's key, its certificate and the authority's as PEM in options: no file has to be anywhere."""
    from odradek.testing import Broker, Security

    security = Security(users={"alice": "s3cret"}, client_auth="required")
    with Broker(security=security) as broker:
        configs = broker.client_configs("alice", "SCRAM-SHA-512")
        assert configs["security.protocol"] == "SASL_SSL" and "PRIVATE KEY" in configs["ssl.keystore.key"]
        (tmp_path / "options.json").write_text(
            json.dumps({f"kafka.{name}": value for name, value in configs.items()}), encoding="utf-8"
        )
        found = run("secured", broker.bootstrap_servers, tmp_path)
    assert sorted(map(int, found)) == list(range(20))


def test_a_stream_loses_nothing_when_executors_a_machine_and_its_driver_die(
    cluster: SparkCluster, servers: str, tmp_path: Path
) -> None:
    """It writes at least once: all rows are there, and none that were not in the source."""
    driver = Driver(cluster, tmp_path / "log")
    driver.begin("endless", servers, tmp_path)

    def goes_on() -> None:
        """Wait until rows that come from now on are in the target."""
        wanted = values(servers, "source", "read_uncommitted")
        until(lambda: not wanted - values(servers, "target", "read_uncommitted"), driver)

    try:
        with rows_coming(servers, first=ROWS):
            goes_on()
            for pid in cluster.executors():
                os.kill(pid, signal.SIGKILL)
            goes_on()
            cluster.workers[0].kill()
            goes_on()
            cluster.revive()
            driver.kill()
            driver = Driver(cluster, tmp_path / "log")
            driver.begin("endless", servers, tmp_path)
            goes_on()
        goes_on()
    finally:
        driver.kill()
    source = values(servers, "source", "read_uncommitted")
    assert values(servers, "target", "read_uncommitted").keys() == source.keys()
    assert len(source) > ROWS


def until(holds: Callable[[], bool], driver: Driver) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert driver.runs(), driver.words()
        assert time.monotonic() < deadline, driver.words()
        time.sleep(0.1)


def test_a_session_of_a_submitted_job_runs_where_it_was_submitted_to(cluster: SparkCluster) -> None:
    """What `spark-submit` was told wins over what a session does where nothing was said."""
    conf = {**session_settings(), "spark.sql.shuffle.partitions": "7"}
    words = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    submit = [str(spark_home() / "bin" / "spark-submit")]
    done = subprocess.run(
        [*submit, "--master", cluster.url, *words, str(HERE / "submitted_job.py")],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["spark.master"] == cluster.url
    assert told["spark.sql.shuffle.partitions"] == "7"
    assert told["spark.sql.streaming.pollingDelay"] == "10"


def test_in_the_foreground_it_says_how_to_use_it_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """`make spark-cluster`."""
    port = free_port()
    program = subprocess.Popen(
        [sys.executable, str(HERE.parent / "spark_cluster.py"), str(port)], stdout=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    told = ""
    for line in program.stdout:
        told += line
        if "Ctrl-C" in line:
            break
    started = descendants(program.pid)
    program.send_signal(signal.SIGINT)
    told += program.stdout.read()
    assert program.wait(60) == 0, told
    program.stdout.close()
    assert f'session("mine", "spark://127.0.0.1:{port}")' in told
    # The master, two workers, and what they may have asked the system by a program.
    assert len(started) >= 3
    deadline = time.monotonic() + LIMIT_S
    while left := {pid for pid in started if lives(pid)}:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
