"""The bounds on remembered producer ids: in one partition, and in all partitions of a broker.

Kafka remembers each for `producer.id.expiration.ms`, however many there are. Here the oldest idle ones make
room: those whose last batch or marker is the furthest behind in the partition's log. A producer with an open
transaction is never forgotten, nor one of which a transaction coordinator is being asked. A forgotten
producer that goes on is one that is not known: it may begin at any sequence (KIP-360).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sized
from typing import Protocol

logger = logging.getLogger(__name__)

PER_PARTITION = 10_000
IN_ALL = 250_000


class Bounded(Protocol):
    """The `ProducerState` of one partition, whose `bounds` are told of every new id.

    Attributes:
        entries: by producer id.
    """

    @property
    def entries(self) -> Sized: ...

    def evict(self, count: int, but: int) -> int:
        """Forget the `count` oldest idle producers, but not `but`; how many there were."""
        ...


class ProducerBounds:
    """The bounds of some partitions.

    Attributes:
        per_partition: `odradek.producer.ids.per.partition.max`.
        in_all: `odradek.producer.ids.max`. It may be exceeded by a thousandth, after which it is looked at.
        evicted: how many ids had to make room.
    """

    def __init__(
        self,
        states: Callable[[], Iterable[Bounded]],
        per_partition: int = PER_PARTITION,
        in_all: int = IN_ALL,
    ) -> None:
        """
        Args:
            states: gives the partitions' states.
            per_partition, in_all: see the class.
        """
        self.per_partition = per_partition
        self.in_all = in_all
        self.evicted = 0
        self._states = states
        # Ids seen since all were counted last, which takes a walk through all partitions.
        self._new = 0

    @property
    def count(self) -> int:
        """Return how many ids are remembered."""
        return sum(len(state.entries) for state in self._states())

    def joined(self, state: Bounded, producer_id: int) -> None:
        """A producer id has been seen for the first time in a partition; it is not to be evicted now."""
        over = len(state.entries) - self.per_partition
        if over > 0:
            # Some more than need be: looking for the oldest is work.
            self._evict(state, over + self.per_partition // 10, producer_id)
        self._new += 1
        if self._new > self.in_all // 1_000:
            self._new = 0
            self._look_at_all(producer_id)

    def _look_at_all(self, producer_id: int) -> None:
        over = self.count - self.in_all
        if over <= 0:
            return
        for state in sorted(self._states(), key=lambda state: -len(state.entries)):
            over -= self._evict(state, max(over, len(state.entries) // 10), producer_id)
            if over <= 0:
                return

    def _evict(self, state: Bounded, count: int, but: int) -> int:
        evicted = state.evict(count, but)
        if evicted and not self.evicted:
            logger.warning(
                "more producer ids than are remembered (%d in a partition, %d in all): "
                "the oldest idle ones are forgotten",
                self.per_partition,
                self.in_all,
            )
        self.evicted += evicted
        return evicted
