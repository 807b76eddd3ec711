"""`odradek reassign-partitions` against three brokers with two folders each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from odradek import Admin, NewTopic, Producer, TopicPartition
from odradek.cli import reassignments as work
from odradek.cli.main import main
from odradek.client.types import PartitionReassignment
from odradek.testing import Cluster

Reassign = Callable[..., Result]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, folders=2, replica_socket_timeout_ms=200, replica_fetch_wait_max_ms=100) as cluster:
        yield cluster


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def topic(admin: Admin, cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """Two partitions on brokers 0 and 1."""
    name = request.node.originalname.replace("_", "-")
    admin.create_topics([NewTopic(name, replica_assignment={0: [0, 1], 1: [0, 1]})])
    cluster.wait_for_isr(name, {0, 1}, 0)
    cluster.wait_for_isr(name, {0, 1}, 1)
    return name


@pytest.fixture
def reassign(cluster: Cluster) -> Reassign:
    def call(*words: str, status: int = 0) -> Result:
        result = CliRunner().invoke(
            main, ["reassign-partitions", "--bootstrap-server", cluster.bootstrap_servers, *words]
        )
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == status, result.output
        return result

    return call


def keep_out(cluster: Cluster, broker: int) -> None:
    """Nobody who reaches no leader comes in sync."""
    for other in {0, 1, 2} - {broker}:
        cluster.cut(broker, other, one_way=True)


def write(path: Path, *rows: dict[str, Any]) -> list[str]:
    """A plan's file, as an option."""
    path.write_text(json.dumps({"version": 1, "partitions": list(rows)}), encoding="utf-8")
    return ["--reassignment-json-file", str(path)]


def folders(cluster: Cluster, broker: int, topic: str, index: int = 0) -> tuple[str, str]:
    """Where a replica lies, and where not."""
    present, others = cluster.broker(broker).call(
        lambda b: (b.replicas.get(topic, index).log.directory.parent, b.logs.data_dirs)
    )
    (other,) = set(others) - {present}
    return str(present), str(other)


def test_to_another_broker_into_a_certain_folder(
    reassign: Reassign, cluster: Cluster, topic: str, admin: Admin, tmp_path: Path
) -> None:
    wanted = str(cluster.broker(2).call(lambda b: b.logs.data_dirs[1]))
    row = {"topic": topic, "partition": 0, "replicas": [2, 1], "log_dirs": [wanted, "any"]}
    plan = write(tmp_path / "plan", row)
    said = reassign("--execute", *plan, "--throttle", "100000000").stdout
    row_before = {**row, "replicas": [0, 1], "log_dirs": ["any", "any"]}
    before = json.dumps({"version": 1, "partitions": [row_before]}, separators=(",", ":"))
    assert said.splitlines()[:5] == [
        "Current partition replica assignment",
        "",
        before,
        "",
        "Save this to use as the --reassignment-json-file option during rollback",
    ]
    assert "The inter-broker throttle limit was set to 100000000 B/s" in said
    assert f"Successfully started partition reassignment for {topic}-0" in said
    started = f"Successfully started moving log directory to {wanted} for replica {topic}-0 with broker 2 \n"
    assert said.endswith(started)
    cluster.wait_until(lambda: cluster.partition(topic).replicas == (2, 1))
    cluster.wait_until(lambda: folders(cluster, 2, topic)[0] == wanted)
    configs = admin.describe_configs([("topic", topic)])["topic", topic]
    assert configs["leader.replication.throttled.replicas"].value == "0:0,0:1"
    assert configs["follower.replication.throttled.replicas"].value == "0:2"

    assert reassign("--verify", *plan, "--preserve-throttles").stdout.splitlines() == [
        "Status of partition reassignment:",
        f"Reassignment of partition {topic}-0 is completed.",
        f"Reassignment of replica {topic}-0-2 completed successfully.",
    ]
    assert reassign("--verify", *plan).stdout.splitlines()[3:] == [
        "Clearing broker-level throttles on brokers 0,1,2",
        f"Clearing topic-level throttles on topic {topic}",
    ]
    configs = admin.describe_configs([("topic", topic)])["topic", topic]
    assert configs["leader.replication.throttled.replicas"].value == ""
    broker = admin.describe_configs([("broker", "2")])["broker", "2"]
    assert "leader.replication.throttled.rate" not in broker


def test_what_is_under_way_is_listed_and_taken_back(
    reassign: Reassign, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    plan = write(tmp_path / "plan", {"topic": topic, "partition": 1, "replicas": [2, 0]})
    assert reassign("--list").stdout == "No partition reassignments found.\n"
    keep_out(cluster, 2)
    try:
        reassign("--execute", *plan)
        assert reassign("--list").stdout.splitlines() == [
            "Current partition reassignments:",
            f"{topic}-1: replicas: 2,0,1. adding: 2. removing: 1.",
        ]
        assert (
            f"Reassignment of partition {topic}-1 is still in progress." in reassign("--verify", *plan).stdout
        )
        again = reassign("--execute", *plan, status=1)
        assert "there is an existing partition assignment" in again.stderr
        reassign("--execute", *plan, "--additional")
    finally:
        cluster.heal()
    cluster.wait_until(lambda: cluster.partition(topic, 1).replicas == (2, 0))
    none = reassign("--cancel", *plan, "--preserve-throttles").stdout.splitlines()
    assert none == [
        "None of the specified partition reassignments are active.",
        "None of the specified partition moves are active.",
    ]
    keep_out(cluster, 1)
    try:
        plan = write(tmp_path / "plan", {"topic": topic, "partition": 1, "replicas": [2, 0, 1]})
        reassign("--execute", *plan)
        said = reassign("--cancel", *plan).stdout
        assert said.startswith(f"Successfully cancelled partition reassignment for: {topic}-1\n")
    finally:
        cluster.heal()
    cluster.wait_until(lambda: set(cluster.partition(topic, 1).replicas) == {0, 2})


def test_a_move_between_folders_that_is_held_up(
    reassign: Reassign, cluster: Cluster, topic: str, admin: Admin, tmp_path: Path
) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for sent in [producer.send(topic, value=bytes(900_000), partition=0) for _ in range(8)]:
            sent.result(60)
    present, other = folders(cluster, 1, topic)
    row = {"topic": topic, "partition": 0, "replicas": [0, 1], "log_dirs": ["any", other]}
    plan = write(tmp_path / "plan", row)
    said = reassign("--execute", *plan, "--replica-alter-log-dirs-throttle", "1").stdout
    assert "The replica-alter-dir throttle limit was set to 1 B/s" in said
    line = f"Reassignment of replica {topic}-0-1 is still in progress."
    cluster.wait_until(lambda: line in reassign("--verify", *plan, "--preserve-throttles").stdout)
    back = reassign("--cancel", *plan).stdout
    assert (
        f"Successfully started moving log directory to {present} for replica {topic}-0 with broker 1" in back
    )
    said = reassign("--verify", *plan).stdout
    assert f"Partition {topic}-0 on broker 1 is not being moved from log dir {present} to {other}." in said
    reassign("--execute", *plan)
    done = f"Reassignment of replica {topic}-0-1 completed successfully."
    cluster.wait_until(lambda: done in reassign("--verify", *plan).stdout)
    assert folders(cluster, 1, topic) == (other, present)


def test_a_folder_that_is_not_there(reassign: Reassign, topic: str, tmp_path: Path) -> None:
    row = {"topic": topic, "partition": 0, "replicas": [0, 1], "log_dirs": ["/nowhere", "any"]}
    failed = reassign("--execute", *write(tmp_path / "plan", row), "--timeout", "0", status=1)
    assert f"Timed out before log directory move could be started for: {topic}-0-0" in failed.stderr


def test_a_proposal(reassign: Reassign, topic: str, tmp_path: Path) -> None:
    topics = tmp_path / "topics"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}), encoding="utf-8")
    words = ["--generate", "--topics-to-move-json-file", str(topics), "--broker-list"]
    said = reassign(*words, "1,2").stdout.splitlines()
    assert (said[0], said[3]) == (
        "Current partition replica assignment",
        "Proposed partition reassignment configuration",
    )
    (tmp_path / "plan").write_text(said[4], encoding="utf-8")
    proposed = work.read_plan(tmp_path / "plan").replicas
    assert {tp: set(row) for tp, row in proposed.items()} == {
        TopicPartition(topic, 0): {1, 2},
        TopicPartition(topic, 1): {1, 2},
    }
    assert "duplicate" in reassign(*words, "1,1", status=1).stderr
    assert "no list of broker ids" in reassign(*words, "a", status=1).stderr
    topics.write_text(json.dumps({"topics": [{"topic": topic}] * 2}), encoding="utf-8")
    assert "duplicate" in reassign(*words, "1,2", status=1).stderr


def test_what_there_is_not(reassign: Reassign, topic: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan"
    unknown = write(plan, {"topic": topic, "partition": 7, "replicas": [0, 1]})
    assert f"Unable to find partition: {topic}-7" in reassign("--execute", *unknown, status=1).stderr
    assert "but replica set is  rather than 0,1" in reassign("--verify", *unknown).stdout
    nobody = write(plan, {"topic": topic, "partition": 0, "replicas": [0, 9]})
    assert "Unknown broker id 9" in reassign("--execute", *nobody, status=1).stderr
    more = write(plan, {"topic": topic, "partition": 0, "replicas": [0, 1, 2]})
    refused = reassign("--execute", *more, "--disallow-replication-factor-change", status=1)
    assert "replication factor" in refused.stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "exactly one action"),
        (["--list", "--verify"], "exactly one action"),
        (["--execute"], "--execute takes --reassignment-json-file"),
        (["--generate", "--broker-list", "1"], "takes --topics-to-move-json-file"),
        (["--list", "--throttle", "1"], "--throttle can't be used with action --list"),
    ],
)
def test_words_that_do_not_go_together(words: list[str], why: str, reassign: Reassign) -> None:
    assert why in reassign(*words, status=1).stderr


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nonsense", "is not of the form"),
        ("[]", "is not of the form"),
        ('{"version": 2}', "Not supported version field value 2"),
        ("{}", "cannot be empty"),
        ('{"partitions": [{"topic": "t", "partition": 0}]}', "is not of the form"),
        ('{"partitions": [{"topic": "t", "partition": 0, "replicas": []}]}', "cannot be empty"),
        ('{"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 1]}]}', "duplicate entries"),
        (
            '{"partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": []}]}',
            "is different from size of log dirs list",
        ),
        (
            '{"partitions": [{"topic": "t", "partition": 0, "replicas": [1]},'
            ' {"topic": "t", "partition": 0, "replicas": [2]}]}',
            "duplicate topic partitions: t-0",
        ),
    ],
)
def test_files_that_are_no_plans(text: str, why: str, reassign: Reassign, tmp_path: Path) -> None:
    (tmp_path / "plan").write_text(text, encoding="utf-8")
    assert why in reassign("--verify", "--reassignment-json-file", str(tmp_path / "plan"), status=1).stderr


def test_who_is_throttled_when_others_are_under_way() -> None:
    here, there = TopicPartition("t", 0), TopicPartition("t", 10)
    other = TopicPartition("u", 1)
    under_way = {
        here: PartitionReassignment((3, 1, 2), (3,), (2,)),
        other: PartitionReassignment((1, 2), (2,), ()),
    }
    found = work.moves({here: (4, 1), there: (1, 5)}, {here: (3, 1, 2), there: (1, 2)}, under_way)
    assert found.brokers == {1, 2, 4, 5}
    assert found.throttled_replicas() == {
        "t": {
            work.LEADER_REPLICAS: "0:1,0:2,10:1,10:2",
            work.FOLLOWER_REPLICAS: "0:4,10:5",
        },
        "u": {work.LEADER_REPLICAS: "1:1", work.FOLLOWER_REPLICAS: "1:2"},
    }
