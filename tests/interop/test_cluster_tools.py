"""Kafka's tools on a cluster of three: those of 2019 by ZooKeeper, where the controller reads what they
ask, and today's by the brokers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop import kafka_peer, members
from interop.cluster_of_processes import BROKERS, ClusterOfProcesses
from interop.kafka_tools import KafkaTools
from odradek import Admin, Producer

pytestmark = pytest.mark.interop

OLD = "2.2.2"
THROTTLE = 50_000_000
"""Bytes a second, for which nothing here has to wait."""

THROTTLED = {"leader": {0, 1, 2}, "follower": {0, 1, 2}}
"""The tools set both rates on every broker of the plan, those that it leaves included."""


@pytest.fixture(scope="module")
def cluster(kafka_toolchain: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterOfProcesses]:
    """Three brokers for all tests of this file, each of which has a topic of its own."""
    with ClusterOfProcesses(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def old(cluster: ClusterOfProcesses) -> Iterator[KafkaTools]:
    """Kafka's tools of 2019."""
    with KafkaTools(OLD) as tools:
        yield tools


@pytest.fixture(scope="module")
def newest(cluster: ClusterOfProcesses) -> Iterator[KafkaTools]:
    """Kafka's newest tools."""
    with KafkaTools(kafka_peer.NEWEST) as tools:
        yield tools


def by_zookeeper(tools: KafkaTools, cluster: ClusterOfProcesses, tool: str, *words: str) -> str:
    """Run a tool on the nodes, which has to succeed; what it prints."""
    outcome = tools.run(tool, "--zookeeper", cluster.connect, *words, limit_s=60)
    assert outcome.status == 0, outcome
    return outcome.out


def by_brokers(tools: KafkaTools, cluster: ClusterOfProcesses, tool: str, *words: str) -> str:
    """Run a tool on the brokers, which has to succeed; what it prints."""
    outcome = tools.run(tool, "--bootstrap-server", cluster.bootstrap_servers, *words, limit_s=60)
    assert outcome.status == 0, outcome
    return outcome.out


def write(cluster: ClusterOfProcesses, topic: str, partitions: int) -> None:
    """A record for each partition, acknowledged by all in sync."""
    with Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer:
        for sent in [producer.send(topic, value=b"x" * 100, partition=p) for p in range(partitions)]:
            sent.result(60)


def plan_of(path: Path, topic: str, rows: dict[int, list[int]]) -> tuple[str, str]:
    """The words that name a file with a reassignment."""
    moves = [{"topic": topic, "partition": p, "replicas": row} for p, row in rows.items()]
    path.write_text(json.dumps({"version": 1, "partitions": moves}), encoding="utf-8")
    return "--reassignment-json-file", str(path)


def described(printed: str) -> dict[int, tuple[int, list[int], set[int]]]:
    """Leader, replicas and ISR by partition, from what `kafka-topics --describe` prints."""
    found = {}
    for line in printed.splitlines():
        if "\tPartition: " in line:
            words = dict(part.split(": ", 1) for part in line.strip().split("\t") if ": " in part)
            ids = [[int(one) for one in words[name].strip().split(",")] for name in ("Replicas", "Isr")]
            found[int(words["Partition"])] = int(words["Leader"]), ids[0], set(ids[1])
    return found


def test_topics_by_zookeeper(cluster: ClusterOfProcesses, old: KafkaTools) -> None:
    """Created, configured, grown and deleted by what the tools write into the nodes."""
    topic = "old"
    by_zookeeper(
        old, cluster, "topics", "--create", "--topic", topic, "--partitions", "2", "--replication-factor", "3"
    )
    members.until("the topic is led", lambda: topic in topics_of(cluster) and cluster.is_whole())
    write(cluster, topic, 2)
    assert topic in by_zookeeper(old, cluster, "topics", "--list").split()
    rows = described(by_zookeeper(old, cluster, "topics", "--describe", "--topic", topic))
    assert {p: (leader, replicas) for p, (leader, replicas, _) in rows.items()} == {
        p: (cluster.leaders(topic)[p], replicas) for p, replicas in cluster.replicas(topic).items()
    }
    entity = ("--entity-type", "topics", "--entity-name", topic)
    by_zookeeper(old, cluster, "configs", *entity, "--alter", "--add-config", "retention.ms=12345678")
    assert "retention.ms=12345678" in by_zookeeper(old, cluster, "configs", *entity, "--describe")
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        members.until("the brokers have the config", lambda: retention(admin, topic) == "12345678")

    by_zookeeper(old, cluster, "topics", "--alter", "--topic", topic, "--partitions", "5")
    members.until("it has grown", lambda: len(cluster.leaders(topic)) == 5 and cluster.is_whole())
    write(cluster, topic, 5)
    by_zookeeper(old, cluster, "topics", "--delete", "--topic", topic)
    members.until("it is gone", lambda: topic not in topics_of(cluster))


def topics_of(cluster: ClusterOfProcesses) -> set[str | None]:
    """The topics that every broker knows."""
    return set.intersection(*({one.name for one in cluster.metadata(b).topics} for b in range(3)))


def retention(admin: Admin, topic: str) -> str:
    """A topic's retention, in milliseconds, as the brokers tell it."""
    (configs,) = admin.describe_configs([("topic", topic)]).values()
    return str(configs["retention.ms"].value)


def test_replicas_and_leaders_move_by_zookeeper(
    cluster: ClusterOfProcesses, old: KafkaTools, tmp_path: Path
) -> None:
    topic = "moved"
    assignment = ("--replica-assignment", "0:1,1:2,2:0")
    by_zookeeper(old, cluster, "topics", "--create", "--topic", topic, *assignment)
    members.until("the topic is led", lambda: topic in topics_of(cluster) and cluster.is_whole())
    write(cluster, topic, 3)
    words = plan_of(tmp_path / "plan.json", topic, {0: [2, 1], 1: [0, 2], 2: [2, 0]})
    throttle = ("--throttle", str(THROTTLE))
    printed = by_zookeeper(old, cluster, "reassign-partitions", *words, *throttle, "--execute")
    assert "Successfully started reassignment of partitions" in printed
    assert f"The inter-broker throttle limit was set to {THROTTLE} B/s" in printed
    # From the brokers that partitions are copied from, to the one that each is new on.
    replicas = {"leader": {"0:0", "0:1", "1:1", "1:2"}, "follower": {"0:2", "1:0"}}
    members.until("the brokers are throttled", lambda: throttles(cluster, topic) == (replicas, THROTTLED))

    def is_done() -> bool:
        verified = by_zookeeper(old, cluster, "reassign-partitions", *words, "--verify")
        assert "failed" not in verified
        return verified.count("completed successfully") == 3 and "Throttle was removed." in verified

    members.until("the tool finds it completed", is_done)
    members.until("nobody is throttled", lambda: throttles(cluster, topic) == ({}, {}))
    assert cluster.replicas(topic) == {0: [2, 1], 1: [0, 2], 2: [2, 0]}
    # Leaders that can stay do.
    printed = by_zookeeper(old, cluster, "leader-election")
    assert "Successfully started preferred replica election" in printed
    members.until("the preferred ones lead", lambda: cluster.leaders(topic) == {0: 2, 1: 0, 2: 2})
    write(cluster, topic, 3)


def throttles(cluster: ClusterOfProcesses, topic: str) -> tuple[dict[str, set[str]], dict[str, set[int]]]:
    """The throttles of copies by side, as the brokers tell them: of which replicas, and of which brokers."""
    replicas: dict[str, set[str]] = {}
    brokers: dict[str, set[int]] = {}
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        told = admin.describe_configs([("topic", topic), *(("broker", broker) for broker in range(BROKERS))])
    for (kind, name), configs in told.items():
        for side in ("leader", "follower"):
            found = configs.get(f"{side}.replication.throttled.{'replicas' if kind == 'topic' else 'rate'}")
            if kind == "topic" and found is not None and found.value:
                replicas[side] = set(found.value.split(","))
            elif kind == "broker" and found is not None and found.value == str(THROTTLE):
                brokers.setdefault(side, set()).add(int(name))
    return replicas, brokers


def test_what_todays_tools_see(cluster: ClusterOfProcesses, newest: KafkaTools) -> None:
    """ApiVersions, DescribeCluster and Metadata make a cluster for them."""
    versions = by_brokers(newest, cluster, "broker-api-versions")
    assert sorted(line.split()[2] for line in versions.splitlines() if "(id:" in line) == ["0", "1", "2"]
    assert "UNSUPPORTED" not in versions.split("Produce(0)")[1].splitlines()[0]
    features = by_brokers(newest, cluster, "features", "describe")
    assert "metadata.version" not in features
    module = pytest.importorskip("confluent_kafka.admin")
    admin = module.AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    seen = admin.describe_cluster().result(30)
    assert sorted(node.id for node in seen.nodes) == [0, 1, 2]
    assert seen.controller.id == cluster.metadata().controller_id
    assert seen.cluster_id == cluster.metadata().cluster_id


def test_todays_tools(cluster: ClusterOfProcesses, newest: KafkaTools, tmp_path: Path) -> None:
    topic = "new"
    assignment = ("--replica-assignment", "0:1,1:2,2:0")
    by_brokers(newest, cluster, "topics", "--create", "--topic", topic, *assignment)
    members.until("the topic is led", lambda: topic in topics_of(cluster) and cluster.is_whole())
    write(cluster, topic, 3)
    by_brokers(newest, cluster, "topics", "--alter", "--topic", topic, "--partitions", "4")
    members.until("it has grown", lambda: len(cluster.leaders(topic)) == 4 and cluster.is_whole())
    rows = described(by_brokers(newest, cluster, "topics", "--describe", "--topic", topic))
    assert {p: replicas for p, (_, replicas, _) in rows.items()} == cluster.replicas(topic)
    assert all(set(replicas) == isr for _, replicas, isr in rows.values())
    under = by_brokers(newest, cluster, "topics", "--describe", "--under-replicated-partitions")
    assert described(under) == {}

    entity = ("--entity-type", "topics", "--entity-name", topic)
    by_brokers(newest, cluster, "configs", *entity, "--alter", "--add-config", "retention.ms=12345678")
    assert "retention.ms=12345678" in by_brokers(newest, cluster, "configs", *entity, "--describe")
    broker = ("--entity-type", "brokers", "--entity-name", "2")
    by_brokers(newest, cluster, "configs", *broker, "--alter", "--add-config", "log.cleaner.threads=2")
    assert "log.cleaner.threads=2" in by_brokers(newest, cluster, "configs", *broker, "--describe")

    words = plan_of(tmp_path / "plan.json", topic, {0: [2, 0]})
    throttle = ("--throttle", str(THROTTLE))
    printed = by_brokers(newest, cluster, "reassign-partitions", *words, *throttle, "--execute")
    assert f"Successfully started partition reassignment for {topic}-0" in printed
    assert f"The inter-broker throttle limit was set to {THROTTLE} B/s" in printed
    replicas = {"leader": {"0:0", "0:1"}, "follower": {"0:2"}}
    members.until("the brokers are throttled", lambda: throttles(cluster, topic) == (replicas, THROTTLED))
    # It may have ended before, or after the tool has found it under way.
    at = ("--bootstrap-server", cluster.bootstrap_servers)
    cancelled = newest.run("reassign-partitions", *at, *words, "--cancel", limit_s=60)
    assert any(
        said in cancelled.out
        for said in (
            f"Successfully cancelled partition reassignment for: {topic}-0",
            "None of the specified partition reassignments are active.",
            f"{topic}-0: The partition is not being reassigned.",
        )
    ), cancelled
    members.until("nothing moves", cluster.is_whole)
    by_brokers(newest, cluster, "reassign-partitions", *words, *throttle, "--execute")

    def is_done() -> bool:
        verified = by_brokers(newest, cluster, "reassign-partitions", *words, "--verify")
        return f"Reassignment of partition {topic}-0 is completed." in verified

    members.until("the tool finds it completed", is_done)
    members.until("nobody is throttled", lambda: throttles(cluster, topic) == ({}, {}))
    assert cluster.replicas(topic)[0] == [2, 0]

    preferred = ("--election-type", "preferred", "--topic", topic, "--partition", "0")
    by_brokers(newest, cluster, "leader-election", *preferred)
    members.until("the preferred one leads", lambda: cluster.leaders(topic)[0] == 2)

    printed = by_brokers(newest, cluster, "log-dirs", "--describe", "--topic-list", topic)
    (line,) = [line for line in printed.splitlines() if line.startswith("{")]
    held = {
        (int(part["partition"].rpartition("-")[2]), one["broker"])
        for one in json.loads(line)["brokers"]
        for folder in one["logDirs"]
        for part in folder["partitions"]
    }
    assert held == {(p, broker) for p, row in cluster.replicas(topic).items() for broker in row}


def test_groups_of_todays_tools(cluster: ClusterOfProcesses, newest: KafkaTools) -> None:
    topic = "read"
    by_brokers(newest, cluster, "topics", "--create", "--topic", topic, "--partitions", "3")
    members.until("the topic is led", lambda: topic in topics_of(cluster) and cluster.is_whole())
    write(cluster, topic, 3)
    reset = ("--reset-offsets", "--group", "readers", "--topic", topic, "--to-earliest", "--execute")
    by_brokers(newest, cluster, "consumer-groups", *reset)
    assert "readers" in by_brokers(newest, cluster, "consumer-groups", "--list").split()
    printed = by_brokers(newest, cluster, "consumer-groups", "--describe", "--group", "readers")
    rows = [line.split() for line in printed.splitlines() if line.startswith("readers ")]
    assert sorted(int(row[2]) for row in rows) == [0, 1, 2]
    assert all(row[3:6] == ["0", "1", "1"] for row in rows)
    by_brokers(newest, cluster, "consumer-groups", "--delete", "--group", "readers")
    assert "readers" not in by_brokers(newest, cluster, "consumer-groups", "--list").split()
