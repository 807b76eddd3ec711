"""`--json`: what tools list or describe, as documents with stable keys (docs/tools.md)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cli.conftest import RunTool
from odradek import Admin, NewTopic, Producer


@pytest.fixture
def document(tool: RunTool) -> Callable[..., Any]:
    """Run a tool with `--json` behind its words."""

    def call(name: str, *words: str) -> Any:
        printed = tool(name, *words, "--json")
        assert printed.stdout.count("\n") == 1
        return json.loads(printed.stdout)

    return call


Document = Callable[..., Any]


def test_topics_and_groups(document: Document, admin: Admin, producer: Producer, name: str) -> None:
    admin.create_topics([NewTopic(name, num_partitions=2, configs={"retention.ms": "1000"})])
    producer.send(name, value=b"v", partition=1)
    producer.flush()
    assert name in document("topics", "--list")
    (described,) = document("topics", "--describe", "--topic", name)
    assert len(described.pop("topicId")) == 22
    partition = {"leader": 0, "replicas": [0], "isr": [0]}
    assert [{key: p[key] for key in partition} for p in described["partitions"]] == [partition] * 2
    assert [p["partition"] for p in described.pop("partitions")] == [0, 1]
    assert described.pop("configs")["retention.ms"] == "1000"
    assert described == {"topic": name, "isInternal": False}
    assert document("topics", "--describe", "--topic", name, "--unavailable-partitions") == []

    assert document("get-offsets", "--topic", name) == [
        {"topic": name, "partition": 0, "offset": 0},
        {"topic": name, "partition": 1, "offset": 1},
    ]
    sizes = document("log-dirs", "--describe", "--topic-list", name)["brokers"][0]["logDirs"][0]["partitions"]
    assert [row["partition"] for row in sizes] == [f"{name}-0", f"{name}-1"]

    admin.alter_group_offsets(name, {(name, 1): 0})
    assert {"group": name, "type": "classic", "state": "Empty"} in document("consumer-groups", "--list")
    (group,) = document("consumer-groups", "--describe", "--group", name)
    assert group["coordinator"]["id"] == 0
    assert group | {"coordinator": 0} == {
        "group": name,
        "state": "Empty",
        "protocol": None,
        "coordinator": 0,
        "members": [],
        "offsets": [
            {
                "topic": name,
                "partition": 1,
                "currentOffset": 0,
                "leaderEpoch": None,
                "logEndOffset": 1,
                "lag": 1,
                "memberId": None,
            }
        ],
    }


def test_configs_quotas_and_users(document: Document, admin: Admin, name: str) -> None:
    admin.create_topics([NewTopic(name, configs={"retention.ms": "1000"})])
    assert document("configs", "--describe", "--topic", name) == [
        {
            "entityType": "topics",
            "entityName": name,
            "configs": [
                {
                    "name": "retention.ms",
                    "value": "1000",
                    "source": "DYNAMIC_TOPIC_CONFIG",
                    "isSensitive": False,
                }
            ],
        }
    ]
    admin.alter_client_quotas({(("user", name),): {"producer_byte_rate": 5.0}})
    admin.alter_user_scram_credentials({(name, "SCRAM-SHA-256"): "secret"}, iterations=4096)
    assert document("configs", "--describe", "--user", name) == [
        {"entity": {"user": name}, "quotas": {"producer_byte_rate": 5.0}},
        {"entity": {"user": name}, "scramIterations": {"SCRAM-SHA-256": 4096}},
    ]


def test_brokers_and_transactions(document: Document, servers: str, name: str) -> None:
    (node,) = document("broker-api-versions")
    assert f"{node['host']}:{node['port']}" == servers
    (produce,) = [api for api in node["apis"] if api["name"] == "Produce"]
    assert produce["apiKey"] == 0
    assert produce["minVersion"] <= produce["usable"] <= produce["maxVersion"]
    with Producer(bootstrap_servers=servers, transactional_id=name) as producer:
        producer.init_transactions()
        with producer.begin_transaction():
            producer.send(name, value=b"v")
        (listed,) = [row for row in document("transactions", "list") if row["transactionalId"] == name]
        described = document("transactions", "describe", "--transactional-id", name)
        assert described["producerId"] == listed["producerId"]
        assert described["partitions"] == []
        words = ("--topic", name, "--partition", "0")
        (producing,) = document("transactions", "describe-producers", *words)
        assert producing["producerId"] == listed["producerId"]
        assert producing["transactionStartOffset"] is None
        assert document("transactions", "find-hanging", *words) == []


def test_reassignments(document: Document) -> None:
    assert document("reassign-partitions", "--list") == []


@pytest.mark.parametrize(
    ("tool_name", "words"),
    [
        ("topics", ["--delete", "--topic", "t"]),
        ("consumer-groups", ["--delete", "--group", "g"]),
        ("configs", ["--alter", "--topic", "t", "--delete-config", "retention.ms"]),
        ("acls", ["--remove", "--topic", "t"]),
        ("delegation-tokens", ["--create", "--max-life-time-period", "-1"]),
    ],
)
def test_json_goes_with_what_lists(tool: RunTool, tool_name: str, words: list[str]) -> None:
    refused = tool(tool_name, *words, "--json", status=1)
    assert "--json goes with what lists or describes" in refused.stderr
