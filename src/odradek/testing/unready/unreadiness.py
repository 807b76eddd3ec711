"""Counts of the answers that still say of a subject that it is not ready, drawn by a seed. No I/O."""

from __future__ import annotations

import random
from collections import Counter
from threading import Lock

Subject = tuple[str | int, ...]
"""What appears: its kind, and its names, as `("topic", "orders")`."""

_ANSWERS = (0, 1, 1, 2, 3)
"""How many answers a subject may take: in Kafka it is there after some milliseconds, or at once."""


class Unreadiness:
    """The subjects that are not ready yet. For the threads of several brokers.

    What is drawn for a subject goes by its name and by how often it has appeared, not by their order:
    clients that race for different subjects get the same answers in every run.
    """

    def __init__(self, seed: int, whose: str = "") -> None:
        """
        Args:
            seed: of the numbers.
            whose: what else they go by: a broker's id.
        """
        self._drawn_by = f"{seed} {whose}"
        self._lock = Lock()
        self._appeared: Counter[Subject] = Counter()
        self._left: dict[Subject, int] = {}

    def appeared(self, subject: Subject) -> None:
        """Draw how many answers about a subject that has just come, or changed, are to say otherwise."""
        with self._lock:
            times = self._appeared[subject]
            self._appeared[subject] += 1
            answers = random.Random(f"{self._drawn_by} {subject} {times}").choice(_ANSWERS)
            self._left.pop(subject, None)
            if answers:
                self._left[subject] = answers

    def is_ready(self, subject: Subject) -> bool:
        """Return whether answers say of a subject what is the case."""
        return subject not in self._left

    def answered(self, subject: Subject) -> int:
        """Count an answer about a subject.

        Returns:
            How many were left to say that it is not ready, this one included; 0 where it is.
        """
        with self._lock:
            left = self._left.pop(subject, 0)
            if left > 1:
                self._left[subject] = left - 1
            return left

    def make_ready(self, subject: Subject) -> None:
        """Let a subject be ready from now on; harmless where it is."""
        with self._lock:
            self._left.pop(subject, None)

    def of_kind(self, *begin: str | int) -> list[Subject]:
        """Return the subjects that are not ready, and whose kind and first names are these."""
        with self._lock:
            return [subject for subject in self._left if subject[: len(begin)] == begin]
