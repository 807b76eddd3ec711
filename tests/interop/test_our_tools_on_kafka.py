"""odradek's tools on real Kafka brokers of two releases."""

from __future__ import annotations

import contextlib
import json
import re
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.hanging import LOST_ID, hang, unverified
from interop import kafka_peer, members, topics_of_kafka
from odradek import Admin, NewTopic
from odradek.cli.main import main
from odradek.errors import InvalidReplicaAssignmentError, InvalidRequestError

pytestmark = pytest.mark.interop

Tool = Callable[..., Result]


@pytest.fixture
def tool(real_kafka: kafka_peer.RealKafka) -> Tool:
    """Run a tool against the broker; the result's exit code must be `status`."""

    def call(name: str, *words: str, stdin: str = "", status: int = 0) -> Result:
        words = (name, "--bootstrap-server", real_kafka.bootstrap_servers, *words)
        result = CliRunner().invoke(main, words, input=stdin.encode())
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert result.exit_code == status, result.output
        return result

    return call


@pytest.fixture
def admin(real_kafka: kafka_peer.RealKafka) -> Iterator[Admin]:
    with Admin(bootstrap_servers=real_kafka.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def create(tool: Tool, admin: Admin) -> Callable[..., Result]:
    """Create a topic with the tool, and wait until the broker serves it."""

    def call(name: str, partitions: int, *words: str) -> Result:
        numbers = ("--partitions", str(partitions), "--replication-factor", "1")
        made = tool("topics", "--create", "--topic", name, *numbers, *words)
        topics_of_kafka.until_served(admin, name, partitions)
        return made

    return call


@pytest.fixture
def name() -> str:
    return f"tools-{uuid.uuid4().hex[:8]}"


def cells(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line]


def test_a_topic_s_life(
    tool: Tool, create: Tool, name: str, admin: Admin, real_kafka: kafka_peer.RealKafka
) -> None:
    made = create(name, 2, "--config", "retention.ms=86400000")
    assert made.stdout == f"Created topic {name}.\n"
    again = ("topics", "--create", "--topic", name, "--partitions", "2", "--replication-factor", "1")
    assert f"Topic '{name}' already exists." in tool(*again, status=1).stderr
    tool(*again, "--if-not-exists")
    tool("topics", "--alter", "--topic", name, "--partitions", "3")
    topics_of_kafka.until_served(admin, name, 3)
    lines = tool("topics", "--describe", "--topic", name).stdout.splitlines()
    assert "PartitionCount: 3\tReplicationFactor: 1\tConfigs: " in lines[0]
    assert "retention.ms=86400000" in lines[0]
    assert ("TopicId: " in lines[0]) == (real_kafka.version != "2.2.2")
    assert len(lines) == 4
    assert "\tLeader: 1\tReplicas: 1\tIsr: 1\t" in lines[1]
    tool("topics", "--delete", "--topic", name)
    topics_of_kafka.until_gone(admin, name)
    assert name not in tool("topics", "--list").stdout.split()


def test_records_groups_and_offsets(
    tool: Tool, create: Tool, name: str, real_kafka: kafka_peer.RealKafka
) -> None:
    create(name, 1)
    tool("console-producer", "--topic", name, "--property", "parse.key=true", stdin="k\ta\nk\tb\nk\tc\n")
    assert tool("get-offsets", "--topic", name).stdout == f"{name}:0:3\n"
    assert tool("get-offsets", "--topic", name, "--time", "earliest").stdout == f"{name}:0:0\n"
    shown = ("--topic", name, "--from-beginning", "--max-messages", "2", "--property", "print.key=true")
    assert tool("console-consumer", *shown, "--group", name).stdout == "k\ta\nk\tb\n"
    assert name in tool("consumer-groups", "--list").stdout.split()
    described = tool("consumer-groups", "--describe", "--group", name).stdout
    assert cells(described)[1] == [name, name, "0", "2", "3", "1", "-", "-", "-"]
    state = tool("consumer-groups", "--describe", "--group", name, "--state").stdout
    assert cells(state)[1][-2:] == ["Empty", "0"]
    reset = ("consumer-groups", "--reset-offsets", "--group", name, "--topic", name)
    tool(*reset, "--shift-by", "-1", "--execute")
    exported = tool(*reset, "--to-current", "--export")
    assert exported.stdout == f"{name},0,1\n"
    tool(*reset, "--to-datetime", "2999-01-01T00:00:00.000", "--execute")
    described = tool("consumer-groups", "--describe", "--group", name).stdout
    assert cells(described)[1][3:6] == ["3", "3", "0"]
    forget = ("consumer-groups", "--delete-offsets", "--group", name, "--topic", name)
    if real_kafka.version == "2.2.2":
        assert "The broker does not serve OffsetDelete" in tool(*forget, status=1).stderr
        tool("consumer-groups", "--delete", "--group", name)
    else:
        assert cells(tool(*forget).stdout)[-1] == [name, "0", "Successful"]
        # With its last offset the group itself may go, sooner or later.
    absent = tool("consumer-groups", "--describe", "--group", f"{name}-absent", status=1)
    assert "does not exist" in absent.stderr


def test_transactions(tool: Tool, name: str, real_kafka: kafka_peer.RealKafka) -> None:
    servers = {"bootstrap_servers": real_kafka.bootstrap_servers}
    old = real_kafka.version == "2.2.2"
    topic = ("--topic", name, "--partition", "0")
    with Admin(**servers) as admin:
        topics_of_kafka.create(admin, NewTopic(name, num_partitions=1, replication_factor=1))
        hour_ago_ms = int(time.time() * 1000) - 3_600_000
        with contextlib.nullcontext() if old else unverified(admin):
            hang(real_kafka.bootstrap_servers, name, hour_ago_ms)
    if old:
        assert "does not offer ListTransactions" in tool("transactions", "list", status=1).stderr
        producer = ("--producer-id", str(LOST_ID), "--producer-epoch", "0", "--coordinator-epoch", "-1")
        tool("transactions", "abort", *topic, *producer)
    else:
        (found,) = cells(tool("transactions", "find-hanging", *topic).stdout)[1:]
        assert found[:7] == [name, "0", str(LOST_ID), "0", "-1", "0", str(hour_ago_ms)]
        tool("transactions", "abort", *topic, "--start-offset", "0")
        assert len(cells(tool("transactions", "find-hanging", "--topic", name).stdout)) == 1
        producers = cells(tool("transactions", "describe-producers", *topic).stdout)
        assert producers[1][:4] + producers[1][5:] == [str(LOST_ID), "0", "0", "0", "None"]
    sent = tool("verifiable-producer", *topic[:2], "--max-messages", "6", "--transactional-id", name,
                "--transaction-size", "2", "--enable-random-aborts", "--seed", "6").stdout  # fmt: skip
    assert re.findall("transaction_[a-z]+", sent) == [
        "transaction_committed",
        "transaction_aborted",
        "transaction_committed",
    ]
    reading = (*topic[:2], "--group-id", name, "--verbose", "--max-messages", "4")
    read = tool("verifiable-consumer", *reading, "--isolation-level", "read_committed").stdout
    assert re.findall(r'"value":"(\d)"', read) == ["0", "1", "4", "5"]
    if not old:
        assert [name, "CompleteCommit"] in [[r[0], r[3]] for r in cells(tool("transactions", "list").stdout)]
        (described,) = cells(tool("transactions", "describe", "--transactional-id", name).stdout)[1:]
        assert described[1] == name
        tool("transactions", "forceTerminateTransaction", "--transactionalId", name)


def test_api_versions(tool: Tool, real_kafka: kafka_peer.RealKafka) -> None:
    def kept(text: str) -> list[str]:
        # Names change, and Kafka's own client knows keys that are not spoken here.
        return re.findall(r"\(\d+\): \d+(?: to \d+)?", text)

    theirs = kafka_peer.run_tool(
        real_kafka.version, "broker-api-versions", "--bootstrap-server", real_kafka.bootstrap_servers
    )
    ours = tool("broker-api-versions").stdout
    assert kept(ours) == kept(theirs)
    assert ours.splitlines()[0].replace(" isFenced: false", "") == theirs.splitlines()[0].replace(
        " isFenced: false", ""
    )


def test_figures(tool: Tool, create: Tool, name: str) -> None:
    create(name, 1)
    sent = tool("producer-perf-test", "--topic", name, "--num-records", "1000", "--record-size", "100",
                "--throughput", "-1")  # fmt: skip
    assert sent.stdout.startswith("1000 records sent, ")
    read = tool("consumer-perf-test", "--topic", name, "--num-records", "1000", "--hide-header")
    assert read.stdout.split(", ")[4] == "1000"


def test_folders_and_leaders(tool: Tool, create: Tool, name: str, real_kafka: kafka_peer.RealKafka) -> None:
    create(name, 2)
    described = tool("log-dirs", "--describe", "--topic-list", name).stdout.splitlines()[-1]
    (broker,) = json.loads(described)["brokers"]
    (folder,) = broker["logDirs"]
    sizes = {one["partition"]: one["size"] for one in folder["partitions"]}
    assert (broker["broker"], folder["error"], sizes) == (1, None, {f"{name}-0": 0, f"{name}-1": 0})
    one = ("leader-election", "--election-type", "preferred", "--topic", name, "--partition")
    elected = tool(*one, "1").stdout
    # 2.2 calls it an election that was won.
    expected = "Successfully completed" if real_kafka.version == "2.2.2" else "Valid replica already elected"
    assert elected.startswith(expected)
    assert "could not be elected" in tool(*one, "7", status=1).stderr


def test_reassignments(
    tool: Tool, create: Tool, name: str, tmp_path: Path, real_kafka: kafka_peer.RealKafka
) -> None:
    create(name, 2)
    plan = tmp_path / "plan"
    described = tool("log-dirs", "--describe", "--topic-list", name).stdout.splitlines()[-1]
    folder = json.loads(described)["brokers"][0]["logDirs"][0]["logDir"]
    rows = [{"topic": name, "partition": p, "replicas": [1], "log_dirs": [folder]} for p in (0, 1)]
    plan.write_text(json.dumps({"version": 1, "partitions": rows}), encoding="utf-8")
    words = ("reassign-partitions", "--reassignment-json-file", str(plan))
    if real_kafka.version == "2.2.2":
        # It is asked by a node in ZooKeeper, which tools do not write.
        refused = tool(*words, "--execute", status=1).stderr
        assert "does not offer ListPartitionReassignments, which Kafka 2.4 brought" in refused
        return
    assert tool("reassign-partitions", "--list").stdout == "No partition reassignments found.\n"
    said = tool(*words, "--execute", "--throttle", "1000000").stdout
    assert f"Successfully started partition reassignments for {name}-0,{name}-1\n" in said
    assert f"moving log directory to {folder} for replica {name}-1 with broker 1" in said
    assert tool(*words, "--verify").stdout.splitlines() == [
        "Status of partition reassignment:",
        f"Reassignment of partition {name}-0 is completed.",
        f"Reassignment of partition {name}-1 is completed.",
        f"Reassignment of replica {name}-0-1 completed successfully.",
        f"Reassignment of replica {name}-1-1 completed successfully.",
        "Clearing broker-level throttles on broker 1",
        f"Clearing topic-level throttles on topic {name}",
    ]
    nobody = json.dumps({"partitions": [{"topic": name, "partition": 0, "replicas": [9]}]})
    plan.write_text(nobody, encoding="utf-8")
    assert "Unknown broker id 9" in tool(*words, "--execute", status=1).stderr


def test_quotas_credentials_and_moves(name: str, real_kafka: kafka_peer.RealKafka) -> None:
    if real_kafka.version == "2.2.2":
        pytest.skip("Kafka 2.2.2 has no such requests")
    entity = (("user", name),)
    with Admin(bootstrap_servers=real_kafka.bootstrap_servers) as admin:
        admin.alter_client_quotas({entity: {"producer_byte_rate": 1e6}})
        members.until("the quota is known", lambda: bool(admin.describe_client_quotas({"user": name})))
        assert admin.describe_client_quotas({"user": name}) == {entity: {"producer_byte_rate": 1e6}}
        with pytest.raises(InvalidRequestError):
            admin.alter_client_quotas({entity: {"speed": 1}})
        admin.alter_user_scram_credentials({(name, "SCRAM-SHA-512"): "secret"}, iterations=8192)
        members.until("the user is known", lambda: name in admin.describe_user_scram_credentials())
        assert admin.describe_user_scram_credentials([name]) == {name: {"SCRAM-SHA-512": 8192}}
        topics_of_kafka.create(admin, NewTopic(name, 1, 1))
        admin.alter_partition_reassignments({(name, 0): [1]})
        with pytest.raises(InvalidReplicaAssignmentError):
            admin.alter_partition_reassignments({(name, 0): [7]})
        assert admin.list_partition_reassignments() == {}
        (partition,) = admin.describe_topics([name])[name].partitions
        assert partition.eligible_leader_replicas is not None
