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

pytest.importorskip("pyspark")

from odradek.client import Admin, NewTopic, Producer
from ports import free_port
from spark.exactly_once_kills import rows_coming, values
from spark_cluster import SparkCluster, descendants

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


def start(scenario: str, cluster: SparkCluster, servers: str, folder: Path) -> subprocess.Popen[str]:
    words = [str(HERE / "cluster_job.py"), scenario, cluster.url, servers, str(folder)]
    with (folder / "driver.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, *words], stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        )


def kill(driver: subprocess.Popen[str]) -> None:
    """End a driver with its JVM."""
    if driver.poll() is None:
        os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
    assert driver.stdout is not None
    driver.stdout.close()


def run(scenario: str, cluster: SparkCluster, servers: str, folder: Path) -> Any:
    driver = start(scenario, cluster, servers, folder)
    try:
        told, _ = driver.communicate(timeout=LIMIT_S)
        assert driver.returncode == 0, (folder / "driver.log").read_text()[-4000:]
        return json.loads(told.splitlines()[-1])
    finally:
        kill(driver)


def test_reading_goes_on_when_executors_die_and_a_task_fails(
    cluster: SparkCluster, servers: str, tmp_path: Path
) -> None:
    found = run("read", cluster, servers, tmp_path)
    assert Counter(value.encode() for value in found) == EXPECTED
    assert {"executor-of-1", "executor-of-2", "task-failed"} <= {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
@pytest.mark.parametrize("what", ["executor-dies", "one-is-slow"])
def test_each_row_is_written_when_tasks_run_again(
    what: str, guarantee: str, cluster: SparkCluster, servers: str, tmp_path: Path
) -> None:
    """After an executor was killed, or a task failed; or beside each other, by speculation."""
    run(f"{what}:{guarantee}", cluster, servers, tmp_path)
    found = values(servers, "target", "read_committed")
    if guarantee == "exactly-once":
        assert found == EXPECTED
    else:
        assert found.keys() == EXPECTED.keys()
    happened = {path.name for path in tmp_path.iterdir()}
    assert {"executor-of-1", "task-failed"} <= happened or {"attempt-0", "attempt-1"} <= happened


def test_executors_come_and_go_with_the_work(cluster: SparkCluster, servers: str, tmp_path: Path) -> None:
    before, at_work, after = run("dynamic", cluster, servers, tmp_path)
    assert before == after == 1
    assert at_work > 1
    assert values(servers, "target", "read_committed") == EXPECTED


def test_a_stream_loses_nothing_when_executors_machines_and_its_driver_die(
    cluster: SparkCluster, servers: str, tmp_path: Path
) -> None:
    """It writes at least once: all rows are there, and none that were not in the source."""
    driver = start("endless", cluster, servers, tmp_path)

    def goes_on() -> None:
        """Wait until rows that come from now on are in the target."""
        wanted = values(servers, "source", "read_uncommitted")
        until(lambda: not wanted - values(servers, "target", "read_uncommitted"), driver, tmp_path)

    try:
        with rows_coming(servers, first=ROWS):
            goes_on()
            for pid in cluster.executors():
                os.kill(pid, signal.SIGKILL)
            goes_on()
            cluster.workers[0].kill()
            goes_on()
            cluster.revive()
            cluster.workers[1].kill()
            goes_on()
            cluster.revive()
            kill(driver)
            driver = start("endless", cluster, servers, tmp_path)
            goes_on()
        goes_on()
    finally:
        kill(driver)
    source = values(servers, "source", "read_uncommitted")
    assert values(servers, "target", "read_uncommitted").keys() == source.keys()
    assert len(source) > ROWS


def until(holds: Callable[[], bool], driver: subprocess.Popen[str], folder: Path) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        told = (folder / "driver.log").read_text()[-4000:]
        assert driver.poll() is None, told
        assert time.monotonic() < deadline, told
        time.sleep(0.1)


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
    assert len(started) == 3
    for pid in started:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
