"""A broker's port is none that the system gives to connections, so that a restart finds it free."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from odradek.testing import Broker, ports

GIVEN_TO_CONNECTIONS = Path("/proc/sys/net/ipv4/ip_local_port_range")


def test_a_port_is_none_that_connections_are_given() -> None:
    first = 32_768
    if GIVEN_TO_CONNECTIONS.exists():
        first = int(GIVEN_TO_CONNECTIONS.read_text(encoding="utf-8").split()[0])
    with Broker() as broker:
        assert 1_024 <= broker.port < first


def test_a_port_that_is_taken_is_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(ports, "_BELOW_CONNECTIONS", range(port, port + 1))
        assert ports.lasting_port() == 0
        with Broker() as broker:
            assert broker.port not in (0, port)
            chosen = broker.port
            broker.restart()
            assert broker.port == chosen
