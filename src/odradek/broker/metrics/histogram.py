# compiled: mypyc
"""A distribution of times, counted in buckets: comparisons and one addition for each time, and no memory.

Kafka keeps samples of the last minutes and sorts them when somebody looks. Here percentiles are read off the
buckets, within which times are taken to be spread evenly, over what has come since a look of up to
`WINDOW_S` ago.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

BOUNDS_MS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 5000.0)
"""The upper bounds of all buckets but the last, which has none."""

WINDOW_S = 300.0
_COPY_S = 60.0


class Histogram:
    """Counts times by bucket.

    Attributes:
        counts: how many times fell into each bucket.
        total_ms: all times together.
    """

    __slots__ = ("_copies", "counts", "total_ms")

    def __init__(self) -> None:
        self.counts: list[int] = [0] * 16
        self.total_ms = 0.0
        self._copies: deque[tuple[float, list[int]]] = deque()

    def observe(self, elapsed_ms: float) -> None:
        """Count one time."""
        self.total_ms += elapsed_ms
        # By hand, as a search through a table takes several times the instructions.
        if elapsed_ms <= 1.0:
            if elapsed_ms <= 0.2:
                bucket = 0 if elapsed_ms <= 0.05 else 1 if elapsed_ms <= 0.1 else 2
            else:
                bucket = 3 if elapsed_ms <= 0.5 else 4
        elif elapsed_ms <= 20.0:
            if elapsed_ms <= 5.0:
                bucket = 5 if elapsed_ms <= 2.0 else 6
            else:
                bucket = 7 if elapsed_ms <= 10.0 else 8
        elif elapsed_ms <= 200.0:
            bucket = 9 if elapsed_ms <= 50.0 else 10 if elapsed_ms <= 100.0 else 11
        elif elapsed_ms <= 1000.0:
            bucket = 12 if elapsed_ms <= 500.0 else 13
        else:
            bucket = 14 if elapsed_ms <= 5000.0 else 15
        self.counts[bucket] += 1

    def recent(self, now_s: float) -> list[int]:
        """Return the counts of the last minutes, and remember today's for later looks.

        Args:
            now_s: monotonic seconds.
        """
        copies = self._copies
        while len(copies) > 1 and now_s - copies[1][0] >= WINDOW_S:
            copies.popleft()
        if not copies or now_s - copies[-1][0] >= _COPY_S:
            copies.append((now_s, list(self.counts)))
        oldest_s, before = copies[0]
        if now_s - oldest_s < _COPY_S:
            return list(self.counts)  # the first looks: all there has been since the start
        return [count - earlier for count, earlier in zip(self.counts, before, strict=True)]


def percentile(counts: Sequence[int], fraction: float, zeros: int = 0) -> float:
    """Return the time that a fraction of all times does not exceed; 0 where there are none.

    Args:
        counts: by bucket.
        fraction: such as 0.99.
        zeros: how many times there are beyond those counted, all of them 0.
    """
    rank = fraction * (sum(counts) + zeros) - zeros
    if rank <= 0:
        return 0.0
    lower = 0.0
    for count, upper in zip(counts, BOUNDS_MS, strict=False):
        if rank <= count:
            return lower + (upper - lower) * rank / count
        rank -= count
        lower = upper
    return lower
