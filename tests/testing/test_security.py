"""Secured brokers in one line: clients of all kinds, what they are told, reload, a cluster over TLS."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from odradek import (
    Admin,
    AsyncConsumer,
    AsyncProducer,
    Consumer,
    NewTopic,
    Producer,
    SimpleConsumer,
    TopicPartition,
)
from odradek.broker.app import StartError
from odradek.client.errors import SslAuthenticationError
from odradek.client.raw import RawReader, RawWriter
from odradek.errors import InvalidRequestError, KafkaError
from odradek.testing import Broker, Cluster, Security
from odradek.testing.certificates import CertificateAuthority
from waiting import WITHIN_S

if TYPE_CHECKING:
    from odradek.broker.services import BrokerServices

MIB = 1024 * 1024


def test_all_clients_over_mutual_tls() -> None:
    with Broker(security=Security(client_auth="required")) as broker:
        alice = broker.client_configs("alice")
        with Admin(**alice) as admin:
            admin.create_topics([NewTopic("t", 2)])
        with Producer(**alice, max_request_size=4 * MIB) as producer:
            sent = [producer.send("t", bytes([n]) * (MIB - 200), partition=0) for n in range(8)]
            assert [one.result(WITHIN_S).offset for one in sent] == list(range(8))
        with Consumer("t", **alice, group_id="g", auto_offset_reset="earliest") as consumer:
            seen = []
            for record in consumer:
                seen.append(record.value[:1])
                if len(seen) == 8:
                    break
            assert seen == [bytes([n]) for n in range(8)]
        with SimpleConsumer("127.0.0.1", broker.port, **_without_servers(alice)) as simple:
            assert simple.last_offset("t", 0) == 8

        async def in_a_loop() -> None:
            async with AsyncProducer(**alice) as producer:
                await (await producer.send("t", b"async", partition=1))
            async with AsyncConsumer(**alice, auto_offset_reset="earliest") as consumer:
                await consumer.assign([TopicPartition("t", 1)])
                assert await anext(aiter(consumer))

        asyncio.run(in_a_loop())
        assert broker.call(lambda b: {one.name for one in b.listeners}) == {"SSL"}


class _WrongAcls(Security):
    async def add_acls(self, broker: BrokerServices) -> None:
        """Fail, as an ACL that cannot be does."""
        raise InvalidRequestError("no such ACL")


def test_a_broker_whose_acls_cannot_be_is_stopped(tmp_path: Path) -> None:
    with (
        pytest.raises(InvalidRequestError, match="no such ACL"),
        Broker(data=tmp_path, security=_WrongAcls()),
    ):
        pass
    # Its folder is nobody's any more.
    with Broker(data=tmp_path):
        pass


def _without_servers(configs: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in configs.items() if name != "bootstrap.servers"}


def test_whole_partitions_over_tls() -> None:
    pytest.importorskip("pyarrow")
    with Broker(security="ssl") as broker:
        broker.create_topic("t")
        configs = broker.client_configs()
        import pyarrow as pa

        servers = configs.pop("bootstrap.servers")
        with RawWriter(servers, configs) as writer:
            writer.write_columns(pa.table({"value": pa.array([b"v" * 1000] * 5000, pa.binary())}), "t")
        with RawReader(servers, configs) as reader:
            rows = sum(batch.num_rows for batch in reader.fetch_columns("t", 0, 0, 5000))
        assert rows == 5000


@pytest.mark.parametrize("kind", ["authority", "expired", "host", "nobody"])
def test_what_a_client_is_told(kind: str) -> None:
    """Clients do not try for minutes what cannot come right."""
    hosts = ("elsewhere",) if kind == "host" else ("localhost", "127.0.0.1")
    security = Security(client_auth="required", hosts=hosts)
    with Broker(security=security) as broker:
        configs = broker.client_configs("alice")
        if kind == "authority":
            configs["ssl.truststore.certificates"] = CertificateAuthority().pem
        elif kind == "expired":
            configs |= security.authority.issue("alice", expired=True).configs()
        elif kind == "nobody":
            configs = broker.client_configs()
        told = {
            "authority": "self-signed certificate in certificate chain",
            "expired": "certificate has expired",
            "host": "IP address mismatch",
            "nobody": "the broker wants a client certificate",
        }[kind]
        with pytest.raises(SslAuthenticationError, match=told), Admin(**configs) as admin:
            admin.list_topics()
        with pytest.raises(KafkaError, match=told), Producer(**configs) as producer:
            producer.send("t", b"x").result(WITHIN_S)
        with (
            pytest.raises(KafkaError, match=told),
            RawReader(configs.pop("bootstrap.servers"), configs) as reader,
        ):
            reader.partitions_for("t")


def test_the_kits_own_bad_words() -> None:
    with pytest.raises(ValueError, match="security='tls': PLAINTEXT or SSL"):
        Broker(security="tls")


def test_a_listener_without_a_key_does_not_start() -> None:
    with pytest.raises(StartError, match=r"listener SSL: ssl\.keystore\.location: .*needs a key"):
        Broker(security="SSL", ssl_keystore_key="", ssl_keystore_certificate_chain="").start()


def test_reload_by_alter_configs_and_by_the_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    security = Security(tls=True)
    ca = security.authority
    hosts = ["localhost", "127.0.0.1"]
    first = ca.issue("broker", hosts=hosts).write_pem(tmp_path / "first.pem")
    second = ca.issue("broker", hosts=hosts).write_pem(tmp_path / "second.pem")
    stranger = ca.issue("stranger", hosts=hosts).write_pem(tmp_path / "stranger.pem")
    prefix = "listener.name.ssl.ssl.keystore."
    with (
        Broker(
            security=security,
            listener_name_ssl_ssl_keystore_type="PEM",
            ssl_keystore_key="",
            ssl_keystore_certificate_chain="",
            ssl_keystore_location=str(first),
        ) as broker,
        Admin(**broker.client_configs()) as admin,
    ):
        context = broker.call(lambda b: b.listeners[0].tls.context)

        def alter(location: Path) -> None:
            admin.incremental_alter_configs({("broker", "0"): {f"{prefix}location": str(location)}})

        alter(second)
        assert broker.call(lambda b: b.listeners[0].tls.context) is not context
        with pytest.raises(KafkaError, match="DistinguishedName does not match"):
            alter(stranger)
        with pytest.raises(KafkaError, match="No such file"):
            alter(tmp_path / "nowhere.pem")
        with pytest.raises(KafkaError, match="only per-listener"):
            admin.incremental_alter_configs({("broker", "0"): {"ssl.keystore.location": str(first)}})
        context = broker.call(lambda b: b.listeners[0].tls.context)
        ca.issue("broker", hosts=hosts).write_pem(second)
        with caplog.at_level(logging.INFO):
            alter(second)  # the same file, of which the content is another
        assert broker.call(lambda b: b.listeners[0].tls.context) is not context
        assert "certificates reloaded listener=SSL" in caplog.text
        with Admin(**broker.client_configs()) as another:
            another.list_topics()


def test_a_cluster_that_speaks_mutual_tls() -> None:
    """Replication, the controller's requests and the coordinators' markers all go over it."""
    with Cluster(3, security=Security(client_auth="required")) as cluster:
        cluster.create_topic("t", replication_factor=3)
        configs = cluster.client_configs("alice")
        with Producer(**configs, acks="all") as producer:
            for number in range(20):
                producer.send("t", b"%d" % number).result(WITHIN_S)
            cluster.kill(cluster.leader("t"))
            for number in range(20, 30):
                producer.send("t", b"%d" % number).result(WITHIN_S)
        with Consumer(**configs, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("t", 0)])
            seen = []
            for record in consumer:
                seen.append(int(record.value))
                if len(seen) == 30:
                    break
        assert seen == list(range(30))


def test_logins_inside_tls() -> None:
    security = Security(users={"alice": "secret"}, tls=True)
    with Broker(security=security) as broker:
        assert security.protocol == "SASL_SSL"
        for mechanism in ("PLAIN", "SCRAM-SHA-256"):
            configs = broker.client_configs("alice", mechanism)
            with Producer(configs) as producer:
                producer.send("t", b"x").result(WITHIN_S)
        with (
            pytest.raises(KafkaError, match="Authentication failed"),
            Admin({**broker.client_configs("alice", "PLAIN"), "sasl.jaas.config": _login("wrong")}) as admin,
        ):
            admin.list_topics()


def test_users_of_a_cluster_log_in_by_any_mechanism_at_any_broker() -> None:
    users = {"admin": "admin-secret", "alice b": "alice-secret"}
    with Cluster(2, security=Security(users=users)) as cluster:
        cluster.create_topic("t", 2)
        for user, mechanism in (
            ("admin", "SCRAM-SHA-256"),
            ("alice b", "SCRAM-SHA-512"),
            ("alice b", "PLAIN"),
        ):
            for broker in cluster.brokers:
                configs = {**cluster.client_configs(user, mechanism), "bootstrap.servers": broker.address}
                with Producer(configs) as producer:
                    for partition in range(2):
                        producer.send("t", b"x", partition=partition).result(60)


def _login(password: str) -> str:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return f'{module} required username="alice" password="{password}";'
