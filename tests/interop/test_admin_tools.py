"""Kafka's own tools of administrators, of two releases, on our broker: what works on Kafka works, what an
unsecured Kafka that is alone refuses is refused in the same words."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop import kafka_peer
from interop.kafka_tools import KafkaTools, Outcome
from odradek import Admin, NewTopic, OffsetAndMetadata, Producer
from odradek.testing import Broker

pytestmark = pytest.mark.interop

OLD = "2.2.2"


@pytest.fixture(scope="module")
def broker(kafka_toolchain: None) -> Iterator[Broker]:
    """A broker with two topics, some records, and a group that has read them."""
    with Broker() as broker:
        servers = {"bootstrap_servers": broker.bootstrap_servers}
        with Admin(**servers) as admin, Producer(**servers) as producer:
            admin.create_topics([NewTopic("clicks", num_partitions=3), NewTopic("views", num_partitions=1)])
            producer.send("clicks", value=b"x" * 100, partition=0)
            producer.flush()
            read = {("clicks", p): OffsetAndMetadata(0) for p in range(3)}
            admin.alter_group_offsets("idle", read | {("views", 0): OffsetAndMetadata(0)})
        yield broker


@pytest.fixture(scope="module")
def newest(broker: Broker) -> Iterator[KafkaTools]:
    """Kafka's newest tools."""
    with KafkaTools(kafka_peer.NEWEST) as tools:
        yield tools


@pytest.fixture(scope="module")
def old(broker: Broker) -> Iterator[KafkaTools]:
    """Kafka's tools of 2019."""
    with KafkaTools(OLD) as tools:
        yield tools


def run(tools: KafkaTools, broker: Broker, tool: str, *words: str) -> Outcome:
    return tools.run(tool, "--bootstrap-server", broker.bootstrap_servers, *words)


def fine(tools: KafkaTools, broker: Broker, tool: str, *words: str) -> str:
    """Run a tool that has to succeed; what it prints."""
    outcome = run(tools, broker, tool, *words)
    assert outcome.status == 0, outcome
    return outcome.out


def test_offsets_of_a_group_are_deleted(broker: Broker, newest: KafkaTools) -> None:
    words = ("--delete-offsets", "--group", "idle", "--topic", "clicks:0")
    assert "Request succeeded" in fine(newest, broker, "consumer-groups", *words)
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        left = admin.list_group_offsets("idle")
    assert {(tp.topic, tp.partition) for tp in left} == {("clicks", 1), ("clicks", 2), ("views", 0)}


def log_dirs(printed: str) -> dict[str, int]:
    """Sizes by partition, from what the tool prints between its remarks."""
    (line,) = [line for line in printed.splitlines() if line.startswith("{")]
    (described,) = json.loads(line)["brokers"]
    (directory,) = described["logDirs"]
    assert directory["error"] is None
    return {one["partition"]: one["size"] for one in directory["partitions"]}


def test_log_dirs(broker: Broker, newest: KafkaTools, old: KafkaTools) -> None:
    for tools in (newest, old):
        sizes = log_dirs(fine(tools, broker, "log-dirs", "--describe", "--topic-list", "clicks"))
        assert sizes["clicks-0"] > 100
        assert (sizes["clicks-1"], sizes["clicks-2"], len(sizes)) == (0, 0, 3)


def test_acls_of_nobody(broker: Broker, newest: KafkaTools, old: KafkaTools) -> None:
    for tools in (newest, old):
        outcome = run(tools, broker, "acls", "--list")
        assert outcome.status == 1
        assert "SecurityDisabledException: No Authorizer is configured" in outcome.out


def test_tokens_for_nobody(broker: Broker, newest: KafkaTools, old: KafkaTools, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for tools in (newest, old):
        words = ("--describe", "--command-config", str(tmp_path / "empty"))
        outcome = run(tools, broker, "delegation-tokens", *words)
        assert outcome.status == 1
        assert "Delegation Token requests are not allowed on PLAINTEXT" in outcome.out + outcome.err


def test_topics_in_pages(broker: Broker, newest: KafkaTools) -> None:
    words = ("--describe", "--topic", "clicks", "--partition-size-limit-per-response", "2")
    lines = fine(newest, broker, "topics", *words).splitlines()
    # "Elr" is there, not "N/A": the tool has asked by DescribeTopicPartitions.
    partitions = [line.split("\t") for line in lines if line.startswith("\t")]
    assert [line[2:6] for line in partitions] == [
        [f"Partition: {p}", "Leader: 0", "Replicas: 0", "Isr: 0"] for p in range(3)
    ]
    assert all(line[6].strip() == "Elr:" for line in partitions)


@pytest.mark.parametrize(
    ("kind", "entity", "quota", "whose"),
    [
        ("users", ["--entity-name", "bob"], "producer_byte_rate=1024", "user-principal 'bob'"),
        ("clients", ["--entity-default"], "consumer_byte_rate=5", "the default client-id"),
        ("ips", ["--entity-name", "127.0.0.1"], "connection_creation_rate=5", "ip '127.0.0.1'"),
    ],
)
def test_quotas(
    kind: str, entity: list[str], quota: str, whose: str, broker: Broker, newest: KafkaTools
) -> None:
    words = ("--entity-type", kind, *entity, "--alter")
    fine(newest, broker, "configs", *words, "--add-config", quota)
    printed = fine(newest, broker, "configs", "--entity-type", kind, "--describe")
    assert f"{whose} are {quota}.0" in printed
    fine(newest, broker, "configs", *words, "--delete-config", quota.partition("=")[0])
    assert whose not in fine(newest, broker, "configs", "--entity-type", kind, "--describe")


def test_scram_credentials(broker: Broker, newest: KafkaTools) -> None:
    ann = ("--entity-type", "users", "--entity-name", "ann")
    credential = "SCRAM-SHA-256=[iterations=8192,password=secret]"
    fine(newest, broker, "configs", *ann, "--alter", "--add-config", credential)
    assert "'ann' are SCRAM-SHA-256=iterations=8192" in fine(newest, broker, "configs", *ann, "--describe")
    fine(newest, broker, "configs", *ann, "--alter", "--delete-config", "SCRAM-SHA-256")
    assert "SCRAM" not in fine(newest, broker, "configs", *ann, "--describe")


def test_leaders(broker: Broker, newest: KafkaTools, old: KafkaTools) -> None:
    everything = ("--election-type", "preferred", "--all-topic-partitions")
    assert fine(newest, broker, "leader-election", *everything) == ""
    one = ("--election-type", "preferred", "--topic", "clicks", "--partition", "0")
    assert "Valid replica already elected" in fine(newest, broker, "leader-election", *one)
    missing = run(newest, broker, "leader-election", *one[:-1], "9")
    assert missing.status == 1
    assert "UnknownTopicOrPartitionException: The partition does not exist." in missing.out
    assert "Successfully completed" in fine(old, broker, "leader-election")


def test_reassignments(broker: Broker, newest: KafkaTools, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    moves = [{"topic": "clicks", "partition": 0, "replicas": [0]}]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}), encoding="utf-8")
    words = ("--reassignment-json-file", str(plan))
    printed = fine(newest, broker, "reassign-partitions", *words, "--execute")
    assert "Successfully started partition reassignment for clicks-0" in printed
    verified = fine(newest, broker, "reassign-partitions", *words, "--verify")
    assert "Reassignment of partition clicks-0 is completed." in verified
    assert "No partition reassignments found." in fine(newest, broker, "reassign-partitions", "--list")


def test_a_replica_moves_to_another_folder(newest: KafkaTools, tmp_path: Path) -> None:
    """Down to the verdict of Kafka's tool; while it is held up, its tool sees a future replica."""
    folders = [tmp_path / "one", tmp_path / "two"]
    plan = tmp_path / "plan.json"
    words = ("--reassignment-json-file", str(plan))
    with Broker(data=Path(",".join(map(str, folders)))) as broker:
        servers = {"bootstrap_servers": broker.bootstrap_servers}
        with Admin(**servers) as admin, Producer(**servers) as producer:
            admin.create_topics([NewTopic("clicks", num_partitions=1)])
            for _ in range(50):
                producer.send("clicks", value=b"x" * 100_000, partition=0)
        (present,) = [folder for folder in folders if (folder / "clicks-0").is_dir()]
        (other,) = [folder for folder in folders if folder != present]
        move = {"topic": "clicks", "partition": 0, "replicas": [0], "log_dirs": [str(other)]}
        plan.write_text(json.dumps({"version": 1, "partitions": [move]}), encoding="utf-8")
        held = ("--replica-alter-log-dirs-throttle", "1")
        printed = fine(newest, broker, "reassign-partitions", *words, "--execute", *held)
        assert f"Successfully started moving log directory to {other} for replica clicks-0" in printed
        verified = fine(newest, broker, "reassign-partitions", *words, "--verify")
        assert "Reassignment of replica clicks-0-0 is still in progress." in verified
        described = json.loads(
            next(
                line
                for line in fine(newest, broker, "log-dirs", "--describe").splitlines()
                if line.startswith("{")
            )
        )
        found = {
            one["logDir"]: [(part["partition"], part["isFuture"]) for part in one["partitions"]]
            for one in described["brokers"][0]["logDirs"]
        }
        assert found == {str(present): [("clicks-0", False)], str(other): [("clicks-0", True)]}
        faster = ("--replica-alter-log-dirs-throttle", "1000000000", "--additional")
        fine(newest, broker, "reassign-partitions", *words, "--execute", *faster)
        deadline = time.monotonic() + 30
        while "completed successfully" not in verified and time.monotonic() < deadline:
            verified = fine(newest, broker, "reassign-partitions", *words, "--verify")
        assert "Reassignment of replica clicks-0-0 completed successfully." in verified
        assert (other / "clicks-0").is_dir()
        assert not (present / "clicks-0").exists()


def test_what_else_there_is(broker: Broker, newest: KafkaTools) -> None:
    assert fine(newest, broker, "transactions", "list").split()[0] == "TransactionalId"
    producers = ("describe-producers", "--topic", "clicks", "--partition", "0")
    assert len(fine(newest, broker, "transactions", *producers).splitlines()) == 2
    (feature,) = fine(newest, broker, "features", "describe").strip().splitlines()
    assert feature.split()[:2] == ["Feature:", "transaction.version"]
    upgrade = run(newest, broker, "features", "upgrade", "--feature", "metadata.version=20")
    assert upgrade.status == 1
    assert "does not support this feature" in upgrade.out
    assert "idle" in fine(newest, broker, "groups", "--list")
    assert fine(newest, broker, "client-metrics", "--list").strip() == ""
