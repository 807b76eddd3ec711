"""Requests leave nothing behind that only the garbage collector could free.

What hangs in a cycle keeps its buffers, a whole response among them, until the collector comes by; and its
coming is a pause for everybody.
"""

from __future__ import annotations

import gc
import socket
import struct
from collections.abc import Callable, Iterator

import pytest

from odradek.records.builder import build_batch
from odradek.testing import Broker
from odradek.wire.api import ApiKey
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.messages import (
    api_versions,
    fetch,
    find_coordinator,
    init_producer_id,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
)

ROUNDS = 40
TOPIC = "t"


class Client:
    """A connection that sends and takes one frame at a time."""

    def __init__(self, broker: Broker) -> None:
        self._socket = socket.create_connection((broker.host, broker.port), timeout=30)
        self._stream = self._socket.makefile("rb")

    def send(self, key: ApiKey, version: int, message: object) -> None:
        self._socket.sendall(b"".join(encode_request(key, version, 1, "t", message)))

    def take(self, key: ApiKey, version: int) -> object:
        (size,) = struct.unpack(">i", self._stream.read(4))
        return decode_response(self._stream.read(size), key, version)[1]

    def call(self, key: ApiKey, version: int, message: object) -> object:
        self.send(key, version, message)
        return self.take(key, version)

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


class World:
    """Two clients of a broker with one topic, and the collector switched off."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.client, self.other = Client(broker), Client(broker)
        self.end = 0

    def produce(self, acks: int = -1) -> None:
        data = produce.PartitionProduceData(index=0, records=build_batch([(1_000, None, b"v" * 100, ())]))
        topic = produce.TopicProduceData(name=TOPIC, partition_data=[data])
        request = produce.ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[topic])
        answer = self.other.call(ApiKey.PRODUCE, 9, request)
        part = answer.responses[0].partition_responses[0]  # type: ignore[attr-defined]
        assert part.error_code == 0
        self.end = part.base_offset + 1

    def fetch_request(self, offset: int, wait_ms: int, partition: int = 0) -> fetch.FetchRequest:
        asked = fetch.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        topics = [fetch.FetchTopic(topic=TOPIC, partitions=[asked])]
        return fetch.FetchRequest(max_wait_ms=wait_ms, min_bytes=1, topics=topics)

    def poll_that_is_answered(self) -> None:
        self.client.send(ApiKey.FETCH, 11, self.fetch_request(self.end, 30_000))
        self.waits()
        self.produce()
        self.client.take(ApiKey.FETCH, 11)

    def waits(self) -> None:
        while not self.broker.call(lambda broker: len(broker.purgatory)):
            pass

    def poll_that_ends(self) -> None:
        self.client.call(ApiKey.FETCH, 11, self.fetch_request(self.end, 1))

    def poll_of_one_who_leaves(self) -> None:
        gone = Client(self.broker)
        gone.send(ApiKey.FETCH, 11, self.fetch_request(self.end, 30_000))
        self.waits()
        gone.close()
        while self.broker.call(lambda broker: len(broker.purgatory)):
            pass

    def fetch_at_once(self) -> None:
        self.client.call(ApiKey.FETCH, 11, self.fetch_request(self.end - 1, 0))

    def fetch_with_an_error(self) -> None:
        self.client.call(ApiKey.FETCH, 11, self.fetch_request(0, 0, partition=77))

    def list_offsets(self) -> None:
        asked = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)
        topics = [list_offsets.ListOffsetsTopic(name=TOPIC, partitions=[asked])]
        self.client.call(ApiKey.LIST_OFFSETS, 5, list_offsets.ListOffsetsRequest(topics=topics))

    def metadata(self) -> None:
        self.client.call(ApiKey.METADATA, 9, metadata.MetadataRequest(topics=None))

    def connection(self) -> None:
        client = Client(self.broker)
        client.call(ApiKey.API_VERSIONS, 2, api_versions.ApiVersionsRequest())
        client.close()

    def producer_id(self) -> None:
        request = init_producer_id.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000)
        self.client.call(ApiKey.INIT_PRODUCER_ID, 2, request)

    def commit(self) -> None:
        self.client.call(ApiKey.FIND_COORDINATOR, 1, find_coordinator.FindCoordinatorRequest(key="g"))
        part = offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
        topics = [offset_commit.OffsetCommitRequestTopic(name=TOPIC, partitions=[part])]
        self.client.call(
            ApiKey.OFFSET_COMMIT, 5, offset_commit.OffsetCommitRequest(group_id="g", topics=topics)
        )
        asked = offset_fetch.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])
        self.client.call(
            ApiKey.OFFSET_FETCH, 5, offset_fetch.OffsetFetchRequest(group_id="g", topics=[asked])
        )


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with Broker() as broker:
        broker.create_topic(TOPIC)
        world = World(broker)
        world.produce()
        yield world
        world.client.close()
        world.other.close()


@pytest.mark.parametrize(
    "work",
    [
        World.produce,
        World.poll_that_is_answered,
        World.poll_that_ends,
        World.poll_of_one_who_leaves,
        World.fetch_at_once,
        World.fetch_with_an_error,
        World.list_offsets,
        World.metadata,
        World.connection,
        World.producer_id,
        World.commit,
    ],
)
def test_nothing_is_left_for_the_collector(world: World, work: Callable[[World], None]) -> None:
    for _ in range(3):
        work(world)  # what is made once and kept
    world.metadata()
    gc.collect()
    gc.disable()
    try:
        for _ in range(ROUNDS):
            work(world)
        world.broker.call(lambda broker: None)
        left = gc.collect()
    finally:
        gc.enable()
    assert left < ROUNDS, f"{left / ROUNDS:.1f} objects per request"
