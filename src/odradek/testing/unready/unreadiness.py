"""Counts of the answers that still say of a thing that it is not ready, drawn by a seed. No I/O."""

from __future__ import annotations

import random
from collections import Counter
from threading import Lock

Thing = tuple[str | int, ...]
"""What appears: its kind, and its names, as `("topic", "orders")`."""

_ANSWERS = (0, 1, 1, 2, 3)
"""How many answers a thing may take: in Kafka it is there after some milliseconds, or at once."""


class Unreadiness:
    """The things that are not ready yet. For the threads of several brokers.

    What is drawn for a thing goes by its name and by how often it has appeared, not by the order of things:
    clients that race for different things get the same answers in every run.
    """

    def __init__(self, seed: int, whose: str = "") -> None:
        """
        Args:
            seed: of the numbers.
            whose: what else they go by: a broker's id.
        """
        self._drawn_by = f"{seed} {whose}"
        self._lock = Lock()
        self._appeared: Counter[Thing] = Counter()
        self._left: dict[Thing, int] = {}

    def appeared(self, thing: Thing) -> None:
        """Draw how many answers about a thing that has just come, or changed, are to say otherwise."""
        with self._lock:
            times = self._appeared[thing]
            self._appeared[thing] += 1
            answers = random.Random(f"{self._drawn_by} {thing} {times}").choice(_ANSWERS)
            self._left.pop(thing, None)
            if answers:
                self._left[thing] = answers

    def is_ready(self, thing: Thing) -> bool:
        """Return whether answers say of a thing what is the case."""
        return thing not in self._left

    def answered(self, thing: Thing) -> int:
        """Count an answer about a thing.

        Returns:
            How many were left to say that it is not ready, this one included; 0 where it is.
        """
        with self._lock:
            left = self._left.pop(thing, 0)
            if left > 1:
                self._left[thing] = left - 1
            return left

    def make_ready(self, thing: Thing) -> None:
        """Let a thing be ready from now on; harmless where it is."""
        with self._lock:
            self._left.pop(thing, None)

    def of_kind(self, *begin: str | int) -> list[Thing]:
        """Return the things that are not ready, and whose kind and first names are these."""
        with self._lock:
            return [thing for thing in self._left if thing[: len(begin)] == begin]
