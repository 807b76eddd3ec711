"""Values over time, kept in memory in a fixed room: the newest push the oldest out."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

MOST_POINTS = 360
MOST_KEYS = 101
_NOT_KNOWN = -1


@dataclass(frozen=True)
class Point:
    """A value at a time; None where it was not known."""

    time_ms: int
    value: float | None


class History(Generic[K]):
    """Numbers of several things, told at the same times.

    Args:
        most_points: so many times are kept.
        most_keys: so many things; further ones are not kept.

    Attributes:
        last_ms: the newest time, None before the first.
    """

    def __init__(self, most_points: int = MOST_POINTS, most_keys: int = MOST_KEYS) -> None:
        self._most_points = most_points
        self._most_keys = most_keys
        self._added = 0
        self._times = array("q", bytes(8 * most_points))
        self._values: dict[K, array[int]] = {}
        self.last_ms: int | None = None

    def add(self, time_ms: int, values: Mapping[K, int | None]) -> None:
        """Keep what is known at a time.

        Args:
            time_ms: later than all before.
            values: 0 or more; None, or absent, where a value is not known.
        """
        for key in values:
            if key not in self._values and len(self._values) < self._most_keys:
                self._values[key] = array("q", [_NOT_KNOWN]) * self._most_points
        at = self._added % self._most_points
        self._times[at] = time_ms
        for key, ring in self._values.items():
            value = values.get(key)
            ring[at] = _NOT_KNOWN if value is None else value
        self._added += 1
        self.last_ms = time_ms

    def points(self, key: K) -> list[Point]:
        """Return the values of one thing, the oldest first."""
        ring = self._values.get(key)
        positions = [
            n % self._most_points for n in range(max(0, self._added - self._most_points), self._added)
        ]
        return [
            Point(self._times[at], None if ring is None or ring[at] == _NOT_KNOWN else ring[at])
            for at in positions
        ]


def rates(points: Sequence[Point]) -> list[Point]:
    """Return how much a count that only grows has grown a second, from each point to the next.

    Args:
        points: the counts; one that has become smaller belongs to something new, and gives no rate.
    """
    grown = []
    for before, after in pairwise(points):
        span_s = (after.time_ms - before.time_ms) / 1000
        is_known = before.value is not None and after.value is not None and span_s > 0
        growth = (after.value or 0) - (before.value or 0)
        grown.append(Point(after.time_ms, growth / span_s if is_known and growth >= 0 else None))
    return grown
