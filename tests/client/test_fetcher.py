"""Whom a consumer's fetch asks, and in which leader epoch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from odradek.client.aio.fetcher import Fetcher
from odradek.client.config import ConsumerConfig, build
from odradek.client.core.fetch_buffer import FetchBuffer
from odradek.client.core.metadata import MetadataCache
from odradek.client.core.stuck_partitions import StuckPartitions
from odradek.client.core.subscription_state import SubscriptionState
from odradek.client.types import TopicPartition
from odradek.errors import ErrorCode, NetworkError
from odradek.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from odradek.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.wire.primitives import ZERO_UUID
from waiting import within

TP = TopicPartition("t", 0)


class _Connection:
    """Writes down what is asked, and answers as long as a test has given answers."""

    def __init__(self, node: int, cluster: _Cluster) -> None:
        self._node, self._cluster = node, cluster

    def pick(self, key: object, at_most: int) -> int:
        return at_most

    async def send(self, request: Any, version: int) -> Any:
        if not self._cluster.done.is_set():
            self._cluster.requests.append(request)
        for topic in request.topics:
            self._cluster.asked.append((self._node, topic.partitions[0].current_leader_epoch))
        if self._cluster.answers:
            return FetchResponse.decode(self._cluster.answers.pop(0).encode(version), version)
        self._cluster.done.set()
        raise NetworkError("the connection broke")


class _Cluster:
    """Connections that come when a test says so."""

    def __init__(self) -> None:
        self.metadata = MetadataCache()
        self.on_update: list[Callable[[], None]] = []
        self.closed = False
        self.may_connect = asyncio.Event()
        self.asked: list[tuple[int, int]] = []
        self.requests: list[FetchRequest] = []
        self.answers: list[FetchResponse] = []
        self.updates = 0
        self.now: float | None = None
        self.done = asyncio.Event()
        self.stuck = StuckPartitions("the test")
        self._tasks: set[asyncio.Task[None]] = set()

    def led_by(self, leader: int, epoch: int, topic_id: bytes = ZERO_UUID) -> None:
        partitions = [
            MetadataResponsePartition(
                partition_index=n,
                leader_id=leader,
                leader_epoch=epoch,
                replica_nodes=[1, 2],
                isr_nodes=[1, 2],
            )
            for n in range(2)
        ]
        self.metadata.update(
            MetadataResponse(
                brokers=[MetadataResponseBroker(node_id=n, host="h", port=n) for n in (1, 2)],
                topics=[MetadataResponseTopic(name="t", topic_id=topic_id, partitions=partitions)],
            ),
            replace_all=True,
        )

    def now_ms(self) -> float:
        return asyncio.get_running_loop().time() * 1000 if self.now is None else self.now

    def backoff_left_ms(self, node: int, key: object) -> float:
        return 0.0

    def request_update(self) -> None:
        self.updates += 1

    def spawn(self, work: Any) -> None:
        self._tasks.add(asyncio.get_running_loop().create_task(work))

    async def connection(self, node: int, key: object) -> _Connection:
        await within(self.may_connect.wait(), "leave to connect")
        return _Connection(node, self)


def test_a_broker_that_no_longer_leads_is_not_asked_in_its_successors_epoch() -> None:
    """It may follow in that epoch, behind the successor: its answer that an offset is out of range, which is
    no news of the log at all, would throw the consumer back to the beginning."""

    async def scenario() -> None:
        cluster: Any = _Cluster()
        positions = SubscriptionState("earliest")
        positions.assign([TP])
        positions.assigned[TP].seek(45)
        cluster.led_by(1, 0)
        config = build(ConsumerConfig, {"bootstrap_servers": "h:1"})
        fetcher = Fetcher(config, cluster, positions, FetchBuffer(False, None, None), lambda: None)
        fetcher.wake()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        # The connection takes its time; meanwhile another broker is known to lead.
        cluster.led_by(2, 1)
        cluster.may_connect.set()
        for _ in range(20):
            await asyncio.sleep(0)
        assert set(cluster.asked) == {(2, 1)}
        fetcher.stop()

    asyncio.run(scenario())


TOPIC_ID = b"i" * 16


def answer(*partitions: int, session: int = 0, code: int = 0, throttle_ms: int = 0) -> FetchResponse:
    """An answer without records about some partitions of the topic."""
    data = [PartitionData(partition_index=n, high_watermark=0, records=b"") for n in partitions]
    topics = [FetchableTopicResponse(topic_id=TOPIC_ID, partitions=data)] if data else []
    return FetchResponse(session_id=session, error_code=code, throttle_time_ms=throttle_ms, responses=topics)


async def _begin(cluster: Any, answers: list[FetchResponse]) -> Fetcher:
    """Have a consumer of two partitions be answered so; its last request has no answer."""
    cluster.answers = answers
    cluster.may_connect.set()
    positions = SubscriptionState("earliest")
    positions.assign([TopicPartition("t", n) for n in range(2)])
    for position in positions:
        position.seek(0)
    cluster.led_by(1, 0, TOPIC_ID)
    config = build(ConsumerConfig, {"bootstrap_servers": "h:1", "retry_backoff_ms": 1})
    fetcher = Fetcher(config, cluster, positions, FetchBuffer(False, None, None), lambda: None)
    fetcher.wake()
    return fetcher


async def _asked_after(answers: list[FetchResponse]) -> _Cluster:
    cluster = _Cluster()
    fetcher = await _begin(cluster, answers)
    await within(cluster.done.wait(), "a request without an answer")
    fetcher.stop()
    return cluster


def requests_after(*answers: FetchResponse) -> list[FetchRequest]:
    return asyncio.run(_asked_after(list(answers))).requests


def named(request: FetchRequest) -> list[int]:
    return [asked.partition for topic in request.topics for asked in topic.partitions]


def test_a_session_goes_on_with_what_has_changed() -> None:
    requests = requests_after(answer(0, 1, session=7), answer(session=7))
    assert [(r.session_id, r.session_epoch, named(r)) for r in requests] == [
        (0, 0, [0, 1]),
        (7, 1, []),
        (7, 2, []),
    ]


@pytest.mark.parametrize(
    ("code", "session"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 7),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 7),
        (ErrorCode.UNKNOWN_TOPIC_ID, 7),
        (ErrorCode.INCONSISTENT_TOPIC_ID, 7),
        (ErrorCode.UNKNOWN_SERVER_ERROR, 7),
    ],
)
def test_what_follows_an_error_closes_the_session_unless_there_is_none(code: ErrorCode, session: int) -> None:
    """Without its id the broker would hold it until it needs the room (KIP-227)."""
    requests = requests_after(answer(0, 1, session=7), answer(code=code))
    assert (requests[-1].session_id, requests[-1].session_epoch) == (session, 0)
    assert named(requests[-1]) == [0, 1]


def test_a_session_that_mixes_ids_and_names_has_the_metadata_asked_for() -> None:
    """As in Kafka's AbstractFetch: what the request said of the topics' ids may be out of date."""
    of_others, of_this = (
        asyncio.run(_asked_after([answer(0, 1, session=7), answer(code=code)])).updates
        for code in (ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
    )
    assert of_this == of_others + 1


@pytest.mark.parametrize(
    "first",
    [answer(0, session=7), answer(0, 1, 2, session=7), answer(throttle_ms=1)],
    ids=["one is left out", "one is not asked for", "throttled"],
)
def test_an_answer_to_a_full_request_is_about_what_was_asked_for(first: FetchResponse) -> None:
    """The broker's session is what it answered about: what it left out would never be fetched."""
    requests = requests_after(first)
    assert [(r.session_id, r.session_epoch, named(r)) for r in requests] == [(0, 0, [0, 1])] * 2


def test_a_session_that_answers_about_what_it_does_not_hold_is_closed() -> None:
    requests = requests_after(answer(0, 1, session=7), answer(2, session=7))
    assert (requests[-1].session_id, requests[-1].session_epoch, named(requests[-1])) == (7, 0, [0, 1])


def test_after_an_answer_that_does_not_count_there_is_a_pause() -> None:
    """A broker that keeps refusing is not asked as fast as the network goes."""

    async def scenario() -> None:
        cluster: Any = _Cluster()
        cluster.now = 0.0
        fetcher = await _begin(
            cluster, [answer(0, 1, session=7), answer(code=ErrorCode.UNKNOWN_SERVER_ERROR)]
        )
        for _ in range(50):
            await asyncio.sleep(0)
        assert not cluster.done.is_set()
        cluster.now = 1.0
        fetcher.wake()
        await within(cluster.done.wait(), "the next request")
        fetcher.stop()

    asyncio.run(scenario())
