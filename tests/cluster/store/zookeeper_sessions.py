"""Sessions with a ZooKeeper, below a folder of nodes for each test."""

from __future__ import annotations

import itertools
import queue
from collections.abc import Callable, Iterator

import pytest

from cluster.store.losing_proxy import LosingProxy
from odradek.cluster.store.store import (
    EventType,
    WatchEvent,
)
from odradek.cluster.store.zookeeper import ZooKeeperStore
from zookeeper_server import ZooKeeperServer

LIMIT_S = 60
#: A server that has just started on a busy machine takes its time.
PATIENT = {"session_timeout_ms": 20_000, "connection_timeout_ms": 1000 * LIMIT_S}
_numbers = itertools.count()

Connect = Callable[..., ZooKeeperStore]


class Events(queue.Queue[WatchEvent]):
    """A watcher from which events can be taken."""

    def __call__(self, event: WatchEvent) -> None:
        self.put(event)

    def until(self, kind: EventType, path: str) -> None:
        """Take events up to this one."""
        while self.get(timeout=LIMIT_S) != (kind, path):
            pass


@pytest.fixture
def chroot(zookeeper: ZooKeeperServer) -> str:
    return f"/session-{next(_numbers)}"


@pytest.fixture
def connect() -> Iterator[Connect]:
    stores: list[ZooKeeperStore] = []

    def make(address: str, **words: object) -> ZooKeeperStore:
        stores.append(ZooKeeperStore(address, **{**PATIENT, **words}))  # type: ignore[arg-type]
        return stores[-1]

    yield make
    for store in stores:
        store.close()


@pytest.fixture
def proxy(zookeeper: ZooKeeperServer) -> Iterator[LosingProxy]:
    proxy = LosingProxy(zookeeper.port)
    yield proxy
    proxy.close()
