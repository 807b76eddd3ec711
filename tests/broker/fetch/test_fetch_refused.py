"""A Fetch of which nothing can be read: versions from before there was an error on top say it of each
partition."""

from __future__ import annotations

import pytest

from odradek.broker.apis.registry import Handlers
from odradek.broker.requests.handler_types import Refused
from odradek.errors import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

UNKNOWN = int(ErrorCode.UNKNOWN_SERVER_ERROR)


@pytest.mark.parametrize("version", range(19))
def test_no_version_takes_a_failure_for_nothing_new(version: int) -> None:
    """As Kafka's `FetchRequest.getErrorResponse`."""
    handler = Handlers().get(ApiKey.FETCH)
    assert handler is not None
    assert handler.error_response is not None
    asked = FetchRequest(
        session_id=7 if version >= 7 else 0,
        topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=one) for one in (3, 1)])],
    )
    response = handler.error_response(Refused(asked, version, ErrorCode.UNKNOWN_SERVER_ERROR, ""))
    told = FetchResponse.decode(response.encode(version), version)
    assert told.error_code == (UNKNOWN if version >= 7 else 0)
    assert told.session_id == (7 if version >= 7 else 0)
    partitions = [
        (topic.topic, one.partition_index, one.error_code)
        for topic in told.responses
        for one in topic.partitions
    ]
    assert partitions == ([] if version >= 13 else [("t", 3, UNKNOWN), ("t", 1, UNKNOWN)])
