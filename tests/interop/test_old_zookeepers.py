"""Sessions with ZooKeepers that have no persistent watches of their own: what they do and survive."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from inspect import signature

import pytest

from cluster.settled_zookeeper import settled
from cluster.store import test_store_conformance, test_zookeeper, test_zookeeper_access
from cluster.store.test_store_conformance import clock
from cluster.store.zookeeper_sessions import chroot, connect, proxy
from interop import kafka_peer
from odradek.cluster.store.store import MetadataStore
from odradek.cluster.store.zookeeper import ZooKeeperStore
from zookeeper_server import ZooKeeperServer

__all__ = ["chroot", "clock", "connect", "proxy"]

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("kafka_toolchain")]

_chroots = itertools.count()


@pytest.fixture(scope="module", params=["3.4.14", "3.5.10"])
def zookeeper(
    request: pytest.FixtureRequest, kafka_toolchain: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ZooKeeperServer]:
    """A server of an old version: what Kafka 1 and 2.4 were run with."""
    version = request.param
    jars = kafka_peer.resolve(f"zookeeper-{version}", [("org.apache.zookeeper", "zookeeper", version)])
    server = ZooKeeperServer(tmp_path_factory.mktemp(f"zookeeper-{version}"), sorted(jars.glob("*.jar")))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def store(zookeeper: ZooKeeperServer) -> Iterator[MetadataStore]:
    store = settled(f"{zookeeper.address}/conformance-{next(_chroots)}")
    yield store
    store.close()


def test_a_server_without_multi_reads_is_asked_for_each_node(zookeeper: ZooKeeperServer) -> None:
    with closing(ZooKeeperStore(zookeeper.address)) as store:
        store.create("/read", b"x")
        for _ in range(2):
            found = store.get_many(["/read", "/none"])
            assert [each and each[0] for each in found] == [b"x", None]
            assert not store.reads_together
        store.delete("/read")


for _tests in (test_store_conformance, test_zookeeper, test_zookeeper_access):
    for _name, _test in vars(_tests).items():
        # The others have a server of their own, or none.
        if _name.startswith("test_") and {"store", "zookeeper"} & signature(_test).parameters.keys():
            globals()[_name] = _test
