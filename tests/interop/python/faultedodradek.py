"""odradek's own clients while faults are set."""

from __future__ import annotations

from functools import partial
from typing import Any

import faulted
from faulted import BATCH_BYTES, CLIENT_ID, DELIVERY_MS, HEARTBEAT_MS, REQUEST_MS, SESSION_MS

import odradek

BASE: dict[str, Any] = {
    "client_id": CLIENT_ID,
    "request_timeout_ms": REQUEST_MS,
    "default_api_timeout_ms": DELIVERY_MS,
}
CLOSE_S = 2


class Producer:
    """A producer."""

    def __init__(self, **config: Any) -> None:
        self.own = odradek.Producer(**BASE, **config)
        self.init = self.own.init_transactions
        self.begin = self.own.begin_transaction
        self.commit = self.own.commit_transaction

    def send(self, topic: str, value: bytes) -> faulted.Wait:
        return partial(self.own.send(topic, value, partition=0).result)

    def close(self) -> None:
        self.own.close(CLOSE_S)


class Consumer:
    """A member of a group."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.own = odradek.Consumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            **BASE,
        )
        self.commit = self.own.commit
        self.at = odradek.TopicPartition(topic, 0)

    def poll(self) -> tuple[list[bytes], list[str]]:
        return [record.value or b"" for record in self.own.poll(100)], []

    def committed(self) -> int:
        offset = self.own.committed([self.at])[self.at]
        return 0 if offset is None else offset.offset

    def close(self) -> None:
        self.own.close(CLOSE_S * 1000)


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
        with odradek.Admin(bootstrap_servers=bootstrap, **BASE) as admin:
            admin.create_topics([odradek.NewTopic(topic, num_partitions=1)])


if __name__ == "__main__":
    faulted.main(Library())
