"""Ports for servers that are started again on the one that they had."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

_RANGE = range(20_000, 32_000)
"""Below those that Linux gives to connections (from 32768) and macOS (from 49152)."""


_WORKERS = 8
_given: set[int] = set()
_lock_file = -1
"""A file whose bytes stand for ports, each locked by who has taken it; the locks end with the process."""


def _own() -> range:
    """The ports of this worker of pytest: others choose theirs at the same time."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return _RANGE[worker % _WORKERS :: _WORKERS]


def free_port() -> int:
    """A port of the loopback address that nothing listens on, that no connection is given, and nobody else.

    A port that the system has chosen is one of those that it gives to connections, too: until a server
    listens there, and each time that it is down, anybody's may get it. The same port is given to no other run
    of the tests on this machine while this process lives: a server that takes seconds to listen would find
    another's there, and a Kafka without a ZooKeeper of its own joins the other's.
    """
    while True:
        port = random.SystemRandom().choice(_own())
        if port in _given:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if is_ours(port):
                _given.add(port)
                return port


def is_ours(port: int) -> bool:
    """Take a port, unless another process has."""
    global _lock_file
    if _lock_file < 0:
        path = Path(tempfile.gettempdir()) / f"odradek-test-ports-{os.getuid()}"
        _lock_file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.lockf(_lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True
