"""A rate in bytes a second, of a few samples, each of a short time. No I/O, no clock.

    ──┬────────┬────────┬────────┬───►        Samples begin one after the other, each when something passes
      │ 4 MB   │ 1 MB   │  now                and the one before has lasted its time. What has been kept for
      oldest                                  `samples` times that long is dropped.

The rate is all that is kept, over the time since the oldest sample began, which counts as one sample's time
at least: the first bytes after a pause are not a burst without end. Kafka: `SimpleRate` over `WindowedSum`.
"""

from __future__ import annotations

from collections import deque

MS_PER_S = 1000.0


class SampledRate:
    """A rate over the last `samples` × `sample_ms` milliseconds. Times are monotonic."""

    __slots__ = ("_kept_ms", "_sample_ms", "_samples", "_total")

    def __init__(self, samples: int, sample_ms: float) -> None:
        """
        Args:
            samples: how many are kept (`replication.quota.window.num`).
            sample_ms: how long each lasts (`replication.quota.window.size.seconds`).
        """
        self._sample_ms = float(sample_ms)
        self._kept_ms = samples * self._sample_ms
        self._samples: deque[tuple[float, int]] = deque()
        """When each began, and what has passed in it; the oldest first."""
        # The sum over `_samples`, so that a rate costs no walk through them.
        self._total = 0

    def record(self, size: int, now_ms: float) -> None:
        """Count what passes now, in bytes."""
        self._drop_old(now_ms)
        samples = self._samples
        if samples and now_ms - samples[-1][0] < self._sample_ms:
            began_ms, before = samples.pop()
            samples.append((began_ms, before + size))
        else:
            samples.append((now_ms, size))
        self._total += size

    def per_second(self, now_ms: float) -> float:
        """The rate in bytes a second."""
        self._drop_old(now_ms)
        if not self._samples:
            return 0.0
        return self._total * MS_PER_S / max(now_ms - self._samples[0][0], self._sample_ms)

    def falls_in_ms(self, most: float, now_ms: float) -> float:
        """Return how long it takes, if nothing passes, until the rate is worth another look.

        Args:
            most: the rate that is waited for, in bytes a second.
            now_ms: the time.

        Returns:
            Milliseconds until the rate is not above `most`, or the oldest sample is dropped; 0 for now.
        """
        if self.per_second(now_ms) <= most:
            return 0.0
        began_ms = self._samples[0][0]
        dropped_ms = began_ms + self._kept_ms
        low_ms = began_ms + self._total * MS_PER_S / most if most > 0 else dropped_ms
        return max(0.0, min(low_ms, dropped_ms) - now_ms)

    def _drop_old(self, now_ms: float) -> None:
        samples = self._samples
        while samples and now_ms - samples[0][0] >= self._kept_ms:
            self._total -= samples.popleft()[1]
