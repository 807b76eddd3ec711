"""What scripted brokers tell `RawReader` of a topic's partitions."""

from __future__ import annotations

from typing import Any

import pytest

from client.scripted import ScriptedBroker
from odradek.client.raw import RawReader
from odradek.errors import UnknownServerError
from odradek.wire.api import ApiKey
from odradek.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


def test_an_offset_that_the_answer_leaves_out_is_not_asked_for_without_end() -> None:
    """Nor without a pause."""
    answers = [ListOffsetsResponse(topics=[])]

    def metadata(request: Any, version: int) -> MetadataResponse:
        part = MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1])
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=broker.port)],
            topics=[MetadataResponseTopic(name="t", partitions=[part])],
        )

    def offsets(request: Any, version: int) -> ListOffsetsResponse:
        if answers:
            return answers.pop()
        part = ListOffsetsPartitionResponse(partition_index=0, offset=7)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[part])])

    broker = ScriptedBroker(
        {ApiKey.METADATA: metadata, ApiKey.LIST_OFFSETS: offsets},
        {ApiKey.METADATA: (1, 1), ApiKey.LIST_OFFSETS: (1, 1)},
    )
    with broker, RawReader(broker.at) as reader:
        with pytest.raises(UnknownServerError, match="t-0"):
            reader.end_offsets([("t", 0)])
        assert reader.end_offsets([("t", 0)]) == {("t", 0): 7}
