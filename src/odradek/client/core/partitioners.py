"""Partitioners: the partition that a record without one goes to.

A partitioner is any callable `(topic, key, value, partitions, available) -> int` (bytes; partition numbers
ascending; `available` those with a leader). Without one, the built-in rule: the murmur2 hash of the key, or
for records without a key the sticky partition of `StickyPartitions` (KIP-480, KIP-794).
"""

from __future__ import annotations

import bisect
import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from odradek.client.core.kernel import Sticky
from odradek.client.errors import ConfigError


class Partitioner(Protocol):
    """A function that can be given as `partitioner`."""

    def __call__(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partitions: Sequence[int],
        available: Sequence[int],
    ) -> int:
        """Choose among `partitions`."""
        ...


class RoundRobinPartitioner:
    """Each record to the next available partition, keys ignored."""

    def __init__(self) -> None:
        self._counters: dict[str, itertools.count[int]] = {}

    def __call__(
        self,
        topic: str,
        key: bytes | None,  # noqa: ARG002
        value: bytes | None,  # noqa: ARG002
        partitions: Sequence[int],
        available: Sequence[int],
    ) -> int:
        """See `Partitioner`."""
        turn = next(self._counters.setdefault(topic, itertools.count()))
        choice = available or partitions
        return choice[turn % len(choice)]


_BY_NAME: dict[str, Callable[[], Partitioner] | None] = {
    "org.apache.kafka.clients.producer.RoundRobinPartitioner": RoundRobinPartitioner,
    "org.apache.kafka.clients.producer.internals.DefaultPartitioner": None,
    "org.apache.kafka.clients.producer.UniformStickyPartitioner": None,
    "roundrobin": RoundRobinPartitioner,
    "default": None,
}


def resolve_partitioner(value: Any) -> Partitioner | None:
    """A config value: None, a callable, or a name ('roundrobin', or Kafka's class name).

    Raises:
        ConfigError: it is something else.
    """
    if value is None or (callable(value) and not isinstance(value, type)):
        return value
    if isinstance(value, type):
        return value()  # type: ignore[no-any-return]
    if value in _BY_NAME:
        factory = _BY_NAME[value]
        return factory() if factory is not None else None
    raise ConfigError(f"partitioner.class={value!r}: not a callable and not one of {', '.join(_BY_NAME)}")


class StickyPartitions:
    """The partition that keyless records of each topic stick to until it got `batch_size` bytes.

    The next one is drawn at random, with adaptive partitioning the more likely the shorter its queue.

    Args:
        batch_size: bytes after which the partition changes.
        adaptive: whether queue lengths count.
        rng: where the draw comes from.
    """

    def __init__(self, batch_size: int, adaptive: bool, rng: random.Random | None = None) -> None:
        self._batch_size = max(1, batch_size)
        self._adaptive = adaptive
        self._rng = rng or random.Random()
        self._topics: dict[str, Sticky] = {}

    def of(self, topic: str) -> Sticky:
        """Return the state of a topic."""
        sticky = self._topics.get(topic)
        if sticky is None:
            sticky = self._topics[topic] = Sticky()
        return sticky

    def current(self, topic: str, choice: Sequence[int], queue_length: Callable[[str, int], int]) -> int:
        """The partition for the next record.

        Args:
            choice: the partitions that may be drawn.
            queue_length: (topic, partition) → how many batches wait for it.
        """
        sticky = self.of(topic)
        if sticky.partition < 0 or sticky.partition not in choice:
            sticky.partition = self._draw(topic, choice, queue_length)
            sticky.bytes = 0
        return sticky.partition

    def appended(self, topic: str, partition: int, size: int, batch_closed: bool) -> None:
        """`size` bytes went to the sticky partition.

        A change in the middle of a batch would make both batches smaller; so it waits until the batch closes,
        but not for more than twice the size.
        """
        sticky = self.of(topic)
        if sticky.partition != partition:
            return
        sticky.bytes = total = sticky.bytes + size
        if (total >= self._batch_size and batch_closed) or total >= 2 * self._batch_size:
            sticky.partition = -1

    def _draw(self, topic: str, choice: Sequence[int], queue_length: Callable[[str, int], int]) -> int:
        if len(choice) == 1 or not self._adaptive:
            return self._rng.choice(choice)
        lengths = [queue_length(topic, partition) for partition in choice]
        ceiling = max(lengths) + 1
        cumulative = list(itertools.accumulate(ceiling - length for length in lengths))
        return choice[bisect.bisect_right(cumulative, self._rng.randrange(cumulative[-1]))]
