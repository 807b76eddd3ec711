"""Brokers of one cluster as processes: records survive signals of the kernel."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.client import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    Admin,
    Consumer,
    PatternType,
    Producer,
    ResourcePattern,
    ResourceType,
)
from odradek.client.types import TopicPartition
from odradek.errors import BrokerNotAvailableError, TopicAuthorizationError, TopicExistsError
from odradek.testing import ProcessCluster, Security

ALL = {0, 1, 2}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    with ProcessCluster(
        3,
        data=tmp_path_factory.mktemp("cluster"),
        session_timeout_ms=1_000,
        min_insync_replicas=2,
        racks=("a", "b", "c"),
    ) as cluster:
        yield cluster


def send(cluster: ProcessCluster, topic: str, values: list[bytes]) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer:
        for future in [producer.send(topic, value=value) for value in values]:
            future.result(60)


def read(cluster: ProcessCluster, topic: str, count: int) -> list[bytes]:
    found: list[bytes] = []
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        cluster.wait_until(
            lambda: found.extend(one.value for one in consumer.poll(100)) or len(found) >= count
        )
    return found


def test_what_is_acknowledged_survives_the_deaths_of_leaders(cluster: ProcessCluster) -> None:
    cluster.create_topic("deaths")
    values = [b"%d" % number for number in range(30)]
    for part in range(3):
        leader = cluster.leader("deaths")
        pid = cluster.pid(leader)
        send(cluster, "deaths", values[10 * part : 10 * part + 10])
        cluster.kill(leader)
        assert leader not in cluster.live
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        assert cluster.leader("deaths") != leader
        cluster.restart(leader)
        cluster.wait_for_isr("deaths", ALL)
    assert read(cluster, "deaths", 30) == values


def test_a_paused_leader_is_replaced_after_its_session_and_comes_back(cluster: ProcessCluster) -> None:
    cluster.create_topic("pauses")
    leader = cluster.leader("pauses")
    # Neither this client nor one that begins now waits until a request to the paused one has timed out.
    with Producer(
        bootstrap_servers=cluster.bootstrap_servers, acks="all", request_timeout_ms=600_000
    ) as producer:
        producer.send("pauses", value=b"before").result(60)
        with cluster.pause(leader):
            assert leader in cluster.live
            producer.send("pauses", value=b"meanwhile").result(60)

    def is_back() -> bool:
        # Whoever was paused says at first what it knew before.
        found = cluster.partition("pauses")
        return found.leader_epoch > 0 and set(found.in_sync_replicas) == ALL

    cluster.wait_until(is_back)
    assert read(cluster, "pauses", 2) == [b"before", b"meanwhile"]


def test_a_stop_in_good_order_moves_the_controller_and_leaders_away(cluster: ProcessCluster) -> None:
    cluster.create_topic("stops", 3)
    stopped = cluster.controller
    cluster.stop(stopped)
    assert cluster.controller != stopped
    assert stopped not in {cluster.leader("stops", index) for index in range(3)}
    cluster.restart(stopped)
    cluster.wait_for_isr("stops", ALL)
    with pytest.raises(RuntimeError, match="runs already"):
        cluster.restart(stopped)


def test_a_topic_that_exists_is_refused(cluster: ProcessCluster) -> None:
    cluster.create_topic("twice", replication_factor=1)
    with pytest.raises(TopicExistsError):
        cluster.create_topic("twice")


def test_a_broker_that_does_not_start_says_why(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match=r"broker 0 does not start:\n(.*\n)*.*num\.partitions"),
        ProcessCluster(1, data=tmp_path, num_partitions="none"),
    ):
        pass


def test_nothing_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with ProcessCluster(1, auto_create_topics_enable=False) as cluster:
        pid = cluster.pid(0)
        assert list(tmp_path.iterdir())
    assert cluster.live == []
    with pytest.raises(BrokerNotAvailableError, match="does not run"):
        cluster.pid(0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not list(tmp_path.iterdir())


def test_a_keyword_that_is_no_config_is_refused() -> None:
    with pytest.raises(TypeError, match="min_insync_replica"):
        ProcessCluster(1, min_insync_replica=2)


@pytest.mark.parametrize(("brokers", "racks"), [(0, ()), (2, ("a",))])
def test_what_makes_no_cluster_is_refused(brokers: int, racks: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"brokers"):
        ProcessCluster(brokers, racks=racks)


def test_logins_tls_and_acls_in_two_lines(tmp_path: Path) -> None:
    """By SCRAM and PLAIN over TLS; a follower has logged in at its leader; who may not is refused."""
    reader = AclBinding(
        ResourcePattern(ResourceType.TOPIC, "secret", PatternType.LITERAL),
        AccessControlEntry("User:bob", "*", AclOperation.DESCRIBE, AclPermissionType.ALLOW),
    )
    security = Security(users={"admin": "a;d\\m", "alice": "al ice", "bob": "b"}, acls=(reader,), tls=True)
    with ProcessCluster(2, data=tmp_path, security=security, min_insync_replicas=2) as cluster:
        assert cluster.client_configs("alice")["security.protocol"] == "SASL_SSL"
        cluster.create_topic("secret")
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
            with Producer(cluster.client_configs("admin", mechanism), acks="all") as producer:
                producer.send("secret", value=mechanism.encode()).result(60)
        for user in ("alice", "bob"):
            with (
                pytest.raises(TopicAuthorizationError),
                Producer(cluster.client_configs(user, "SCRAM-SHA-512"), enable_idempotence=False) as producer,
            ):
                producer.send("secret", value=b"x").result(60)
        with Admin(cluster.client_configs("bob")) as admin:
            assert admin.list_topics() == ["secret"]
        cluster.kill(1)
        cluster.restart(1)
        cluster.wait_for_isr("secret", {0, 1})
        for file in tmp_path.glob("*.properties"):
            assert file.stat().st_mode & 0o077 == 0
        command = Path(f"/proc/{cluster.pid(0)}/cmdline")
        assert not command.exists() or b"al ice" not in command.read_bytes()


def test_certificates_of_clients(tmp_path: Path) -> None:
    with ProcessCluster(1, data=tmp_path, security=Security(client_auth="required")) as cluster:
        cluster.create_topic("t")
        with Producer(cluster.client_configs("alice")) as producer:
            producer.send("t", value=b"x").result(60)
