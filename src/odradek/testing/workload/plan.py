"""The plan of a round."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

IN, OUT, BACK = "in", "out", "back"
COPIES = {IN: OUT, OUT: BACK, BACK: None}
"""Where the copiers put what they read. They read what they write, too, so that transactions depend on each
other in a circle as soon as one sees what is not committed.
"""

SETTINGS = {
    # Small segments: they roll, are cleaned and recovered all the time.
    "log.segment.bytes": "60000",
    "log.index.interval.bytes": "700",
    "log.retention.ms": "-1",
    "replica.high.watermark.checkpoint.interval.ms": "200",
    "log.cleaner.min.cleanable.ratio": "0.1",
    "log.cleaner.backoff.ms": "500",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.segment.bytes": "60000",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.segment.bytes": "60000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.two.phase.commit.enable": "true",
}
"""The broker's configs."""


@dataclass(frozen=True)
class Plan:
    """One round.

    Attributes:
        seed: what clients do follows from it.
        transactions: how many have to end, one way or another.
        writers, copiers, members: how many transactional producers, members that copy, members that read.
            Some of the first two live in a process that is killed: `hosted` of each.
        crashes: the share of transactions in which the client is killed.
        broker_kills, host_kills: how often the broker and that process are killed.
        partitions: of each topic.
        replicas: of each partition.
        two_phase: let some producers prepare their transactions (KIP-939).
        settings: configs of the broker, besides `SETTINGS`.
    """

    seed: int
    transactions: int = 2_000
    writers: int = 5
    copiers: int = 2
    members: int = 2
    hosted: int = 1
    crashes: float = 0.06
    broker_kills: int = 8
    host_kills: int = 5
    partitions: Mapping[str, int] = field(default_factory=lambda: {IN: 3, OUT: 2, BACK: 2})
    replicas: int = 1
    two_phase: bool = True
    settings: Mapping[str, str] = field(default_factory=dict)

    def names(self) -> list[str]:
        """All partitions, as histories call them."""
        return [partition_name(topic, n) for topic, count in self.partitions.items() for n in range(count)]

    def to_json(self) -> str:
        """For `from_json`, in another process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Return the plan that `to_json` has written."""
        return cls(**json.loads(text))


def partition_name(topic: str, partition: int) -> str:
    """A partition's name in a history."""
    return f"{topic}-{partition}"


def place_of(name: str) -> tuple[str, int]:
    """Topic and number of a partition."""
    topic, _, number = name.rpartition("-")
    return topic, int(number)
