"""Delegation tokens from end to end: who may have them made, and logs in by them."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from odradek import Admin, Producer
from odradek.cli.main import main
from odradek.client.errors import SaslAuthenticationError
from odradek.client.types import DelegationToken
from odradek.errors import (
    DelegationTokenDisabledError,
    DelegationTokenNotFoundError,
    DelegationTokenOwnerMismatchError,
    KafkaError,
)
from odradek.errors.codes import ErrorCode
from odradek.testing import Broker, Security

USERS = {"alice": "secret", "bob": "other"}
AT_ONCE = {"connection.failed.authentication.delay.ms": "1"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    security = Security(users=USERS, configs={**AT_ONCE, "delegation.token.secret.key": "master"})
    with Broker(security=security) as running:
        yield running


def by_token(broker: Broker, token: DelegationToken, mechanism: str = "SCRAM-SHA-256") -> dict[str, Any]:
    password = base64.b64encode(token.hmac).decode()
    jaas = f'x.ScramLoginModule required username="{token.token_id}" password="{password}" tokenauth="true";'
    return {**broker.client_configs("alice", mechanism), "sasl.jaas.config": jaas}


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_token_logs_in_its_owner(broker: Broker, mechanism: str) -> None:
    with Admin(broker.client_configs("alice")) as admin:
        token = admin.create_delegation_token(renewers=["User:bob"])
    assert (token.owner, token.requester, token.renewers) == ("User:alice", "User:alice", ("User:bob",))
    with Producer(by_token(broker, token, mechanism)) as producer:
        producer.send("t", value=b"x").result(60)
        found = broker.call(lambda one: {c.peer.principal for c in one.listeners[0].connections})
        assert found == {"User:alice"}
    with Admin(broker.client_configs("bob")) as admin:
        before = token.expiry_timestamp_ms
        assert admin.renew_delegation_token(token.hmac, period_ms=2 * 86_400_000) > before
    with Admin(broker.client_configs("alice")) as admin:
        admin.expire_delegation_token(token.hmac)
        with pytest.raises(DelegationTokenNotFoundError):
            admin.renew_delegation_token(token.hmac)
    with pytest.raises(SaslAuthenticationError), Admin(by_token(broker, token)) as admin:
        admin.list_topics()


def test_a_token_does_not_get_further_ones(broker: Broker) -> None:
    with Admin(broker.client_configs("alice")) as admin:
        token = admin.create_delegation_token()
    with Admin(by_token(broker, token)) as admin:
        for call in (
            admin.create_delegation_token,
            admin.describe_delegation_tokens,
            lambda: admin.renew_delegation_token(token.hmac),
            lambda: admin.expire_delegation_token(token.hmac),
        ):
            with pytest.raises(KafkaError) as raised:
                call()
            assert raised.value.code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_a_password_is_no_token_and_a_token_no_password(broker: Broker) -> None:
    with Admin(broker.client_configs("alice")) as admin:
        token = admin.create_delegation_token()
    plain = by_token(broker, token)
    plain["sasl.jaas.config"] = plain["sasl.jaas.config"].replace(' tokenauth="true"', "")
    as_token = broker.client_configs("alice", "SCRAM-SHA-256")
    as_token["sasl.jaas.config"] = as_token["sasl.jaas.config"].replace(";", ' tokenauth="true";')
    for configs in (plain, as_token):
        with pytest.raises(SaslAuthenticationError), Admin(configs) as admin:
            admin.list_topics()


def test_tokens_of_others(broker: Broker) -> None:
    with Admin(broker.client_configs("alice")) as admin:
        token = admin.create_delegation_token(owner="User:carol", max_lifetime_ms=60_000)
        assert (token.owner, token.requester) == ("User:carol", "User:alice")
        with pytest.raises(DelegationTokenOwnerMismatchError):
            admin.expire_delegation_token(token.hmac)
        with pytest.raises(KafkaError) as raised:
            admin.create_delegation_token(renewers=["Group:x"])
        assert raised.value.code == ErrorCode.INVALID_PRINCIPAL_TYPE
        (found,) = admin.describe_delegation_tokens(["User:carol"])
        assert found == token
        assert admin.describe_delegation_tokens([]) == []
        assert token in admin.describe_delegation_tokens()


def test_tokens_outlive_the_broker() -> None:
    security = Security(users=USERS, configs={**AT_ONCE, "delegation.token.secret.key": "master"})
    with Broker(security=security) as broker:
        with Admin(broker.client_configs("alice")) as admin:
            token = admin.create_delegation_token()
        broker.restart()
        with Admin(by_token(broker, token)) as admin:
            admin.list_topics()


def test_without_a_key_there_are_none() -> None:
    with (
        Broker(security=Security(users=USERS, configs=AT_ONCE)) as broker,
        Admin(broker.client_configs("alice")) as admin,
    ):
        for call in (admin.create_delegation_token, admin.describe_delegation_tokens):
            with pytest.raises(DelegationTokenDisabledError):
                call()


def test_the_tool(broker: Broker, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    login = broker.client_configs("bob")
    file.write_text("".join(f"{name}={value}\n" for name, value in login.items()), encoding="utf-8")
    at = ["delegation-tokens", "--bootstrap-server", broker.bootstrap_servers, "--command-config", str(file)]

    def run(*words: str) -> str:
        done = CliRunner().invoke(main, [*at, *words])
        assert done.exit_code == 0, done.output
        return done.output

    made = run("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:alice")
    assert made.startswith(
        "Calling create token operation with renewers :[User:alice] , max-life-time-period :-1\n"
        "Created delegation token with tokenId : "
    )
    row = made.splitlines()[-1].split()
    secret = row[1]
    assert row[2:5] == ["User:bob", "User:bob", "[User:alice]"]
    assert secret in run("--describe", "--owner-principal", "User:bob")
    assert "Completed renew operation." in run("--renew", "--hmac", secret, "--renew-time-period", "-1")
    assert "Completed expire operation." in run("--expire", "--hmac", secret, "--expiry-time-period", "-1")
    assert "Total number of tokens : 0" in run("--describe", "--owner-principal", "User:bob")
    wrong = CliRunner().invoke(main, [*at, "--create", "--describe"])
    assert wrong.exit_code == 1 and "exactly one action" in wrong.output
