"""What clients that are not ours do, as a test sees it from inside the broker."""

from __future__ import annotations

import asyncio
from contextlib import closing

import pytest

from odradek.testing import Broker
from waiting import WITHIN_S, gathered, within

from .threads import meanwhile

VALUES = [b"0", b"1", b"2"]


@pytest.fixture
def broker(odradek_broker: Broker) -> Broker:
    odradek_broker.seed("orders", VALUES, partition=0, partitions=2)
    odradek_broker.record_requests()
    return odradek_broker


def check(broker: Broker, client_id: str, sent: bytes) -> None:
    """Judge what a client has done: joined as a group of one, read all, committed it, and sent an answer."""
    broker.assert_records("answers", [sent])
    group = broker.groups()["billing"]
    assert group.offsets[("orders", 0)].lag == 0
    assert broker.requests("JoinGroup", client_id=client_id, group="billing")
    produce = broker.requests("Produce", topic="answers")[-1]
    assert produce.body["acks"] in (1, -1)


def test_confluent_kafka(broker: Broker) -> None:
    pytest.importorskip("confluent_kafka")
    from confluent_kafka import Consumer, Producer, TopicPartition

    config = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0, "client.id": "theirs"}
    consumer = Consumer(
        {**config, "group.id": "billing", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe(["orders"])
    with meanwhile(lambda: consumer.consume(1, 0.05) and None):
        group = broker.wait_for_group("billing", members=1, timeout_s=WITHIN_S)
        assert group.members[0].client_id == "theirs"
        assert group.members[0].assignment == (("orders", 0), ("orders", 1))
        broker.wait_for_request("Fetch", client_id="theirs", topic="orders", timeout_s=WITHIN_S)
    consumer.commit(offsets=[TopicPartition("orders", 0, 3)], asynchronous=False)
    consumer.close()
    producer = Producer(config)
    producer.produce("answers", b"confluent")
    assert producer.flush(WITHIN_S) == 0
    check(broker, "theirs", b"confluent")


@pytest.mark.filterwarnings("ignore:.*_text is deprecated:DeprecationWarning")
def test_kafka_python(broker: Broker) -> None:
    pytest.importorskip("kafka")
    from kafka import KafkaConsumer, KafkaProducer

    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers,
        group_id="billing",
        client_id="theirs",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    with closing(consumer):
        # Else it may join before it has heard of the topic, and then assigns itself nothing, for good.
        assert consumer.partitions_for_topic("orders") == {0, 1}
        consumer.subscribe(["orders"])
        gathered(
            lambda: [record.value for records in consumer.poll(100).values() for record in records],
            len(VALUES),
            "the records",
        )
        consumer.commit()
        broker.wait_for_commit("billing", "orders", offset=3, timeout_s=WITHIN_S)
        group = broker.wait_for_group("billing", members=1, timeout_s=WITHIN_S)
        assert group.members[0].client_id == "theirs"
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap_servers, acks="all")) as producer:
        producer.send("answers", b"kafka-python").get(WITHIN_S)
    check(broker, "theirs", b"kafka-python")


def test_aiokafka(broker: Broker) -> None:
    pytest.importorskip("aiokafka")
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async def scenario() -> None:
        async with AIOKafkaConsumer(
            "orders",
            bootstrap_servers=broker.bootstrap_servers,
            group_id="billing",
            client_id="theirs",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer:
            values = [(await consumer.getone()).value for _ in VALUES]
            assert values == VALUES
            await consumer.commit()
            await broker.aio.wait_for_commit("billing", "orders", offset=3, timeout_s=WITHIN_S)
            group = await broker.aio.wait_for_group("billing", members=1, timeout_s=WITHIN_S)
            assert group.members[0].assignment == (("orders", 0), ("orders", 1))
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            await producer.send_and_wait("answers", b"aiokafka")

    asyncio.run(within(scenario(), "the client"))
    check(broker, "theirs", b"aiokafka")
