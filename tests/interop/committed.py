"""What is committed of a topic so far, as a reader of ours sees it that taps do not count."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from interop.tap import OURS
from odradek import Consumer, ConsumerRecord


class Committed:
    """Reads a topic from its beginning, read_committed.

    Attributes:
        records: what it has seen, in order within each partition.
    """

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.records: list[ConsumerRecord] = []

    def count(self) -> int:
        """Look for more; return the number of records."""
        self.records += self._consumer.poll(timeout_ms=100)
        return len(self.records)

    @property
    def values(self) -> list[str]:
        """The values of `records`."""
        return [(record.value or b"").decode() for record in self.records]


@contextmanager
def committed(bootstrap: str, topic: str, partitions: int) -> Iterator[Committed]:
    """What is committed of a topic with that many partitions, which is there."""
    with Consumer(bootstrap_servers=bootstrap, client_id=OURS, isolation_level="read_committed") as consumer:
        consumer.assign([(topic, partition) for partition in range(partitions)])
        consumer.seek_to_beginning()
        yield Committed(consumer)
