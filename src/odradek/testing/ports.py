"""Ports on which a broker can be found again after a restart."""

from __future__ import annotations

import random
import socket

_BELOW_CONNECTIONS = range(10_240, 19_000)
"""Below those that systems give to outgoing connections: Linux from 32768, macOS and Windows from 49152."""

_TRIES = 100


def lasting_port() -> int:
    """Return a port of the loopback address that nothing listens on, and that no connection is given.

    A port that the system chooses is one of those that it gives to connections, too: while a broker is down
    anybody's connection may get it, and the broker could not come back.

    Returns:
        0 where all that were tried are taken: the system may choose one then.
    """
    # Of its own source: tests seed the common one, and would all begin with the same port.
    chosen = random.SystemRandom()
    for _ in range(_TRIES):
        port = chosen.choice(_BELOW_CONNECTIONS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    return 0
