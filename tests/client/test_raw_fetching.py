"""Ranges read from scripted brokers: answers that do not count, and leaders that have moved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from client.scripted import ScriptedBroker
from odradek.client.core.versions import SPOKEN
from odradek.client.errors import ClientTimeoutError
from odradek.client.raw import RawReader
from odradek.errors import ErrorCode
from odradek.records.builder import build_batch
from odradek.wire.api import ApiKey
from odradek.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from odradek.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ID = b"i" * 16
LONG_MS = 60_000
"""Who waits for this pause between tries has read nothing when the test gives up."""


class Brokers:
    """Brokers 1 and 2, of which 1 leads the topic `t` by all that metadata says.

    Attributes:
        fetch: (the broker's number, the request) → the answer.
    """

    def __init__(self, fetch: Callable[[int, Any], FetchResponse]) -> None:
        self.fetch = fetch
        self.fetched: list[int] = []
        self.numbered = {number: self._broker(number) for number in (1, 2)}
        self.at = self.numbered[1].at

    def _broker(self, number: int) -> ScriptedBroker:
        def fetch(request: Any, version: int) -> FetchResponse:
            self.fetched.append(number)
            return self.fetch(number, request)

        versions = {key: SPOKEN[key] for key in (ApiKey.METADATA, ApiKey.FETCH, ApiKey.API_VERSIONS)}
        return ScriptedBroker({ApiKey.METADATA: self._metadata, ApiKey.FETCH: fetch}, versions)

    def _metadata(self, request: Any, version: int) -> MetadataResponse:
        partition = MetadataResponsePartition(
            partition_index=0, leader_id=1, leader_epoch=3, replica_nodes=[1, 2], isr_nodes=[1, 2]
        )
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.numbered[1].port)],
            topics=[MetadataResponseTopic(name="t", topic_id=ID, partitions=[partition])],
        )

    def endpoint(self, number: int) -> NodeEndpoint:
        return NodeEndpoint(node_id=number, host="127.0.0.1", port=self.numbered[number].port)


@pytest.fixture
def serving() -> Iterator[Callable[[Brokers], Brokers]]:
    with ExitStack() as stack:

        def serve(brokers: Brokers) -> Brokers:
            for broker in brokers.numbered.values():
                stack.enter_context(broker)
            return brokers

        yield serve


def about(data: PartitionData, endpoints: list[NodeEndpoint] | None = None) -> FetchResponse:
    return FetchResponse(
        responses=[FetchableTopicResponse(topic_id=ID, partitions=[data])], node_endpoints=endpoints or []
    )


def records(request: Any) -> FetchResponse:
    asked = request.topics[0].partitions[0]
    batch = build_batch([(0, None, b"%d" % asked.fetch_offset, ())], base_offset=asked.fetch_offset)
    return about(PartitionData(partition_index=0, high_watermark=100, records=batch))


def read(at: str, **configs: Any) -> list[bytes]:
    with RawReader(at, configs) as reader:
        return [value for rows in reader.fetch_columns("t", 0, 0, 3) for value in rows["value"].to_pylist()]


def test_no_session_is_asked_for(serving: Callable[[Brokers], Brokers]) -> None:
    asked: list[tuple[int, int]] = []

    def fetch(number: int, request: Any) -> FetchResponse:
        asked.append((request.session_id, request.session_epoch))
        return records(request)

    assert read(serving(Brokers(fetch)).at) == [b"0", b"1", b"2"]
    assert asked == [(0, -1)] * 3


@pytest.mark.parametrize("throttle_ms", [0, 1])
def test_answers_about_nothing_are_not_waited_for_without_end(
    serving: Callable[[Brokers], Brokers], throttle_ms: int
) -> None:
    """A broker that throttles answers so (KIP-219)."""
    brokers = serving(Brokers(lambda number, request: FetchResponse(throttle_time_ms=throttle_ms)))
    with pytest.raises(ClientTimeoutError, match="broker 1 throttles"):
        read(brokers.at, default_api_timeout_ms=100, retry_backoff_ms=1, retry_backoff_max_ms=1)


def test_after_an_answer_about_nothing_it_goes_on(serving: Callable[[Brokers], Brokers]) -> None:
    nothing = [FetchResponse(throttle_time_ms=1)]
    brokers = Brokers(lambda number, request: nothing.pop() if nothing else records(request))
    assert read(serving(brokers).at) == [b"0", b"1", b"2"]


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH], ids=lambda code: code.name
)
def test_the_leader_that_an_answer_names_is_asked_without_a_pause(
    serving: Callable[[Brokers], Brokers], code: ErrorCode
) -> None:
    """KIP-951. The metadata, which is behind, would have sent the request back for ever."""

    def fetch(number: int, request: Any) -> FetchResponse:
        if number == 2:
            assert request.topics[0].partitions[0].current_leader_epoch == 4
            return records(request)
        leader = LeaderIdAndEpoch(leader_id=2, leader_epoch=4)
        moved = PartitionData(partition_index=0, error_code=code, current_leader=leader)
        return about(moved, [brokers.endpoint(2)])

    brokers = serving(Brokers(fetch))
    got = read(brokers.at, retry_backoff_ms=LONG_MS, retry_backoff_max_ms=LONG_MS)
    assert got == [b"0", b"1", b"2"]
    assert brokers.fetched == [1, 2, 2, 2]


def test_leaders_that_name_each_other_are_not_followed_without_end(
    serving: Callable[[Brokers], Brokers],
) -> None:
    epochs = iter(range(4, 1_000_000))

    def fetch(number: int, request: Any) -> FetchResponse:
        leader = LeaderIdAndEpoch(leader_id=3 - number, leader_epoch=next(epochs))
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        moved = PartitionData(partition_index=0, error_code=code, current_leader=leader)
        return about(moved, [brokers.endpoint(3 - number)])

    brokers = serving(Brokers(fetch))
    with pytest.raises(ClientTimeoutError, match="t-0 is led by broker"):
        read(brokers.at, default_api_timeout_ms=100)
