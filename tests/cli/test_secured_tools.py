"""Tools at a broker with SASL_SSL and ACLs: each logs in by a file, of PEM inline or of stores."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.testing import Broker, Security
from odradek.util.properties import escaped_value

from .conftest import RunTool

SECURITY = Security(
    users={"admin": "a;d\\m", "bob": "b"},
    tls=True,
    super_users=("User:admin",),
    configs={"delegation.token.secret.key": "master", "connection.failed.authentication.delay.ms": "1"},
)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(security=SECURITY) as running:
        yield running


def file_of(path: Path, configs: dict[str, str]) -> str:
    lines = [
        f"{name}={escaped_value(text)}\n" for name, text in configs.items() if name != "bootstrap.servers"
    ]
    path.write_text("".join(lines), encoding="utf-8")
    return str(path)


@pytest.fixture(params=["PEM inline", "PKCS12"])
def login(request: pytest.FixtureRequest, broker: Broker, tmp_path: Path) -> str:
    configs = broker.client_configs("admin", "SCRAM-SHA-512")
    if request.param == "PKCS12":
        configs = {name: text for name, text in configs.items() if not name.startswith("ssl.")} | {
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": str(
                SECURITY.authority.write_pkcs12_trust_store(tmp_path / "trust.p12", "changeit")
            ),
            "ssl.truststore.password": "changeit",
        }
    return file_of(tmp_path / "client.properties", configs)


def test_each_tool_logs_in(run: RunTool, broker: Broker, login: str, request: pytest.FixtureRequest) -> None:
    topic = f"t-{request.node.callspec.id.replace(' ', '-')}"

    def tool(name: str, *words: str, stdin: bytes = b"", config: str = "--command-config") -> str:
        at = ("--bootstrap-server", broker.bootstrap_servers, config, login)
        done = run(name, *at, *words, stdin=stdin)
        assert done.exit_code == 0, (name, done.output, done.exception)
        return done.stdout

    tool("topics", "--create", "--topic", topic, "--partitions", "2")
    assert topic in tool("topics", "--list").split()
    tool("console-producer", "--topic", topic, stdin=b"one\ntwo\n", config="--producer.config")
    read = ("--topic", topic, "--from-beginning", "--max-messages", "2", "--group", topic)
    assert sorted(tool("console-consumer", *read, config="--consumer.config").split()) == ["one", "two"]
    assert topic in tool("consumer-groups", "--describe", "--group", topic)
    assert tool("get-offsets", "--topic", topic).split()
    tool("configs", "--alter", "--topic", topic, "--add-config", "retention.ms=1000")
    assert "retention.ms=1000" in tool("configs", "--describe", "--topic", topic)
    tool("acls", "--add", "--allow-principal", "User:bob", "--consumer", "--topic", topic, "--group", "g")
    assert "principal=User:bob" in tool("acls", "--list", "--topic", topic)
    assert "Produce(0)" in tool("broker-api-versions")
    assert "log_" in tool("log-dirs", "--describe") or "logDir" in tool("log-dirs", "--describe")
    assert "Created delegation token" in tool("delegation-tokens", "--create", "--max-life-time-period", "-1")
    token, *_ = json.loads(tool("delegation-tokens", "--describe", "--json"))
    assert token["owner"] == token["requester"] and token["renewers"] == []
    assert token["issueTimestampMs"] < token["expiryTimestampMs"] <= token["maxTimestampMs"]
    tool("producer-perf-test", "--topic", topic, "--num-records", "5", "--record-size", "10", "--throughput",
         "-1", config="--producer.config")  # fmt: skip
    tool("consumer-perf-test", "--topic", topic, "--num-records", "5", config="--consumer.config")
    tool("verifiable-producer", "--topic", topic, "--max-messages", "1", config="--producer.config")
    assert "TransactionalId" in tool("transactions", "list")
    tool("topics", "--delete", "--topic", topic)


def test_who_may_not_is_told_and_no_secret_shown(run: RunTool, broker: Broker, tmp_path: Path) -> None:
    at = ("--bootstrap-server", broker.bootstrap_servers, "--command-config")
    bob = broker.client_configs("bob", "SCRAM-SHA-256")
    done = run("topics", *at, file_of(tmp_path / "bob", bob), "--create", "--topic", "never")
    assert done.exit_code == 1 and "authori" in done.output.lower()
    wrong = bob | {"sasl.jaas.config": bob["sasl.jaas.config"].replace('"b"', '"wr0ng"')}
    done = run("topics", *at, file_of(tmp_path / "wrong", wrong), "--list")
    assert done.exit_code == 1 and "Authentication failed" in done.output and "wr0ng" not in done.output
    stranger = bob | Security(tls=True).authority.trust()
    done = run("topics", *at, file_of(tmp_path / "stranger", stranger), "--list")
    assert done.exit_code == 1 and "certificate" in done.output
