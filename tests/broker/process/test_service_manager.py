"""A service manager hears of a server's readiness, signs of life and stop, over a socket as systemd's is."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.broker.process.service_manager import ServiceManager
from waiting import WITHIN_S


class Manager:
    """A service manager's end of the socket."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.settimeout(WITHIN_S)
        self._socket.bind(f"\0{address[1:]}" if address.startswith("@") else address)

    def hears(self) -> str:
        return self._socket.recv(4_096).decode()

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["a file", "an abstract name"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    is_file = request.param == "a file"
    manager = Manager(str(tmp_path / "notify") if is_file else f"@odradek-test-{os.getpid()}")
    yield manager
    manager.close()


def test_it_is_told_of_readiness_and_stop(manager: Manager) -> None:
    service = ServiceManager({"NOTIFY_SOCKET": manager.address})
    service.ready("127.0.0.1:9092")
    service.stopping()
    assert manager.hears() == "READY=1\nSTATUS=Ready at 127.0.0.1:9092"
    assert manager.hears() == "STOPPING=1\nSTATUS=Stopping"


def test_its_wishes_are_not_handed_on() -> None:
    environment = {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "9000000", "WATCHDOG_PID": f"{os.getpid()}"}
    service = ServiceManager(environment)
    assert environment == {}
    assert service.sign_ms == 3_000


@pytest.mark.parametrize(
    "more", [{}, {"WATCHDOG_USEC": "soon"}, {"WATCHDOG_USEC": "9000000", "WATCHDOG_PID": "1"}]
)
def test_no_sign_of_life_is_wanted(more: dict[str, str]) -> None:
    assert ServiceManager({"NOTIFY_SOCKET": "/nowhere", **more}).sign_ms == 0


def test_nobody_listens(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    ServiceManager({}).ready("127.0.0.1:9092")
    assert caplog.text == ""
    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready("127.0.0.1:9092")
    assert "the service manager was not told: READY=1" in caplog.text


@pytest.mark.parametrize("more", [[], ["--workers", "2"]], ids=["one broker", "workers"])
def test_a_server_tells_it(more: list[str], tmp_path: Path) -> None:
    manager = Manager(str(tmp_path / "notify"))
    environment = {**os.environ, "NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "300000"}
    command = [sys.executable, "-m", "odradek", "server", "--data", str(tmp_path / "data"), "--port", "0"]
    process = subprocess.Popen(
        [*command, *more], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        heard = [manager.hears()]
        while not heard[-1].startswith("READY=1"):
            heard.append(manager.hears())
        assert manager.hears() == manager.hears() == "WATCHDOG=1"
        process.terminate()
        heard = [manager.hears()]
        while heard[-1] == "WATCHDOG=1":
            heard.append(manager.hears())
        assert heard[-1].startswith("STOPPING=1")
        assert process.wait(WITHIN_S) == 0
    finally:
        process.kill()
        process.wait(WITHIN_S)
        manager.close()
