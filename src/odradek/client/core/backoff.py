"""The wait before the next try: exponential with jitter (KIP-580, KIP-144)."""

from __future__ import annotations

import random


class Backoff:
    """`initial_ms` · 2^attempt, at most `max_ms`, ± 20 %.

    Args:
        initial_ms: the first wait.
        max_ms: the longest one (jitter aside).
        rng: where the jitter comes from.
    """

    def __init__(self, initial_ms: float, max_ms: float, rng: random.Random | None = None) -> None:
        self.initial_ms = initial_ms
        self.max_ms = max(initial_ms, max_ms)
        self._rng = rng or random.Random()

    def delay_ms(self, failures: int) -> float:
        """The wait after `failures` failures in a row (1: the first)."""
        if failures <= 0 or self.initial_ms == 0:
            return 0.0
        base = min(self.max_ms, self.initial_ms * 2.0 ** min(failures - 1, 30))
        return float(base * self._rng.uniform(0.8, 1.2))
