"""`odradek log-dirs` and `odradek leader-election` against a broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.conftest import RunTool
from odradek import Admin, NewTopic, Producer
from odradek.testing import Broker


@pytest.fixture
def topic(admin: Admin, name: str) -> str:
    """A topic of two partitions."""
    admin.create_topics([NewTopic(name, num_partitions=2)])
    return name


def test_log_dirs(tool: RunTool, producer: Producer, topic: str, shared_broker: Broker) -> None:
    producer.send(topic, value=b"x" * 100, partition=1)
    producer.flush()
    first, second, described = tool("log-dirs", "--describe", "--topic-list", topic).stdout.splitlines()
    assert first == "Querying brokers for log directories information"
    assert second == "Received log directory information from brokers 0"
    found = json.loads(described)
    ((folder,),) = (broker["logDirs"] for broker in found["brokers"])
    assert (found["version"], folder["error"], folder["logDir"]) == (1, None, str(shared_broker.data))
    empty, full = folder["partitions"]
    assert empty == {"partition": f"{topic}-0", "size": 0, "offsetLag": 0, "isFuture": False}
    assert full["partition"] == f"{topic}-1"
    assert full["size"] > 100


def test_log_dirs_of_everything(tool: RunTool, topic: str) -> None:
    everything = tool("log-dirs", "--describe", "--broker-list", "0").stdout
    assert f'"{topic}-0"' in everything
    refused = tool("log-dirs", "--describe", "--broker-list", "0,7", status=1)
    assert "brokers do not exist from --broker-list: 7. Current existent brokers: 0" in refused.stderr
    assert "no list of broker ids" in tool("log-dirs", "--describe", "--broker-list", "a", status=1).stderr
    assert "--describe" in tool("log-dirs", status=1).stderr


def test_leaders_that_are_elected_already(tool: RunTool, topic: str, tmp_path: Path) -> None:
    kind = ("--election-type", "preferred")
    assert tool("leader-election", *kind, "--all-topic-partitions").stdout == ""
    one = tool("leader-election", *kind, "--topic", topic, "--partition", "1").stdout
    assert one == f"Valid replica already elected for partitions {topic}-1\n"
    plan = tmp_path / "plan.json"
    rows = [{"topic": topic, "partition": p} for p in (1, 0)]
    plan.write_text(json.dumps({"partitions": rows}), encoding="utf-8")
    both = tool("leader-election", "--election-type", "UNCLEAN", "--path-to-json-file", str(plan)).stdout
    assert both == f"Valid replica already elected for partitions {topic}-0, {topic}-1\n"


def test_leaders_that_cannot_be_elected(tool: RunTool, topic: str) -> None:
    words = ("--election-type", "preferred", "--topic", topic, "--partition", "7")
    failed = tool("leader-election", *words, status=1)
    assert failed.stdout.startswith(
        f"Error completing leader election (PREFERRED) for partition: {topic}-7: The partition"
    )
    assert "1 replica(s) could not be elected" in failed.stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "One and only one"),
        (["--all-topic-partitions", "--topic", "t", "--partition", "0"], "One and only one"),
        (["--topic", "t"], "go together"),
        (["--all-topic-partitions", "--partition", "0"], "go together"),
        (["--election-type", "rigged", "--all-topic-partitions"], "rigged"),
    ],
)
def test_words_that_do_not_go_together(words: list[str], why: str, tool: RunTool) -> None:
    assert why in tool("leader-election", "--election-type", "preferred", *words, status=1).stderr


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nonsense", "is not of the form"),
        ('{"partitions": [{"topic": "t"}]}', "is not of the form"),
        ('{"partitions": [{"topic": "t", "partition": 1}, {"topic": "t", "partition": 1}]}', "duplicate"),
    ],
)
def test_files_that_name_no_partitions(text: str, why: str, tool: RunTool, tmp_path: Path) -> None:
    (tmp_path / "plan").write_text(text, encoding="utf-8")
    words = ("--election-type", "preferred", "--path-to-json-file", str(tmp_path / "plan"))
    assert why in tool("leader-election", *words, status=1).stderr
