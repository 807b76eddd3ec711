"""kafka-python's transactions."""

from __future__ import annotations

import time
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from role import PARTITIONS, TRANSACTION_MS, Record, main


class Producer:
    """A transactional producer."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self.own = KafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=TRANSACTION_MS,
        )
        self.own.init_transactions()
        self.begin = self.own.begin_transaction
        self.commit = self.own.commit_transaction
        self.abort = self.own.abort_transaction

    def send(self, topic: str, records: list[tuple[int, bytes | None, bytes]]) -> None:
        sent = [self.own.send(topic, value, key, partition=partition) for partition, key, value in records]
        self.own.flush()
        for one in sent:
            one.get(60)

    def close(self) -> None:
        self.own.close(timeout=1)


class Consumer:
    """A member of a group, which the transactions' offsets name."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.topic = topic
        self.own = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            session_timeout_ms=6_000,
            heartbeat_interval_ms=500,
        )
        # Known beforehand: 3.0.12 stands still now and then when it joins again while it learns of a topic.
        deadline = time.monotonic() + 60
        while not self.own.partitions_for_topic(topic):
            assert time.monotonic() < deadline, f"nobody knows of {topic}"
            time.sleep(0.02)

    def poll(self) -> dict[int, list[Record]]:
        return {
            at.partition: [Record(one.partition, one.offset, one.key, one.value) for one in records]
            for at, records in self.own.poll(100).items()
        }

    def send_offsets(self, producer: Any, partition: int, offset: int) -> None:
        offsets = {TopicPartition(self.topic, partition): OffsetAndMetadata(offset, "", -1)}
        producer.own.send_offsets_to_transaction(offsets, self.own.group_metadata())

    def rewind(self) -> None:
        for at in [TopicPartition(self.topic, index) for index in range(PARTITIONS)]:
            if at in (self.own.assignment() or ()):
                self.own.seek(at, self.own.committed(at) or 0)

    def close(self) -> None:
        self.own.close()


main(Producer, Consumer)
