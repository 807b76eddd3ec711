"""Kafka's `kafka-acls` at our broker and at Kafka's, ours at both, and those of 2.2 over the same
ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from interop import kafka_peer
from interop.kafka_tools import KafkaTools, ours
from odradek import AclBindingFilter, Admin
from odradek.testing import Broker
from waiting import until
from zookeeper_server import ZooKeeperServer, zookeeper

pytestmark = pytest.mark.interop

__all__ = ["zookeeper"]

AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"

_WHO = ("--allow-principal", "User:bob", "--allow-host", "10.0.0.1")
CALLS = (
    ("--add", *_WHO, "--operation", "Read", "--operation", "Write", "--topic", "t", "--topic", "u"),
    ("--add", *_WHO, "--operation", "Read", "--topic", "t"),
    ("--add", "--producer", "--allow-principal", "User:p", "--topic", "pre-", "--transactional-id", "x",
     "--resource-pattern-type", "prefixed"),
    ("--add", "--consumer", "--allow-principal", "User:c", "--topic", "t", "--group", "g"),
    ("--add", "--producer", "--idempotent", "--allow-principal", "User:i", "--topic", "*"),
    ("--add", "--deny-principal", "User:bob", "--deny-host", "10.0.0.2", "--cluster"),
    ("--add", "--allow-principal", "User:a", "--operation", "CreateTokens", "--user-principal", "User:b"),
    ("--list",),
    ("--list", "--topic", "t"),
    ("--list", "--topic", "pre-1", "--resource-pattern-type", "match"),
    ("--list", "--topic", "pre-", "--resource-pattern-type", "any"),
    ("--list", "--principal", "User:c", "--principal", "User:bob"),
    ("--remove", "--force", *_WHO, "--operation", "Write", "--topic", "t"),
    ("--remove", "--force", "--topic", "pre-1", "--resource-pattern-type", "match"),
    ("--list",),
)  # fmt: skip


def lines(text: str) -> list[str]:
    """What was printed, whatever the order of a set is."""
    return sorted(line.strip() for line in text.splitlines())


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(authorizer_class_name=AUTHORIZER, super_users="User:ANONYMOUS") as broker:
        yield broker


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[kafka_peer.RealKafka]:
    if reason := kafka_peer.missing_toolchain():
        pytest.skip(reason)
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with kafka_peer.RealKafka(kafka_peer.NEWEST, tmp_path, settings) as kafka:
        yield kafka


def test_the_tools_print_the_same_at_both(broker: Broker, kafka: kafka_peer.RealKafka) -> None:
    with KafkaTools(kafka_peer.NEWEST) as tools:
        for words in CALLS:
            at_kafka = tools.run("acls", "--bootstrap-server", kafka.bootstrap_servers, *words)
            at_ours = tools.run("acls", "--bootstrap-server", broker.bootstrap_servers, *words)
            assert at_kafka.status == at_ours.status == 0, (words, at_kafka, at_ours)
            assert lines(at_ours.out) == lines(at_kafka.out), words
        for servers in (kafka.bootstrap_servers, broker.bootstrap_servers):
            with Admin(bootstrap_servers=servers) as admin:
                admin.delete_acls([AclBindingFilter()])
        for words in CALLS:
            theirs = tools.run("acls", "--bootstrap-server", kafka.bootstrap_servers, *words)
            mine = ours("acls", "--bootstrap-server", broker.bootstrap_servers, *words)
            assert (mine.status, lines(mine.out)) == (theirs.status, lines(theirs.out)), words
        # Ours at Kafka's broker: what the other has done is there, and can be removed.
        listed = ours("acls", "--bootstrap-server", kafka.bootstrap_servers, "--list")
        assert lines(listed.out) == lines(
            tools.run("acls", "--bootstrap-server", kafka.bootstrap_servers, "--list").out
        )
        removed = ours(
            "acls", "--bootstrap-server", kafka.bootstrap_servers, "--remove", "--force", "--topic", "u"
        )
        assert removed.status == 0
        left = ours("acls", "--bootstrap-server", kafka.bootstrap_servers, "--list", "--topic", "u")
        assert left.out == ""


@pytest.mark.parametrize("version", ["2.2.2", "3.9.1"])
def test_kafkas_tool_over_the_same_zookeeper(
    version: str, zookeeper: ZooKeeperServer, kafka_toolchain: None
) -> None:
    """What the tool writes into ZooKeeper our broker follows, and what our broker writes the tool lists."""
    connect = f"{zookeeper.address}/acls-{version}"
    config = {"authorizer_class_name": AUTHORIZER, "super_users": "User:ANONYMOUS", "broker_id": 1}
    in_store = ("--authorizer-properties", f"zookeeper.connect={connect}")
    with (
        Broker(zookeeper_connect=connect, **config) as broker,
        KafkaTools(version) as tools,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        words = ("--allow-principal", "User:bob", "--operation", "Describe")
        for more in (("--topic", "t"), ("--transactional-id", "x"),
                     ("--topic", "pre-", "--resource-pattern-type", "prefixed")):  # fmt: skip
            done = tools.run("acls", *in_store, "--add", *words, *more)
            assert done.status == 0, done
        # The notice is on its way.
        until(admin.describe_acls, "three ACLs", holds=lambda acls: len(acls) >= 3, every_s=0)
        mine = ours("acls", "--bootstrap-server", broker.bootstrap_servers, "--add", "--allow-principal",
                    "User:carol", "--operation", "Describe", "--group", "g")  # fmt: skip
        assert mine.status == 0, mine
        listed = tools.run("acls", *in_store, "--list")
        assert listed.status == 0, listed
        assert "User:carol" in listed.out
        done = tools.run("acls", *in_store, "--remove", "--force", "--topic", "t")
        assert done.status == 0, done
        until(admin.describe_acls, "three ACLs", holds=lambda acls: len(acls) <= 3, every_s=0)
        in_ours = ours("acls", *in_store, "--list")
        assert in_ours.status == 0, in_ours
        assert in_ours.out.count("Current ACLs") == 3
