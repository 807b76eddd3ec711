"""Transactions of librdkafka, by confluent-kafka."""

from __future__ import annotations

from typing import Any

import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, KafkaException, TopicPartition
from role import TRANSACTION_MS, Record, main


class Producer:
    """A transactional producer."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self.own = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": TRANSACTION_MS,
                # 2.16.0 does not send offsets again once it has bootstrapped anew: docs/compatibility.md.
                "metadata.recovery.strategy": "none",
            }
        )
        self.own.init_transactions()
        self.begin = self.own.begin_transaction
        self.commit = self.own.commit_transaction
        self.abort = self.own.abort_transaction

    def send(self, topic: str, records: list[tuple[int, bytes | None, bytes]]) -> None:
        failed: list[Any] = []

        def delivered(error: Any, _: object) -> None:
            if error is not None:
                failed.append(error)

        for partition, key, value in records:
            self.own.produce(topic, value, key, partition, on_delivery=delivered)
        self.own.flush()
        if failed:
            raise KafkaException(failed[0])

    def close(self) -> None:
        self.own.flush(1)


class Consumer:
    """A member of a group, which the transactions' offsets name."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.topic = topic
        self.own = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 500,
            }
        )
        self.own.subscribe([topic])

    def poll(self) -> dict[int, list[Record]]:
        found: dict[int, list[Record]] = {}
        for one in self.own.consume(100, 0.1):
            if one.error() is None:
                record = Record(one.partition(), one.offset(), one.key(), one.value())
                found.setdefault(record.partition, []).append(record)
        return found

    def send_offsets(self, producer: Any, partition: int, offset: int) -> None:
        offsets = [TopicPartition(self.topic, partition, offset)]
        producer.own.send_offsets_to_transaction(offsets, self.own.consumer_group_metadata())

    def rewind(self) -> None:
        for at in self.own.committed(self.own.assignment(), 60):
            at.offset = at.offset if at.offset >= 0 else OFFSET_BEGINNING
            self.own.seek(at)

    def close(self) -> None:
        self.own.close()


main(Producer, Consumer)
