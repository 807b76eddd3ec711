"""Fixtures: an odradek server as its own process, and real Kafka brokers."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop import kafka_peer


class OdradekServer:
    """`odradek server` as a child process that can be stopped, killed and started again on its port."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = 0
        self._child: subprocess.Popen[str] | None = None

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of the broker."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it; the first time on a free port, afterwards on the same one."""
        command = [sys.executable, "-m", "odradek", "server", "--data", str(self.directory / "data")]
        command += ["--port", str(self.port), "--set", "group.initial.rebalance.delay.ms=0"]
        with (self.directory / "server.log").open("ab") as log:
            child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert child.stdout is not None
        line = child.stdout.readline()
        if not line.startswith("ready "):
            child.kill()
            child.wait()
            raise RuntimeError(f"no ready line, but {line!r}:\n{(self.directory / 'server.log').read_text()}")
        self.port = int(line.rsplit(":", 1)[1])
        self._child = child

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it, by SIGTERM unless told otherwise."""
        child = self._child
        if child is None:
            return
        child.send_signal(how)
        status = child.wait(30)
        assert child.stdout is not None
        child.stdout.close()
        self._child = None
        assert how != signal.SIGTERM or status == 0, (self.directory / "server.log").read_text()[-3000:]

    def restart(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it and start it again on the same port."""
        self.stop(how)
        self.start()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[OdradekServer]:
    """A fresh odradek server process."""
    running = OdradekServer(tmp_path)
    running.start()
    try:
        yield running
    finally:
        running.stop()


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
