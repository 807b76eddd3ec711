"""How property tests choose their examples, which files begin first, and what signals do in the tests.

A test run is the same every time: the examples follow from the test itself, and seeds are fixed (`seeds`).
`make fuzz` looks further, with examples and seeds nobody has seen; what it finds becomes an `@example`, or a
case of its own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import shifted_clock
import time_box
from odradek.util import stale
from spark import java_classes, worker_python
from waiting import WITHIN_S

java_classes.use()
worker_python.use()

if "FAKETIME" in os.environ:  # tests/elsewhere.py
    sys.meta_path.insert(0, shifted_clock.NoLibrdkafka())

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

# A shell has what it starts in the background ignore Ctrl-C, `nohup` a hangup, and so would all that the
# tests start in turn. What has a handler here has the default action there.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda number, frame: None)


#: The longest files, in the order in which they begin. Those that start many Sparks do so when the archive of
#: Spark's classes is there, which is made beside the first.
LONGEST = (
    "tests/scenarios/test_killed_transactions.py",
    "tests/spark/reading/test_batch_read.py",
    "tests/spark/writing/test_exactly_once_small_kills.py",
    "tests/crash/test_kill9.py",
    "tests/spark/test_cluster.py",
    "tests/spark/test_cluster_packages.py",
    "tests/examples/test_orders.py",
    "tests/examples/test_pipelines.py",
    "tests/spark/writing/test_exactly_once_kills.py",
    "tests/spark/test_cluster_kills.py",
    "tests/spark/reading/test_stream_restart.py",
    "tests/docs/test_pages.py",
    "tests/demo/test_demo.py",
    "tests/test_interpreted.py",
    "tests/cli/test_wheel.py",
    "tests/simulation/test_simulation.py",
    # Of `make interop`: some begin with a build, each by a tool of its own.
    "tests/interop/test_program_clients.py",
    "tests/interop/test_librdkafka_suite.py",
    "tests/interop/test_kafka_go_suite.py",
    "tests/interop/test_spark_on_old_kafkas.py",
    "tests/interop/test_java_releases.py",
    "tests/interop/test_spark_connector.py",
    "tests/interop/test_faults_and_clients.py",
    "tests/interop/test_two_clusters.py",
    "tests/interop/test_enrichment.py",
    "tests/interop/test_flink_transactions.py",
    "tests/interop/test_spark_checkpoints.py",
    "tests/interop/test_transactions_handed_over.py",
    "tests/interop/test_librdkafka_restarts.py",
    "tests/interop/test_folders_both_ways.py",
    "tests/interop/test_clients_on_any_kafka.py",
    "tests/interop/test_flink_connector.py",
    "tests/interop/test_groups_like_kafka.py",
    "tests/interop/test_old_formats.py",
    "tests/interop/test_transaction_answers_like_kafka.py",
    "tests/interop/test_java_clients.py",
    "tests/interop/test_manners_of_old_kafkas.py",
    "tests/interop/test_refusals_like_kafka.py",
)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to test what was compiled of sources that have changed since; know which PySpark this is."""
    if find_spec("pyspark") is not None and version("pyspark").startswith("4.1."):
        # It leaves the sockets of its results to the garbage collector.
        config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")
    kernel = stale.kernel(stale.ROOT / "src/odradek")
    for name in (*stale.stale_walk(), *filter(stale.is_stale, kernel)):
        pytest.exit(f"{name} has changed since it was compiled: make .venv/.dev builds it again", 4)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what would begin too late for the run."""
    time_box.skip_late(os.environ, time.time())


#: How long tests may take that wait for more than themselves, in seconds; others have pytest's `timeout`.
LONG_S = 600
_LONG = {"slow", "spark", "interop", "faults"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have the long files begin first: one that begins last keeps all workers but its own waiting."""
    for item in items:
        is_long = os.environ.get("HYPOTHESIS_PROFILE") == "random" or any(
            item.get_closest_marker(name) for name in _LONG
        )
        if is_long and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LONG_S))
    root = Path(__file__).parents[1]
    places = {root / name: place - len(LONGEST) for place, name in enumerate(LONGEST)}
    marks: dict[object, set[str]] = {}
    for item in items:
        marks.setdefault(item.path, set()).update(mark.name for mark in item.iter_markers())

    def rank(item: pytest.Item) -> int:
        if item.path in places:
            return places[item.path]
        has = marks[item.path]
        return 0 if {"slow", "spark"} <= has else 1 if "spark" in has else 2 if "slow" in has else 3

    items.sort(key=rank)


#: Spark's archive, while it is made; tests that start this many Sparks have it made.
_making: list[subprocess.Popen[bytes]] = []
_WORTH_AN_ARCHIVE = 10


def pytest_collection_finish(session: pytest.Session) -> None:
    """Have Spark's classes archived beside the first of many tests that start it."""
    starts = sum(
        1 for item in session.items if {"slow", "spark"} <= {mark.name for mark in item.iter_markers()}
    )
    if starts >= _WORTH_AN_ARCHIVE and (making := java_classes.begin()) is not None:
        _making.append(making)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Leave no process behind."""
    for making in _making:
        with suppress(ProcessLookupError):
            os.killpg(making.pid, signal.SIGKILL)
        making.wait(WITHIN_S)


#: Of these files the first test waits half a minute for Spark's session; the others find it there.
SHARE_A_SESSION = {
    f"tests/spark/{name}.py"
    for name in (
        "reading/test_batch_read",
        "writing/test_batch_write",
        "writing/test_exactly_once",
        "reading/test_grown_topics",
        "reading/test_recreated_topics",
        "sessions/test_session",
        "reading/test_stream",
    )
}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give the files that share a Spark session to one worker."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Sharing(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return "tests/spark" if file in SHARE_A_SESSION else file

    return Sharing(config, log)
