"""Batches whose compressed bytes end oddly: what Kafka takes is taken and read, what it refuses is refused.

Kafka 4.3.1 was asked with the same bytes, each codec with each ending.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import pytest

from odradek.client import Consumer
from odradek.client.blocking import BlockingConnection
from odradek.client.config import AdminConfig, build
from odradek.client.types import TopicPartition
from odradek.errors.codes import ErrorCode
from odradek.records.batch import ATTRIBUTES_AT, CRC_AT, HEADER_BYTES, compute_crc
from odradek.records.builder import BatchBuilder
from odradek.records.compression import Codec, compress
from odradek.testing import Broker
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from waiting import gathered

VALUES = [b"value %d of some" % number * 5 for number in range(4)]
LENGTH_AT, LENGTH_END = 8, 12


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def batch_of(codec: Codec, section: bytes) -> bytes:
    """A batch of `VALUES` whose records are these bytes."""
    made = bytearray(plain()[:HEADER_BYTES] + section)
    made[LENGTH_AT:LENGTH_END] = (len(made) - LENGTH_END).to_bytes(4, "big")
    made[ATTRIBUTES_AT : ATTRIBUTES_AT + 2] = int(codec).to_bytes(2, "big")
    made[CRC_AT : CRC_AT + 4] = compute_crc(made).to_bytes(4, "big")
    return bytes(made)


def plain() -> bytes:
    builder = BatchBuilder()
    for value in VALUES:
        builder.append(1_700_000_000_000, None, value)
    return builder.build()


RECORDS = plain()[HEADER_BYTES:]
HALVES = RECORDS[:150], RECORDS[150:]


def packed(codec: Codec, data: bytes) -> bytes:
    return bytes(compress(codec, data))


TAKEN = {
    "gzip and zeros": (Codec.GZIP, gzip.compress(RECORDS) + bytes(40)),
    "gzip and junk": (Codec.GZIP, gzip.compress(RECORDS) + b"junk" * 20),
    "gzip in two, and zeros": (Codec.GZIP, b"".join(map(gzip.compress, HALVES)) + bytes(8)),
    "lz4 and zeros": (Codec.LZ4, packed(Codec.LZ4, RECORDS) + bytes(40)),
    "lz4 and an empty frame": (Codec.LZ4, packed(Codec.LZ4, RECORDS) + packed(Codec.LZ4, b"")),
    "zstd in two": (Codec.ZSTD, b"".join(packed(Codec.ZSTD, half) for half in HALVES)),
}
REFUSED = {
    "lz4 in two": (Codec.LZ4, b"".join(packed(Codec.LZ4, half) for half in HALVES)),
    "lz4 behind an empty frame": (Codec.LZ4, packed(Codec.LZ4, b"") + packed(Codec.LZ4, RECORDS)),
    "gzip twice": (Codec.GZIP, gzip.compress(RECORDS) * 2),
    "gzip, and another that is cut off": (
        Codec.GZIP,
        gzip.compress(RECORDS) + gzip.compress(b"x" * 500)[:-6],
    ),
    "zstd and zeros": (Codec.ZSTD, packed(Codec.ZSTD, RECORDS) + bytes(8)),
}


def produce(broker: Broker, topic: str, records: bytes) -> int:
    config = build(AdminConfig, {"bootstrap.servers": broker.bootstrap_servers})
    connection = BlockingConnection.open("127.0.0.1", broker.port, config)
    try:
        data = [PartitionProduceData(index=0, records=records)]
        wanted = [TopicProduceData(name=topic, partition_data=data)]
        answer = connection.call(ProduceRequest(acks=1, timeout_ms=10_000, topic_data=wanted), at_most=9)
    finally:
        connection.close()
    return int(answer.responses[0].partition_responses[0].error_code)


@pytest.mark.parametrize("case", TAKEN)
def test_what_kafka_takes_is_taken_and_read(broker: Broker, case: str) -> None:
    codec, section = TAKEN[case]
    topic = case.replace(" ", "-").replace(",", "")
    broker.create_topic(topic)
    assert produce(broker, topic, batch_of(codec, section)) == 0
    with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found = gathered(lambda: consumer.poll(1_000), len(VALUES), f"the records of {case}", within_s=30)
    assert [one.value for one in found] == VALUES


@pytest.mark.parametrize("case", REFUSED)
def test_what_kafka_refuses_is_refused(broker: Broker, case: str) -> None:
    codec, section = REFUSED[case]
    topic = case.replace(" ", "-").replace(",", "")
    broker.create_topic(topic)
    code = produce(broker, topic, batch_of(codec, section))
    assert code in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE)
    if codec is Codec.LZ4:
        assert code == ErrorCode.INVALID_RECORD
