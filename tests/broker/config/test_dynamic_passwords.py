"""Passwords in dynamic configs: encrypted in the store as Kafka has them, and never shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from odradek import Admin
from odradek.broker.config.broker_config import BrokerConfig
from odradek.broker.config.password_encoder import PasswordEncoder, PasswordNotDecoded
from odradek.client.errors import SaslAuthenticationError
from odradek.cluster.configs.config_def import ConfigError
from odradek.errors import InvalidRequestError
from odradek.testing import Broker, Security

GOLDEN = json.loads(
    (Path(__file__).parents[2] / "golden" / "security" / "password_encoder.json").read_text("utf-8")
)
CIPHERS = {"CBC": "AES/CBC/PKCS5Padding", "GCM": "AES/GCM/NoPadding"}
NAME = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
USERS = {"admin": "admin"}
AT_ONCE = {"connection.failed.authentication.delay.ms": "1"}


@pytest.mark.parametrize("mode", CIPHERS)
def test_what_kafka_has_encrypted_is_read(mode: str) -> None:
    assert PasswordEncoder(GOLDEN["secret"]).decode(GOLDEN["encoded"][mode]) == GOLDEN["password"]


@pytest.mark.parametrize("cipher", CIPHERS.values())
@pytest.mark.parametrize("factory", ["PBKDF2WithHmacSHA512", "PBKDF2WithHmacSHA1", "PBKDF2WithHmacSHA256"])
@pytest.mark.parametrize("bits", [128, 256])
def test_what_is_encrypted_is_read_by_any_with_the_secret(cipher: str, factory: str, bits: int) -> None:
    encoder = PasswordEncoder("secret", factory, cipher, bits, 1024)
    for password in ("", "x", "ü€𝄞" * 50, "a,b:c=d"):
        text = encoder.encode(password)
        assert len(password) < 5 or password not in text
        assert encoder.encode(password) != text
        assert PasswordEncoder("secret").decode(text) == password
    with pytest.raises(PasswordNotDecoded):
        PasswordEncoder("other").decode(encoder.encode("password"))
    assert "secret" not in repr(encoder)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "password",
        "a:b,c:d",
        GOLDEN["encoded"]["CBC"].replace("AES/CBC/PKCS5Padding", "DES/CBC/PKCS5Padding"),
        GOLDEN["encoded"]["CBC"].replace("iterations:4096", "iterations:999999999999"),
        GOLDEN["encoded"]["CBC"].replace("keyLength:128", "keyLength:x"),
        GOLDEN["encoded"]["GCM"].replace("authenticationTagLength:128", "authenticationTagLength:32"),
        GOLDEN["encoded"]["GCM"].replace("passwordLength:", "passwordLength:9"),
    ],
)
def test_what_cannot_be_read_is_told_without_showing_it(text: str) -> None:
    with pytest.raises(PasswordNotDecoded) as raised:
        PasswordEncoder(GOLDEN["secret"]).decode(text)
    assert GOLDEN["password"] not in str(raised.value)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"cipher": "DES/CBC/PKCS5Padding"}, "is not known here"),
        ({"key_factory": "PBEWithMD5AndDES"}, "is not known here"),
        ({"key_bits": 64}, "128, 192 or 256 bits"),
    ],
)
def test_ways_of_encrypting_that_are_not_there(given: dict, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        PasswordEncoder("secret", **given).encode("x")


def test_a_password_that_stays_is_not_encrypted_anew_and_the_old_secret_reads_on() -> None:
    old = BrokerConfig({"password.encoder.secret": "old"}).dynamic_passwords
    first = old.encode({NAME: "x", "log.cleaner.threads": "2"}, {})
    assert first["log.cleaner.threads"] == "2" and first[NAME] != "x"
    assert old.encode({NAME: "x"}, first)[NAME] == first[NAME]
    assert old.encode({NAME: "y"}, first)[NAME] != first[NAME]
    both = BrokerConfig({"password.encoder.secret": "new", "password.encoder.old.secret": "old"})
    assert both.dynamic_passwords.decode(first) == {NAME: "x", "log.cleaner.threads": "2"}
    other = BrokerConfig({"password.encoder.secret": "new"})
    assert other.dynamic_passwords.decode(first) == {"log.cleaner.threads": "2"}


def log_in(broker: Broker, user: str, password: str) -> None:
    configs = broker.client_configs("admin", "PLAIN") | {"sasl.jaas.config": None}
    with Admin(configs, sasl_username=user, sasl_password=password) as admin:
        admin.list_topics()


def test_users_of_a_listener_change_while_the_broker_runs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    security = Security(users=USERS, configs={**AT_ONCE, "password.encoder.secret": "master"})
    with Broker(security=security) as broker:
        with Admin(broker.client_configs("admin", "PLAIN")) as admin:
            changed = f'{MODULE} user_admin="admin" user_eve="p4ssw0rd";'
            admin.incremental_alter_configs({("broker", "0"): {NAME: changed}})
            log_in(broker, "eve", "p4ssw0rd")
            with pytest.raises(InvalidRequestError):
                admin.incremental_alter_configs({("broker", "0"): {NAME: "nonsense p4ssw0rd"}})
            with pytest.raises(InvalidRequestError):
                admin.incremental_alter_configs({("broker", ""): {NAME: changed}})
            (described,) = admin.describe_configs([("broker", "0")]).values()
            assert described[NAME].value is None and described[NAME].sensitive
        stored = broker.call(lambda one: dict(one.controller.image.config("brokers/0")))
        assert "p4ssw0rd" not in json.dumps(stored) and stored[NAME].startswith("keyFactoryAlgorithm:")
        broker.restart()
        log_in(broker, "eve", "p4ssw0rd")
        with Admin(broker.client_configs("admin", "PLAIN")) as admin:
            admin.incremental_alter_configs({("broker", "0"): {NAME: None}})
        with pytest.raises(SaslAuthenticationError):
            log_in(broker, "eve", "p4ssw0rd")
    assert "p4ssw0rd" not in caplog.text


def test_without_a_secret_there_are_none() -> None:
    with (
        Broker(security=Security(users=USERS, configs=AT_ONCE)) as broker,
        Admin(broker.client_configs("admin", "PLAIN")) as admin,
        pytest.raises(InvalidRequestError, match=r"give password\.encoder\.secret"),
    ):
        admin.incremental_alter_configs({("broker", "0"): {NAME: f'{MODULE} user_eve="x";'}})
