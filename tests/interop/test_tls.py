"""TLS, one-sided and mutual: other languages' clients at our broker, our clients at real Kafka."""

from __future__ import annotations

import asyncio
import logging
import ssl
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from interop import kafka_peer, row_names
from interop.compatibility import Rows
from interop.secured_programs import NAMES, secured_program
from interop.test_sasl import produce_and_consume, spark_copies, write_properties
from interop.test_spark_connector import CONNECTOR
from odradek import Admin, Consumer, Producer
from odradek.client.errors import SslAuthenticationError
from odradek.testing import Broker, Security
from odradek.testing.certificates import CertificateAuthority, Issued

pytestmark = pytest.mark.interop

PASSWORD = "changeit"


class Files(NamedTuple):
    """The authority's certificate, a client's with its key, and both as stores of Java's."""

    ca: Path
    certificate: Path
    key: Path
    trust_store: Path
    key_store: Path


def write_files(authority: CertificateAuthority, client: Issued, folder: Path) -> Files:
    certificate, key = client.write_pem_pair(folder)
    return Files(
        authority.write_trust_store(folder / "ca.pem"),
        certificate,
        key,
        authority.write_pkcs12_trust_store(folder / "trust.p12", PASSWORD),
        client.write_pkcs12(folder / "client.p12", PASSWORD),
    )


class Secured(NamedTuple):
    """Our broker, with what a client of it needs; `mutual`: it wants certificates of clients."""

    broker: Broker
    files: Files
    mutual: bool

    @property
    def shown(self) -> str:
        """What a client that gets in has shown to do, in the words of the compatibility page."""
        return "client certificate" if self.mutual else "TLS"


@pytest.fixture(scope="module", params=["one-sided", "mutual"])
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    mutual = request.param == "mutual"
    security = Security(tls=True, client_auth="required" if mutual else "none")
    with Broker(security=security) as broker:
        files = write_files(
            security.authority, security.certificate("alice"), tmp_path_factory.mktemp("stores")
        )
        yield Secured(broker, files, mutual)


def a_topic() -> str:
    return f"t-{uuid.uuid4()}"


def java_configs(secured: Secured, pem: bool) -> dict[str, Any]:
    """PEM from 2.7 on (KIP-651); stores of Java's before."""
    if pem:
        return dict(secured.broker.client_configs("alice"))
    configs: dict[str, Any] = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": str(secured.files.trust_store),
        "ssl.truststore.password": PASSWORD,
    }
    if secured.mutual:
        configs |= {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(secured.files.key_store),
            "ssl.keystore.password": PASSWORD,
            "ssl.key.password": PASSWORD,
        }
    return configs


def written(path: Path, configs: dict[str, Any]) -> str:
    folded = {
        name: " ".join(str(value).split("\n")).strip() if "-----BEGIN" in str(value) else value
        for name, value in configs.items()
        if name != "bootstrap.servers"
    }
    return write_properties(path, folded)


@pytest.mark.usefixtures("kafka_toolchain")
@pytest.mark.parametrize(("version", "pem"), [(kafka_peer.NEWEST, True), ("2.2.2", False)])
def test_java(version: str, pem: bool, secured: Secured, tmp_path: Path, compatibility_row: Rows) -> None:
    row = compatibility_row(*row_names.java(version))
    configs = written(tmp_path / "client", java_configs(secured, pem))
    servers = secured.broker.bootstrap_servers
    assert produce_and_consume(version, servers, configs, a_topic()) == ["hello"]
    row.does("login", what=secured.shown)


@pytest.mark.usefixtures("kafka_toolchain")
def test_java_that_does_not_trust_us(
    secured: Secured, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = CertificateAuthority()
    configs = {**java_configs(secured, True), **stranger.trust()}
    with (
        caplog.at_level(logging.INFO),
        pytest.raises(AssertionError, match=r"SSL handshake failed|unable to find valid certification path"),
    ):
        kafka_peer.run_tool(
            kafka_peer.NEWEST,
            "topics",
            *("--bootstrap-server", secured.broker.bootstrap_servers, "--list"),
            *("--command-config", written(tmp_path / "client", configs)),
        )
    assert "failed authentication peer=127.0.0.1" in caplog.text
    assert "did not accept this side's certificate" in caplog.text


@pytest.mark.spark
@pytest.mark.usefixtures("kafka_toolchain")
def test_sparks_connector(tmp_path: Path, compatibility_row: Rows) -> None:
    """Mutual, with PEM in options and with stores of Java's, and with a login inside TLS."""
    pyspark = pytest.importorskip("pyspark")
    row = compatibility_row(*row_names.spark(pyspark.__version__, CONNECTOR[0][2]))
    mutual = Security(client_auth="required")
    login = Security(users={"alice": "s3cret"}, tls=True)
    with Broker(security=mutual) as first, Broker(security=login) as second:
        files = write_files(mutual.authority, mutual.certificate("alice"), tmp_path)
        stores = java_configs(Secured(first, files, True), pem=False)
        found = spark_copies(
            [
                first.client_configs("alice"),
                {**stores, "bootstrap.servers": first.bootstrap_servers},
                second.client_configs("alice", "SCRAM-SHA-512"),
            ]
        )
    assert found == [list(range(20))] * 3
    for how in ("TLS", "client certificate"):
        row.does("login", what=how)


@pytest.mark.parametrize("name", NAMES)
def test_programs(name: str, secured: Secured, compatibility_row: Rows) -> None:
    row = compatibility_row(*row_names.SECURED[name])
    files = secured.files
    trusted = ("--ca", str(files.ca))
    own = ("--certificate", str(files.certificate), "--key", str(files.key)) if secured.mutual else ()
    words = (*trusted, *own, secured.broker.bootstrap_servers, a_topic())
    assert secured_program(name).run(*words) == "hello"
    row.does("login", what=secured.shown)


def test_librdkafka(secured: Secured, compatibility_row: Rows) -> None:
    row = compatibility_row(*row_names.python("confluent-kafka"))
    import confluent_kafka

    files, topic = secured.files, a_topic()
    configs: dict[str, Any] = {
        "bootstrap.servers": secured.broker.bootstrap_servers,
        "security.protocol": "SSL",
        "ssl.ca.location": str(files.ca),
    }
    if secured.mutual:
        configs |= {"ssl.certificate.location": str(files.certificate), "ssl.key.location": str(files.key)}
    producer = confluent_kafka.Producer({**configs, "message.max.bytes": 2_000_000})
    failures: list[Any] = []
    for number in range(50):
        producer.produce(topic, b"%d" % number + b"x" * 50_000, on_delivery=lambda e, _: failures.append(e))
    assert producer.flush(60) == 0
    assert failures == [None] * 50
    consumer = confluent_kafka.Consumer({**configs, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    for _ in range(50):
        message = consumer.poll(60)
        assert message is not None and message.error() is None
        assert len(message.value()) > 50_000
    consumer.close()
    row.does("login", what=secured.shown)


@pytest.mark.filterwarnings("ignore:.*_text is deprecated:DeprecationWarning")
def test_kafka_python(secured: Secured, compatibility_row: Rows) -> None:
    row = compatibility_row(*row_names.python("kafka-python"))
    import kafka

    files, topic = secured.files, a_topic()
    configs: dict[str, Any] = {
        "bootstrap_servers": secured.broker.bootstrap_servers,
        "security_protocol": "SSL",
        "ssl_cafile": str(files.ca),
    }
    if secured.mutual:
        configs |= {"ssl_certfile": str(files.certificate), "ssl_keyfile": str(files.key)}
    producer = kafka.KafkaProducer(**configs)
    producer.send(topic, b"hello").get(60)
    producer.close()
    consumer = kafka.KafkaConsumer(
        topic, **configs, auto_offset_reset="earliest", consumer_timeout_ms=60_000, group_id=None
    )
    assert next(consumer).value == b"hello"
    consumer.close()
    row.does("login", what=secured.shown)


def test_aiokafka(secured: Secured, compatibility_row: Rows) -> None:
    row = compatibility_row(*row_names.python("aiokafka"))
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    files, topic = secured.files, a_topic()
    context = ssl.create_default_context(cafile=str(files.ca))
    if secured.mutual:
        context.load_cert_chain(files.certificate, files.key)
    configs: dict[str, Any] = {
        "bootstrap_servers": secured.broker.bootstrap_servers,
        "security_protocol": "SSL",
        "ssl_context": context,
    }

    async def main() -> bytes:
        async with AIOKafkaProducer(**configs) as producer:
            await producer.send_and_wait(topic, b"hello")
        async with AIOKafkaConsumer(topic, **configs, auto_offset_reset="earliest") as consumer:
            return bytes((await asyncio.wait_for(consumer.getone(), 60)).value)

    assert asyncio.run(main()) == b"hello"
    row.does("login", what=secured.shown)


# ---------------------------------------------------------------------- real Kafka


class SecuredKafka(NamedTuple):
    """A real one with a second listener, which wants certificates of clients."""

    kafka: kafka_peer.RealKafka
    authority: CertificateAuthority


@pytest.fixture(scope="module", params=["3.9.1", kafka_peer.NEWEST])
def secured_kafka(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecuredKafka]:
    request.getfixturevalue("kafka_toolchain")
    directory = tmp_path_factory.mktemp(f"kafka-{request.param}")
    authority = CertificateAuthority()
    issued = authority.issue("kafka", hosts=["127.0.0.1"])
    settings = {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(issued.write_pkcs12(directory / "kafka.p12", PASSWORD)),
        "ssl.keystore.password": PASSWORD,
        "ssl.key.password": PASSWORD,
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": str(authority.write_pkcs12_trust_store(directory / "ca.p12", PASSWORD)),
        "ssl.truststore.password": PASSWORD,
        "ssl.client.auth": "required",
    }
    with kafka_peer.RealKafka(request.param, directory, settings, tls=True) as running:
        yield SecuredKafka(running, authority)


@pytest.mark.parametrize("protocols", ["TLSv1.3", "TLSv1.2"])
def test_our_clients_at_kafka(secured_kafka: SecuredKafka, protocols: str) -> None:
    kafka, authority = secured_kafka
    configs: dict[str, Any] = {
        "bootstrap.servers": f"127.0.0.1:{kafka.tls_port}",
        "security.protocol": "SSL",
        "ssl.enabled.protocols": protocols,
        **authority.trust(),
        **authority.issue("alice").configs(),
    }
    topic = a_topic()
    with Producer(configs) as producer:
        sent = [producer.send(topic, b"%d" % number + b"x" * 20_000) for number in range(50)]
        for one in sent:
            one.result(60)
    with Consumer(configs, topic, group_id=topic, auto_offset_reset="earliest") as consumer:
        for number, record in enumerate(consumer):
            assert len(record.value) > 20_000
            if number == 49:
                break


@pytest.mark.parametrize("what", ["no certificate", "another authority", "a stranger's certificate"])
def test_what_kafka_refuses(secured_kafka: SecuredKafka, what: str) -> None:
    kafka, authority = secured_kafka
    configs: dict[str, Any] = {
        "bootstrap.servers": f"127.0.0.1:{kafka.tls_port}",
        "security.protocol": "SSL",
        **authority.trust(),
    }
    stranger = CertificateAuthority()
    if what == "another authority":
        configs |= stranger.trust()
    elif what == "a stranger's certificate":
        configs |= stranger.issue("alice").configs()
    with pytest.raises(SslAuthenticationError), Admin(configs) as admin:
        admin.list_topics()
