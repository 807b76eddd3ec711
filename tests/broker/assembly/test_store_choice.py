"""Which metadata store a broker opens for which configs."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.broker.assembly.store_choice import is_shared, open_store
from odradek.broker.config.broker_config import BrokerConfig
from odradek.cluster.configs.config_def import ConfigError
from odradek.cluster.store.embedded import EmbeddedStore
from odradek.cluster.store.remote_store import RemoteStore
from odradek.cluster.store.store import StoreUnavailable
from odradek.cluster.store.store_server import StoreServer
from odradek.cluster.store.zookeeper_access import DigestAuth, SaslAuth
from odradek.util.clock import ManualClock


def test_a_broker_without_a_word_has_a_file_of_its_own(tmp_path: Path) -> None:
    config = BrokerConfig({})
    store = open_store(config, tmp_path, ManualClock())
    assert isinstance(store, EmbeddedStore)
    assert not is_shared(config)
    assert (tmp_path / "metadata.sqlite").exists()
    store.close()


def test_a_worker_has_a_session_with_the_shared_store(tmp_path: Path) -> None:
    embedded = EmbeddedStore(tmp_path / "metadata.sqlite")
    server = StoreServer(embedded, tmp_path / "s")
    server.start()
    config = BrokerConfig({"odradek.store.socket": str(tmp_path / "s"), "zookeeper.connect": "nowhere:1"})
    store = open_store(config, tmp_path / "worker", ManualClock())
    assert isinstance(store, RemoteStore)
    assert is_shared(config)
    store.create("/a")
    assert embedded.exists("/a") is not None
    store.close()
    server.stop()
    embedded.close()
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        open_store(config, tmp_path, ManualClock())


def test_what_is_promised_of_the_way_to_zookeeper_is_kept_or_refused(tmp_path: Path) -> None:
    tls = {"zookeeper.connect": "nowhere:1", "zookeeper.ssl.client.enable": "true"}
    for more, told in (
        (
            {"zookeeper.ssl.truststore.location": "/nowhere.pem"},
            r"zookeeper\.ssl\.truststore\.location: .*No such",
        ),
        ({"zookeeper.ssl.crl.enable": "true"}, r"zookeeper\.ssl\.crl\.enable=true: whether"),
        ({"zookeeper.ssl.ocsp.enable": "true"}, r"zookeeper\.ssl\.ocsp\.enable=true: whether"),
    ):
        config = BrokerConfig({**tls, **more})
        assert is_shared(config)
        with pytest.raises(ConfigError, match=told):
            open_store(config, tmp_path, ManualClock())
    assert list(tmp_path.iterdir()) == []


def test_zookeeper_is_connected_to_as_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, dict[str, object]]] = []

    class Noted:
        def __init__(self, connect: str, **options: object) -> None:
            calls.append((connect, options))

    monkeypatch.setattr("odradek.cluster.store.zookeeper.ZooKeeperStore", Noted)
    given = {
        "zookeeper.connect": "h:1/x",
        "zookeeper.session.timeout.ms": "7000",
        "zookeeper.set.acl": "true",
        "odradek.zookeeper.auth": "digest",
        "odradek.zookeeper.username": "kafka",
        "odradek.zookeeper.password": "secret",
    }
    for further, connecting in (({}, 7000), ({"zookeeper.connection.timeout.ms": "5"}, 5)):
        config = BrokerConfig(given | further)
        assert is_shared(config)
        open_store(config, tmp_path, ManualClock())
        assert calls.pop() == (
            "h:1/x",
            {
                "session_timeout_ms": 7000,
                "connection_timeout_ms": connecting,
                "auth": DigestAuth("kafka", "secret"),
                "set_acl": True,
                "tls": None,
                "has_certificate": False,
            },
        )
    open_store(BrokerConfig(given | {"odradek.zookeeper.auth": "DIGEST-MD5"}), tmp_path, ManualClock())
    assert calls.pop()[1]["auth"] == SaslAuth("kafka", "secret")


class Kerberos:
    """Stands for `GssapiLogin`, which needs a library."""

    def __init__(self, *given: str | None) -> None:
        self.given = given


KERBEROS = """com.sun.security.auth.module.Krb5LoginModule required
  useKeyTab=true keyTab="/etc/kafka.keytab" principal="kafka/one@REALM";"""
DIGEST = 'org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" password="secret";'


def auth_with(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, client: str | None, more: dict[str, str]
) -> object:
    """Who the broker is at ZooKeeper, with this context `Client` in its JAAS file."""
    calls: list[object] = []
    monkeypatch.setattr(
        "odradek.cluster.store.zookeeper.ZooKeeperStore", lambda *_, auth, **__: calls.append(auth)
    )
    monkeypatch.setattr("odradek.sasl.gssapi.GssapiLogin", Kerberos)
    jaas = tmp_path / "jaas.conf"
    jaas.write_text("KafkaServer { x.PlainLoginModule required; };", encoding="utf-8")
    if client is not None:
        jaas.write_text(f"Client {{ {client} }};", encoding="utf-8")
    configs = {"zookeeper.connect": "h:1", "odradek.jaas.config.file": str(jaas), **more}
    open_store(BrokerConfig(configs), tmp_path, ManualClock())
    return calls.pop()


def login_with(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, client: str | None, more: dict[str, str]
) -> object:
    auth = auth_with(monkeypatch, tmp_path, client, more)
    assert isinstance(auth, SaslAuth) and isinstance(auth.login, Kerberos)
    return auth.login.given


def test_who_a_broker_is_at_zookeeper_may_stand_in_the_jaas_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with_key = ("zookeeper", "kafka/one@REALM", "/etc/kafka.keytab")
    gssapi = {"odradek.zookeeper.auth": "GSSAPI"}
    assert login_with(monkeypatch, tmp_path, KERBEROS, {}) == with_key
    assert login_with(monkeypatch, tmp_path, KERBEROS, gssapi) == with_key
    ticket = "com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true;"
    zoo = {"odradek.zookeeper.service.name": "zoo"}
    assert login_with(monkeypatch, tmp_path, ticket, zoo) == ("zoo", None, None)
    assert login_with(monkeypatch, tmp_path, None, gssapi) == ("zookeeper", None, None)
    assert auth_with(monkeypatch, tmp_path, DIGEST, {}) == SaslAuth("kafka", "secret")
    # What the configs say comes first.
    digest = {
        "odradek.zookeeper.auth": "digest",
        "odradek.zookeeper.username": "a",
        "odradek.zookeeper.password": "b",
    }
    assert auth_with(monkeypatch, tmp_path, KERBEROS, digest) == DigestAuth("a", "b")
    assert auth_with(monkeypatch, tmp_path, None, {}) is None


@pytest.mark.parametrize(
    ("client", "told"),
    [
        ("x.PlainLoginModule required;", "Client has PlainLoginModule; what ZooKeeper takes"),
        (
            'x.DigestLoginModule required username="kafka";',
            "Client has DigestLoginModule; what ZooKeeper takes",
        ),
        ('x.Krb5LoginModule required useKeyTab=true keyTab="/k";', "a keyTab, and no principal"),
        ("what is this", "jaas.conf: "),
    ],
)
def test_a_context_that_zookeeper_does_not_take_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, client: str, told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        auth_with(monkeypatch, tmp_path, client, {})


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"zookeeper.set.acl": "true"}, "nobody's"),
        ({"odradek.zookeeper.auth": "digest", "odradek.zookeeper.username": "kafka"}, "password"),
        ({"odradek.zookeeper.auth": "DIGEST-MD5", "odradek.zookeeper.password": "secret"}, "username"),
    ],
)
def test_who_a_broker_is_at_zookeeper_is_said_in_full(
    tmp_path: Path, given: dict[str, str], missing: str
) -> None:
    config = BrokerConfig({"zookeeper.connect": "nowhere:1", **given})
    with pytest.raises(ConfigError, match=missing):
        open_store(config, tmp_path, ManualClock())
