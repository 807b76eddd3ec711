"""Producer ids, from blocks that the controller claims in the metadata store.

A block is written to `/latest_producer_id_block` before any of its ids is given out; what is left of it when
the broker stops is never used. So no id is ever given twice.
"""

from __future__ import annotations

from typing import Protocol


class ProducerIdBlock(Protocol):
    """The ids from `first` to `last`, both included."""

    @property
    def first(self) -> int:
        """The first id."""
        ...

    @property
    def last(self) -> int:
        """The last id."""
        ...


class Allocator(Protocol):
    """Where blocks come from: the controller."""

    def allocate_producer_ids(self) -> ProducerIdBlock:
        """The next block; durably claimed when this returns."""
        ...


class ProducerIds:
    """Gives out producer ids, each once for all time."""

    def __init__(self, allocator: Allocator) -> None:
        self._allocator = allocator
        self._next = 0
        self._last = -1

    def next(self) -> int:
        """The next id.

        Raises:
            KafkaError: no block could be claimed.
        """
        if self._next > self._last:
            block = self._allocator.allocate_producer_ids()
            self._next, self._last = block.first, block.last
        producer_id = self._next
        self._next += 1
        return producer_id
