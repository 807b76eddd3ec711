"""The producers against a broker: what was acknowledged is there once, in order, whatever was cut between."""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
import time
from typing import Any

import pytest

from odradek.client import Admin, AsyncProducer, Consumer, NewTopic, Producer, TopicPartition
from odradek.client.errors import (
    BufferExhaustedError,
    ClientTimeoutError,
    ClosedError,
    ConfigError,
    DeliveryTimeoutError,
    MessageTooLargeError,
    SerializationError,
    UndeliveredError,
)
from odradek.errors import KafkaError, UnknownTopicOrPartitionError
from odradek.records.partitioner import partition_for_key
from odradek.testing import Broker
from seeds import each_seed
from waiting import joined, until

from .conftest import new_topic
from .consuming import metric
from .proxy import Proxy

PRODUCE = 0


def read_all(servers: str, topic: str, partitions: int = 1) -> list[Any]:
    """Everything in a topic, by partition and offset."""
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        tps = [TopicPartition(topic, n) for n in range(partitions)]
        consumer.assign(tps)
        ends = consumer.end_offsets(tps)
        records: list[Any] = []
        deadline = time.monotonic() + 60
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            assert time.monotonic() < deadline
            records += consumer.poll(500, 10_000)
    return sorted(records, key=lambda r: (r.partition, r.offset))


def test_a_record_goes_where_its_metadata_says(servers: str, topic: str) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        metadata = producer.send(
            topic, "value", key="key", timestamp_ms=1_700_000_000_123, headers={"a": "1", "b": None}
        ).result(60)
        assert metadata.partition == partition_for_key(b"key", 3)
        assert metadata.offset == 0
        assert metadata.timestamp == 1_700_000_000_123
        assert (metadata.serialized_key_size, metadata.serialized_value_size) == (3, 5)
    (record,) = read_all(servers, topic, 3)
    assert (record.partition, record.offset) == (metadata.partition, 0)
    assert (record.key, record.value, record.timestamp) == (b"key", b"value", 1_700_000_000_123)
    assert record.headers == (("a", b"1"), ("b", None))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_and_many_batches(servers: str, admin: Admin, codec: str) -> None:
    topic = new_topic(admin, 1)
    with Producer(
        bootstrap_servers=servers, compression_type=codec, batch_size=2_000, linger_ms=5
    ) as producer:
        futures = [producer.send(topic, f"{i}" * 50, key=str(i)) for i in range(500)]
        producer.flush(60)
        assert all(future.done() for future in futures)
        assert [future.result(0).offset for future in futures] == list(range(500))
    assert [r.key for r in read_all(servers, topic)] == [str(i).encode() for i in range(500)]


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_acks(servers: str, admin: Admin, acks: Any) -> None:
    topic = new_topic(admin, 1)
    with Producer(bootstrap_servers=servers, acks=acks) as producer:
        future = producer.send(topic, b"x")
        assert future.result(60).offset == (-1 if acks == 0 else 0)
    until(lambda: len(read_all(servers, topic)) == 1)


def test_callbacks_and_interceptors_see_the_fate_of_each_record(servers: str, topic: str) -> None:
    class Interceptor:
        def __init__(self) -> None:
            self.acknowledged: list[Any] = []

        def on_send(self, record: Any) -> Any:
            return record._replace(value=record.value + b"!")

        def on_acknowledgement(self, metadata: Any, error: Any) -> None:
            self.acknowledged.append((metadata, error))

    interceptor = Interceptor()
    told: list[Any] = []
    with Producer(bootstrap_servers=servers, interceptors=[interceptor]) as producer:
        for i in range(10):
            producer.send(topic, b"v", partition=1, on_delivery=lambda m, e, i=i: told.append((i, m, e)))
    assert [(i, m.offset, e) for i, m, e in told] == [(i, i, None) for i in range(10)]
    assert len(interceptor.acknowledged) == 10
    assert {r.value for r in read_all(servers, topic, 3)} == {b"v!"}


def test_records_without_key_stick_to_a_partition_for_a_batch_and_reach_all(servers: str, topic: str) -> None:
    with Producer(bootstrap_servers=servers, batch_size=1_000, linger_ms=1_000) as producer:
        futures = [producer.send(topic, b"x" * 80) for _ in range(600)]
        producer.flush(60)
        partitions = [future.result(0).partition for future in futures]
    changes = sum(a != b for a, b in itertools.pairwise(partitions))
    assert set(partitions) == {0, 1, 2}
    assert changes < 600 / 5, "a sticky partition changes with the batch, not with the record"


def test_bad_calls_say_what_is_wrong(servers: str, topic: str) -> None:
    with Producer(bootstrap_servers=servers, max_request_size=10_000, max_block_ms=2_000) as producer:
        with pytest.raises(MessageTooLargeError, match=r"max\.request\.size is 10000"):
            producer.send(topic, b"x" * 20_000)
        with pytest.raises(SerializationError, match=r"value\.serializer"):
            producer.send(topic, 17)
        with pytest.raises(ValueError, match="negative"):
            producer.send(topic, b"", partition=-1)
        with pytest.raises(ClientTimeoutError, match="partition 7"):
            producer.send(topic, b"", partition=7)
        with pytest.raises(UnknownTopicOrPartitionError, match="no-such-topic"):
            producer.send("no-such-topic", b"")
    with pytest.raises(ClosedError):
        producer.send(topic, b"x")
    with pytest.raises(ConfigError, match=r"ssl\.truststore\.location: x: No such file"):
        Producer({"bootstrap.servers": servers, "security.protocol": "SSL", "ssl.truststore.location": "x"})


def test_serializers_by_callable_object_and_kafkas_name(servers: str, topic: str) -> None:
    class Serializer:
        def serialize(self, topic: str, data: Any) -> bytes:
            return f"{topic}:{data}".encode()

    with Producer(
        {
            "bootstrap.servers": servers,
            "key.serializer": "org.apache.kafka.common.serialization.LongSerializer",
            "value.serializer": Serializer(),
        }
    ) as producer:
        producer.send(topic, 5, key=7).result(60)
    (record,) = read_all(servers, topic, 3)
    assert record.key == (7).to_bytes(8, "big")
    assert record.value == f"{topic}:5".encode()


def test_the_broker_refuses_a_record_and_the_future_has_its_error(servers: str, admin: Admin) -> None:
    topic = new_topic(admin, 1, max_message_bytes=1_000)
    with Producer(bootstrap_servers=servers) as producer:
        bad = producer.send(topic, b"x" * 5_000)
        with pytest.raises(KafkaError, match=topic) as caught:
            bad.result(60)
        assert caught.value.code.name == "MESSAGE_TOO_LARGE"
        assert producer.send(topic, b"small").result(60).offset == 0


def test_a_batch_that_the_topic_finds_too_large_is_split(servers: str, admin: Admin) -> None:
    topic = new_topic(admin, 1, max_message_bytes=2_000)
    with Producer(bootstrap_servers=servers, batch_size=16_384, linger_ms=10_000) as producer:
        told: list[int] = []
        futures = [
            producer.send(topic, str(i).encode() * 20, on_delivery=lambda m, e: told.append(m.offset))
            for i in range(200)
        ]
        producer.flush(60)
        assert [future.result(0).offset for future in futures] == list(range(200))
        assert sorted(told) == list(range(200))
        # The sequence goes on behind the parts.
        more = producer.send(topic, b"more")
        producer.flush(60)
        assert more.result(0).offset == 200
    assert [r.value for r in read_all(servers, topic)][:200] == [str(i).encode() * 20 for i in range(200)]


def test_full_memory_blocks_and_then_raises(admin: Admin) -> None:
    with Proxy() as proxy, Broker(advertised_listeners=f"PLAINTEXT://{proxy.address}") as broker:
        proxy.target = (broker.host, broker.port)
        # Made by the first `send`, the topic would have to be led within `max.block.ms`.
        broker.create_topic("t")
        stop = threading.Event()
        proxy.on_request = lambda key, frame: key != PRODUCE or not stop.wait(30)
        try:
            with (
                pytest.raises(UndeliveredError, match=r"record\(s\) sent without a callback"),
                Producer(
                    bootstrap_servers=proxy.address,
                    buffer_memory=20_000,
                    batch_size=5_000,
                    max_block_ms=1_000,
                    enable_idempotence=False,
                    request_timeout_ms=2_000,
                    delivery_timeout_ms=3_000,
                ) as producer,
            ):
                futures: list[Any] = []
                with pytest.raises(BufferExhaustedError, match=r"buffer\.memory"):
                    while len(futures) < 100:
                        futures += [producer.send("t", b"x" * 1_000)]
                assert 5 < len(futures) < 25
                with pytest.raises(DeliveryTimeoutError, match="not acknowledged"):
                    futures[0].result(60)
        finally:
            stop.set()


def test_nothing_reachable_is_told_with_the_reason() -> None:
    producer = Producer(bootstrap_servers="127.0.0.1:1", max_block_ms=500)
    with producer, pytest.raises(ClientTimeoutError, match=r"127\.0\.0\.1:1: .*refused"):
        producer.send("t", b"x")


def test_bootstrap_goes_on_to_the_next_server(servers: str, topic: str) -> None:
    with Producer(bootstrap_servers=f"127.0.0.1:1,{servers}") as producer:
        assert producer.send(topic, b"x").result(60).offset == 0


def test_the_broker_restarts_amid_the_stream(admin: Admin) -> None:
    with Broker(num_partitions=1) as broker:
        with Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=2, batch_size=1_000) as producer:
            futures = []
            for i in range(3_000):
                futures.append(producer.send("t", str(i).encode()))
                if i in (0, 1_000, 2_000):
                    broker.restart()
            producer.flush(60)
            assert [future.result(0).offset for future in futures] == list(range(3_000))
        values = [r.value for r in read_all(broker.bootstrap_servers, "t")]
        assert values == [str(i).encode() for i in range(3_000)]


@each_seed(3)
@pytest.mark.parametrize("limit", [1_000_000, 300])
def test_cut_connections_lose_nothing_and_repeat_nothing(seed: int, limit: int) -> None:
    """Answers to Produce are lost after the broker took the records: the sequence keeps the retry from
    doubling. So it does where the topic takes less than a batch.
    """
    rng = random.Random(seed)
    with Proxy() as proxy, Broker(advertised_listeners=f"PLAINTEXT://{proxy.address}") as broker:
        proxy.target = (broker.host, broker.port)
        with Admin(bootstrap_servers=proxy.address) as admin:
            admin.create_topics([NewTopic("t", 2, configs={"max.message.bytes": str(limit)})])
        answers, requests = itertools.count(seed), itertools.count(seed)
        proxy.on_response = lambda key, frame: key != PRODUCE or next(answers) % 7 != 0
        proxy.on_request = lambda key, frame: key != PRODUCE or next(requests) % 17 != 0
        with Producer(
            bootstrap_servers=proxy.address,
            batch_size=400,
            linger_ms=1,
            reconnect_backoff_ms=5,
            reconnect_backoff_max_ms=10,
            retry_backoff_ms=5,
            retry_backoff_max_ms=20,
        ) as producer:
            sent: dict[int, list[bytes]] = {0: [], 1: []}
            futures = []
            for i in range(1_500):
                partition = rng.randrange(2)
                value = f"{seed}:{i}".encode()
                sent[partition].append(value)
                futures.append(producer.send("t", value, partition=partition))
                if i % 50 == 0:
                    producer.flush(90)
            producer.flush(90)
            results = [future.result(0) for future in futures]
        assert proxy.cuts > 3, f"seed {seed}"
        proxy.on_request = proxy.on_response = lambda key, frame: True
        records = read_all(proxy.address, "t", 2)
        for partition in (0, 1):
            assert [r.value for r in records if r.partition == partition] == sent[partition]
        by_place = {(r.partition, r.offset): r.value for r in records}
        for result, value in zip(results, (f"{seed}:{i}".encode() for i in range(1_500)), strict=True):
            if result.offset >= 0:
                assert by_place[result.partition, result.offset] == value


def test_many_threads_share_a_producer(servers: str, admin: Admin) -> None:
    topic = new_topic(admin, 2)
    with Producer(bootstrap_servers=servers, linger_ms=1) as producer:

        def work(name: int) -> None:
            for i in range(300):
                producer.send(topic, f"{name}:{i}", partition=name % 2)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            joined(thread)
    values = [r.value.decode() for r in read_all(servers, topic, 2)]
    assert len(values) == 1_200
    for name in range(4):
        mine = [int(v.split(":")[1]) for v in values if v.startswith(f"{name}:")]
        assert mine == list(range(300)), "a thread's records keep their order within a partition"


def test_flush_and_result_time_out(admin: Admin) -> None:
    with Proxy() as proxy, Broker(advertised_listeners=f"PLAINTEXT://{proxy.address}") as broker:
        proxy.target = (broker.host, broker.port)
        gate = threading.Event()
        proxy.on_request = lambda key, frame: key != PRODUCE or gate.wait(30)
        with Producer(bootstrap_servers=proxy.address) as producer:
            future = producer.send("t", b"x")
            with pytest.raises(ClientTimeoutError, match="flush"):
                producer.flush(0.2)
            with pytest.raises(ClientTimeoutError):
                future.result(0.1)
            gate.set()
            assert future.result(60).offset == 0


def test_partitions_for_and_metrics(servers: str, topic: str) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        infos = producer.partitions_for(topic)
        assert [info.partition for info in infos] == [0, 1, 2]
        assert all(info.leader == infos[0].leader for info in infos)
        producer.send(topic, b"x").result(60)
        assert metric(producer.metrics(), "record-send-total") == 1.0


def test_the_asyncio_producer(servers: str, topic: str) -> None:
    async def run() -> None:
        async with AsyncProducer(bootstrap_servers=servers) as producer:
            deliveries = [await producer.send(topic, str(i), partition=0) for i in range(100)]
            metadata = [await delivery for delivery in deliveries]
            assert [m.offset for m in metadata] == list(range(100))
            assert (await producer.send_and_wait(topic, b"x", partition=0)).offset == 100
            with pytest.raises(MessageTooLargeError):
                await producer.send(topic, b"x" * 2_000_000)
            await producer.flush()
            assert len(await producer.partitions_for(topic)) == 3
        with pytest.raises(ClosedError):
            await producer.send(topic, b"x")

    asyncio.run(run())


def test_the_asyncio_producer_waits_for_memory(servers: str, topic: str) -> None:
    async def run() -> None:
        async with AsyncProducer(
            bootstrap_servers=servers, buffer_memory=20_000, batch_size=2_000
        ) as producer:
            deliveries = [await producer.send(topic, b"x" * 500, partition=1) for i in range(300)]
            assert [(await d).offset for d in deliveries] == list(range(300))

    asyncio.run(run())
