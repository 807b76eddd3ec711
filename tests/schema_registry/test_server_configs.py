"""`schema-registry.properties`."""

from __future__ import annotations

import pytest

from odradek.schema_registry.server_configs import ServerConfig, ServerConfigError, read_server_config


def test_nothing_said() -> None:
    assert read_server_config({}) == ServerConfig()


def test_what_confluents_file_says() -> None:
    config = read_server_config(
        {
            "listeners": "https://0.0.0.0:8085",
            "kafkastore.bootstrap.servers": "SASL_SSL://a:9092,SASL_SSL://b:9092",
            "kafkastore.security.protocol": "SASL_SSL",
            "kafkastore.sasl.mechanism": "PLAIN",
            "kafkastore.ssl.truststore.location": "/t.jks",
            "kafkastore.topic": "_other",
            "kafkastore.topic.replication.factor": "1",
            "kafkastore.timeout.ms": "500",
            "schema.compatibility.level": "full_transitive",
            "mode.mutability": "false",
            "ssl.keystore.location": "/k.jks",
            "odradek.basic.auth.user.info": "me:secret",
            "schema.registry.group.id": "g",
            "leader.eligibility": "true",
            "host.name": "h",
            "debug": "false",
        }
    )
    assert (config.host, config.port, config.is_https) == ("0.0.0.0", 8085, True)
    assert config.store == {
        "bootstrap.servers": "a:9092,b:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "ssl.truststore.location": "/t.jks",
    }
    assert (config.topic, config.replication_factor, config.timeout_s) == ("_other", 1, 0.5)
    assert (config.level, config.are_modes_mutable) == ("FULL_TRANSITIVE", False)
    assert config.ssl == {"ssl.keystore.location": "/k.jks"}
    assert "secret" not in repr(config)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("listeners", "localhost:8081", "http://HOST:PORT"),
        ("listeners", "http://a:1,http://b:2", "one address"),
        ("listeners", "http://a:port", "http://HOST:PORT"),
        ("kafkastore.timeout.ms", "soon", "kafkastore.timeout.ms: not 'soon'"),
        ("kafkastore.topic.replication.factor", "0", "positive"),
        ("schema.compatibility.level", "some", "backward_transitive"),
        ("mode.mutability", "maybe", "mode.mutability"),
        ("kafkastore.security.protocol", "SSL", "bootstrap.servers is missing"),
        ("kafkastor.topic", "x", "kafkastore.topic"),
        ("odradek.basic.auth.user.info", "secretword", "user:password"),
    ],
)
def test_what_cannot_be(name: str, value: str, reason: str) -> None:
    with pytest.raises(ServerConfigError, match=reason) as caught:
        read_server_config({name: value})
    assert "secretword" not in str(caught.value)
