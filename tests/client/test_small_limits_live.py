"""Topics that take less than the producer's batches: everything acknowledged is there, in order, once."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest

from odradek.client import Admin, AsyncProducer, Producer, TransactionalWriter
from odradek.client.errors import ConfigError, MessageTooLargeError
from odradek.client.raw import RawReader, RawWriter
from odradek.errors import RecordTooLargeError
from odradek.testing import Broker

from .conftest import new_topic
from .test_producer_live import read_all

LARGE_THEN_SMALL = [b"%04d" % n + b"x" * (996 if n < 100 else 96) for n in range(105)]
"""A first batch that is too large, behind it a small one."""
ROWS = [b"%04d" % n + b"x" * 996 for n in range(2_000)]


def written(servers: str, topic: str, partitions: int = 1) -> list[bytes]:
    return [record.value for record in read_all(servers, topic, partitions)]


def committed(servers: str, topic: str) -> list[bytes]:
    with RawReader(servers, {"isolation.level": "read_committed"}) as reader:
        end = reader.end_offsets([(topic, 0)])[topic, 0]
        return [
            v for rows in reader.fetch_columns(topic, 0, 0, end) for v in rows.column("value").to_pylist()
        ]


def produced(broker: Broker, topic: str) -> tuple[int, int]:
    """How many batches of a topic were sent, and how many of them were refused."""
    counts = broker.metrics()
    sent, refused = (
        int(counts[("kafka.server:BrokerTopicMetrics", name, (("topic", topic),))])
        for name in ("TotalProduceRequestsPerSec", "FailedProduceRequestsPerSec")
    )
    return sent, refused


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("idempotent", [True, False])
def test_a_producers_first_batch_is_too_large(
    servers: str, admin: Admin, idempotent: bool, codec: str
) -> None:
    topic = new_topic(admin, 1, max_message_bytes=20_000 if codec == "none" else 400)
    with Producer(
        bootstrap_servers=servers,
        batch_size=100_000,
        linger_ms=200,
        compression_type=codec,
        enable_idempotence=idempotent,
        max_in_flight_requests_per_connection=5 if idempotent else 1,
    ) as producer:
        futures = [producer.send(topic, value) for value in LARGE_THEN_SMALL]
        assert [future.result(60).offset for future in futures] == list(range(105))
    assert written(servers, topic) == LARGE_THEN_SMALL


def test_the_same_in_coroutines(servers: str, admin: Admin) -> None:
    topic = new_topic(admin, 1, max_message_bytes=20_000)

    async def main() -> list[int]:
        async with AsyncProducer(bootstrap_servers=servers, batch_size=100_000, linger_ms=200) as producer:
            futures = [await producer.send(topic, value) for value in LARGE_THEN_SMALL]
            return [(await future).offset for future in futures]

    assert asyncio.run(asyncio.wait_for(main(), 60)) == list(range(105))
    assert written(servers, topic) == LARGE_THEN_SMALL


def test_the_same_in_a_transaction(servers: str, admin: Admin) -> None:
    topic = new_topic(admin, 1, max_message_bytes=20_000)
    with Producer(
        bootstrap_servers=servers, batch_size=100_000, linger_ms=200, transactional_id=topic
    ) as producer:
        producer.init_transactions()
        with producer.begin_transaction():
            futures = [producer.send(topic, value) for value in LARGE_THEN_SMALL]
        assert [future.result(60).offset for future in futures] == list(range(105))
    assert written(servers, topic) == LARGE_THEN_SMALL


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_columns_keep_the_size_that_the_topic_takes(broker: Broker, admin: Admin, codec: str) -> None:
    servers = broker.bootstrap_servers
    topic = new_topic(admin, 1, max_message_bytes=262_144 if codec == "none" else 3_000)
    with RawWriter(servers, {"compression_type": codec}) as writer:
        writer.write_columns(pa.table({"value": ROWS}), topic)
        assert writer.flush() == len(ROWS)
        # 2 MB by 131 to 262 KB, those that were refused, and what was split of them.
        before, _ = produced(broker, topic)
        assert before <= 30
        writer.write_columns(pa.table({"value": ROWS}), topic)
        assert writer.flush() == 2 * len(ROWS)
        assert produced(broker, topic)[0] - before <= 16, "what is known bounds the next batches"
    assert written(servers, topic) == ROWS * 2


def test_the_next_batches_of_records_are_bounded(broker: Broker, admin: Admin) -> None:
    topic = new_topic(admin, 1, max_message_bytes=20_000)
    with Producer(
        bootstrap_servers=broker.bootstrap_servers, batch_size=100_000, linger_ms=60_000
    ) as producer:
        for value in LARGE_THEN_SMALL:
            producer.send(topic, value)
        producer.flush(60)
        before, refused = produced(broker, topic)
        for value in LARGE_THEN_SMALL * 2:
            producer.send(topic, value)
        producer.flush(60)
        assert produced(broker, topic)[0] - before <= 22
        assert produced(broker, topic)[1] == refused, "none is refused any more"
    assert written(broker.bootstrap_servers, topic) == LARGE_THEN_SMALL * 3


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_columns_in_a_transaction(broker: Broker, admin: Admin, codec: str) -> None:
    servers = broker.bootstrap_servers
    topic = new_topic(admin, 2, max_message_bytes=100_000 if codec == "none" else 2_000)
    table = pa.table({"value": ROWS, "partition": [n % 2 for n in range(len(ROWS))]})
    with TransactionalWriter(servers, topic, {"compression.type": codec}) as writer:
        writer.init_transactions()
        for turn in range(2):
            writer.begin_transaction()
            writer.write_columns(table, topic)
            writer.commit_transaction()
            assert writer.rows_written == len(ROWS) * (turn + 1)
        assert produced(broker, topic)[0] <= 90
    by_partition = [ROWS[0::2], ROWS[1::2]]
    assert written(servers, topic, 2) == [value for values in by_partition for value in values * 2]


def test_a_row_that_the_topic_never_takes_fails_its_transaction(servers: str, admin: Admin) -> None:
    topic = new_topic(admin, 1, max_message_bytes=2_000)
    rows = [b"small"] * 50 + [b"x" * 3_000] + [b"small"] * 50
    with TransactionalWriter(servers, topic) as writer:
        writer.init_transactions()
        writer.begin_transaction()
        with pytest.raises(RecordTooLargeError, match=topic):
            writer.write_columns(pa.table({"value": rows}), topic)
            writer.commit_transaction()
        writer.abort_transaction()
        writer.begin_transaction()
        writer.write_columns(pa.table({"value": [b"after"]}), topic)
        writer.commit_transaction()
    assert committed(servers, topic) == [b"after"]


def test_batch_size_is_honoured_by_columns(broker: Broker, admin: Admin) -> None:
    topic = new_topic(admin, 1, max_message_bytes=20_000)
    with RawWriter(broker.bootstrap_servers, {"batch.size": 16_384}) as writer:
        writer.write_columns(pa.table({"value": ROWS}), topic)
    assert produced(broker, topic)[1] == 0, "nothing was refused"
    assert written(broker.bootstrap_servers, topic) == ROWS


def test_a_small_buffer_memory_makes_small_batches(servers: str, admin: Admin) -> None:
    topic = new_topic(admin, 1)
    with RawWriter(servers, {"buffer.memory": 50_000}) as writer:
        writer.write_columns(pa.table({"value": ROWS}), topic)
        assert writer.flush() == len(ROWS)
        with pytest.raises(MessageTooLargeError, match=r"1 row\(s\) .* buffer.memory is 50000"):
            writer.write_columns(pa.table({"value": [b"x" * 60_000]}), topic)
    assert written(servers, topic) == ROWS


def test_a_batch_has_to_fit_into_the_memory() -> None:
    with pytest.raises(ConfigError, match=r"batch.size \(2000\) is larger than buffer.memory \(1000\)"):
        Producer(bootstrap_servers="127.0.0.1:1", batch_size=2_000, buffer_memory=1_000)


def test_the_default_batch_size_gives_way_to_a_small_memory(servers: str, admin: Admin) -> None:
    topic = new_topic(admin, 1)
    with Producer(bootstrap_servers=servers, buffer_memory=1_000) as producer:
        for value in LARGE_THEN_SMALL[100:]:
            producer.send(topic, value)
    assert written(servers, topic) == LARGE_THEN_SMALL[100:]
