"""The broker that tests are given, with real clients."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import warnings
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from odradek.cluster.configs.config_def import ConfigError
from odradek.errors import TopicExistsError
from odradek.testing import Broker
from waiting import until_async


def test_the_fixture_gives_a_running_broker(odradek_broker: Broker) -> None:
    odradek_broker.create_topic("t", 3)
    assert odradek_broker.call(lambda broker: len(broker.image.topics["t"].partitions)) == 3
    with pytest.raises(TopicExistsError):
        odradek_broker.create_topic("t")


def test_nothing_is_left_behind() -> None:
    threads = threading.active_count()
    with Broker() as broker:
        data = broker.data
        assert data is not None
        assert data.is_dir()
    assert not data.exists()
    assert threading.active_count() == threads


def test_several_at_once() -> None:
    with Broker() as one, Broker(broker_id=5) as other:
        assert one.port != other.port
        assert other.call(lambda broker: broker.broker_id) == 5


def test_a_named_folder_is_kept_and_a_restart_keeps_the_port(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker:
        broker.create_topic("t", 2, {"retention.ms": "1000"})
        port = broker.port
        broker.restart()
        assert broker.port == port
        assert broker.call(lambda b: b.replicas.get("t", 1).log.config.retention_ms) == 1000
    assert (tmp_path / "t-1").is_dir()


@pytest.mark.parametrize("is_named", [False, True], ids=["temporary", "named"])
def test_data_that_goes_with_the_test_waits_for_no_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_named: bool
) -> None:
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", synced.append)
    with Broker(data=tmp_path if is_named else None, log_flush_interval_messages=1) as broker:
        broker.seed("t", ["a"])
        broker.restart()
        store = broker.call(lambda app: app.store)
        (level,) = store.database.execute("PRAGMA synchronous").fetchone()
    assert bool(synced) == is_named
    assert level == (2 if is_named else 0)


def test_a_broker_that_was_killed_has_all_that_was_written() -> None:
    with Broker() as broker:
        broker.seed("t", ["a", "b"])
        broker.kill()
        broker.restart()
        broker.assert_records("t", ["a", "b"])


def test_a_failed_start_says_why() -> None:
    from odradek.broker.app import StartError

    with Broker() as broker:
        second = Broker(data=broker.data)
        with pytest.raises(StartError, match="another broker"):
            second.start()


def test_it_is_ready_in_a_blink() -> None:
    """The bar is 100 ms, of which these calls take some fifteen: what a busy machine makes of it is no
    fault of the broker's."""
    with Broker():
        pass
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    threading.setprofile(count)
    sys.setprofile(count)
    try:
        with Broker():
            sys.setprofile(None)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert 1_000 < calls < 40_000


def test_metrics_count(odradek_broker: Broker) -> None:
    produce_with_librdkafka(odradek_broker, "t", 100)
    metrics = odradek_broker.metrics()
    topic = (("topic", "t"),)
    assert metrics[("kafka.server:BrokerTopicMetrics", "MessagesInPerSec", topic)] == 100
    assert metrics[("kafka.server:BrokerTopicMetrics", "MessagesInPerSec", ())] == 100
    assert metrics[("kafka.server:BrokerTopicMetrics", "BytesInPerSec", topic)] > 0
    assert metrics[("kafka.network:RequestMetrics", "RequestsPerSec", (("request", "Produce"),))] >= 1
    assert metrics[("kafka.server:ReplicaManager", "PartitionCount", ())] == 1


def produce_with_librdkafka(broker: Broker, topic: str, count: int, **config: Any) -> None:
    from confluent_kafka import Producer

    failures: list[Any] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0, **config})
    for number in range(count):
        producer.produce(
            topic,
            key=b"%d" % number,
            value=b"value %d" % number,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
        producer.poll(0)
    assert producer.flush(60) == 0
    assert not failures


def consume_with_librdkafka(broker: Broker, topic: str, group: str, count: int) -> list[bytes]:
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    values: list[bytes] = []
    deadline = time.monotonic() + 60
    while len(values) < count and time.monotonic() < deadline:
        for message in consumer.consume(1000, 0.2):
            assert message.error() is None
            values.append(message.value())
    consumer.commit(asynchronous=False)
    consumer.close()
    return values


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_confluent_kafka(odradek_broker: Broker, codec: str) -> None:
    produce_with_librdkafka(
        odradek_broker, "t", 500, **{"enable.idempotence": True, "compression.type": codec}
    )
    values = consume_with_librdkafka(odradek_broker, "t", "g", 500)
    assert values == [b"value %d" % number for number in range(500)]


def test_a_group_goes_on_after_a_restart(odradek_broker: Broker) -> None:
    odradek_broker.create_topic("t", 1)
    produce_with_librdkafka(odradek_broker, "t", 100)
    assert len(consume_with_librdkafka(odradek_broker, "t", "g", 100)) == 100
    odradek_broker.restart()
    produce_with_librdkafka(odradek_broker, "t", 50)
    values = consume_with_librdkafka(odradek_broker, "t", "g", 50)
    assert values == [b"value %d" % number for number in range(50)]


def test_kafka_python(odradek_broker: Broker) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from kafka import KafkaConsumer, KafkaProducer

        servers = odradek_broker.bootstrap_servers
        producer = KafkaProducer(bootstrap_servers=servers, acks="all", compression_type="gzip")
        sent = [producer.send("t", key=b"k", value=b"%d" % number) for number in range(200)]
        producer.flush(60)
        assert [one.get(10).offset for one in sent] == list(range(200))
        producer.close()
        consumer = KafkaConsumer(
            "t",
            bootstrap_servers=servers,
            group_id="g",
            auto_offset_reset="earliest",
            consumer_timeout_ms=10_000,
        )
        values = []
        for message in consumer:
            values.append(message.value)
            if len(values) == 200:
                break
        assert values == [b"%d" % number for number in range(200)]
        consumer.commit()
        consumer.close()


def test_aiokafka(odradek_broker: Broker) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async def main() -> None:
        servers = odradek_broker.bootstrap_servers
        odradek_broker.create_topic("t", 2)
        producer = AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True)
        await producer.start()
        for number in range(200):
            await producer.send("t", b"%d" % number, partition=number % 2)
        await producer.flush()
        await producer.stop()
        consumer = AIOKafkaConsumer(
            "t", bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest"
        )
        await consumer.start()
        got: dict[int, list[bytes]] = {0: [], 1: []}

        async def count() -> int:
            for partition, messages in (await consumer.getmany(timeout_ms=500)).items():
                got[partition.partition] += [message.value for message in messages]
            return sum(map(len, got.values()))

        await until_async(count, "the records that were sent", holds=lambda count: count >= 200, every_s=0)
        assert got == {p: [b"%d" % n for n in range(p, 200, 2)] for p in (0, 1)}
        await consumer.commit()
        await consumer.stop()

    asyncio.run(main())


def test_it_can_be_any_kafka() -> None:
    with Broker(kafka_version="0.10.2") as broker:
        assert broker.call(lambda broker: dict(broker.handlers.versions())[3]) == range(3)
        broker.restart()
        assert broker.call(lambda broker: str(broker.handlers.release)) == "0.10.2"
    with pytest.raises(ConfigError, match=r"2\.9"), Broker(kafka_version="2.9"):
        pass


@pytest.mark.parametrize(
    ("keywords", "complaint"),
    [
        (
            {"num_partition": 3},
            "there is no config num_partition (Kafka: num.partition); did you mean num_partitions?",
        ),
        ({"num.partition": 3}, "did you mean num_partitions?"),
        ({"xyzzy": 1}, "there is no config xyzzy (Kafka: xyzzy)"),
        ({"ports": 1}, "did you mean port?"),
        ({"log_dirs": "/x"}, "log_dirs: a broker in a test has data= instead"),
        ({"listeners": "PLAINTEXT://:1"}, "listeners: a broker in a test has host= and port= instead"),
        ({"kafka_version": 2.2}, "kafka_version=2.2: a release is text"),
    ],
)
def test_names_that_nobody_knows_are_refused(keywords: dict[str, Any], complaint: str) -> None:
    with pytest.raises(TypeError) as caught:
        Broker(**keywords)
    assert complaint in str(caught.value)


def test_names_of_kafkas_may_have_dots() -> None:
    config: dict[str, Any] = {"num.partitions": 3}
    with Broker(**config) as broker:
        assert broker.call(lambda one: one.config.num_partitions) == 3


def test_a_cancelled_future_is_told_at_once(odradek_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.testing.broker._START_TIMEOUT_S", 5)

    def cancelled(broker: Any) -> Any:
        future = broker.loop.create_future()
        future.cancel()
        return future

    with pytest.raises(asyncio.CancelledError):
        odradek_broker.call(cancelled)
