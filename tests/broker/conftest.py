"""Fixtures of the broker's tests."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two sockets that are connected; the first does not block."""
    near, far = socket.socketpair()
    near.setblocking(False)
    yield near, far
    near.close()
    far.close()
