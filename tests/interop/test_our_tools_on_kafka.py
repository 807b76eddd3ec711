"""odradek's tools on real Kafka brokers of two releases."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

from interop import kafka_peer
from odradek.cli.main import main

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
def name() -> str:
    return f"tools-{uuid.uuid4().hex[:8]}"


def cells(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line]


def test_a_topic_s_life(tool: Tool, name: str, real_kafka: kafka_peer.RealKafka) -> None:
    numbers = ("--partitions", "2", "--replication-factor", "1")
    made = tool("topics", "--create", "--topic", name, *numbers, "--config", "retention.ms=86400000")
    assert made.stdout == f"Created topic {name}.\n"
    again = ("topics", "--create", "--topic", name, *numbers)
    assert f"Topic '{name}' already exists." in tool(*again, status=1).stderr
    tool(*again, "--if-not-exists")
    tool("topics", "--alter", "--topic", name, "--partitions", "3")
    lines = tool("topics", "--describe", "--topic", name).stdout.splitlines()
    assert "PartitionCount: 3\tReplicationFactor: 1\tConfigs: " in lines[0]
    assert "retention.ms=86400000" in lines[0]
    assert ("TopicId: " in lines[0]) == (real_kafka.version != "2.2.2")
    assert len(lines) == 4
    assert "\tLeader: 1\tReplicas: 1\tIsr: 1\t" in lines[1]
    tool("topics", "--delete", "--topic", name)
    assert name not in tool("topics", "--list").stdout.split()


def test_records_groups_and_offsets(tool: Tool, name: str, real_kafka: kafka_peer.RealKafka) -> None:
    tool("topics", "--create", "--topic", name, "--partitions", "1", "--replication-factor", "1")
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


def test_figures(tool: Tool, name: str) -> None:
    tool("topics", "--create", "--topic", name, "--partitions", "1", "--replication-factor", "1")
    sent = tool("producer-perf-test", "--topic", name, "--num-records", "1000", "--record-size", "100",
                "--throughput", "-1")  # fmt: skip
    assert sent.stdout.startswith("1000 records sent, ")
    read = tool("consumer-perf-test", "--topic", name, "--num-records", "1000", "--hide-header")
    assert read.stdout.split(", ")[4] == "1000"
