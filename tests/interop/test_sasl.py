"""Logins: other languages' clients at our broker, our clients at real Kafka, credentials read by both."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interop import kafka_peer, row_names
from interop.compatibility import Rows
from interop.secured_programs import NAMES, secured_program
from interop.test_spark_connector import CONNECTOR, connector_jars
from odradek import Admin, Consumer, Producer
from odradek.broker.config.password_encoder import PasswordEncoder
from odradek.client.errors import SaslAuthenticationError
from odradek.sasl.jaas import quote
from odradek.testing import Broker, Security
from sasl.tokens import ISSUER, Provider, write_jwks

pytestmark = pytest.mark.interop

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
USERS = {"alice": "s3cret", "admin": "admin"}
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
PROVIDER = Provider()
SECRET = "secret-ä"


def oauth_configs(url: str | None) -> dict[str, str]:
    configs = {"listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": f"{OAUTH};"}
    if url is not None:
        configs |= {
            "sasl.oauthbearer.jwks.endpoint.url": url,
            "sasl.oauthbearer.expected.audience": "kafka",
            "sasl.oauthbearer.expected.issuer": ISSUER,
        }
    return configs


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Ours, with every mechanism; tokens are checked."""
    url = write_jwks(tmp_path_factory.mktemp("keys") / "jwks.json", PROVIDER)
    security = Security(users=USERS, mechanisms=(*MECHANISMS, "OAUTHBEARER"), configs=oauth_configs(url))
    with Broker(security=security) as running:
        yield running


@pytest.fixture(scope="module")
def unsecured() -> Iterator[Broker]:
    """Ours, with tokens that nobody has signed."""
    with Broker(
        security=Security(users=USERS, mechanisms=("OAUTHBEARER",), configs=oauth_configs(None))
    ) as it:
        yield it


def token() -> str:
    now_s = int(time.time())
    return PROVIDER.token(iat=now_s - 5, exp=now_s + 600)


def write_properties(path: Path, configs: dict[str, Any]) -> str:
    lines = [f"{name}={str(value).replace(chr(92), chr(92) * 2)}\n" for name, value in configs.items()]
    path.write_text("".join(lines), encoding="utf-8")
    return str(path)


def produce_and_consume(version: str, servers: str, configs: str, topic: str) -> list[str]:
    """Have Java's console tools write a line and read it."""
    new = kafka_peer.version_tuple(version) >= (4,)
    kafka_peer.run_tool(
        version,
        "console-producer",
        "--bootstrap-server" if new else "--broker-list",
        servers,
        "--topic",
        topic,
        "--command-config" if new else "--producer.config",
        configs,
        stdin="hello\n",
    )
    return kafka_peer.run_tool(
        version,
        "console-consumer",
        *("--bootstrap-server", servers, "--topic", topic, "--from-beginning", "--max-messages", "1"),
        *("--command-config" if new else "--consumer.config", configs),
    ).split()


@pytest.mark.usefixtures("kafka_toolchain")
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("version", [kafka_peer.NEWEST, "2.2.2", "0.10.2.2"])
def test_java_logs_in(
    version: str, mechanism: str, broker: Broker, tmp_path: Path, compatibility_row: Rows
) -> None:
    """0.10 sends bare frames behind its SaslHandshake 0."""
    row = compatibility_row(*row_names.java(version))
    configs = write_properties(tmp_path / "client", broker.client_configs("alice", mechanism))
    topic = f"java-{version}-{mechanism}"
    assert produce_and_consume(version, broker.bootstrap_servers, configs, topic) == ["hello"]
    row.does("login", what=mechanism)


@pytest.mark.usefixtures("kafka_toolchain")
@pytest.mark.parametrize("version", [kafka_peer.NEWEST, "2.2.2"])
def test_java_shows_tokens(version: str, unsecured: Broker, tmp_path: Path, compatibility_row: Rows) -> None:
    row = compatibility_row(*row_names.java(version))
    configs = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f'{OAUTH} unsecuredLoginStringClaim_sub="alice";',
    }
    file = write_properties(tmp_path / "client", configs)
    assert produce_and_consume(version, unsecured.bootstrap_servers, file, f"java-{version}") == ["hello"]
    row.does("login", what="OAUTHBEARER, unsigned")


def _words(broker: Broker, mechanism: str, password: str, topic: str) -> tuple[str, ...]:
    login = ("--mechanism", mechanism, "--user", "alice", "--password", password)
    return (*login, broker.bootstrap_servers, topic)


@pytest.mark.parametrize("mechanism", [*MECHANISMS, "OAUTHBEARER"])
@pytest.mark.parametrize("name", NAMES)
def test_programs_log_in(name: str, mechanism: str, broker: Broker, compatibility_row: Rows) -> None:
    row = compatibility_row(*row_names.SECURED[name])
    password = token() if mechanism == "OAUTHBEARER" else USERS["alice"]
    words = _words(broker, mechanism, password, f"{name}-{mechanism}")
    assert secured_program(name).run(*words) == "hello"
    row.does("login", what=mechanism)


def test_a_program_with_a_wrong_password(broker: Broker) -> None:
    words = _words(broker, "SCRAM-SHA-256", "wrong", "never")
    with pytest.raises(AssertionError, match=r"(?i)authentication|SASL"):
        secured_program("kafkajssecured").run(*words)


@pytest.mark.usefixtures("kafka_toolchain")
def test_kafkas_tool_makes_users(broker: Broker, tmp_path: Path) -> None:
    configs = write_properties(tmp_path / "admin", broker.client_configs("admin", "PLAIN"))
    at = ("--bootstrap-server", broker.bootstrap_servers, "--command-config", configs)
    who = ("--entity-type", "users", "--entity-name", "carol")
    version = kafka_peer.NEWEST
    added = "SCRAM-SHA-256=[iterations=8192,password=one],SCRAM-SHA-512=[password=two]"
    kafka_peer.run_tool(version, "configs", *at, *who, "--alter", "--add-config", added)
    described = kafka_peer.run_tool(version, "configs", *at, *who, "--describe")
    assert "SCRAM-SHA-256=iterations=8192" in described and "SCRAM-SHA-512=iterations=4096" in described
    for mechanism, password in (("SCRAM-SHA-256", "one"), ("SCRAM-SHA-512", "two")):
        with Admin(
            bootstrap_servers=broker.bootstrap_servers,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username="carol",
            sasl_plain_password=password,
        ) as admin:
            admin.list_topics()


@pytest.mark.spark
@pytest.mark.usefixtures("kafka_toolchain")
@pytest.mark.parametrize("source", ["kafka", "odradek"])
def test_spark_logs_in(source: str, broker: Broker, unsecured: Broker, compatibility_row: Rows) -> None:
    """By Kafka's connector and by our data source."""
    pyspark = pytest.importorskip("pyspark")
    logins = [broker.client_configs("alice", mechanism) for mechanism in MECHANISMS]
    shown = {
        "bootstrap.servers": unsecured.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f'{OAUTH} unsecuredLoginStringClaim_sub="alice";',
    }
    assert spark_copies([*logins, shown], source) == [list(range(20))] * (len(logins) + 1)
    if source == "kafka":
        row = compatibility_row(*row_names.spark(pyspark.__version__, CONNECTOR[0][2]))
        for how in (*MECHANISMS, "OAUTHBEARER, unsigned"):
            row.does("login", what=how)


def spark_copies(
    logins: list[dict[str, Any]], source: str = "kafka", *, environment: dict[str, str] | None = None
) -> list[list[int]]:
    """What Spark's connector, or ours, has read of 20 numbers that it has written, by each login."""
    given = [{f"kafka.{name}": str(value) for name, value in login.items()} for login in logins]
    job = Path(__file__).with_name("spark_sasl_job.py")
    jars = connector_jars() if source == "kafka" else ""
    done = subprocess.run(
        [sys.executable, str(job), source, jars, json.dumps(given)],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: list[list[int]] = json.loads(done.stdout.splitlines()[-1])
    return found


# ---------------------------------------------------------------------- real Kafka

LISTENER = "listener.name.sasl_plaintext"


def kafka_settings() -> dict[str, str]:
    module = "org.apache.kafka.common.security"
    users = " ".join(f"user_{name}={quote(password)}" for name, password in USERS.items())
    return {
        "sasl.enabled.mechanisms": ",".join([*MECHANISMS, "OAUTHBEARER"]),
        f"{LISTENER}.plain.sasl.jaas.config": f"{module}.plain.PlainLoginModule required {users};",
        f"{LISTENER}.scram-sha-256.sasl.jaas.config": f"{module}.scram.ScramLoginModule required;",
        f"{LISTENER}.scram-sha-512.sasl.jaas.config": f"{module}.scram.ScramLoginModule required;",
        f"{LISTENER}.oauthbearer.sasl.jaas.config": f"{OAUTH};",
        "connections.max.reauth.ms": "3000",
    }


@pytest.fixture(scope="module", params=["3.9.1", kafka_peer.NEWEST])
def kafka(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[kafka_peer.RealKafka]:
    """A real one, with logins at a second listener."""
    request.getfixturevalue("kafka_toolchain")
    directory = tmp_path_factory.mktemp(f"kafka-{request.param}")
    with kafka_peer.RealKafka(request.param, directory, kafka_settings(), sasl=True) as running:
        with Admin(bootstrap_servers=running.bootstrap_servers) as admin:
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                admin.alter_user_scram_credentials({("alice", mechanism): USERS["alice"]})
        yield running


@pytest.mark.parametrize("mechanism", [*MECHANISMS, "OAUTHBEARER"])
def test_our_clients_log_in_at_kafka(kafka: kafka_peer.RealKafka, mechanism: str) -> None:
    login: dict[str, Any] = {
        "bootstrap_servers": f"127.0.0.1:{kafka.sasl_port}",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        login["sasl_jaas_config"] = f'{OAUTH} unsecuredLoginStringClaim_sub="alice";'
    else:
        login |= {"sasl_plain_username": "alice", "sasl_plain_password": USERS["alice"]}
        with (
            pytest.raises(SaslAuthenticationError, match="Authentication failed"),
            Admin({**login, "sasl_plain_password": "wrong"}) as admin,
        ):
            admin.list_topics()
    topic = f"ours-{mechanism}"
    # Logins run out after three seconds: clients go on, by logging in again.
    with (
        Producer(login) as producer,
        Consumer(login, topic, group_id=topic, auto_offset_reset="earliest") as c,
    ):
        seen: list[Any] = []
        for number in range(8):
            producer.send(topic, value=b"%d" % number).result(60)
            seen += [one.value for one in c.poll(timeout_ms=500)]
            time.sleep(0.5)
        deadline = time.monotonic() + 60
        while len(seen) < 8 and time.monotonic() < deadline:
            seen += [one.value for one in c.poll(timeout_ms=500)]
    assert seen == [b"%d" % number for number in range(8)]


@pytest.mark.parametrize("version", ["3.9.1", "2.2.2"])
def test_users_in_zookeeper_are_read_by_both(version: str, tmp_path: Path, kafka_toolchain: None) -> None:
    with kafka_peer.RealKafka("3.9.1", tmp_path / "kafka") as kafka:
        zookeeper = f"{kafka.zookeeper}/ours"
        tool = (version, "configs", "--zookeeper", zookeeper, "--entity-type", "users", "--entity-name")
        security = Security(users=USERS, configs={"zookeeper.connect": zookeeper})
        with Broker(security=security) as broker:
            broker.stop()
            # While no broker runs.
            kafka_peer.run_tool(*tool, "early", "--alter", "--add-config", "SCRAM-SHA-256=[password=one]")
            broker.start()
            kafka_peer.run_tool(*tool, "late", "--alter", "--add-config", "SCRAM-SHA-256=[password=one]")
            for user in ("early", "late"):
                _log_in(broker, user, "one")
            with Admin(broker.client_configs("admin", "PLAIN")) as admin:
                admin.alter_user_scram_credentials({("ours", "SCRAM-SHA-512"): "x"})
            assert "SCRAM-SHA-512=salt=" in kafka_peer.run_tool(*tool, "ours", "--describe")


@pytest.mark.usefixtures("kafka_toolchain")
@pytest.mark.parametrize("version", [kafka_peer.NEWEST, "2.2.2"])
def test_kafkas_tool_makes_delegation_tokens(version: str, tmp_path: Path) -> None:
    security = Security(users=USERS, configs={"delegation.token.secret.key": "master"})
    with Broker(security=security) as broker:
        configs = write_properties(tmp_path / "alice", broker.client_configs("alice", "SCRAM-SHA-256"))

        def tool(*words: str) -> str:
            at = ("--bootstrap-server", broker.bootstrap_servers, "--command-config", configs)
            return kafka_peer.run_tool(version, "delegation-tokens", *at, *words)

        made = tool("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:admin")
        token_id, secret = made.splitlines()[-1].split()[:2]
        assert f"tokenId : {token_id}" in made
        by_token = {
            **broker.client_configs("alice", "SCRAM-SHA-512"),
            "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="{token_id}" password="{secret}" tokenauth="true";',
        }
        with Producer(by_token) as producer:
            producer.send("ours", value=b"x").result(60)
        file = write_properties(tmp_path / "token", by_token)
        assert produce_and_consume(version, broker.bootstrap_servers, file, "java") == ["hello"]
        assert secret in tool("--describe", "--owner-principal", "User:alice")
        assert "Completed renew operation" in tool("--renew", "--hmac", secret, "--renew-time-period", "-1")
        assert "Completed expire operation" in tool(
            "--expire", "--hmac", secret, "--expiry-time-period", "-1"
        )


TOKENS, NOTICES = "/delegation_token/tokens", "/delegation_token/token_changes"


def by_token(servers: str, token_id: str, hmac: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{token_id}" password="{hmac}" tokenauth="true";',
    }


@pytest.mark.usefixtures("kafka_toolchain")
def test_delegation_tokens_in_zookeeper_are_read_by_both(tmp_path: Path) -> None:
    """What one has written is laid among the other's nodes, with a notice, and lets its owner in there."""
    kazoo = pytest.importorskip("kazoo.client")
    secret = {"delegation.token.secret.key": "master"}
    with kafka_peer.RealKafka("3.9.1", tmp_path / "kafka", kafka_settings() | secret, sasl=True) as kafka:
        theirs = f"127.0.0.1:{kafka.sasl_port}"
        security = Security(users=USERS, configs={**secret, "zookeeper.connect": f"{kafka.zookeeper}/ours"})
        with Broker(security=security) as broker:
            ours = broker.bootstrap_servers
            zookeeper = kazoo.KazooClient(kafka.zookeeper)
            zookeeper.start()
            try:
                for made_at, used_at, source, target in (
                    (ours, theirs, "/ours", ""),
                    (theirs, ours, "", "/ours"),
                ):
                    login = broker.client_configs("alice", "PLAIN") | {"bootstrap.servers": made_at}
                    with Admin(login) as admin:
                        token = admin.create_delegation_token()
                    name = token.token_id
                    data, _ = zookeeper.get(f"{source}{TOKENS}/{name}")
                    zookeeper.create(f"{target}{TOKENS}/{name}", data)
                    zookeeper.create(f"{target}{NOTICES}/token_change_", name.encode(), sequence=True)
                    _list_topics(by_token(used_at, name, base64.b64encode(token.hmac).decode()))
            finally:
                zookeeper.stop()
                zookeeper.close()


@pytest.mark.usefixtures("kafka_toolchain")
@pytest.mark.parametrize("cipher", ["AES/CBC/PKCS5Padding", "AES/GCM/NoPadding"])
def test_passwords_in_dynamic_configs_are_read_by_both(cipher: str) -> None:
    def text(of: str) -> str:
        return base64.b64encode(of.encode()).decode()

    def kafkas(what: str, of: str) -> str:
        source = str(Path(__file__).parent / "Passwords.java")
        command = [*kafka_peer.java_command("3.9.1", source), text(SECRET), cipher, what, text(of)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=kafka_peer.TOOL_LIMIT_S)
        assert done.returncode == 0, done.stderr[-2000:]
        return base64.b64decode(done.stdout).decode()

    ours = PasswordEncoder(SECRET, cipher=cipher)
    assert kafkas("decode", ours.encode("pässword€𝄞")) == "pässword€𝄞"
    assert ours.decode(kafkas("encode", "pässword€𝄞")) == "pässword€𝄞"


def _log_in(broker: Broker, user: str, password: str) -> None:
    _list_topics(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": user,
            "sasl.password": password,
        }
    )


def _list_topics(login: dict[str, Any]) -> None:
    """Have a broker let that login in, once it has heard of it."""
    deadline = time.monotonic() + 30
    while True:
        try:
            with Admin(login) as admin:
                admin.list_topics()
            return
        except SaslAuthenticationError:
            # The notice of the change is on its way.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
