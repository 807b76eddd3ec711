"""Blanks around a value of a config, which Kafka takes off whatever its type, wherever configs are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.broker.config.broker_config import BrokerConfig, ConfigError
from odradek.broker.config.listener_overrides import ListenerSsl, listener_config
from odradek.broker.config.reconfiguration import check_change, update_dynamic
from odradek.client.config import AdminConfig, ConsumerConfig, build
from odradek.security.key_stores import read_key_store
from odradek.security.ssl_contexts import server_context
from odradek.testing.certificates import CertificateAuthority
from odradek.util.java_text import java_trim

CA = CertificateAuthority()
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password=" p ";'


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stores")
    return CA.issue("broker", hosts=["localhost"]).write_pkcs12(folder / "broker.p12", "changeit")


def ssl_configs(store: Path, blank: str, prefix: str = "") -> dict[str, str]:
    return {
        f"{prefix}ssl.keystore.type": f"{blank}PKCS12{blank}",
        f"{prefix}ssl.keystore.location": f"{store}{blank}",
        f"{prefix}ssl.keystore.password": f"changeit{blank}",
        f"{prefix}ssl.key.password": f"{blank}changeit{blank}",
    }


def test_what_java_takes_off() -> None:
    assert java_trim("\t\n\x00 a b \x1f\r\n") == "a b"
    assert java_trim("\u00a0a\u2003") == "\u00a0a\u2003"


@pytest.mark.parametrize("blank", [" ", "\n", "\t ", ""])
@pytest.mark.parametrize("prefix", ["", "listener.name.ssl."])
def test_a_brokers_key_store(store: Path, blank: str, prefix: str) -> None:
    given = {
        "listeners": f"SSL://:9093{blank}",
        "log.dirs": f"/d{blank}",
        **ssl_configs(store, blank, prefix),
    }
    config = BrokerConfig(given)
    server_context(ListenerSsl.of(config, "SSL", "SSL").configs)
    assert config.data_dirs == (Path("/d"),)


def test_a_brokers_logins_and_its_way_to_zookeeper() -> None:
    config = BrokerConfig(
        {
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f" {JAAS}\n",
            "zookeeper.ssl.keystore.password": "secret ",
            "password.encoder.secret": "secret\n",
            "authorizer.class.name": " kafka.security.authorizer.AclAuthorizer ",
            "no.such.config": " as it is ",
        }
    )
    assert listener_config(config, "SASL_SSL", "plain.sasl.jaas.config") == JAAS
    assert config.text_of("zookeeper.ssl.keystore.password") == "secret"
    assert config.password_encoder_secret == "secret"
    assert config.authorizer_class_name == "kafka.security.authorizer.AclAuthorizer"
    assert config.given["no.such.config"] == " as it is "


def test_a_brokers_dynamic_configs() -> None:
    config = BrokerConfig({"password.encoder.secret": "x"})
    change = {"message.max.bytes": " 77 ", "listener.name.plaintext.ssl.keystore.type": "PEM "}
    assert check_change(config, change, per_broker=True).message_max_bytes == 77
    update_dynamic(config, {}, change)
    assert config.text_of("message.max.bytes") == "77"
    assert listener_config(config, "PLAINTEXT", "ssl.keystore.type") == "PEM"


def test_what_is_not_a_blank_to_java_stays() -> None:
    with pytest.raises(ConfigError, match="Not a number"):
        BrokerConfig({"message.max.bytes": "77\u00a0"})


@pytest.mark.parametrize("blank", [" ", "\n", ""])
def test_a_clients_configs(store: Path, blank: str) -> None:
    given = {
        "bootstrap.servers": f"a:1{blank}",
        "security.protocol": f"SSL{blank}",
        "client.id": f"{blank}me{blank}",
        **ssl_configs(store, blank),
    }
    config = build(AdminConfig, given)
    assert config.client_id == "me"
    assert read_key_store(config.security.configs) is not None
    named = build(
        ConsumerConfig,
        {"bootstrap_servers": "a:1", "group_id": f"g{blank}", "auto.offset.reset": f"earliest{blank}"},
    )
    assert (named.group_id, named.auto_offset_reset) == ("g", "earliest")


def test_passwords_under_other_clients_names_are_taken_as_they_are() -> None:
    given = {
        "bootstrap.servers": "a:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN ",
        "sasl_plain_username": "me ",
        "sasl.password": " p ",
    }
    configs = build(AdminConfig, given).security.configs
    assert (configs["sasl.plain.username"], configs["sasl.password"]) == ("me ", " p ")
    assert configs["sasl.mechanism"] == "PLAIN"


def test_a_schema_registrys_certificates_and_login(store: Path) -> None:
    pytest.importorskip("pyspark")
    from odradek.spark.formats.options import source_sides
    from odradek.spark.option_values import Given

    options = {f"value.schema.registry.{name}": text for name, text in ssl_configs(store, "\n").items()}
    given = {
        "value.format": "avro",
        "value.schema.registry.url": "https://127.0.0.1:1",
        "value.schema.registry.basic.auth.user.info": "me:secret\n",
        **options,
    }
    registry = source_sides(Given(given))["value"].registry
    assert registry is not None
    assert registry.user_info == "me:secret"
    assert read_key_store(dict(registry.ssl)) is not None


def test_sparks_kafka_options(store: Path) -> None:
    pytest.importorskip("pyspark")
    from odradek.spark.options import parse_source

    options = {f"kafka.{name}": text for name, text in ssl_configs(store, " ").items()}
    given = {
        "kafka.bootstrap.servers": "a:1 ",
        "kafka.security.protocol": "SSL ",
        "subscribe": "t",
        **options,
    }
    parsed = parse_source(given, streaming=False)
    assert build(AdminConfig, parsed.client).security.uses_tls
