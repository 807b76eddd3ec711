"""Microseconds of each step of a produce and a fetch request, each alone on prepared input, and of the whole.

The broker is a real one on a temporary folder; nothing goes over a socket: frames are given to the connection
as its transport would, and a stand-in takes the answers.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from odradek.broker.app import Broker
from odradek.broker.config.broker_config import BrokerConfig
from odradek.broker.fetch.reading import RANGE_FROM_BYTES
from odradek.broker.network.connection import Connection, Peer
from odradek.broker.requests.context import RequestContext
from odradek.cluster.controller.topic_manager import NewTopic
from odradek.records.batch import BatchHeader, check_crc
from odradek.records.builder import build_batch
from odradek.records.patch import assign_offsets
from odradek.records.validate import BatchLimits
from odradek.replication.reading import read_partition, reader_of
from odradek.wire.api import ApiKey, request_header_version
from odradek.wire.framing import FrameReceiver, ReceiveBuffers
from odradek.wire.headers import RequestHeader, decode_request_header, encode_request, encode_response
from odradek.wire.messages import fetch, produce

TOPIC = "t"
ROUNDS = 7
PRODUCE_VERSION, FETCH_VERSION = 9, 11

Step = tuple[str, float]


def timed(work: Callable[[], object], times: int) -> float:
    """Microseconds of one `work()`: the median of some rounds."""
    work()
    found = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(times):
            work()
        found.append((time.perf_counter() - began) / times * 1e6)
    return sorted(found)[ROUNDS // 2]


class Sink:
    """In place of a transport: takes what is written."""

    def __init__(self) -> None:
        self.bytes = 0

    def write(self, data: Any) -> None:
        self.bytes += len(data)

    def writelines(self, buffers: list[Any]) -> None:
        self.bytes += sum(map(len, buffers))

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_extra_info(self, name: str) -> None: ...

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...


def _connection(broker: Broker) -> tuple[Connection, Sink]:
    sink = Sink()
    peer = Peer("127.0.0.1", 1, "127.0.0.1:9092-127.0.0.1:1-1", "PLAINTEXT")
    connection = Connection(broker.listeners[0], peer)
    connection.connection_made(sink)  # type: ignore[arg-type]
    return connection, sink


def _receive(connection: Connection, data: bytes) -> None:
    """As a transport does it."""
    left = memoryview(data)
    while left:
        buffer = connection.get_buffer(-1)
        count = min(len(buffer), len(left))
        buffer[:count] = left[:count]
        connection.buffer_updated(count)
        left = left[count:]


def _split(receiver: FrameReceiver, data: bytes) -> None:
    left = memoryview(data)
    while left:
        buffer = receiver.get_buffer()
        count = min(len(buffer), len(left))
        buffer[:count] = left[:count]
        receiver.received(count)
        left = left[count:]


def _answered(connection: Connection, sink: Sink, frame: bytes) -> Callable[[], None]:
    def once() -> None:
        before = sink.bytes
        _receive(connection, frame)
        assert sink.bytes > before, "no answer came at once"

    return once


def produce_steps(broker: Broker, records: int, times: int) -> list[Step]:
    """One batch of `records` records of 100 bytes, acks=1."""
    rng = random.Random(1)
    now_ms = broker.clock.now_ms()
    batch = build_batch([(now_ms, None, rng.randbytes(100), ()) for _ in range(records)])
    data = produce.PartitionProduceData(index=0, records=batch)
    topic = produce.TopicProduceData(name=TOPIC, partition_data=[data])
    request = produce.ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic])
    wire = b"".join(encode_request(ApiKey.PRODUCE, PRODUCE_VERSION, 1, "profile", request))
    receiver = FrameReceiver(1 << 26, ReceiveBuffers())
    frame = memoryview(wire)[4:]
    _, body = decode_request_header(frame)
    log = broker.replicas.find(TOPIC, 0).log  # type: ignore[union-attr]
    header = BatchHeader.parse(batch)
    limits = BatchLimits(max_message_bytes=1 << 26)
    headers = limits.validate_batches(batch, now_ms, True, None)
    copy = bytearray(batch)
    kwargs = {"leader_epoch": 0, "timestamp_type": header.timestamp_type, "now_ms": now_ms}
    part = produce.PartitionProduceResponse(index=0, base_offset=1)
    answered = produce.TopicProduceResponse(name=TOPIC, partition_responses=[part])
    answer = produce.ProduceResponse(responses=[answered])
    validate = timed(lambda: limits.validate_batches(batch, now_ms, True, None), times)
    crc = timed(lambda: check_crc(header, batch), times)
    patch = timed(lambda: assign_offsets(copy, 5, headers=headers, **kwargs), times)
    append = timed(lambda: log.append(batch, leader_epoch=0, now_ms=now_ms, produce_version=9), times)
    connection, sink = _connection(broker)
    whole = timed(_answered(connection, sink, wire), times)
    steps = [
        ("frame split from the stream", timed(lambda: _split(receiver, wire), times)),
        ("request header", timed(lambda: decode_request_header(frame), times)),
        (
            "body decoded",
            timed(lambda: produce.ProduceRequest.decode_from(frame, PRODUCE_VERSION, body), times),
        ),
        ("CRC", crc),
        ("batch header, walk over the records", max(0.0, validate - crc)),
        ("offsets and epoch written into the batch", patch),
        ("append: producer state, write, index", max(0.0, append - validate - patch)),
        (
            "response encoded",
            timed(lambda: encode_response(ApiKey.PRODUCE, PRODUCE_VERSION, 1, answer), times),
        ),
    ]
    return [
        *steps,
        ("sum of the steps", sum(us for _, us in steps)),
        ("the whole, bytes in to bytes out", whole),
    ]


def fetch_steps(broker: Broker, most: int, times: int) -> list[Step]:
    """One partition, at most `most` bytes, from the beginning of the log.

    A step that others are parts of has its own share alone.
    """
    partition = broker.replicas.find(TOPIC, 0)
    assert partition is not None
    log = partition.log
    end = log.log_end_offset
    asked = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=most)
    topics = [fetch.FetchTopic(topic=TOPIC, partitions=[asked])]
    request = fetch.FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=most, session_epoch=-1, topics=topics
    )
    wire = b"".join(encode_request(ApiKey.FETCH, FETCH_VERSION, 1, "profile", request))
    receiver = FrameReceiver(1 << 20, ReceiveBuffers())
    frame = memoryview(wire)[4:]
    header, body = decode_request_header(frame)
    header_codec = RequestHeader.codec(request_header_version(ApiKey.FETCH, FETCH_VERSION))
    codec = fetch.FetchRequest.codec(FETCH_VERSION)
    reader = reader_of(-1, 0, FETCH_VERSION)
    records = log.slice(0, most, end, True, RANGE_FROM_BYTES)
    segment = log.segments.active
    part = fetch.PartitionData(partition_index=0, high_watermark=end, records=records)
    answer = fetch.FetchResponse(responses=[fetch.FetchableTopicResponse(topic=TOPIC, partitions=[part])])
    connection, sink = _connection(broker)
    context = RequestContext(broker, header, connection.peer, broker.clock.now_ms())
    served = broker.handlers.get(ApiKey.FETCH)
    assert served is not None
    pread = timed(lambda: segment.pread(len(records), 0), times)
    sliced = timed(lambda: log.slice(0, most, end, True, RANGE_FROM_BYTES), times)
    read = timed(lambda: read_partition(partition, asked, reader, most, min_one_batch=True), times)
    handled = timed(lambda: served.function(context, request), times)
    whole = timed(_answered(connection, sink, wire), times)
    steps = [
        ("frame split from the stream", timed(lambda: _split(receiver, wire), times)),
        ("request header", timed(lambda: header_codec.decode(frame, 0), times)),
        ("body decoded", timed(lambda: codec.decode_within(frame, body, 512), times)),
        ("session, bounds of the request, the response's form", max(0.0, handled - read)),
        ("partition: epoch, bounds, its part of the answer", max(0.0, read - sliced)),
        ("place in the segment, cut to whole batches", max(0.0, sliced - pread)),
        (f"the read of {len(records)} bytes", pread),
        ("response encoded", timed(lambda: encode_response(ApiKey.FETCH, FETCH_VERSION, 1, answer), times)),
    ]
    known = sum(us for _, us in steps)
    return [
        *steps,
        ("connection, dispatch, order of answers, metrics, two clocks", max(0.0, whole - known)),
        ("the whole, bytes in to bytes out", whole),
    ]


async def _measure(data: Path) -> dict[str, list[Step]]:
    broker = Broker(BrokerConfig({"log.dirs": str(data), "listeners": "PLAINTEXT://127.0.0.1:0"}))
    await broker.start()
    try:
        broker.controller.create_topic(NewTopic(TOPIC, 1, 1))
        await asyncio.sleep(0)
        broker.handlers.load_all()
        return {
            "produce, 1 record of 100 B": produce_steps(broker, 1, 500),
            "produce, 147 records (16 KiB)": produce_steps(broker, 147, 200),
            "produce, 4,700 records (512 KiB)": produce_steps(broker, 4_700, 10),
            "fetch, 1,000 B": fetch_steps(broker, 1_000, 500),
            "fetch, 64 KiB": fetch_steps(broker, 65_536, 200),
        }
    finally:
        await broker.stop()


def measure(data: Path) -> dict[str, list[Step]]:
    """All tables.

    Args:
        data: an empty folder for the broker.
    """
    with asyncio.Runner() as runner:
        return runner.run(_measure(data))


def table(found: dict[str, list[Step]]) -> str:
    """As Markdown."""
    lines = []
    for subject, steps in found.items():
        whole = steps[-1][1]
        lines += [f"| {subject} | µs | share of the whole |", "|---|---|---|"]
        lines += [f"| {name} | {us:.2f} | {us / whole:.0%} |" for name, us in steps]
        lines.append("")
    return "\n".join(lines)
