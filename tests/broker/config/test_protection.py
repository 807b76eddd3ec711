"""Configs that ask for protection that there is not: which count, and that no broker starts with them."""

from __future__ import annotations

import pytest

from odradek.broker.app import StartError
from odradek.broker.config.broker_config import BrokerConfig
from odradek.broker.config.protection import check_promises, unkept_promises
from odradek.cluster.configs.config_def import ConfigError
from odradek.testing import Broker


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("authorizer.class.name", "com.example.LdapAuthorizer"),
        ("authorizer.zookeeper.url", "acls:2181"),
        ("super.users", "User:admin"),
        ("allow.everyone.if.no.acl.found", "false"),
        ("ssl.engine.factory.class", "a.b.Engines"),
        ("sasl.enabled.mechanisms", "SCRAM-SHA-256"),
        ("listener.name.external.scram-sha-256.sasl.jaas.config", "x required;"),
        ("security.providers", "a.b.Provider"),
        ("connections.max.reauth.ms", "3600000"),
        ("delegation.token.secret.key", "s"),
        ("delegation.token.master.key", "s"),
        ("principal.builder.class", "a.b.Builder"),
        ("create.topic.policy.class.name", "a.b.Policy"),
        ("alter.config.policy.class.name", "a.b.Policy"),
        ("process.roles", "broker"),
        ("controller.quorum.voters", "1@a:9093,2@b:9093,3@c:9093"),
        ("controller.quorum.bootstrap.servers", "a:9093,b:9093"),
    ],
)
def test_what_asks_for_protection_counts(name: str, value: str) -> None:
    config = BrokerConfig({name: value})
    assert [one.name for one in unkept_promises(config)] == [name]
    with pytest.raises(ConfigError) as caught:
        check_promises(config)
    assert name in str(caught.value)
    assert "--insecure" in str(caught.value)
    meant = BrokerConfig({name: value, "odradek.insecure": "true"})
    assert [one.name for one in check_promises(meant)] == [name]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("authorizer.class.name", ""),
        ("ssl.keystore.location", "/k.p12"),
        ("ssl.client.auth", "required"),
        ("listener.name.external.ssl.client.auth", "required"),
        ("allow.everyone.if.no.acl.found", "true"),
        ("listener.security.protocol.map", "INTERNAL:SASL_SSL,PLAINTEXT:PLAINTEXT"),
        (
            "listener.security.protocol.map",
            "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
        ),
        ("process.roles", "controller, broker"),
        ("controller.quorum.voters", "1@localhost:9093"),
        ("quota.producer.default", "1048576"),
        ("password.encoder.secret", "s"),
        ("num.partitions", "3"),
    ],
)
def test_what_promises_nothing_does_not_count(name: str, value: str) -> None:
    assert check_promises(BrokerConfig({name: value})) == []


@pytest.mark.parametrize(
    "name",
    [
        "kafka.security.authorizer.AclAuthorizer",
        "kafka.security.auth.SimpleAclAuthorizer",
        " org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    ],
)
def test_with_an_authorizer_of_kafkas_its_configs_are_kept(name: str) -> None:
    given = {
        "authorizer.class.name": name,
        "super.users": "User:admin",
        "allow.everyone.if.no.acl.found": "false",
    }
    config = BrokerConfig(given)
    assert check_promises(config) == []
    assert config.unknown == []


LOGINS = {
    "listeners": "LOGIN://127.0.0.1:0",
    "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.login.plain.sasl.jaas.config": 'x.PlainLoginModule required user_a="b";',
    "connections.max.reauth.ms": "3600000",
}


def test_what_a_listener_with_logins_keeps_does_not_count() -> None:
    assert check_promises(BrokerConfig(LOGINS)) == []
    handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
    assert check_promises(BrokerConfig({**LOGINS, "sasl.server.callback.handler.class": handler})) == []


@pytest.mark.parametrize(
    "name", ["sasl.server.callback.handler.class", "sasl.login.class", "sasl.login.callback.handler.class"]
)
def test_classes_of_java_that_check_logins_count(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        check_promises(BrokerConfig({**LOGINS, name: "com.example.Handler"}))


def test_a_broker_in_a_test_does_not_start_either() -> None:
    broker = Broker(sasl_enabled_mechanisms="PLAIN")
    with pytest.raises(StartError, match=r"sasl\.enabled\.mechanisms"):
        broker.start()
    with Broker(sasl_enabled_mechanisms="PLAIN", odradek_insecure=True) as running:
        assert running.port
