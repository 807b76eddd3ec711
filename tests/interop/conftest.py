"""Fixtures: an odradek server as its own process, real Kafka brokers, and the table of what clients did."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interop import compatibility, kafka_peer
from interop.tap import Tap
from ports import free_port
from waiting import WITHIN_S

if TYPE_CHECKING:
    from interop.one_or_three import Brokers


class OdradekServer:
    """`odradek server` as a child process that can be stopped, killed and started again on its port."""

    def __init__(
        self, directory: Path, tap: Tap | None = None, *, words: Sequence[str] = (), port: int = 0
    ) -> None:
        """
        Args:
            directory: gets the data and the log.
            tap: what clients connect to instead; its port is the one advertised.
            words: further words of its command line.
            port: where to listen; without one, on a free port.
        """
        self.directory = directory
        self.words = words
        self.port = port or free_port()
        self.tap = tap
        self._child: subprocess.Popen[str] | None = None

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of the broker."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it; each time on the same port."""
        command = [sys.executable, "-m", "odradek", "server", "--data", str(self.directory / "data")]
        command += ["--set", "group.initial.rebalance.delay.ms=0", *self.words]
        if self.tap is None:
            command += ["--port", str(self.port)]
        else:
            at = f"PLAINTEXT://127.0.0.1:{self.tap.reserve()}"
            command += ["--port", "0", "--set", f"advertised.listeners={at}"]
        with (self.directory / "server.log").open("ab") as log:
            child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert child.stdout is not None
        line = child.stdout.readline()
        if not line.startswith("ready "):
            child.kill()
            child.wait(WITHIN_S)
            raise RuntimeError(
                f"no ready line, but {line!r}:\n{(self.directory / 'server.log').read_text(encoding='utf-8')}"
            )
        self.port = int(line.rsplit(":", 1)[1])
        if self.tap is not None:
            self.tap.forward(self.port)
            self.port = self.tap.port
        self._child = child

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it, by SIGTERM unless told otherwise."""
        child = self._child
        if child is None:
            return
        if self.tap is not None:
            self.tap.refuse()
        child.send_signal(how)
        status = child.wait(kafka_peer.TOOL_LIMIT_S)
        assert child.stdout is not None
        child.stdout.close()
        self._child = None
        if self.tap is not None:
            self.tap.close()
        assert how != signal.SIGTERM or status == 0, (self.directory / "server.log").read_text(
            encoding="utf-8"
        )[-3000:]

    def restart(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it and start it again on the same port."""
        self.stop(how)
        self.start()


def needs_java_for(version: str) -> None:
    """Skips, by name, where a Kafka needs a Java that cannot be had."""
    if kafka_peer.needs_old_java(version):
        try:
            kafka_peer.old_java()
        except RuntimeError as why:
            pytest.skip(f"Kafka {version} needs Java 11: {why}")


@contextmanager
def _running(server: OdradekServer) -> Iterator[OdradekServer]:
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[OdradekServer]:
    """A fresh odradek server process."""
    with _running(OdradekServer(tmp_path)) as running:
        yield running


@pytest.fixture
def tapped(tmp_path: Path) -> Iterator[OdradekServer]:
    """A fresh odradek server process behind a tap."""
    with _running(OdradekServer(tmp_path, Tap())) as running:
        yield running


@pytest.fixture(params=["one broker", "three brokers"])
def brokers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Brokers]:
    """A fresh broker behind a tap; then three, over a ZooKeeper."""
    # These import this file.
    from interop.cluster_of_processes import cluster_or_skip
    from interop.one_or_three import One, Three

    if request.param == "one broker":
        yield One(request.getfixturevalue("tapped"))
    else:
        with cluster_or_skip(tmp_path) as cluster:
            yield Three(cluster)


@pytest.fixture
def compatibility_row(
    request: pytest.FixtureRequest,
) -> Iterator[Callable[..., compatibility.Row]]:
    """Makes rows of `docs/compatibility.md`; they get the outcome of this test, and what its tap has seen."""
    tapped = request.getfixturevalue("tapped") if "tapped" in request.fixturenames else None
    rows: list[compatibility.Row] = []

    def make(family: str, client: str, version: str, registry: str) -> compatibility.Row:
        rows.append(compatibility.Row(family, client, version, registry))
        return rows[-1]

    yield make
    report = request.node.stash.get(CALLED, None)
    for row in rows:
        if tapped is not None:
            row.asked(tapped.tap.seen)
        row.result = "failed" if report is None else _result(report)
        request.node.user_properties.append(compatibility.as_property(row))


CALLED = pytest.StashKey[pytest.TestReport]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Any:
    """Keep how a test went for the fixtures that end after it."""
    report: pytest.TestReport = yield
    if report.when == "call":
        item.stash[CALLED] = report
    return report


def _result(report: pytest.TestReport) -> str:
    expected = getattr(report, "wasxfail", None)
    reason = expected if expected is not None else _skipped_for(report)
    return compatibility.result_of(report.outcome, reason, expected_to_fail=expected is not None)


def _skipped_for(report: pytest.TestReport) -> str:
    return str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else ""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--compatibility FILE`."""
    parser.addoption(
        "--compatibility", type=Path, metavar="FILE", help="write the table of what clients did to this file"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Gather rows where they arrive, which is not in xdist's workers."""
    path = config.getoption("compatibility", None)
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(compatibility.Collector(path))


@pytest.fixture(scope="session")
def kafka_toolchain() -> None:
    """Skips, by name, where Java or Maven is absent."""
    if why := kafka_peer.missing_toolchain():
        pytest.skip(f"Apache Kafka: {why}")


@pytest.fixture(scope="session", params=["2.2.2", kafka_peer.NEWEST])
def real_kafka(
    request: pytest.FixtureRequest, kafka_toolchain: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[kafka_peer.RealKafka]:
    """A real Kafka broker of the documents' version, then one of the newest."""
    directory = tmp_path_factory.mktemp(f"kafka-{request.param}")
    with kafka_peer.RealKafka(request.param, directory) as running:
        yield running
