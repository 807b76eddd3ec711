"""What a listener's configs say of logins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from odradek.broker.config.broker_config import BrokerConfig
from odradek.broker.sasl.inter_broker import inter_broker_login
from odradek.broker.sasl.settings import listener_sasl
from odradek.cluster.configs.config_def import ConfigError
from odradek.sasl.mechanisms import SaslError
from odradek.sasl.plain import PlainServer
from odradek.sasl.scram import ScramServer
from odradek.sasl.token_providers import OAuthBearerLogin

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
BASE = {
    "listeners": "IN://127.0.0.1:0,OUT://127.0.0.1:0",
    "listener.security.protocol.map": "IN:SASL_PLAINTEXT,OUT:SASL_PLAINTEXT",
    "inter.broker.listener.name": "IN",
    "sasl.enabled.mechanisms": "PLAIN",
}


def settings(listener: str = "IN", **configs: str) -> Any:
    given = {**BASE, **{name.replace("__", "-").replace("_", "."): text for name, text in configs.items()}}
    return listener_sasl(BrokerConfig(given), listener, lambda mechanism: lambda name, is_token: None)


def lets_in(found: Any, name: str, password: str) -> bool:
    server = found.mechanisms["PLAIN"]()
    assert isinstance(server, PlainServer)
    try:
        server.evaluate(f"\0{name}\0{password}".encode())
    except Exception:
        return False
    return server.is_complete


def test_a_listener_has_users_of_its_own() -> None:
    configs = {
        "listener_name_in_plain_sasl_jaas_config": f'{PLAIN} user_a="1";',
        "listener_name_out_plain_sasl_jaas_config": f'{PLAIN} user_b="2";',
    }
    assert lets_in(settings("IN", **configs), "a", "1")
    assert not lets_in(settings("OUT", **configs), "a", "1")
    assert lets_in(settings("OUT", **configs), "b", "2")


def test_the_login_of_the_broker_itself_is_no_user() -> None:
    found = settings(listener_name_in_plain_sasl_jaas_config=f'{PLAIN} username="a" password="1";')
    assert not lets_in(found, "a", "1")


def test_users_from_a_jaas_file(tmp_path: Path) -> None:
    file = tmp_path / "jaas.conf"
    file.write_text(
        f'KafkaServer {{ {PLAIN} user_a="1"; }};\nout.KafkaServer {{ {PLAIN} user_b="2"; }};',
        encoding="utf-8",
    )
    assert lets_in(settings("IN", odradek_jaas_config_file=str(file)), "a", "1")
    found = settings("OUT", odradek_jaas_config_file=str(file))
    assert lets_in(found, "b", "2") and not lets_in(found, "a", "1")


def test_scram_needs_no_login_module() -> None:
    found = settings(sasl_enabled_mechanisms="SCRAM-SHA-256, SCRAM-SHA-512")
    assert list(found.mechanisms) == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert isinstance(found.mechanisms["SCRAM-SHA-256"](), ScramServer)


def test_bounds_of_a_listener_and_of_a_mechanism() -> None:
    configs = {
        "sasl_enabled_mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
        "connections_max_reauth_ms": "1000",
        "listener_name_out_connections_max_reauth_ms": "2000",
        "listener_name_out_scram__sha__512_connections_max_reauth_ms": "3000",
        "listener_name_out_sasl_server_max_receive_size": "100",
        "connection_failed_authentication_delay_ms": "7",
    }
    found = settings("OUT", **configs)
    assert found.reauth_ms == {"SCRAM-SHA-256": 2000, "SCRAM-SHA-512": 3000}
    assert (found.max_receive_size, found.failure_delay_ms, found.timeout_ms) == (100, 7, 30_000)
    found = settings("IN", **configs)
    assert set(found.reauth_ms.values()) == {1000} and found.max_receive_size == 524_288


@pytest.mark.parametrize(
    ("configs", "why"),
    [
        ({}, "PLAIN is enabled and has no login module"),
        ({"sasl_enabled_mechanisms": ""}, "nobody could log in"),
        ({"sasl_enabled_mechanisms": "GSSAPI"}, "GSSAPI is enabled and has no login module"),
        ({"sasl_enabled_mechanisms": "DIGEST-MD5"}, "DIGEST-MD5, which is not there"),
        (
            {
                "sasl_enabled_mechanisms": "GSSAPI",
                "listener_name_in_gssapi_sasl_jaas_config": "x.Krb5LoginModule required useKeyTab=true;",
            },
            "GSSAPI needs a keyTab and a principal",
        ),
        ({"listener_name_in_plain_sasl_jaas_config": "top secret;"}, "a login module has no flag"),
        (
            {"listener_name_in_plain_sasl_jaas_config": "x.ScramLoginModule required;"},
            "sasl.jaas.config has ScramLoginModule",
        ),
        ({"odradek_jaas_config_file": "/no/such/file"}, "/no/such/file cannot be read"),
        (
            {
                "sasl_enabled_mechanisms": "OAUTHBEARER",
                "listener_name_in_oauthbearer_sasl_jaas_config": "x.OAuthBearerLoginModule required;",
                "sasl_server_callback_handler_class": "o.a.k.OAuthBearerValidatorCallbackHandler",
            },
            "does not say with which keys",
        ),
        (
            {
                "sasl_enabled_mechanisms": "OAUTHBEARER",
                "listener_name_in_oauthbearer_sasl_jaas_config": "x.OAuthBearerLoginModule required;",
                "sasl_oauthbearer_jwks_endpoint_url": "file:/no/such/file",
            },
            "/no/such/file cannot be read",
        ),
    ],
)
def test_what_cannot_be_is_told_without_secrets(configs: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why) as raised:
        settings(**configs)
    assert "top secret" not in str(raised.value)


def login(**configs: str) -> Any:
    given = {**BASE, **{name.replace("_", "."): text for name, text in configs.items()}}
    return inter_broker_login(BrokerConfig(given), "IN")


def test_brokers_log_in_by_the_mechanism_of_the_config() -> None:
    made = login(
        sasl_mechanism_inter_broker_protocol="PLAIN",
        listener_name_in_plain_sasl_jaas_config=f'{PLAIN} username="admin" password="1" user_admin="1";',
    )
    assert made.mechanism == "PLAIN" and made.start("").evaluate(b"") == b"\0admin\x001"


def test_brokers_log_in_by_an_assertion() -> None:
    made = login(
        sasl_enabled_mechanisms="OAUTHBEARER",
        sasl_mechanism_inter_broker_protocol="OAUTHBEARER",
        listener_name_in_oauthbearer_sasl_jaas_config="x.OAuthBearerLoginModule required;",
        sasl_oauthbearer_token_endpoint_url="https://id/token",
        sasl_oauthbearer_jwt_retriever_class="org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever",
        sasl_oauthbearer_assertion_private_key_file="/etc/odradek/key.pem",
    )
    assert isinstance(made, OAuthBearerLogin)
    with pytest.raises(SaslError, match=r"/etc/odradek/key\.pem"):
        made.token()


def test_brokers_do_not_log_in_where_there_are_no_logins() -> None:
    assert inter_broker_login(BrokerConfig({}), "PLAINTEXT") is None


@pytest.mark.parametrize(
    ("configs", "why"),
    [
        ({}, "GSSAPI: it must be one of the mechanisms that are enabled"),
        (
            {
                "sasl_mechanism_inter_broker_protocol": "PLAIN",
                "listener_name_in_plain_sasl_jaas_config": f'{PLAIN} user_admin="1";',
            },
            "needs a username and a password",
        ),
    ],
)
def test_a_login_among_brokers_that_cannot_be(configs: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        login(**configs)
