"""Where a broker's nodes are in a ZooKeeper, and who may read and write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.store.losing_proxy import LosingProxy
from odradek.client import Admin
from odradek.cluster.store.store import (
    BadArguments,
    Check,
    Create,
    Delete,
    EventType,
    NodeExists,
    NotPermitted,
    SessionExpired,
    StoreUnavailable,
)
from odradek.cluster.store.zookeeper import ZooKeeperStore
from odradek.cluster.store.zookeeper_access import DigestAuth, SaslAuth
from odradek.testing import Broker
from odradek.testing.security import Security
from ports import free_port
from zookeeper_server import ZooKeeperServer, available, zookeeper

from .zookeeper_sessions import LIMIT_S, Connect, Events, chroot, connect, proxy

__all__ = ["chroot", "connect", "proxy", "zookeeper"]


def test_a_chroot_is_made_and_cannot_be_seen(
    zookeeper: ZooKeeperServer, chroot: str, connect: Connect
) -> None:
    inside = connect(f"{zookeeper.address}{chroot}/deep/down")
    outside = connect(zookeeper.address)
    assert inside.create("/a") == "/a"
    assert inside.multi([Create("/b"), Create("/b/c-", sequence=True)]) == ["/b", "/b/c-0000000000"]
    assert inside.create("/", sequence=True) == "/0000000002"
    assert outside.children(f"{chroot}/deep/down") == ["0000000002", "a", "b"]
    assert inside.children("/") == outside.children(f"{chroot}/deep/down")
    assert inside.exists(f"{chroot}/deep/down") is None
    events = Events()
    inside.get("/a", watch=events)
    outside.delete(f"{chroot}/deep/down/a")
    events.until(EventType.DELETED, "/a")
    with pytest.raises(BadArguments):
        inside.delete("/")
    with pytest.raises(NodeExists):
        inside.create("/")
    again = connect(f"{zookeeper.address}{chroot}/deep/down/")
    assert again.exists("/b") is not None


def test_one_of_several_servers_is_enough(zookeeper: ZooKeeperServer, chroot: str, connect: Connect) -> None:
    store = connect(f"127.0.0.1:{free_port()},{zookeeper.address}, 127.0.0.1:{free_port()}{chroot}")
    assert store.create("/a") == "/a"


def test_no_server_is_said_in_time() -> None:
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(StoreUnavailable, match=f"no ZooKeeper answers at {address} .* within 0.3 s"):
        ZooKeeperStore(address, connection_timeout_ms=300)


def test_without_acls_everybody_may_do_everything(
    zookeeper: ZooKeeperServer, chroot: str, connect: Connect
) -> None:
    one = connect(zookeeper.address + chroot, auth=DigestAuth("kafka", "secret"))
    one.create("/a")
    connect(zookeeper.address + chroot).set("/a", b"x")


def test_acls_are_kafkas(zookeeper: ZooKeeperServer, chroot: str, connect: Connect) -> None:
    auth = DigestAuth("kafka", "secret")
    connect(zookeeper.address + chroot)
    broker = connect(zookeeper.address + chroot, auth=auth, set_acl=True)
    broker.multi([Create("/brokers"), Create("/config"), Create("/consumers")])
    broker.create("/config/users", b"salt")
    stranger = connect(zookeeper.address + chroot, auth=DigestAuth("kafka", "wrong"))
    assert stranger.get("/brokers")[0] is None
    for call in (
        lambda: stranger.set("/brokers", b"x"),
        lambda: stranger.create("/brokers/ids"),
        lambda: stranger.get("/config/users"),
        lambda: stranger.get_many(["/brokers", "/config/users"]),
        lambda: stranger.multi([Check("/brokers"), Delete("/config/users")]),
    ):
        with pytest.raises(NotPermitted, match="/"):
            call()
    stranger.create("/consumers/mine")
    colleague = connect(zookeeper.address + chroot, auth=auth, set_acl=True)
    assert colleague.get("/config/users")[0] == b"salt"
    colleague.set("/brokers", b"x")


def test_a_brokers_nodes_are_its_own(zookeeper: ZooKeeperServer, chroot: str, connect: Connect) -> None:
    credentials = {"odradek_zookeeper_username": "kafka", "odradek_zookeeper_password": "secret"}
    with Broker(
        zookeeper_connect=zookeeper.address + chroot,
        zookeeper_connection_timeout_ms=1000 * LIMIT_S,
        zookeeper_set_acl=True,
        odradek_zookeeper_auth="digest",
        broker_id=7,
        default_replication_factor=1,
        **credentials,
    ) as broker:
        broker.create_topic("clicks")
        stranger = connect(zookeeper.address + chroot)
        for path in ("/brokers/ids/7", "/brokers/topics/clicks", "/controller"):
            assert stranger.get(path)[0]
            with pytest.raises(NotPermitted):
                stranger.set(path, b"mine")
        colleague = connect(zookeeper.address + chroot, auth=DigestAuth("kafka", "secret"))
        colleague.set("/brokers/topics/clicks", colleague.get("/brokers/topics/clicks")[0])


def test_a_secured_brokers_users_can_log_in(zookeeper: ZooKeeperServer, chroot: str) -> None:
    with (
        Broker(
            security=Security(users={"app": "secret"}, mechanisms=("PLAIN", "SCRAM-SHA-256")),
            zookeeper_connect=zookeeper.address + chroot,
            zookeeper_connection_timeout_ms=1000 * LIMIT_S,
            default_replication_factor=1,
        ) as broker,
        Admin(**broker.client_configs("app", "SCRAM-SHA-256")) as admin,
    ):
        assert admin.list_topics() == []


def test_acls_need_credentials() -> None:
    with pytest.raises(BadArguments, match=r"zookeeper.set.acl=true: .* give credentials"):
        ZooKeeperStore("127.0.0.1:2181", set_acl=True)


def test_no_log_tells_credentials(
    zookeeper: ZooKeeperServer, chroot: str, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(1)
    store = connect(zookeeper.address + chroot, auth=DigestAuth("kafka", "hunter2"))
    store.create("/a", b"salted")
    store.close()
    assert "Connecting to" in caplog.text
    assert "hunter2" not in caplog.text
    assert "salted" not in caplog.text


def test_credentials_are_given_again_with_a_new_connection(
    zookeeper: ZooKeeperServer, chroot: str, connect: Connect, proxy: LosingProxy
) -> None:
    store = connect(proxy.address + chroot, auth=DigestAuth("kafka", "secret"), set_acl=True)
    store.create("/config")
    store.create("/config/users", b"salt")
    proxy.break_connections()
    assert store.get("/config/users")[0] == b"salt"


def test_sasl(tmp_path: Path, connect: Connect) -> None:
    pytest.importorskip("puresasl", reason="SASL needs the package pure-sasl")
    server = available(tmp_path / "sasl", sasl=True)
    server.start()
    try:
        broker = connect(server.address, auth=SaslAuth("kafka", "secret"), set_acl=True)
        broker.create("/config")
        broker.create("/config/users", b"salt")
        with pytest.raises(NotPermitted):
            connect(server.address).get("/config/users")
        with pytest.raises(SessionExpired, match="refuses the credentials"):
            connect(server.address, auth=SaslAuth("kafka", "wrong"))
        broker.close()
        again = connect(server.address, auth=SaslAuth("kafka", "secret"))
        assert again.get("/config/users")[0] == b"salt"
    finally:
        server.kill()
