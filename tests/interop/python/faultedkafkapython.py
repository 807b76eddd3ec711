"""kafka-python while faults are set."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import faulted
import kafka
from faulted import BATCH_BYTES, CLIENT_ID, DELIVERY_MS, HEARTBEAT_MS, REQUEST_MS, SESSION_MS
from kafka.admin import KafkaAdminClient

BASE: dict[str, Any] = {"client_id": CLIENT_ID, "request_timeout_ms": REQUEST_MS}
CLOSE_S = 2


class Producer:
    """A producer."""

    def __init__(self, **config: Any) -> None:
        self.own = kafka.KafkaProducer(**BASE, **config)
        self.init = self.own.init_transactions
        self.begin = self.own.begin_transaction
        self.commit = self.own.commit_transaction

    def send(self, topic: str, value: bytes) -> faulted.Wait:
        # Without a limit its future waits for good; `delivery_timeout_ms` ends it before.
        return partial(self.own.send(topic, value, partition=0).get, 2 * DELIVERY_MS / 1000)

    def close(self) -> None:
        self.own.close(CLOSE_S)


class Consumer:
    """A member of a group."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.own = kafka.KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            **BASE,
        )
        self.commit = partial(self.own.commit, timeout_ms=DELIVERY_MS)
        self.at = kafka.TopicPartition(topic, 0)

    def poll(self) -> tuple[list[bytes], list[str]]:
        polled = self.own.poll(100)
        return [record.value for records in polled.values() for record in records], []

    def committed(self) -> int:
        return self.own.committed(self.at, timeout_ms=DELIVERY_MS) or 0

    def close(self) -> None:
        self.own.close(timeout_ms=CLOSE_S * 1000)


class Library:
    """See `faulted.Library`."""

    consumer = Consumer
    name = staticmethod(faulted.class_name)

    def producer(self, bootstrap: str, *, idempotent: bool, transactional_id: str | None) -> Producer:
        return Producer(
            bootstrap_servers=bootstrap,
            enable_idempotence=idempotent,
            transactional_id=transactional_id,
            acks="all",
            batch_size=BATCH_BYTES,
            delivery_timeout_ms=DELIVERY_MS,
            max_block_ms=DELIVERY_MS,
        )

    def create(self, bootstrap: str, topic: str) -> None:
        admin = KafkaAdminClient(bootstrap_servers=bootstrap, **BASE)
        try:
            admin.create_topics(
                {topic: {"num_partitions": 1, "replication_factor": 1}}, timeout_ms=DELIVERY_MS
            )
        finally:
            admin.close()


if __name__ == "__main__":
    logging.disable()
    faulted.main(Library())
