"""The errors that responses tell, found by their fields."""

from __future__ import annotations

from odradek.broker.apis.error_counts import MOST_ELEMENTS, error_fields, errors_of
from odradek.wire.messages.api_versions import ApiVersionsResponse
from odradek.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from odradek.wire.messages.metadata import MetadataResponse, MetadataResponseTopic
from odradek.wire.messages.produce import ProduceRequest
from odradek.wire.structs import Struct


def found(response: Struct) -> dict[int, int]:
    fields = error_fields(type(response))
    assert fields is not None
    return errors_of(fields, response)


def test_errors_of_a_whole_and_of_its_parts() -> None:
    assert found(ApiVersionsResponse(error_code=35)) == {35: 1}
    partitions = [
        PartitionData(partition_index=index, error_code=code) for index, code in enumerate((0, 3, 6, 3))
    ]
    responses = [FetchableTopicResponse(topic="orders", partitions=partitions)]
    assert found(FetchResponse(error_code=71, responses=responses)) == {71: 1, 3: 2, 6: 1}
    assert found(FetchResponse(responses=[])) == {}
    assert error_fields(ProduceRequest) is None


def test_only_so_many_are_looked_at() -> None:
    partitions = [PartitionData(partition_index=index, error_code=3) for index in range(2 * MOST_ELEMENTS)]
    responses = [FetchableTopicResponse(topic="orders", partitions=partitions)]
    assert found(FetchResponse(responses=responses)) == {3: MOST_ELEMENTS - 1}


def test_what_is_in_bytes_already_is_passed_over() -> None:
    topic = MetadataResponseTopic(name="orders", error_code=5, partitions=[(b"", 1)])
    assert found(MetadataResponse(topics=[topic])) == {5: 1}
