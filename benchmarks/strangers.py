"""What strangers can do to others: attacks of few bytes, and how long a small client waits beside them.

    python -m benchmarks.strangers [--only NAME] [--sockets 1,10,100]

The broker is a process of its own. Beside each attack one connection produces a small record, fetches it and
asks for metadata, over and over, and takes the time of each. A line tells of an attack how many bytes it
sends, how long until it is answered (or refused), the processor time that the broker takes for it, and the
median, the 99th percentile and the longest of the small client's answers meanwhile. docs/security.md has such
a table.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from odradek.records.builder import BatchBuilder, build_batch
from odradek.records.compression import Codec
from odradek.util.clock import SystemClock
from odradek.wire.headers import encode_request
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.wire.messages.sasl_handshake import SaslHandshakeRequest
from odradek.wire.primitives import encode_uvarint

MIB = 1024 * 1024
UNPACKED_BYTES = 120 * MIB
"""What one batch of an attack unpacks to: below what a batch may."""

PARTITIONS = 40
NOW_MS = SystemClock().now_ms()


# ---------------------------------------------------------------------- the broker


def serve(folder: str) -> None:
    """Run a broker until standard input ends; first a line of its ports."""
    from odradek.broker.app import Broker
    from odradek.broker.config.broker_config import BrokerConfig

    async def main() -> None:
        properties = {
            "log.dirs": folder,
            "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "max.connections.per.ip": "1000",
        }
        broker = Broker(BrokerConfig(properties))
        await broker.start()
        print(json.dumps([listener.port for listener in broker.listeners]), flush=True)
        loop = asyncio.get_running_loop()
        while await loop.run_in_executor(None, sys.stdin.readline):
            print(time.process_time(), flush=True)
        await broker.stop()

    asyncio.run(main())


class Served:
    """A broker in a process of its own.

    Attributes:
        port, sasl_port: of its listeners.
    """

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self._child = child
        assert child.stdout is not None
        self.port, self.sasl_port = json.loads(child.stdout.readline())

    def cpu_s(self) -> float:
        """Processor time of the broker so far."""
        assert self._child.stdin is not None and self._child.stdout is not None
        self._child.stdin.write("\n")
        self._child.stdin.flush()
        return float(self._child.stdout.readline())


@contextmanager
def running() -> Iterator[Served]:
    """Run a broker in the block."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "benchmarks.strangers", "--serve", folder]
        child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            yield Served(child)
        finally:
            child.communicate(timeout=60)


# ---------------------------------------------------------------------- attacks


def frame(message: Any, version: int) -> bytes:
    """A request as it goes over the wire."""
    return b"".join(encode_request(message.API_KEY, version, 1, "stranger", message))


def with_tags(message: Any, version: int, size: int) -> bytes:
    """A request of about so many bytes, most of which are tagged fields that nobody knows."""
    whole = frame(message, version)[4:]
    assert whole[-1] == 0, "the count of tagged fields comes last"
    # Numbers of four bytes, 128 of which differ in their first byte alone.
    firsts = [bytes([number | 0x80]) for number in range(128)]
    tags = bytearray()
    blocks = (size - len(whole)) // (128 * 5)
    for number in range(1 << 14, (1 << 14) + blocks):
        rest = encode_uvarint(number) + b"\0"
        tags += rest.join(firsts) + rest
    count = 128 * blocks
    body = whole[:-1] + encode_uvarint(count) + tags
    return len(body).to_bytes(4, "big") + body


@cache
def zeros(codec: Codec, size: int) -> bytes:
    """A batch of one record of so many zeros."""
    builder = BatchBuilder(codec=codec)
    builder.append(NOW_MS, None, bytes(size), ())
    return bytes(builder.build())


def produce(records: bytes, partitions: int = 1, topic: str = "attacked") -> ProduceRequest:
    """The same records to each of some partitions."""
    data = [PartitionProduceData(index=index, records=records) for index in range(partitions)]
    return ProduceRequest(
        acks=1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=data)]
    )


def fetch(version: int, partitions: int, topic: str = "attacked") -> bytes:
    """A fetch of some partitions from their beginning."""
    wanted = [
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=MIB)
        for index in range(partitions)
    ]
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=MIB, topics=[FetchTopic(topic=topic, partitions=wanted)]
    )
    return frame(request, version)


Sent = tuple[str, list[bytes], int, bool]
"""An attack: its name, the frames of each connection, connections, and whether they log in first."""


def attacks(sockets: list[int]) -> Iterator[Callable[[], Sent]]:
    """Each attack, made when its turn comes."""
    yield lambda: (
        "Produce v9, 48 MB of unknown tags",
        [with_tags(ProduceRequest(acks=1, timeout_ms=1, topic_data=[]), 9, 48_000_000)],
        1,
        False,
    )
    yield lambda: (
        "ApiVersions, 4 MB of unknown tags",
        [with_tags(ApiVersionsRequest(), 3, 4_000_000)],
        1,
        False,
    )
    yield lambda: (
        "60 produces in one go, each 120 MiB of zeros in zstd",
        [frame(produce(zeros(Codec.ZSTD, UNPACKED_BYTES)), 9)] * 60,
        1,
        False,
    )
    for codec in (Codec.ZSTD, Codec.GZIP, Codec.LZ4):

        def many(codec: Codec = codec) -> Sent:
            records = zeros(codec, UNPACKED_BYTES)
            what = f"{PARTITIONS} partitions of 120 MiB in {codec.name.lower()} in one produce"
            return what, [frame(produce(records, PARTITIONS), 9)], 1, False

        yield many
    yield lambda: (
        f"a fetch v3 of {PARTITIONS} partitions of 120 MiB in gzip",
        [fetch(3, PARTITIONS, "gzip")],
        1,
        False,
    )
    yield lambda: (
        "SCRAM message of 500 KiB before a login",
        [
            frame(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1),
            frame(SaslAuthenticateRequest(auth_bytes=b"n,,n=u,r=" + b"x" * 500 * 1024), 1),
        ],
        1,
        True,
    )
    for count in sockets:

        def crowd(count: int = count) -> Sent:
            records = zeros(Codec.GZIP, 1_000_000)
            return (
                f"{count} sockets, 20 produces of 1 MB in gzip each",
                [frame(produce(records), 9)] * 20,
                count,
                False,
            )

        yield crowd
    for count in sockets:

        def questions(count: int = count) -> Sent:
            names = [MetadataRequestTopic(name=f"none-{number}") for number in range(400)]
            asked = MetadataRequest(topics=names, allow_auto_topic_creation=False)
            return f"{count} sockets, 50 metadata of 400 topics each", [frame(asked, 8)] * 50, count, False

        yield questions


# ---------------------------------------------------------------------- the clients


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> bytes:
    """Send a frame; returns the answer, empty where the connection has been closed."""
    writer.write(request)
    return await answer_of(reader)


async def answer_of(reader: asyncio.StreamReader) -> bytes:
    """One answer; empty where the connection has been closed."""
    try:
        size = int.from_bytes(await reader.readexactly(4), "big")
        return await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


class Beside:
    """A small client, which takes the time of its answers.

    Attributes:
        took_ms: of each answer.
    """

    def __init__(self, port: int) -> None:
        self.took_ms: list[float] = []
        self._port = port
        self._over = False

    async def run(self) -> None:
        """Ask until `stop`."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        records = bytes(build_batch([(NOW_MS, None, b"small", [])]))
        asked = [
            frame(produce(records, topic="beside"), 9),
            fetch(11, 1, "beside"),
            frame(MetadataRequest(topics=[MetadataRequestTopic(name="beside")]), 8),
        ]
        while not self._over:
            for one in asked:
                began = time.perf_counter()
                if not await ask(reader, writer, one):
                    raise RuntimeError("the small client's connection has been closed")
                self.took_ms.append((time.perf_counter() - began) * 1000)
            await asyncio.sleep(0.002)
        writer.close()

    def stop(self) -> None:
        """Ask no more."""
        self._over = True

    def told(self) -> str:
        """The median, the 99th percentile and the longest."""
        took = sorted(self.took_ms)
        return f"{statistics.median(took):8.1f} {took[int(len(took) * 0.99)]:8.1f} {took[-1]:8.1f}"


async def attack(served: Served, sent: Sent) -> str:
    """Have an attack going, and a small client beside it; returns a line of what was measured."""
    what, frames, sockets, logs_in = sent
    port = served.sasl_port if logs_in else served.port
    beside = Beside(served.port)
    asking = asyncio.ensure_future(beside.run())
    await asyncio.sleep(0.3)
    beside.took_ms.clear()
    cpu_s, began = served.cpu_s(), time.perf_counter()

    async def stranger() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**26)
        for one in frames:
            writer.write(one)
        for _ in frames:
            if not await answer_of(reader):
                break
        writer.transport.abort()

    await asyncio.gather(*(stranger() for _ in range(sockets)))
    took_s = time.perf_counter() - began
    beside.stop()
    await asking
    size = sum(map(len, frames)) * sockets
    return f"{what:62} {size:12,} {took_s:7.2f} {served.cpu_s() - cpu_s:7.2f} {beside.told()}"


async def prepare(served: Served) -> None:
    """Make the topics, and have one filled."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    topics = [
        CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        for name, count in (("attacked", PARTITIONS), ("gzip", PARTITIONS), ("beside", 1))
    ]
    await ask(reader, writer, frame(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 5))
    filled = produce(zeros(Codec.GZIP, UNPACKED_BYTES), PARTITIONS, "gzip")
    await ask(reader, writer, frame(filled, 9))
    writer.close()


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--only", default="", help="attacks whose names have this")
    parser.add_argument("--sockets", default="1,10,100", help="how many at once")
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    print(f"{'':62} {'bytes':>12} {'s':>7} {'CPU s':>7} {'median':>8} {'99 %':>8} {'longest':>8} ms")
    with running() as served:
        asyncio.run(prepare(served))
        for make in attacks([int(one) for one in options.sockets.split(",")]):
            sent = make()
            if options.only in sent[0]:
                print(asyncio.run(attack(served, sent)), flush=True)


if __name__ == "__main__":
    main()
