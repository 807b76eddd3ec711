"""librdkafka, by confluent-kafka, while faults are set."""

from __future__ import annotations

import time
from typing import Any

import confluent_kafka
import faulted
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from faulted import CLIENT_ID, DELIVERY_MS, HEARTBEAT_MS, REQUEST_MS, SESSION_MS

BASE: dict[str, Any] = {"client.id": CLIENT_ID, "log_level": 0, "socket.timeout.ms": REQUEST_MS}


class Producer:
    """A producer."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.own = confluent_kafka.Producer(config)
        self.begin = self.own.begin_transaction

    def init(self) -> None:
        self.own.init_transactions(DELIVERY_MS / 1000)

    def commit(self) -> None:
        self.own.commit_transaction(DELIVERY_MS / 1000)

    def send(self, topic: str, value: bytes) -> faulted.Wait:
        outcome: list[Any] = []
        self.own.produce(topic, value, partition=0, on_delivery=lambda error, _: outcome.append(error))

        def wait() -> None:
            deadline = time.monotonic() + 2 * DELIVERY_MS / 1000
            while not outcome and time.monotonic() < deadline:
                self.own.poll(0.05)
            if not outcome:
                raise faulted.HungError
            if outcome[0] is not None:
                raise KafkaException(outcome[0])

        return wait

    def close(self) -> None:
        self.own.purge()
        self.own.flush(1)


class Consumer:
    """A member of a group."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.own = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": HEARTBEAT_MS,
                **BASE,
            }
        )
        self.topic = topic
        self.own.subscribe([topic])
        self.close = self.own.close

    def poll(self) -> tuple[list[bytes], list[str]]:
        values, told = [], []
        for message in self.own.consume(100, 0.1):
            error = message.error()
            if error is None:
                values.append(message.value() or b"")
            else:
                told.append(error.name())
        return values, told

    def commit(self) -> None:
        try:
            self.own.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._NO_OFFSET:
                raise

    def committed(self) -> int:
        (at,) = self.own.committed([TopicPartition(self.topic, 0)], DELIVERY_MS / 1000)
        return at.offset


class Library:
    """See `faulted.Library`."""

    consumer = Consumer

    def producer(self, bootstrap: str, *, idempotent: bool, transactional_id: str | None) -> Producer:
        config = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": idempotent,
            "acks": "all",
            "batch.num.messages": 1,
            "message.timeout.ms": DELIVERY_MS,
            **BASE,
        }
        return Producer(
            config if transactional_id is None else {**config, "transactional.id": transactional_id}
        )

    def create(self, bootstrap: str, topic: str) -> None:
        admin = AdminClient({"bootstrap.servers": bootstrap, **BASE})
        made = admin.create_topics([NewTopic(topic, 1, 1)], request_timeout=DELIVERY_MS / 1000)
        made[topic].result(2 * DELIVERY_MS / 1000)

    def name(self, error: Exception) -> str:
        own = error.args[0] if error.args else None
        return own.name() if isinstance(own, KafkaError) else faulted.class_name(error)


if __name__ == "__main__":
    faulted.main(Library())
