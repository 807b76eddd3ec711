"""Dynamic configs that a broker could not go on with: refused when they come, passed over where stored.

What is refused was asked of Kafka 3.9.1 with ZooKeeper and of 4.3.1: each answers INVALID_REQUEST to each of
these, but to new listeners, which it opens while it runs.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from odradek import Admin
from odradek.broker.config.broker_config import BrokerConfig
from odradek.broker.config.reconfiguration import check_change, update_dynamic
from odradek.cluster.configs.config_def import ConfigError
from odradek.errors import KafkaError
from odradek.errors.codes import ErrorCode
from odradek.testing import Broker

STATIC = {"listeners": "PLAINTEXT://127.0.0.1:9092", "log.dirs": "/d"}
BUILDER = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
HERE = "PLAINTEXT://127.0.0.1:9092"
MAP = "listener.security.protocol.map"

REFUSED: Mapping[str, list[tuple[str, str]]] = {
    "max.connections": [("0", "Invalid max.connections 0"), ("-1", "Value must be at least 0")],
    "listener.name.plaintext.max.connections": [("0", "Invalid max.connections 0")],
    "max.connection.creation.rate": [("0", "Invalid max.connection.creation.rate 0")],
    "listener.name.plaintext.max.connection.creation.rate": [("0", "Invalid max.connection.creation.rate 0")],
    "max.connections.per.ip": [("0", "can be set to zero only if max.connections.per.ip.overrides")],
    "max.connections.per.ip.overrides": [
        ("x", "not host:number"),
        ("a,b", "not host:number"),
        (":1", "not host"),
    ],
    "listeners": [
        ("", "at least one listener"),
        ("x", "not NAME://HOST:PORT"),
        (f"{HERE},X://127.0.0.1:9093", "No security protocol defined for listener X"),
        (f"{HERE},{HERE}", "different name"),
        ("SSL://127.0.0.1:9092", "listeners cannot be changed while this broker runs"),
        ("PLAINTEXT://127.0.0.1:9093", "listeners cannot be changed while this broker runs"),
    ],
    MAP: [
        ("", "No security protocol defined for listener PLAINTEXT"),
        ("x", "not a listener and its security protocol"),
        ("X:PLAINTEXT", "No security protocol defined for listener PLAINTEXT"),
        ("PLAINTEXT:PLAINTEXT,X:NONSENSE", "X:NONSENSE is not a listener"),
        ("PLAINTEXT:SSL", "Security protocol cannot be updated for existing listener"),
    ],
    "principal.builder.class": [
        ("no.such.Class", "Class no.such.Class could not be found"),
        ("", "could not be found"),
    ],
    "listener.name.plaintext.principal.builder.class": [("no.such.Class", "could not be found")],
    "listener.name.plaintext.ssl.engine.factory.class": [("no.such.Class", "could not be found")],
    "log.retention.ms": [("0", "log.retention.ms must be unlimited")],
    "log.roll.ms": [("0", "log.roll.ms must be greater than or equal to 1"), ("-1", "log.roll.ms must be")],
    "log.roll.jitter.ms": [("-1", "log.roll.jitter.ms must be greater than or equal to 0")],
    "log.cleaner.dedupe.buffer.size": [("1", "must be at least 1MB per cleaner thread")],
    "log.cleaner.threads": [("0", "log.cleaner.threads must be at least 1"), ("2147483647", "at least 1MB")],
    "num.replica.fetchers": [
        ("0", "value should be at least 1"),
        ("-1", "at least 1"),
        ("3", "greater than double"),
    ],
    "num.io.threads": [("3", "at least half the current value 8"), ("17", "greater than double")],
    "num.network.threads": [("7", "greater than double"), ("0", "Value must be at least 1")],
    "background.threads": [("4", "at least half"), ("2147483647", "greater than double")],
    "num.recovery.threads.per.data.dir": [("2147483647", "greater than double")],
}
CASES = [(name, text, why) for name, cases in REFUSED.items() for text, why in cases]
ABSOLUTE = [one for one in CASES if "greater than double" not in one[2] and "at least half" not in one[2]]
"""Those that are refused whatever holds now."""

TAKEN = {
    "max.connections": "1",
    "listeners": HERE,
    MAP: "PLAINTEXT:PLAINTEXT,X:SSL",
    "principal.builder.class": BUILDER,
    "log.retention.ms": "-1",
    "num.replica.fetchers": "2",
    "num.io.threads": "16",
    "max.connections.per.ip": "0",
    "max.connections.per.ip.overrides": "127.0.0.1:7,[::1]:8",
    "listener.name.nosuch.max.connections": "0",
}


def is_of_all(name: str) -> bool:
    return BrokerConfig(STATIC).update_mode(name) != "per-broker"


@pytest.mark.parametrize(("name", "text", "why"), CASES)
def test_a_change_that_a_broker_could_not_go_on_with_is_refused(name: str, text: str, why: str) -> None:
    config = BrokerConfig(STATIC)
    with pytest.raises(ConfigError, match=why):
        check_change(config, {name: text}, per_broker=True)
    if is_of_all(name):
        with pytest.raises(ConfigError, match=why):
            check_change(config, {name: text}, per_broker=False)


def test_changes_that_are_none_of_these_are_taken() -> None:
    config = BrokerConfig(STATIC)
    check_change(config, TAKEN, per_broker=True)
    for name, text in TAKEN.items():
        if name != "max.connections.per.ip":
            check_change(config, {name: text}, per_broker=True)


def test_one_change_is_judged_with_what_the_other_layer_says() -> None:
    config = BrokerConfig(STATIC)
    assert update_dynamic(
        config, {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "a:1"}, {}
    )
    with pytest.raises(ConfigError, match="can be set to zero only if"):
        check_change(config, {"max.connections.per.ip.overrides": ""}, per_broker=True)
    with pytest.raises(ConfigError, match="can be set to zero only if"):
        check_change(config, {"max.connections.per.ip": "0"}, per_broker=False)
    check_change(config, {}, per_broker=False)


@pytest.mark.parametrize(("name", "text", "why"), ABSOLUTE)
def test_what_is_stored_all_the_same_is_passed_over_and_told(
    name: str, text: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It was written by a tool that asks ZooKeeper, or by another release."""
    for at_once in (False, True):
        config = BrokerConfig(STATIC)
        before = config.text_of(name)
        with caplog.at_level(logging.ERROR):
            good = {"message.max.bytes": "77"}
            stored = {name: text, **good}
            if at_once:
                update_dynamic(config, stored if is_of_all(name) else good, {})
                assert config.text_of(name) == before
            update_dynamic(config, {}, stored)
            update_dynamic(config, {}, stored)
        assert config.text_of(name) == before
        assert config.message_max_bytes == 77
        assert list(config.passed_over) == [name]
        told = [
            one.getMessage() for one in caplog.records if f"passed over name={name}: " in one.getMessage()
        ]
        assert len(told) == 1 and why in told[0]
        assert config.listener_endpoints == BrokerConfig(STATIC).listener_endpoints
        caplog.clear()


def test_what_is_valid_together_only_is_taken_whatever_is_beside_it() -> None:
    bad = {"max.connections": "0", "listeners": "x", "log.roll.ms": "0"}
    good = {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "a:1", "num.io.threads": "500"}
    orders = itertools.permutations([*bad.items(), *good.items()])
    for order in itertools.islice(orders, 0, None, 47):
        config = BrokerConfig(STATIC)
        update_dynamic(config, {}, dict(order))
        assert sorted(config.passed_over) == sorted(bad)
        assert config.num_io_threads == 500
        assert config.max_connections_per_ip == 0


def test_a_broker_stays_usable_whatever_was_stored(caplog: pytest.LogCaptureFixture) -> None:
    with Broker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            for name in REFUSED:
                for text, _ in REFUSED[name][:1]:
                    with pytest.raises(KafkaError) as refused:
                        admin.incremental_alter_configs({("broker", "0"): {name: text}})
                    assert refused.value.code == ErrorCode.INVALID_REQUEST, (name, text)
        worst = {name: text for name, text, _ in ABSOLUTE}

        def store(running: Any) -> None:
            running.controller.alter_config("brokers/0", worst)

        broker.call(store)
        for _ in range(2):
            with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
                assert admin.list_topics() == []
            broker.restart()
    told = {line.split("name=")[1].split(":")[0] for line in caplog.messages if "passed over" in line}
    assert set(worst) <= told
