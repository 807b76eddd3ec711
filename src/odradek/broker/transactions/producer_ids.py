"""Producer ids, from blocks that the controller claims in the metadata store.

A block is written to `/latest_producer_id_block` before any of its ids is given out; what is left of it when
the broker stops is never used. So no id is ever given twice.
"""

from __future__ import annotations

from typing import Protocol

from odradek.cluster.nodes import ProducerIdBlock


class Allocator(Protocol):
    """The source of blocks: the controller."""

    def allocate_producer_ids(self) -> ProducerIdBlock:
        """The next block; durably claimed when this returns."""
        ...


class ProducerIds:
    """Gives out producer ids, each once for all time."""

    def __init__(self, allocator: Allocator) -> None:
        self._allocator = allocator
        self._next = 0
        self._last = -1

    @property
    def is_exhausted(self) -> bool:
        """Return whether a block has to be claimed before the next id."""
        return self._next > self._last

    def claim(self) -> ProducerIdBlock:
        """A block for `use`; waits for the disk, and may be called in another thread.

        Raises:
            KafkaError: no block could be claimed.
        """
        return self._allocator.allocate_producer_ids()

    def use(self, block: ProducerIdBlock) -> None:
        """Go on with a block that was claimed, if there is need of one by now."""
        if self.is_exhausted:
            self._next, self._last = block.first, block.last

    def next(self) -> int:
        """The next id.

        Raises:
            KafkaError: no block could be claimed.
        """
        if self.is_exhausted:
            self.use(self.claim())
        producer_id = self._next
        self._next += 1
        return producer_id
