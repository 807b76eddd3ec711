"""Producer ids, from blocks that the controller claims in the metadata store.

A block is written to `/latest_producer_id_block` before any of its ids is given out; what is left of it when
the broker stops is never used. So no id is ever given twice. That holds where the store was restored from an
older backup, too: a block begins above the largest id in this broker's logs (`known_ids`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from odradek.cluster.nodes import ProducerIdBlock


class Allocator(Protocol):
    """The source of blocks: the controller."""

    def allocate_producer_ids(self, above: int = -1) -> ProducerIdBlock:
        """The next block, above an id that has been given out; durably claimed when this returns."""
        ...


class ProducerIds:
    """Gives out producer ids, each once for all time. Used in the event loop.

    Attributes:
        known_ids: see `__init__`; there may come more.
    """

    def __init__(self, allocator: Allocator, *known_ids: Callable[[], int]) -> None:
        """
        Args:
            allocator: gives blocks.
            known_ids: each tells the largest id that somebody is known to have, -1 for none.
        """
        self._allocator = allocator
        self.known_ids = list(known_ids)
        self._next = 0
        self._last = -1

    @property
    def is_exhausted(self) -> bool:
        """Return whether a block has to be claimed before the next id."""
        return self._next > self._last

    def claiming(self) -> Callable[[], ProducerIdBlock]:
        """Return what claims a block for `use`: it waits for the disk, and may be called in another thread.

        A call ends with a `KafkaError` where no block could be claimed.
        """
        above = max((known_id() for known_id in self.known_ids), default=-1)
        return partial(self._allocator.allocate_producer_ids, above)

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
            self.use(self.claiming()())
        producer_id = self._next
        self._next += 1
        return producer_id
