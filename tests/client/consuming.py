"""Topics filled and read, for the tests of the consumers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from odradek.client import Consumer, ConsumerRebalanceListener, Producer, TopicPartition
from odradek.client.types import MetricName


def fill(servers: str, topic: str, count: int, partitions: int = 1, start: int = 0) -> None:
    """`count` records of the values 'start' …, round the partitions."""
    with Producer(bootstrap_servers=servers, linger_ms=5) as producer:
        for i in range(start, start + count):
            producer.send(topic, str(i), key=f"k{i}", partition=i % partitions)


def drain(consumer: Consumer, count: int, seconds: float = 60.0) -> list[Any]:
    """Poll until `count` records have come."""
    records: list[Any] = []
    deadline = time.monotonic() + seconds
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records after {seconds} s"
        records += consumer.poll(200)
    return records


def metric(metrics: Mapping[MetricName, float], name: str, **tags: str) -> float:
    """The value of the one metric of a name, and of these tags beside the client's id."""
    found = [
        value
        for key, value in metrics.items()
        if key.name == name and {tag: text for tag, text in key.tags if tag != "client-id"} == tags
    ]
    assert len(found) == 1, f"{name}: {len(found)} in {sorted(metrics)}"
    return found[0]


class Recorder(ConsumerRebalanceListener):
    """Writes down what it is told."""

    def __init__(self, consumer: Callable[[], Consumer] | None = None) -> None:
        self.events: list[tuple[str, tuple[TopicPartition, ...]]] = []
        self.threads: set[int] = set()
        self._consumer = consumer

    def _note(self, what: str, partitions: Any) -> None:
        self.events.append((what, tuple(partitions)))
        self.threads.add(threading.get_ident())

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._note("revoked", revoked)
        if self._consumer is not None:
            self._consumer().commit()  # a listener may call back

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._note("assigned", assigned)

    def on_partitions_lost(self, lost: Any) -> None:
        self._note("lost", lost)


def poll_all(*consumers: Consumer, timeout_ms: float = 50) -> list[Any]:
    """One poll of each."""
    return [record for consumer in consumers for record in consumer.poll(timeout_ms)]
