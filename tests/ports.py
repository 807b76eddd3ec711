"""Ports for servers that are started again on the one that they had."""

from __future__ import annotations

import contextlib
import os
import random
import socket

_RANGE = range(20_000, 32_000)
"""Below those that Linux gives to connections (from 32768) and macOS (from 49152)."""


_WORKERS = 8
_given: set[int] = set()


def _own() -> range:
    """The ports of this worker of pytest: others choose theirs at the same time."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return _RANGE[worker % _WORKERS :: _WORKERS]


def free_port() -> int:
    """A port of the loopback address that nothing listens on, that no connection is given, and nobody else.

    A port that the system has chosen is one of those that it gives to connections, too: until a server
    listens there, and each time that it is down, anybody's may get it.
    """
    while True:
        port = random.SystemRandom().choice(_own())
        if port in _given:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            _given.add(port)
            return port
