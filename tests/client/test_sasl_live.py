"""Logins of our clients against a broker with SASL."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from odradek import Admin, AsyncProducer, Consumer, NewTopic, Producer, SimpleConsumer, TopicPartition
from odradek.client.errors import ConfigError, SaslAuthenticationError
from odradek.client.raw import RawReader
from odradek.errors import InvalidRequestError
from odradek.sasl.scram_credentials import ScramCredential
from odradek.testing import Broker, Cluster, Security
from waiting import gathered, until

USERS = {"alice": 'p"ss\\w;ord', "bob,=": "secret"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
AT_ONCE = {"connection.failed.authentication.delay.ms": "1"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(security=Security(users=USERS, configs=AT_ONCE)) as running:
        yield running


def principals(broker: Broker) -> set[str]:
    return broker.call(lambda one: {c.peer.principal for c in one.listeners[0].connections})


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("user", USERS)
def test_our_clients_log_in(broker: Broker, mechanism: str, user: str) -> None:
    topic = f"ours-{mechanism}-{user[:3]}"
    configs = broker.client_configs(user, mechanism)
    with Producer(configs) as producer:
        producer.send(topic, value=b"hello").result(60)
        assert f"User:{user}" in principals(broker)
    with Consumer(configs, topic, group_id=topic, auto_offset_reset="earliest") as consumer:
        assert next(iter(consumer)).value == b"hello"
    with Admin(configs) as admin:
        assert topic in admin.list_topics()
    servers = configs.pop("bootstrap.servers")
    with RawReader(servers, configs) as reader:
        assert reader.end_offsets([(topic, 0)]) == {(topic, 0): 1}
    with SimpleConsumer(broker.host, broker.port, **configs) as simple:
        assert simple.fetch(topic, 0, 0).records[0].value == b"hello"


def test_mechanisms_change_while_the_broker_runs() -> None:
    with Broker(
        security=Security(users=USERS, mechanisms=("PLAIN", "SCRAM-SHA-256"), configs=AT_ONCE)
    ) as broker:

        def log_in() -> None:
            with Admin(broker.client_configs("alice", "SCRAM-SHA-256")) as admin:
                admin.list_topics()

        log_in()
        name = "listener.name.sasl_plaintext.sasl.enabled.mechanisms"
        with Admin(broker.client_configs("alice")) as admin:
            for wrong in ("GSSAPI", "", "OAUTHBEARER"):
                with pytest.raises(InvalidRequestError):
                    admin.incremental_alter_configs({("broker", "0"): {name: wrong}})
            log_in()
            admin.incremental_alter_configs({("broker", "0"): {name: "PLAIN"}})
            with pytest.raises(SaslAuthenticationError, match="not enabled"):
                log_in()
            admin.incremental_alter_configs({("broker", "0"): {name: None}})
        log_in()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_logins_over_tls(mechanism: str) -> None:
    security = Security(users=USERS, tls=True, configs=AT_ONCE)
    with Broker(security=security) as broker:
        configs = broker.client_configs("alice", mechanism)
        assert configs["security.protocol"] == "SASL_SSL"
        with Producer(configs) as producer:
            producer.send("t", value=b"hello").result(60)
            assert principals(broker) == {"User:alice"}
        servers = configs.pop("bootstrap.servers")
        with RawReader(servers, configs) as reader:
            assert reader.end_offsets([("t", 0)]) == {("t", 0): 1}
        configs |= {"sasl.jaas.config": None, "sasl.username": "alice", "sasl.password": "wrong"}
        with (
            pytest.raises(SaslAuthenticationError, match="Authentication failed"),
            Admin(configs, bootstrap_servers=servers) as admin,
        ):
            admin.list_topics()


def test_other_names_of_user_and_password(broker: Broker) -> None:
    for given in (
        {"sasl_plain_username": "alice", "sasl_plain_password": USERS["alice"], "sasl_mechanism": "PLAIN"},
        {"sasl.username": "alice", "sasl.password": USERS["alice"], "sasl.mechanisms": "SCRAM-SHA-512"},
    ):
        configs: dict[str, Any] = {"bootstrap_servers": broker.bootstrap_servers, **given}
        with Producer(configs, security_protocol="sasl_plaintext") as producer:
            producer.send("names", value=b"x").result(60)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("user", ["alice", "nobody"])
def test_a_wrong_password_is_told_at_once(broker: Broker, mechanism: str, user: str) -> None:
    configs = broker.client_configs("alice", mechanism) | {"sasl.jaas.config": None}
    configs |= {"sasl.username": user, "sasl.password": "wrong"}
    with (
        pytest.raises(SaslAuthenticationError, match="Authentication failed") as raised,
        Admin(configs) as admin,
    ):
        admin.list_topics()
    assert broker.bootstrap_servers in str(raised.value)
    with pytest.raises(SaslAuthenticationError), Producer(configs) as producer:
        producer.send("never", value=b"x").result(60)

    async def never() -> None:
        async with AsyncProducer(configs) as sender:
            await sender.send("never", value=b"x")

    with pytest.raises(SaslAuthenticationError):
        asyncio.run(never())
    servers = configs.pop("bootstrap.servers")
    with pytest.raises(SaslAuthenticationError), RawReader(servers, configs) as reader:
        reader.end_offsets([("never", 0)])


def test_a_mechanism_that_the_broker_does_not_have() -> None:
    with Broker(security=Security(users=USERS, mechanisms=("SCRAM-SHA-512",), configs=AT_ONCE)) as broker:
        configs = broker.client_configs("alice", "PLAIN")
        with (
            pytest.raises(
                SaslAuthenticationError,
                match=r"Client SASL mechanism 'PLAIN' not enabled in the server, enabled mechanisms are "
                r"\[SCRAM-SHA-512\]",
            ),
            Admin(configs) as admin,
        ):
            admin.list_topics()


def test_a_client_with_a_login_at_a_listener_without() -> None:
    with Broker() as broker:
        configs = Security(users=USERS).client_configs("alice")
        with (
            pytest.raises(SaslAuthenticationError, match="Unexpected handshake request"),
            Admin(configs, bootstrap_servers=broker.bootstrap_servers) as admin,
        ):
            admin.list_topics()


@pytest.mark.parametrize(
    ("configs", "why"),
    [
        ({}, "needs a sasl.mechanism"),
        ({"sasl_mechanism": "PLAIN"}, "needs a username and a password"),
        ({"sasl_mechanism": "NONE", "sasl_username": "a", "sasl_password": "b"}, "not known here"),
        ({"sasl_mechanism": "PLAIN", "sasl_jaas_config": "secret;"}, "a login module has no flag"),
        ({"sasl_mechanism": "PLAIN", "sasl_no_such": "secret"}, "no such config of SASL"),
    ],
)
def test_logins_that_cannot_be(configs: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why) as raised:
        Producer(bootstrap_servers="127.0.0.1:1", security_protocol="SASL_PLAINTEXT", **configs)
    assert "secret" not in str(raised.value)


def test_users_come_and_go_while_the_broker_runs() -> None:
    with Broker(security=Security(users={"admin": "admin"}, configs=AT_ONCE)) as broker:

        def set_password(password: str | None) -> None:
            made = {}
            if password is not None:
                made["SCRAM-SHA-256"] = ScramCredential.of_password("SCRAM-SHA-256", password).to_text()
            broker.call(lambda one: one.controller.alter_config("users/carol", made))

        def log_in(password: str) -> None:
            configs = broker.client_configs("admin", "SCRAM-SHA-256") | {"sasl.jaas.config": None}
            with Admin(configs, sasl_username="carol", sasl_password=password) as admin:
                admin.list_topics()

        with pytest.raises(SaslAuthenticationError):
            log_in("one")
        set_password("one")
        log_in("one")
        set_password("two")
        with pytest.raises(SaslAuthenticationError):
            log_in("one")
        log_in("two")
        broker.restart()
        log_in("two")
        set_password(None)
        with pytest.raises(SaslAuthenticationError):
            log_in("two")


def test_clients_log_in_again_before_logins_run_out() -> None:
    security = Security(users=USERS, configs={**AT_ONCE, "connections.max.reauth.ms": "1200"})
    with Broker(security=security) as broker:
        configs = broker.client_configs("alice", "SCRAM-SHA-256")
        with (
            Producer(configs) as producer,
            Consumer(configs, auto_offset_reset="earliest") as consumer,
            RawReader(broker.bootstrap_servers, configs) as reader,
        ):
            producer.send("long", value=b"0").result(60)
            consumer.assign([TopicPartition("long", 0)])
            seen: list[Any] = []
            number = 0

            def logins() -> float:
                nonlocal number
                number += 1
                producer.send("long", value=b"%d" % number)
                seen.extend(consumer.poll(timeout_ms=20))
                reader.end_offsets([("long", 0)])
                return _count(broker, "successful-reauthentication-total")

            until(logins, "logins again", holds=lambda count: count >= 5, every_s=0)
            left = number + 1 - len(seen)
            seen += gathered(lambda: consumer.poll(timeout_ms=100), left, "the records that are left")
            assert [one.value for one in seen] == [b"%d" % one for one in range(number + 1)]
        assert _count(broker, "failed-reauthentication-total") == 0


def test_the_brokers_of_a_cluster_log_in_at_each_other() -> None:
    configs = {**AT_ONCE, "connections.max.reauth.ms": "600"}
    security = Security(users={"broker": "secret", "alice": "other"}, mechanisms=("PLAIN",), configs=configs)
    with Cluster(2, security=security) as cluster:
        login = security.client_configs("alice") | {"bootstrap.servers": cluster.bootstrap_servers}
        with Admin(login) as admin:
            admin.create_topics([NewTopic("t", 1, 2)])
        leader = cluster.brokers[cluster.leader("t")]
        with Producer(login, acks="all") as producer:
            sent = 0
            # A slow client is late with its next login, and its connection is closed: it may be away then.
            logged_in: set[str] = set()

            def logins() -> float:
                nonlocal sent
                producer.send("t", value=b"%d" % sent).result(60)
                sent += 1
                logged_in.update(principals(leader))
                return _count(leader, "successful-authentication-total")

            until(logins, "logins again", holds=lambda count: count >= 5, every_s=0)
            until(logins, "both", holds=lambda _: {"User:broker", "User:alice"} <= logged_in, every_s=0)
        with Consumer(login, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("t", 0)])
            seen = gathered(lambda: consumer.poll(timeout_ms=100), sent, "the records that were sent")
        assert [one.value for one in seen] == [b"%d" % one for one in range(sent)]


def _count(broker: Broker, name: str) -> float:
    return sum(value for (_, metric, _), value in broker.metrics().items() if metric == name)
