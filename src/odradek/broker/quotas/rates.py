# compiled: mypyc
"""Rates: how much has passed of late, and how long to wait until that is little enough. No I/O, no clock.

The numbers are Kafka's to the millisecond (`SampledStat`, `Rate`, `TokenBucket`, `Avg`, `QuotaUtils`), for
clients are told them:

- A rate is the sum of some samples, each of one window, over the time since the oldest of them began. That
  counts as all windows but one, at least: the first bytes after a pause are no burst without end.
- A sample that began before the time that counts is kept while something was recorded in it within that time.
- A bucket fills by its quota each second, up to what all windows hold; what is taken out may make it
  negative, and then it takes time until it is not.
"""

from __future__ import annotations

import math

MS_PER_S = 1000.0

LONGEST_MS = 2**31 - 1
"""The longest time that the protocol can tell."""

HUGE = 2.0**63
"""The bound where there is none; Kafka's `Long.MaxValue`."""


class _Sample:
    __slots__ = ("began_ms", "last_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.began_ms = now_ms
        self.last_ms = now_ms
        self.value = 0.0

    def reset(self, now_ms: int) -> None:
        """Begin anew."""
        self.began_ms = now_ms
        self.last_ms = now_ms
        self.value = 0.0


class Rate:
    """The amount recorded per second, over some windows of time."""

    __slots__ = ("_current", "_kept_ms", "_window_ms", "_windows", "samples")

    def __init__(self, windows: int, window_ms: int) -> None:
        """
        Args:
            windows: how many count (`quota.window.num`).
            window_ms: how long each is (`quota.window.size.seconds`).
        """
        self._windows = windows
        self._window_ms = window_ms
        self._kept_ms = windows * window_ms
        self.samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Count `value`; a negative one takes back what was counted before."""
        samples = self.samples
        if not samples:
            samples.append(_Sample(now_ms))
        sample = samples[self._current]
        if now_ms - sample.began_ms >= self._window_ms:
            # One more than there are windows: the oldest may reach into the time that counts.
            self._current = (self._current + 1) % (self._windows + 1)
            if self._current == len(samples):
                samples.append(_Sample(now_ms))
            else:
                samples[self._current].reset(now_ms)
            sample = samples[self._current]
        sample.value += value
        sample.last_ms = now_ms

    def window_ms(self, now_ms: int) -> int:
        """The time over which the rate is taken, at least 1 ms."""
        samples = self.samples
        began_ms = now_ms
        for sample in samples:
            if now_ms - sample.last_ms >= self._kept_ms:
                sample.reset(now_ms)
            elif sample.began_ms < began_ms:
                began_ms = sample.began_ms
        elapsed_ms = now_ms - began_ms
        missing = self._windows - 1 - elapsed_ms // self._window_ms
        if missing > 0:
            elapsed_ms += missing * self._window_ms
        return max(1, elapsed_ms)

    def per_second(self, now_ms: int) -> float:
        """The rate now."""
        window_ms = self.window_ms(now_ms)
        return sum([sample.value for sample in self.samples]) / (window_ms / MS_PER_S)

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """Return how long to wait, if nothing more comes, until the rate is not above `bound`; 0 if it is not
        now.

        If O is the rate over a time W and T what may be, it is (O - T) / T * W.
        """
        rate = self.per_second(now_ms)
        if rate <= bound:
            return 0
        if bound <= 0:
            return LONGEST_MS
        return _rounded((rate - bound) / bound * self.window_ms(now_ms))


class TokenBucket:
    """The amount that may still be taken now (KIP-599)."""

    __slots__ = ("_kept_s", "_tokens", "_updated_ms")

    def __init__(self, windows: int, window_ms: int) -> None:
        """
        Args:
            windows, window_ms: what the bucket holds is the quota of so many windows, each so long
                (`controller.quota.window.num`, `controller.quota.window.size.seconds`).
        """
        self._kept_s = windows * window_ms / MS_PER_S
        self._tokens = 0.0
        self._updated_ms: int | None = None

    def tokens(self, quota: float, now_ms: int) -> float:
        """Return what is left at a quota of so much a second; negative when more was taken."""
        most = self._kept_s * quota
        updated_ms = self._updated_ms
        if updated_ms is None:
            self._tokens = most
        else:
            self._tokens = min(most, self._tokens + quota * (now_ms - updated_ms) / MS_PER_S)
        self._updated_ms = now_ms
        return self._tokens

    def take(self, count: float, quota: float, now_ms: int) -> None:
        """Take out, be it more than there is."""
        self._tokens = min(self._kept_s * quota, self.tokens(quota, now_ms) - count)

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        """Return how long it takes until nothing is missing; 0 if nothing is now."""
        tokens = self.tokens(quota, now_ms)
        if tokens >= 0:
            return 0
        if quota <= 0:
            return LONGEST_MS
        return _rounded(-tokens / quota * MS_PER_S)


class Average:
    """The mean of what was recorded of late; NaN of nothing."""

    __slots__ = ("_count", "_sum")

    def __init__(self, windows: int, window_ms: int) -> None:
        """
        Args:
            windows, window_ms: over how many windows of what length.
        """
        self._sum = Rate(windows, window_ms)
        self._count = Rate(windows, window_ms)

    def record(self, value: float, now_ms: int) -> None:
        """Count `value`."""
        self._sum.record(value, now_ms)
        self._count.record(1, now_ms)

    def mean(self, now_ms: int) -> float:
        """The mean."""
        count = self._count.per_second(now_ms)
        return self._sum.per_second(now_ms) / count if count else math.nan


def _rounded(ms: float) -> int:
    """Round halves up, as Java does, and stay within what can be told."""
    return LONGEST_MS if ms >= LONGEST_MS else math.floor(ms + 0.5)
