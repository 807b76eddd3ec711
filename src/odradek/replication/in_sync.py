"""The in-sync replicas (ISR) of a partition as its leader counts them.

    committed ──expanding(broker)──► pending ──the controller's answer──► committed
        └──────shrinking(brokers)──►   │
        ▲                              │ refused, and surely not written
        └──────────────────────────────┘

A change of the ISR is the controller's to write (KIP-497). Until the leader knows what became of its wish,
either set may stand in the metadata, from which the next leader is elected. Hence:

- `isr`, what was last written, is what min.insync.replicas is compared with;
- `maximal`, the larger of both sets, is what the high watermark waits for: a member that is to come in counts
  already, one that is to go counts still;
- nothing more is wished for before the wish under way is settled.

Kafka: `CommittedPartitionState`, `PendingExpandIsr`, `PendingShrinkIsr` in `Partition.scala`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple


class IsrCounts:
    """The number of changes of ISRs by their leaders' wishes: Kafka's `IsrShrinksPerSec` and the like.

    Attributes:
        expands, shrinks: wishes that were granted.
        failed: wishes that were refused.
    """

    __slots__ = ("expands", "failed", "shrinks")

    def __init__(self) -> None:
        self.expands = 0
        self.shrinks = 0
        self.failed = 0

    def note(self, more: int) -> None:
        """A wish was granted, by which the ISR has so many members more (or less, below 0)."""
        self.expands += more > 0
        self.shrinks += more < 0


class IsrState(NamedTuple):
    """The ISR, and the change of it that is under way.

    Attributes:
        isr: broker ids as the metadata last said.
        wanted: as the controller has been asked to make it; None while nothing is under way.
        maximal: whose log ends the high watermark waits for; has all of `isr` and all of `wanted`.
    """

    isr: tuple[int, ...]
    wanted: tuple[int, ...] | None
    maximal: tuple[int, ...]

    def expanding(self, broker_id: int) -> IsrState:
        """The state while the controller is asked to take a replica in."""
        assert self.wanted is None, "one change at a time"
        wanted_isr = (*self.isr, broker_id)
        return IsrState(self.isr, wanted_isr, wanted_isr)

    def shrinking(self, leaving: Collection[int]) -> IsrState:
        """The state while the controller is asked to leave replicas out."""
        assert self.wanted is None, "one change at a time"
        return IsrState(self.isr, tuple(member for member in self.isr if member not in leaving), self.isr)


def committed(isr: tuple[int, ...]) -> IsrState:
    """The state that the metadata says, with nothing under way."""
    return IsrState(isr, None, isr)
