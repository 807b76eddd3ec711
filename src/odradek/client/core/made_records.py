"""The records that interceptors make of one, while `getone` gives them out one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from odradek.client.core.subscription_state import Position
from odradek.client.types import ConsumerRecord, TopicPartition


@dataclass(frozen=True, slots=True)
class _Made:
    """The records left of one, which was fetched for this turn of the position."""

    position: Position
    turn: int
    records: Sequence[ConsumerRecord[Any, Any]]


class MadeRecords:
    """The records that wait, by partition. A seek, or the loss of the partition, drops them.

    Args:
        position_of: the position in a partition that is assigned; None in one that is not.
    """

    def __init__(self, position_of: Callable[[TopicPartition], Position | None]) -> None:
        self._position_of = position_of
        self._made: dict[TopicPartition, _Made] = {}

    @property
    def takeable(self) -> bool:
        """Return whether something waits that may be given to the application."""
        return next(self._takeable(), None) is not None

    def _takeable(self) -> Iterator[_Made]:
        for tp, made in list(self._made.items()):
            position = made.position
            if self._position_of(tp) is not position or position.turn != made.turn:
                del self._made[tp]
            elif position.fetchable:
                yield made

    def keep(self, position: Position, turn: int, records: Sequence[ConsumerRecord[Any, Any]]) -> None:
        """Let the rest of what was made of one record wait.

        Args:
            position: in the record's partition, of which nothing else waits.
            turn: the position's when the record was taken.
            records: none: there is no rest.
        """
        if records:
            self._made[position.tp] = _Made(position, turn, records)

    def take(self, limit: int) -> list[ConsumerRecord[Any, Any]]:
        """Return up to `limit` of the records that wait; those of paused partitions wait on."""
        out: list[ConsumerRecord[Any, Any]] = []
        for made in self._takeable():
            taken = made.records[: limit - len(out)]
            del self._made[made.position.tp]
            self.keep(made.position, made.turn, made.records[len(taken) :])
            out += taken
            if len(out) == limit:
                break
        return out

    def clear(self) -> None:
        """Drop all that waits."""
        self._made.clear()
