"""`odradek topics` against a broker."""

from __future__ import annotations

import pytest

from cli.conftest import RunTool
from odradek import Admin, NewTopic
from odradek.cli.topics import FILTERS, description
from odradek.client.types import ConfigEntry, PartitionInfo, TopicDescription
from odradek.testing import Broker
from odradek.wire.primitives import uuid_to_text


def test_a_topic_s_life(tool: RunTool, name: str) -> None:
    made = tool("topics", "--create", "--topic", name, "--partitions", "2", "--config", "retention.ms=1000")
    assert made.stdout == f"Created topic {name}.\n"
    assert name in tool("topics", "--list").stdout.splitlines()
    tool("topics", "--alter", "--topic", name, "--partitions", "3")
    lines = tool("topics", "--describe", "--topic", name).stdout.splitlines()
    assert lines[0].split("\t")[0] == f"Topic: {name}"
    assert lines[0].split("\t")[2:] == [
        "PartitionCount: 3",
        "ReplicationFactor: 1",
        # A broker's default is no topic's default, so 4.x tells of it as Kafka's does.
        "Configs: min.insync.replicas=1,retention.ms=1000",
    ]
    assert lines[1:] == [
        f"\tTopic: {name}\tPartition: {p}\tLeader: 0\tReplicas: 0\tIsr: 0\tElr: \tLastKnownElr: "
        for p in range(3)
    ]
    assert tool("topics", "--delete", "--topic", name).stdout == ""
    assert name not in tool("topics", "--list").stdout.splitlines()


def test_what_exists_already(tool: RunTool, admin: Admin, name: str) -> None:
    admin.create_topics([name])
    again = ("topics", "--create", "--topic", name)
    assert f"Topic '{name}' already exists." in tool(*again, status=1).stderr
    assert tool(*again, "--if-not-exists").output == ""


@pytest.mark.parametrize("action", [["--delete"], ["--alter", "--partitions", "2"], ["--describe"]])
def test_what_does_not_exist(tool: RunTool, name: str, action: list[str]) -> None:
    absent = ("topics", *action, "--topic", name)
    assert tool(*absent, status=1).stderr == f"Error: Topic '{name}' does not exist as expected\n"
    assert tool(*absent, "--if-exists").output == ""


def test_a_list_without_matches_is_empty_and_well(tool: RunTool, name: str) -> None:
    assert tool("topics", "--list", "--topic", name).output == ""


def test_expressions_choose_topics(tool: RunTool, admin: Admin, name: str) -> None:
    admin.create_topics([f"{name}-a", f"{name}-b", f"{name}-c"])
    assert tool("topics", "--list", "--topic", f"{name}-[ab]").stdout == f"{name}-a\n{name}-b\n"
    assert tool("topics", "--list", "--topic", f"{name}-a,{name}-c").stdout == f"{name}-a\n{name}-c\n"
    assert "not a regular expression" in tool("topics", "--list", "--topic", "a(", status=1).stderr
    tool("topics", "--delete", "--topic", f"{name}-.*")
    assert tool("topics", "--list", "--topic", f"{name}-.*").stdout == ""


def test_describe_by_id(tool: RunTool, admin: Admin, name: str) -> None:
    topic_id = uuid_to_text(admin.create_topics([name])[name].topic_id)
    assert tool("topics", "--describe", "--topic-id", topic_id).stdout.startswith(f"Topic: {name}\t")
    absent = ("topics", "--describe", "--topic-id", "AAAAAAAAAAAAAAAAAAAAAQ")
    assert "does not exist as expected" in tool(*absent, status=1).stderr


def test_replicas_placed_by_hand(tool: RunTool, admin: Admin, name: str) -> None:
    tool("topics", "--create", "--topic", name, "--replica-assignment", "0,0")
    assert len(admin.describe_topics([name])[name].partitions) == 2
    tool("topics", "--alter", "--topic", name, "--partitions", "3", "--replica-assignment", "0,0,0")
    assert len(admin.describe_topics([name])[name].partitions) == 3


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--partitions", "0"], "The partitions must be greater than 0"),
        (["--partitions", "-1"], "The partitions must be greater than 0"),
        (["--partitions", "many"], "not a valid integer"),
        (["--replication-factor", "0"], "must be between 1 and 32767"),
        (["--replication-factor", "3"], "larger than available brokers"),
        (["--config", "nope=1"], "Unknown topic config name: nope"),
        (["--config", "retention.ms=abc"], "retention.ms"),
        (["--config", "retention.ms"], "not key=value"),
        (["--replica-assignment", "0:0"], "duplicate entries: 0"),
        (["--replica-assignment", "0,0:1"], "Partition 1 has different replication factor"),
        (["--replica-assignment", "x"], "is not like 1:2,2:3"),
        (["--replica-assignment", "0", "--partitions", "1"], "can't be used with"),
        (["--if-exists"], 'Option "[if-exists]" can\'t be used with option "[create]"'),
        (["--delete-config", "retention.ms"], "configs of a topic are changed by"),
    ],
)
def test_create_refuses(tool: RunTool, admin: Admin, name: str, words: list[str], complaint: str) -> None:
    assert complaint in tool("topics", "--create", "--topic", name, *words, status=1).stderr
    assert name not in admin.list_topics()


def test_create_refuses_names(tool: RunTool) -> None:
    refused = tool("topics", "--create", "--topic", "bad name", status=1)
    assert "Topic name is invalid: 'bad name'" in refused.stderr


def test_create_warns_of_names_that_collide_in_metrics(tool: RunTool, name: str) -> None:
    made = tool("topics", "--create", "--topic", f"{name}.a")
    assert made.stderr.startswith("WARNING: Due to limitations in metric names")
    assert made.stdout == f"Created topic {name}.a.\n"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "exactly one action"),
        (["--list", "--describe"], "exactly one action"),
        (["--create"], 'Missing required argument "[topic]"'),
        (["--alter", "--topic", "t"], 'Missing required argument "[partitions]"'),
        (["--alter", "--topic", "t", "--config", "retention.ms=1"], "configs of a topic are changed by"),
        (["--describe", "--partitions", "1"], "can't be used with"),
        (["--list", "--topics-with-overrides"], "can't be used with"),
        (["--describe", "--if-exists"], "--topic or --topic-id is required"),
        (["--list", "--nosuch"], "No such option"),
    ],
)
def test_words_that_do_not_go_together(tool: RunTool, words: list[str], complaint: str) -> None:
    refused = tool("topics", *words, status=1)
    assert complaint in refused.stderr
    assert refused.stdout == ""


def test_fewer_partitions_are_refused(tool: RunTool, admin: Admin, name: str) -> None:
    admin.create_topics([NewTopic(name, num_partitions=2)])
    refused = tool("topics", "--alter", "--topic", name, "--partitions", "1", status=1)
    assert "which is higher than the requested 1" in refused.stderr


def test_only_topics_with_configs_of_their_own(tool: RunTool, run: RunTool, admin: Admin, name: str) -> None:
    own = NewTopic(f"{name}-own", configs={"cleanup.policy": "compact"})
    admin.create_topics([f"{name}-plain", own])
    flags = ("--describe", "--topics-with-overrides", "--topic", f"{name}-.*")
    # Since 4.0 min.insync.replicas is always set for all brokers, so that no topic has nothing but defaults.
    assert len(tool("topics", *flags).stdout.splitlines()) == 2
    with Broker(kafka_version="3.9") as older:
        with Admin(bootstrap_servers=older.bootstrap_servers) as other:
            other.create_topics([f"{name}-plain", own])
        shown = run("topics", "--bootstrap-server", older.bootstrap_servers, *flags).stdout
    assert shown.splitlines()[0].startswith(f"Topic: {name}-own\t")
    assert len(shown.splitlines()) == 1


NO_FLAGS = {**dict.fromkeys(FILTERS, False), "topics_with_overrides": False}


@pytest.mark.parametrize(
    ("flag", "partitions"),
    [
        ("under_replicated_partitions", [1, 2]),
        ("unavailable_partitions", [2, 3]),
        ("under_min_isr_partitions", [2]),
        ("at_min_isr_partitions", [0, 3]),
    ],
)
def test_filters_of_partitions(flag: str, partitions: list[int]) -> None:
    topic = TopicDescription(
        "t",
        bytes(16),
        False,
        (
            PartitionInfo("t", 0, 1, (1, 2), (1, 2), ()),
            PartitionInfo("t", 1, 1, (1, 2, 3), (1,), ()),
            PartitionInfo("t", 2, -1, (1, 2), (), ()),
            PartitionInfo("t", 3, 9, (1, 9), (1, 9), ()),
        ),
    )
    least = 2 if flag != "under_min_isr_partitions" else 1
    configs = {"min.insync.replicas": ConfigEntry("min.insync.replicas", str(least), False, 5, False)}
    lines = list(description(topic, configs, {1, 2, 3}, {**NO_FLAGS, flag: True}))
    assert [int(line.split("Partition: ")[1].split("\t")[0]) for line in lines] == partitions
    whole = list(description(topic, configs, {1, 2, 3}, NO_FLAGS))
    assert whole[0] == "Topic: t\tPartitionCount: 4\tReplicationFactor: 2\tConfigs: "
    assert "\tLeader: none\t" in whole[3]
