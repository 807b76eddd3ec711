"""Programs that mypy reads and nobody runs: right ones, and wrong ones whose lines name their errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import assert_type

from odradek import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    Consumer,
    ConsumerRecord,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    RecordMetadata,
    SimpleConsumer,
    TopicPartition,
)
from odradek.client import RawReader, RawWriter, TransactionalWriter

SERVERS = "127.0.0.1:9092"


@dataclass
class Order:
    """A value of one's own."""

    number: int

    @staticmethod
    def parse(data: bytes) -> Order:
        """From its bytes."""
        return Order(int(data))

    def to_bytes(self) -> bytes:
        """The other way."""
        return str(self.number).encode()


class NumberDeserializer:
    """As Kafka's classes are."""

    def deserialize(self, topic: str, data: bytes) -> int:
        """See Kafka's `Deserializer`."""
        return int(data)


class NumberSerializer:
    """As Kafka's classes are."""

    def serialize(self, topic: str, data: int) -> bytes:
        """See Kafka's `Serializer`."""
        return str(data).encode()


def by_topic(topic: str, data: bytes) -> str:
    """A deserializer of two arguments."""
    return topic + data.decode()


# Right


def consumers(given: Mapping[str, object], more: Mapping[str, str]) -> None:
    """The types of what they give."""
    plain = Consumer("orders", group_id="g", bootstrap_servers=SERVERS, max_poll_records=10)
    assert_type(plain, Consumer[bytes, bytes])
    for record in plain:
        assert_type(record.value, bytes | None)
    typed = Consumer("orders", key_deserializer=bytes.decode, value_deserializer=Order.parse)
    assert_type(typed, Consumer[str, Order])
    assert_type(typed.poll(), list[ConsumerRecord[str, Order]])
    assert_type(typed.poll()[0].value, Order | None)
    assert_type(Consumer(value_deserializer=NumberDeserializer()), Consumer[bytes, int])
    assert_type(Consumer(value_deserializer=by_topic), Consumer[bytes, str])
    annotated: Consumer[str, Order] = Consumer(given, "orders")
    sees_bytes(Consumer(more, "orders", enable_auto_commit=False))
    Consumer(given, bootstrap_servers=[SERVERS, ("localhost", 9093)], security_protocol="SSL")
    reads_orders(annotated)
    Consumer(value_deserializer=lambda data: json.loads(data), partition_assignment_strategy=["range"])


def sees_bytes(consumer: Consumer) -> None:
    """Alone it stands for bytes."""
    assert_type(consumer.poll(), list[ConsumerRecord[bytes, bytes]])
    consumer.commit({TopicPartition("t", 0): 5})
    consumer.commit({("t", 0): OffsetAndMetadata(5)})
    consumer.seek(("t", 0), 5)
    consumer.pause(("t", 0), TopicPartition("t", 1))
    consumer.offsets_for_times({("t", 0): datetime.now()})
    consumer.poll_arrow(timestamp_unit="ms")


def reads_orders(consumer: Consumer[str, Order]) -> None:
    """It may be given to whoever reads objects: what a consumer gives is covariant."""
    reads_anything(consumer)


def reads_anything(consumer: Consumer[object, object]) -> None:
    """Keys and values of any type."""
    assert_type(consumer.poll()[0].key, object | None)


def producers(table: object) -> None:
    """The types of what they take."""
    plain = Producer(bootstrap_servers=SERVERS, acks="all", linger_ms=5, compression_type="lz4")
    plain.send("orders", b"value", key="text", headers={"source": b"docs"}, timestamp_ms=datetime.now())
    plain.send("orders", None, bytearray(b"key"), headers=[("a", "b"), ("c", None)])
    typed = Producer(key_serializer=str.encode, value_serializer=Order.to_bytes)
    assert_type(typed, Producer[str, Order])
    typed.send("orders", Order(5), "key")
    assert_type(typed.send("orders", Order(5)).result(), RecordMetadata)
    Producer(value_serializer=NumberSerializer()).send("numbers", 5)
    Producer(value_serializer=lambda value: json.dumps(value).encode()).send("numbers", {"a": [1]})
    Producer({"linger.ms": 5}, partitioner="roundrobin", interceptors=[table])


async def coroutines() -> None:
    """The same for coroutines."""
    async with AsyncConsumer("orders", group_id="g", value_deserializer=Order.parse) as consumer:
        assert_type(consumer, AsyncConsumer[bytes, Order])
        async for record in consumer:
            assert_type(record.value, Order | None)
        await consumer.commit({("t", 0): 5})
    async with AsyncProducer(value_serializer=Order.to_bytes, delivery_timeout_ms=5_000) as producer:
        await (await producer.send("orders", Order(5), b"key"))
        assert_type(await producer.send_and_wait("orders", Order(5), partition=0), RecordMetadata)
    async with AsyncAdmin(bootstrap_servers=SERVERS, retries=3) as admin:
        await admin.delete_records({("t", 0): 5})


def others() -> None:
    """The other clients."""
    with Admin(bootstrap_servers=SERVERS, request_timeout_ms=5_000) as admin:
        admin.create_topics([NewTopic("orders"), "others"])
        admin.incremental_alter_configs({("topic", "orders"): {"retention.ms": 5, "cleanup.policy": None}})
        admin.list_group_offsets("g", [("t", 0)])
    RawReader(SERVERS, {"isolation.level": "read_committed"}, fetch_max_bytes=1_000_000)
    RawWriter([SERVERS], compression_type="zstd", acks=-1)
    TransactionalWriter(SERVERS, "writer-1", transaction_timeout_ms=5_000)
    SimpleConsumer("localhost", check_crcs=False)


# Wrong


def configs() -> None:
    """Names and types of configs."""
    Producer(linger_mss=5)  # wrong: call-arg
    Producer(linger_ms="5")  # wrong: arg-type
    Producer(acks="some")  # wrong: arg-type
    Producer(compression_type="lz5")  # wrong: arg-type
    Producer(group_id="g")  # wrong: call-arg
    Producer(partitioner=5)  # wrong: arg-type
    Producer(sasl_oauth_token_provider="secret")  # wrong: arg-type
    Consumer("orders", group="g")  # wrong: call-arg
    Consumer("orders", group_id=5)  # wrong: arg-type
    Consumer("orders", auto_offset_reset="smallest")  # wrong: arg-type
    Consumer(["orders"])  # wrong: arg-type
    Consumer("orders", linger_ms=5)  # wrong: call-arg
    AsyncProducer(linger_mss=5)  # wrong: call-arg
    AsyncConsumer(max_poll_record=5)  # wrong: call-arg
    Admin(request_timeout="5")  # wrong: call-arg
    AsyncAdmin(retries="5")  # wrong: arg-type
    RawReader(SERVERS, fetch_max_byte=5)  # wrong: call-arg
    RawWriter(SERVERS, batch_size="large")  # wrong: arg-type
    TransactionalWriter(SERVERS, "writer-1", batch_sise=5)  # wrong: call-arg
    SimpleConsumer("localhost", check_crc=False)  # wrong: call-arg


def keys_and_values(consumer: Consumer, orders: Consumer[str, Order]) -> None:
    """Types of keys and values."""
    for record in consumer:
        record.value.decode()  # wrong: union-attr
    orders.poll()[0].key + 5  # wrong: operator
    sees_bytes(orders)  # wrong: arg-type
    Consumer(value_deserializer=5)  # wrong: arg-type
    Consumer(value_deserializer=NumberSerializer())  # wrong: arg-type
    Producer().send("orders", 5)  # wrong: arg-type
    Producer().send("orders", {"a": 5})  # wrong: arg-type
    Producer(value_serializer=Order.to_bytes).send("orders", b"value")  # wrong: arg-type
    Producer(value_serializer=NumberDeserializer())  # wrong: arg-type
    Producer().send("orders", b"value", headers=["source"])  # wrong: list-item
    Producer().send("orders", b"value", partition="0")  # wrong: arg-type


def calls(consumer: Consumer, admin: Admin) -> None:
    """Types of arguments."""
    consumer.commit({"t": 5})  # wrong: arg-type
    consumer.poll_arrow(timestamp_units="ms")  # wrong: call-arg
    consumer.seek("t", 5)  # wrong: arg-type
    admin.delete_records([("t", 0)])  # wrong: arg-type
    admin.list_group_offsets("g", [0])  # wrong: list-item
