"""Signed access tokens: Java's client and Spark at our broker, our clients at a Kafka that checks them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from interop import kafka_peer, row_names
from interop.compatibility import Rows
from interop.test_sasl import LISTENER, OAUTH, PROVIDER, broker, spark_copies, token, write_properties
from interop.test_spark_connector import CONNECTOR
from odradek import Admin, Consumer, Producer
from odradek.client.errors import SaslAuthenticationError
from odradek.testing import Broker
from sasl.tokens import ISSUER, Provider, write_jwks

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("kafka_toolchain")]

__all__ = ["broker"]

PACKAGE = "org.apache.kafka.common.security.oauthbearer"
ALLOWED = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
"""Which addresses and files Java may read; since Kafka 4.0 none without it (KIP-1139)."""


def of_a_file(address: str) -> dict[str, str]:
    """A client that shows the token of a file, in Kafka's words, which Java's and ours understand."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{OAUTH};",
        "sasl.oauthbearer.token.endpoint.url": address,
    }


def of_java(address: str) -> dict[str, str]:
    return {
        **of_a_file(address),
        "sasl.login.callback.handler.class": f"{PACKAGE}.OAuthBearerLoginCallbackHandler",
    }


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(token(), encoding="utf-8")
    return path


def test_java_shows_signed_tokens(
    broker: Broker, token_file: Path, tmp_path: Path, compatibility_row: Rows
) -> None:
    """The newest: before 3.1 (KIP-768) Java's client has a class of the user's own for them."""
    row = compatibility_row(*row_names.java(kafka_peer.NEWEST))
    address = token_file.as_uri()
    configs = write_properties(tmp_path / "client", of_java(address))
    at = (
        "--bootstrap-server",
        broker.bootstrap_servers,
        "--command-config",
        configs,
        "--topic",
        "java-signed",
    )
    allowed = (f"{ALLOWED}.urls={address}", f"{ALLOWED}.files={token_file}")

    def tool(name: str, *words: str, stdin: str = "") -> str:
        command = kafka_peer.tool_command(kafka_peer.NEWEST, name, *at, *words)
        command = [command[0], *allowed, *command[1:]]
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=kafka_peer.TOOL_LIMIT_S
        )
        assert done.returncode == 0, f"{done.stdout[-1000:]}{done.stderr[-3000:]}"
        return done.stdout

    tool("console-producer", stdin="hello\n")
    assert tool("console-consumer", "--from-beginning", "--max-messages", "1").split() == ["hello"]
    row.does("login", what="OAUTHBEARER")


@pytest.mark.spark
@pytest.mark.parametrize("source", ["kafka", "odradek"])
def test_spark_shows_signed_tokens(
    source: str, broker: Broker, token_file: Path, compatibility_row: Rows
) -> None:
    """By Kafka's connector and by our data source."""
    pyspark = pytest.importorskip("pyspark")
    address = token_file.as_uri()
    configs = of_java(address) if source == "kafka" else of_a_file(address)
    allowed = f"{ALLOWED}.urls={address} {ALLOWED}.files={token_file}"
    environment = {**os.environ, "JAVA_TOOL_OPTIONS": allowed}
    login = {**configs, "bootstrap.servers": broker.bootstrap_servers}
    assert spark_copies([login], source, environment=environment) == [list(range(20))]
    if source == "kafka":
        row = compatibility_row(*row_names.spark(pyspark.__version__, CONNECTOR[0][2]))
        row.does("login", what="OAUTHBEARER")


class Checking(NamedTuple):
    """A real Kafka that checks tokens."""

    servers: str
    provider: Provider


@pytest.fixture(scope="module", params=["3.9.1", kafka_peer.NEWEST])
def checking(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checking]:
    request.getfixturevalue("kafka_toolchain")
    directory = tmp_path_factory.mktemp(f"kafka-{request.param}")
    keys = directory / "jwks.json"
    address = write_jwks(keys, PROVIDER)
    handler = f"{PACKAGE}.OAuthBearerValidatorCallbackHandler"
    settings = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{LISTENER}.oauthbearer.sasl.jaas.config": f"{OAUTH};",
        f"{LISTENER}.oauthbearer.sasl.server.callback.handler.class": handler,
        "sasl.oauthbearer.jwks.endpoint.url": address,
        "sasl.oauthbearer.expected.audience": "kafka",
        "sasl.oauthbearer.expected.issuer": ISSUER,
    }
    allowed = (f"{ALLOWED}.urls={address}", f"{ALLOWED}.files={keys}")
    collector = (*kafka_peer.SMALL_COLLECTOR, *allowed)
    with kafka_peer.RealKafka(request.param, directory, settings, collector, sasl=True) as kafka:
        yield Checking(f"127.0.0.1:{kafka.sasl_port}", PROVIDER)


def test_our_clients_show_signed_tokens_at_kafka(checking: Checking, token_file: Path) -> None:
    login: dict[str, Any] = {**of_a_file(token_file.as_uri()), "bootstrap.servers": checking.servers}
    topic = "ours"
    with Producer(login) as producer:
        producer.send(topic, value=b"hello").result(60)
    with Consumer(login, topic, group_id=topic, auto_offset_reset="earliest") as consumer:
        assert next(iter(consumer)).value == b"hello"


@pytest.mark.parametrize(
    ("provider", "claims"),
    [
        (PROVIDER, {"exp": 1}),
        (PROVIDER, {"iss": "elsewhere"}),
        (PROVIDER, {"aud": "others"}),
        (Provider(), {}),
    ],
    ids=["expired", "issuer", "audience", "key"],
)
def test_tokens_that_kafka_refuses(
    checking: Checking, token_file: Path, provider: Provider, claims: dict[str, Any]
) -> None:
    now_s = int(time.time())
    token_file.write_text(
        provider.token(**{"iat": now_s - 5, "exp": now_s + 600, **claims}), encoding="utf-8"
    )
    login: dict[str, Any] = {**of_a_file(token_file.as_uri()), "bootstrap.servers": checking.servers}
    with pytest.raises(SaslAuthenticationError), Admin(login) as admin:
        admin.list_topics()
