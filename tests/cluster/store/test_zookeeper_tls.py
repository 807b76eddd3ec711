"""ZooKeeper over TLS, as a broker's configs have it: a real server that wants certificates of its clients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from odradek.broker.assembly.store_choice import open_store
from odradek.broker.config.broker_config import BrokerConfig
from odradek.cluster.store.store import NotPermitted, StoreUnavailable
from odradek.cluster.store.zookeeper import ZooKeeperStore
from odradek.testing.certificates import CertificateAuthority
from odradek.util.clock import SystemClock
from zookeeper_server import Unavailable, ZooKeeperServer


class Secured(NamedTuple):
    """A server, and the configs that get to it."""

    server: ZooKeeperServer
    configs: dict[str, str]
    ca: CertificateAuthority
    folder: Path


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("zookeeper-tls")
    ca = CertificateAuthority(rsa_bits=2048)
    server_store = ca.issue("zookeeper", hosts=["127.0.0.1"]).write_pkcs12(folder / "server.p12", "secret")
    trust = ca.write_trust_store(folder / "ca.pem")
    client_store = ca.issue("broker").write_pkcs12(folder / "broker.p12", "secret")
    lines = [
        f"ssl.keyStore.location={server_store}",
        "ssl.keyStore.password=secret",
        f"ssl.trustStore.location={trust}",
        "ssl.clientAuth=need",
        # A client's certificate names no host.
        "ssl.hostnameVerification=false",
    ]
    try:
        server = ZooKeeperServer(folder / "data", tls=lines)
    except Unavailable as missing:
        pytest.skip(str(missing))
    server.start()
    configs = {
        "zookeeper.connect": f"127.0.0.1:{server.tls_port}/kafka",
        "zookeeper.connection.timeout.ms": "20000",
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "zookeeper.ssl.keystore.location": str(client_store),
        "zookeeper.ssl.keystore.password": "secret",
        "zookeeper.ssl.truststore.location": str(trust),
    }
    yield Secured(server, configs, ca, folder)
    server.kill()


def test_a_session_over_mutual_tls(secured: Secured) -> None:
    store = open_store(BrokerConfig(secured.configs), secured.folder, SystemClock())
    store.create("/a", b"x" * 100_000)
    # Many answers in few records: nothing waits for a ping.
    for number in range(300):
        store.create(f"/a/{number}", b"y" * 100)
    found = store.get_many([f"/a/{number}" for number in range(300)])
    assert all(one is not None and one[0] == b"y" * 100 for one in found)
    assert store.get("/a")[0] == b"x" * 100_000
    seen: list[str] = []
    store.watch_persistent("/a", lambda event: seen.append(event.path))
    store.delete("/a/0")
    store.close()


def test_who_shows_a_certificate_owns_what_it_writes(secured: Secured) -> None:
    """As Kafka has it: `zookeeper.set.acl` needs no login beside a certificate."""
    configs = {
        **secured.configs,
        "zookeeper.connect": f"127.0.0.1:{secured.server.tls_port}/owned",
        "zookeeper.set.acl": "true",
    }
    store = open_store(BrokerConfig(configs), secured.folder, SystemClock())
    store.create("/config")
    store.create("/config/users", b"salt")
    store.close()
    again = open_store(BrokerConfig(configs), secured.folder, SystemClock())
    assert again.get("/config/users")[0] == b"salt"
    again.close()
    other = ZooKeeperStore(f"{secured.server.address}/owned")
    with pytest.raises(NotPermitted):
        other.get("/config/users")
    with pytest.raises(NotPermitted):
        other.set("/config", b"")
    other.close()


@pytest.mark.parametrize("what", ["nobody", "another authority"])
def test_who_is_not_let_in(secured: Secured, what: str) -> None:
    configs = {**secured.configs, "zookeeper.connection.timeout.ms": "1500"}
    if what == "nobody":
        del configs["zookeeper.ssl.keystore.location"], configs["zookeeper.ssl.keystore.password"]
    else:
        other = CertificateAuthority().write_trust_store(secured.folder / "other.pem")
        configs["zookeeper.ssl.truststore.location"] = str(other)
    with pytest.raises(StoreUnavailable):
        open_store(BrokerConfig(configs), secured.folder, SystemClock())
