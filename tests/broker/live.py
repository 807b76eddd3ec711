"""A whole broker inside a test's own loop, spoken to in raw frames."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from odradek.broker.app import Broker
from odradek.broker.config.broker_config import BrokerConfig
from odradek.broker.config.keywords import properties_from_keywords
from odradek.cluster.controller.topic_manager import NewTopic
from odradek.log.storage.files import FileSystem
from odradek.records.builder import BatchBuilder
from odradek.records.compression import Codec
from odradek.util.clock import Clock, SystemClock
from odradek.util.timers import Timers
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)

from .net import PATIENCE_S, close_streams, open_stream


class Client:
    """A raw connection: requests out, responses in order."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self._next = 0
        self.sent: list[tuple[int, int, int]] = []

    def send(self, message: Any, version: int, client_id: str = "test") -> None:
        """Send a request without waiting."""
        self._next += 1
        self.sent.append((self._next, message.API_KEY, version))
        self.writer.writelines(encode_request(message.API_KEY, version, self._next, client_id, message))

    async def receive(self) -> Any:
        """The next response."""
        correlation_id, key, version = self.sent.pop(0)
        size = int.from_bytes(await asyncio.wait_for(self._reader.readexactly(4), PATIENCE_S), "big")
        frame = await asyncio.wait_for(self._reader.readexactly(size), PATIENCE_S)
        got, message = decode_response(frame, key, version)
        assert got == correlation_id
        return message

    async def call(self, message: Any, version: int, client_id: str = "test") -> Any:
        """A request and its response."""
        self.send(message, version, client_id)
        return await self.receive()

    async def silent(self) -> bool:
        """Whether nothing has come for a moment."""
        try:
            await asyncio.wait_for(self._reader.readexactly(1), 0.03)
        except TimeoutError:
            return True
        return False

    async def closed(self) -> bool:
        """Whether the broker closes the connection without another byte."""
        return await asyncio.wait_for(self._reader.read(), PATIENCE_S) == b""

    def close(self) -> None:
        """Close it."""
        self.writer.close()

    def abort(self) -> None:
        """Close it without sending what waits to be sent."""
        self.writer.transport.abort()


@asynccontextmanager
async def running(
    data: Path,
    *,
    clock: Clock | None = None,
    timers: Timers | None = None,
    pauses: Timers | None = None,
    files: FileSystem | None = None,
    **config: Any,
) -> AsyncIterator[Broker]:
    """A broker with its data in `data`."""
    properties = {
        "offsets.topic.num.partitions": "1",
        **properties_from_keywords(config),
        "log.dirs": str(data),
        "listeners": "PLAINTEXT://127.0.0.1:0",
    }
    broker = Broker(BrokerConfig(properties), clock=clock, timers=timers, pauses=pauses, files=files)
    await broker.start()
    port = broker.port
    try:
        yield broker
    finally:
        close_streams(port)
        await broker.stop()


async def connect(broker: Broker) -> Client:
    """A client of it."""
    return Client(*await open_stream(broker.port))


async def create_topic(
    broker: Broker, name: str, partitions: int = 1, configs: dict[str, str] | None = None
) -> bytes:
    """Create a topic; returns its id."""
    topic = NewTopic(name, partitions, 1, configs=configs or {})
    await broker.controller.event_queue.run(partial(broker.controller.create_topic, topic))
    return broker.image.topic_id(name)


async def delete_topics(broker: Broker, names: Sequence[str]) -> None:
    """Delete topics, and wait until their nodes are gone."""
    queue = broker.controller.event_queue
    await queue.run(partial(broker.controller.delete_topics, names))
    # Behind what follows from the deletion of the replicas.
    await queue.run(lambda: None)


def batch(
    values: Sequence[bytes] = (b"value",),
    *,
    codec: Codec = Codec.NONE,
    timestamp: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    keys: Sequence[bytes | None] | None = None,
) -> bytes:
    """A record batch as a producer sends it: of now, for producers are forgotten by their records' age."""
    first = SystemClock().now_ms() if timestamp is None else timestamp
    builder = BatchBuilder(
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
    )
    for number, value in enumerate(values):
        builder.append(first + number, None if keys is None else keys[number], value, ())
    return bytes(builder.build())


def produce(
    topic: str, records: Any, *, acks: int = -1, index: int = 0, topic_id: bytes = bytes(16)
) -> ProduceRequest:
    """A request with one batch."""
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name=topic,
                topic_id=topic_id,
                partition_data=[PartitionProduceData(index=index, records=records)],
            )
        ],
    )


async def append(
    client: Client, topic: str, records: Any, *, version: int = 9, **kwargs: Any
) -> PartitionProduceResponse:
    """Produce one batch and return what was answered for its partition."""
    response = await client.call(produce(topic, records, **kwargs), version)
    answer: PartitionProduceResponse = response.responses[0].partition_responses[0]
    return answer


async def create_topic_with_record(broker: Broker, name: str) -> None:
    """Create a topic of one partition, and have a record written to it."""
    await create_topic(broker, name)
    client = await connect(broker)
    answer = await append(client, name, batch())
    client.close()
    assert answer.error_code == 0


def fetch(
    topic: str,
    offset: int = 0,
    *,
    index: int = 0,
    topic_id: bytes = bytes(16),
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 2**20,
    partition_max_bytes: int = 2**20,
    session_id: int = 0,
    session_epoch: int = -1,
    isolation_level: int = 0,
    current_leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
) -> FetchRequest:
    """A request for one partition."""
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[
            FetchTopic(
                topic=topic,
                topic_id=topic_id,
                partitions=[
                    FetchPartition(
                        partition=index,
                        fetch_offset=offset,
                        partition_max_bytes=partition_max_bytes,
                        current_leader_epoch=current_leader_epoch,
                        last_fetched_epoch=last_fetched_epoch,
                    )
                ],
            )
        ],
    )


def producer_states(partition: Any) -> list[tuple[int, int, int, int, int]]:
    """Of each producer of a partition: id, epoch, last sequence, coordinator epoch, open since."""
    return [
        (
            one.producer_id,
            one.producer_epoch,
            one.last_sequence,
            one.coordinator_epoch,
            one.current_txn_start_offset,
        )
        for one in partition.active_producers
    ]
