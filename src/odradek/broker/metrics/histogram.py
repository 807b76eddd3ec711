# compiled: mypyc
"""A distribution of times, counted in buckets: comparisons and one addition for each time, and no memory.

Kafka keeps samples of the last minutes and sorts them when somebody looks. Here percentiles are read off the
buckets, within which times are taken to be spread evenly, over what has come since a look of up to
`WINDOW_S` ago.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from mypy_extensions import i64

BOUNDS_MS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 5000.0)
"""The upper bounds of all buckets but the last, which has none."""

WINDOW_S = 300.0
_COPY_S = 60.0


class Histogram:
    """Counts times by bucket.

    Attributes:
        total_ms: all times together.
    """

    __slots__ = (
        "_copies",
        "_n0",
        "_n1",
        "_n2",
        "_n3",
        "_n4",
        "_n5",
        "_n6",
        "_n7",
        "_n8",
        "_n9",
        "_n10",
        "_n11",
        "_n12",
        "_n13",
        "_n14",
        "_n15",
        "total_ms",
    )

    def __init__(self) -> None:
        self._n0: i64 = 0
        self._n1: i64 = 0
        self._n2: i64 = 0
        self._n3: i64 = 0
        self._n4: i64 = 0
        self._n5: i64 = 0
        self._n6: i64 = 0
        self._n7: i64 = 0
        self._n8: i64 = 0
        self._n9: i64 = 0
        self._n10: i64 = 0
        self._n11: i64 = 0
        self._n12: i64 = 0
        self._n13: i64 = 0
        self._n14: i64 = 0
        self._n15: i64 = 0
        self.total_ms = 0.0
        self._copies: deque[tuple[float, list[int]]] = deque()

    def observe(self, elapsed_ms: float) -> None:
        """Count one time."""
        self.total_ms += elapsed_ms
        # By hand, and into attributes: with the items of a list it takes four times the instructions.
        if elapsed_ms <= 10.0:
            if elapsed_ms <= 0.5:
                if elapsed_ms <= 0.1:
                    if elapsed_ms <= 0.05:
                        self._n0 += 1
                    else:
                        self._n1 += 1
                else:
                    if elapsed_ms <= 0.2:
                        self._n2 += 1
                    else:
                        self._n3 += 1
            else:
                if elapsed_ms <= 2.0:
                    if elapsed_ms <= 1.0:
                        self._n4 += 1
                    else:
                        self._n5 += 1
                else:
                    if elapsed_ms <= 5.0:
                        self._n6 += 1
                    else:
                        self._n7 += 1
        else:
            if elapsed_ms <= 200.0:
                if elapsed_ms <= 50.0:
                    if elapsed_ms <= 20.0:
                        self._n8 += 1
                    else:
                        self._n9 += 1
                else:
                    if elapsed_ms <= 100.0:
                        self._n10 += 1
                    else:
                        self._n11 += 1
            else:
                if elapsed_ms <= 1000.0:
                    if elapsed_ms <= 500.0:
                        self._n12 += 1
                    else:
                        self._n13 += 1
                else:
                    if elapsed_ms <= 5000.0:
                        self._n14 += 1
                    else:
                        self._n15 += 1

    @property
    def counts(self) -> list[int]:
        """The number of times that fell into each bucket."""
        return [
            self._n0,
            self._n1,
            self._n2,
            self._n3,
            self._n4,
            self._n5,
            self._n6,
            self._n7,
            self._n8,
            self._n9,
            self._n10,
            self._n11,
            self._n12,
            self._n13,
            self._n14,
            self._n15,
        ]

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
