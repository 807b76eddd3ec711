"""Partitioners: the partition that a record without one goes to.

A partitioner is any callable `(topic, key, value, partitions, available) -> int | None` (bytes; partition
numbers ascending; `available` those with a leader). None stands for the sticky partition of
`StickyPartitions`. Without a partitioner the built-in rule holds: the murmur2 hash of the key, or for records
without a key the sticky partition (KIP-480, KIP-794). What librdkafka calls random is sticky there, too
(`sticky.partitioning.linger.ms`).
"""

from __future__ import annotations

import bisect
import itertools
import random
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from odradek.client.core.kernel import Sticky
from odradek.client.errors import ConfigError
from odradek.records.partitioner import murmur2


class Partitioner(Protocol):
    """A function that can be given as `partitioner`."""

    def __call__(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partitions: Sequence[int],
        available: Sequence[int],
    ) -> int | None:
        """Choose among `partitions`; None: the producer's sticky partition."""
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


class HashPartitioner:
    """The hash of the key, modulo the number of partitions: librdkafka's partitioners but `murmur2_random`.

    Args:
        hashed: of a key's bytes, not negative.
        without_key: where records without a key, or with an empty one, go: True: a hash's partition as well;
            False: the sticky partition.
    """

    def __init__(self, hashed: Callable[[bytes], int], *, without_key: bool) -> None:
        self._hashed = hashed
        self._without_key = without_key

    def __call__(
        self,
        topic: str,  # noqa: ARG002
        key: bytes | None,
        value: bytes | None,  # noqa: ARG002
        partitions: Sequence[int],
        available: Sequence[int],  # noqa: ARG002
    ) -> int | None:
        """See `Partitioner`."""
        if not key and not self._without_key:
            return None
        return partitions[self._hashed(key or b"") % len(partitions)]


def _fnv1a(key: bytes) -> int:
    """Return the FNV-1a hash as librdkafka and Sarama have it: the absolute value of 32 bits with a sign."""
    hashed = 0x811C9DC5
    for byte in key:
        hashed = ((hashed ^ byte) * 0x01000193) & 0xFFFF_FFFF
    return hashed if hashed < 0x8000_0000 else 0x1_0000_0000 - hashed


def _murmur2(key: bytes) -> int:
    return murmur2(key) & 0x7FFF_FFFF


_BY_NAME: dict[str, Callable[[], Partitioner] | None] = {
    "consistent": partial(HashPartitioner, zlib.crc32, without_key=True),
    "consistent_random": partial(HashPartitioner, zlib.crc32, without_key=False),
    "murmur2": partial(HashPartitioner, _murmur2, without_key=True),
    "murmur2_random": None,
    "fnv1a": partial(HashPartitioner, _fnv1a, without_key=True),
    "fnv1a_random": partial(HashPartitioner, _fnv1a, without_key=False),
    "org.apache.kafka.clients.producer.RoundRobinPartitioner": RoundRobinPartitioner,
    "org.apache.kafka.clients.producer.internals.DefaultPartitioner": None,
    "org.apache.kafka.clients.producer.UniformStickyPartitioner": None,
    "roundrobin": RoundRobinPartitioner,
    "default": None,
}


def resolve_partitioner(value: Any) -> Partitioner | None:
    """A config value: None, a callable, or a name ('roundrobin', Kafka's class name, or librdkafka's name).

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

    The next one is drawn at random, with adaptive partitioning the more likely the shorter its queue, and
    only where the leader takes records.

    Args:
        batch_size: bytes after which the partition changes.
        adaptive: whether queue lengths and leaders count.
        takes_records: (topic, partition) → whether its leader does; see `NodeLatencyStats`.
        rng: where the draw comes from.
    """

    def __init__(
        self,
        batch_size: int,
        adaptive: bool,
        rng: random.Random | None = None,
        takes_records: Callable[[str, int], bool] | None = None,
    ) -> None:
        self._takes_records = takes_records
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
        if self._takes_records is not None:
            choice = [number for number in choice if self._takes_records(topic, number)] or choice
        lengths = [queue_length(topic, partition) for partition in choice]
        ceiling = max(lengths) + 1
        cumulative = list(itertools.accumulate(ceiling - length for length in lengths))
        return choice[bisect.bisect_right(cumulative, self._rng.randrange(cumulative[-1]))]
