"""What an administrator changes counts as done only where an answer says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from client.scripted import ScriptedBroker
from odradek.client import Admin
from odradek.errors import KafkaError, UnknownServerError
from odradek.wire.api import ApiKey
from odradek.wire.messages.create_partitions import CreatePartitionsResponse
from odradek.wire.messages.create_topics import CreateTopicsResponse
from odradek.wire.messages.delete_records import DeleteRecordsResponse
from odradek.wire.messages.delete_topics import DeleteTopicsResponse
from odradek.wire.messages.find_coordinator import FindCoordinatorResponse
from odradek.wire.messages.incremental_alter_configs import IncrementalAlterConfigsResponse
from odradek.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.wire.messages.offset_delete import OffsetDeleteResponse

EMPTY = {
    ApiKey.CREATE_TOPICS: (CreateTopicsResponse(), 4),
    ApiKey.DELETE_TOPICS: (DeleteTopicsResponse(), 1),
    ApiKey.CREATE_PARTITIONS: (CreatePartitionsResponse(), 0),
    ApiKey.DELETE_RECORDS: (DeleteRecordsResponse(), 0),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (IncrementalAlterConfigsResponse(), 0),
    ApiKey.OFFSET_DELETE: (OffsetDeleteResponse(), 0),
}


@pytest.mark.parametrize(
    ("call", "about"),
    [
        (lambda admin: admin.create_topics(["t"]), ["t"]),
        (lambda admin: admin.delete_topics(["t", "u"]), ["t", "u"]),
        (lambda admin: admin.create_partitions({"t": 2}), ["t"]),
        (lambda admin: admin.delete_records({("t", 0): 5}), [("t", 0)]),
        (lambda admin: admin.incremental_alter_configs({("topic", "t"): {"retention.ms": "1"}}), [(2, "t")]),
        (lambda admin: admin.delete_group_offsets("g", [("t", 0)]), [("t", 0)]),
    ],
    ids=["create_topics", "delete_topics", "create_partitions", "delete_records", "configs", "offsets"],
)
def test_what_an_answer_leaves_out_is_not_done(call: Callable[[Admin], Any], about: list[Any]) -> None:
    def metadata(request: Any, version: int) -> MetadataResponse:
        part = MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1])
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=broker.port)],
            controller_id=1,
            topics=[MetadataResponseTopic(name="t", partitions=[part])],
        )

    def find(request: Any, version: int) -> FindCoordinatorResponse:
        return FindCoordinatorResponse(node_id=1, host="127.0.0.1", port=broker.port)

    answers: dict[int, Any] = {ApiKey.METADATA: metadata, ApiKey.FIND_COORDINATOR: find}
    versions = {ApiKey.METADATA: (1, 1), ApiKey.FIND_COORDINATOR: (0, 0)}
    for key, (answer, version) in EMPTY.items():
        answers[key] = lambda request, version, answer=answer: answer
        versions[key] = (version, version)
    broker = ScriptedBroker(answers, versions)
    with broker, Admin(bootstrap_servers=broker.at) as admin, pytest.raises(UnknownServerError) as raised:
        call(admin)
    errors: dict[Any, KafkaError] = raised.value.errors  # type: ignore[attr-defined]
    assert list(errors) == about
