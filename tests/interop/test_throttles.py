"""Throttling beside a live Kafka, request by request: the same throttle_time_ms, the same muting by version.

Each sequence goes to both brokers at the same time, in raw frames that do not care for throttle_time_ms.
"""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest

from interop.config_changes import until_heard
from interop.test_quotas import both
from odradek import Admin, Producer
from odradek.errors.codes import ErrorCode
from odradek.records.builder import build_batch
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.metadata import MetadataRequest
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("kafka_toolchain")]

__all__ = ["both"]

RATE = 20_000
"""Bytes a second."""

TOPIC = "throttled"
names = itertools.count()


class Seen(NamedTuple):
    """What one request came to: the throttle that it was told, what was in the answer, and after how long."""

    throttle_ms: int
    said: object
    seconds: float


class Moment(NamedTuple):
    """When a request was answered, and until when it is throttled: seconds since the first one was sent."""

    answered_s: float
    free_s: float


def moments(seen: list[Seen]) -> list[Moment]:
    answered = itertools.accumulate(one.seconds for one in seen)
    return [Moment(at, at + one.throttle_ms / 1000) for at, one in zip(answered, seen, strict=True)]


class Raw:
    """A connection that sends what it likes."""

    def __init__(self, at: str, client_id: str) -> None:
        host, port = at.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), 60)
        self._stream = self._socket.makefile("rb")
        self._client_id = client_id

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._socket.close()

    def ask(self, message: Any, version: int, said: Callable[[Any], object] = lambda _: None) -> Seen:
        began = time.monotonic()
        self._socket.sendall(b"".join(encode_request(message.API_KEY, version, 1, self._client_id, message)))
        size = int.from_bytes(self._stream.read(4), "big")
        answer = decode_response(self._stream.read(size), message.API_KEY, version)[1]
        return Seen(answer.throttle_time_ms, said(answer), time.monotonic() - began)


def produce(size: int) -> ProduceRequest:
    batch = build_batch([(int(time.time() * 1000), None, bytes(size), ())])
    partition = PartitionProduceData(index=0, records=batch)
    return ProduceRequest(
        acks=1, timeout_ms=30_000, topic_data=[TopicProduceData(name=TOPIC, partition_data=[partition])]
    )


def fetch(offset: int, max_bytes: int) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=TOPIC, partitions=[partition])],
    )


def bytes_of(answer: Any) -> list[bool]:
    return [bool(one.partitions[0].records) for one in answer.responses]


def create(partitions: int) -> CreateTopicsRequest:
    wanted = CreatableTopic(name=f"made-{next(names)}", num_partitions=partitions, replication_factor=1)
    return CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)


def error_of(answer: Any) -> ErrorCode:
    return ErrorCode(answer.topics[0].error_code)


def producing(raw: Raw, version: int) -> list[Seen]:
    return [raw.ask(produce(100_000), version), raw.ask(produce(10), version)]


def fetching(raw: Raw, version: int) -> list[Seen]:
    return [raw.ask(fetch(0, 35_000), version, bytes_of) for _ in range(3)]


def creating(raw: Raw, version: int) -> list[Seen]:
    made = [raw.ask(create(15), version, error_of), raw.ask(create(1), version, error_of)]
    return [*made, raw.ask(MetadataRequest(topics=[]), 4)]


def asking(raw: Raw, version: int) -> list[Seen]:
    """Whatever a request takes, it is more than that, and the throttle as long as it may be."""
    return [raw.ask(MetadataRequest(topics=[]), version) for _ in range(3)]


@pytest.fixture(scope="module")
def filled(both: dict[str, str]) -> dict[str, str]:
    for at in both.values():
        with Admin(bootstrap_servers=at) as admin:
            admin.create_topics([TOPIC])
        with Producer(bootstrap_servers=at, client_id="filler") as producer:
            for _ in range(200):
                producer.send(TOPIC, value=bytes(1_000))
    return both


@pytest.mark.parametrize(
    ("sequence", "versions", "quota"),
    [
        (producing, (3, 5, 6, 9), {"producer_byte_rate": float(RATE)}),
        (fetching, (4, 7, 8, 11), {"consumer_byte_rate": float(RATE)}),
        (creating, (2, 5, 6), {"controller_mutation_rate": 1.0}),
        (asking, (3, 6, 9), {"request_percentage": 0.0001}),
    ],
    ids=["produce", "fetch", "create topics", "time of requests"],
)
def test_throttled_as_by_kafka(
    filled: dict[str, str],
    sequence: Callable[[Raw, int], list[Seen]],
    versions: tuple[int, ...],
    quota: dict[str, float],
) -> None:
    clients = {version: f"{sequence.__name__}-{version}" for version in versions}
    for at in filled.values():
        with Admin(bootstrap_servers=at) as admin:
            admin.alter_client_quotas({(("client-id", name),): quota for name in clients.values()})
        until_heard(at)

    def run(asked: tuple[str, int]) -> list[Seen]:
        at, version = asked
        with Raw(filled[at], clients[version]) as raw:
            return sequence(raw, version)

    for version in versions:
        with ThreadPoolExecutor(2) as pool:
            seen = dict(zip(filled, pool.map(run, [(at, version) for at in filled]), strict=True))
        ours, kafka = seen["ours"], seen["Kafka"]
        print(f"{sequence.__name__} {version}: ours {ours}\n    Kafka {kafka}")
        assert [one.said for one in ours] == [one.said for one in kafka], (version, ours, kafka)
        assert any(one.throttle_ms for one in kafka), (version, kafka)
        told = (version, ours, kafka)
        # Nothing holds up the first one: its time is that of the work, here and there, on this machine now.
        work_s = max(ours[0].seconds, kafka[0].seconds)
        for mine, theirs in zip(moments(ours), moments(kafka), strict=True):
            # What a window's beginning, and the time that the work took, make of it.
            assert abs(mine.answered_s - theirs.answered_s) <= 0.15 * theirs.answered_s + 0.7 + work_s, told
            assert abs(mine.free_s - theirs.free_s) <= 0.15 * theirs.free_s + 0.5 + work_s, told


CONNECTIONS = 14


def test_connections_of_an_address_as_by_kafka(filled: dict[str, str]) -> None:
    """The last one here: nobody else from this address is served in time after it."""

    def connect(at: str) -> float | None:
        """Connect and ask; None when there is an answer, else after how many seconds the connection ends."""
        host, port = at.rsplit(":", 1)
        began = time.monotonic()
        with socket.create_connection((host, int(port)), 60) as connection:
            try:
                connection.sendall(b"".join(encode_request(18, 0, 1, "c", ApiVersionsRequest())))
                if connection.recv(4):
                    return None
            except ConnectionError:  # what was sent came too late
                pass
        return time.monotonic() - began

    def run(at: str) -> list[float | None]:
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            return list(pool.map(connect, [at] * CONNECTIONS))

    for at in filled.values():
        with Admin(bootstrap_servers=at) as admin:
            admin.alter_client_quotas({(("ip", "127.0.0.1"),): {"connection_creation_rate": 3.0}})
        until_heard(at)
    # What was opened so far counts for as long as the windows are.
    time.sleep(5)
    with ThreadPoolExecutor(2) as pool:
        seen = dict(zip(filled, pool.map(run, filled.values()), strict=True))
    print(seen)
    served = {who: found.count(None) for who, found in seen.items()}
    assert served["ours"] == served["Kafka"] > 0, seen
    waited = {who: sorted(one for one in found if one is not None) for who, found in seen.items()}
    for mine, theirs in zip(waited["ours"], waited["Kafka"], strict=True):
        assert abs(mine - theirs) <= 0.2 * theirs + 0.5, seen
