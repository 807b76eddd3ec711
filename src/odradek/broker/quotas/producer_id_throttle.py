"""The throttle on producer ids: how fast clients may have them made.

Each id that writes to a partition is remembered there for a day. A client that takes thousands of them a
second is held up: it gets its id, is told `throttle_time_ms`, and nothing more of it is taken up for so long,
as Kafka does with its quotas. KIP-936 proposes such a quota for each user; without security all users are
one, so here it is for each address of a user.
"""

from __future__ import annotations

MAX_THROTTLE_MS = 10_000
"""The longest that an answer has a client wait."""

BURST_S = 10
"""Ids of how many seconds a client may take at once, after it has taken none for as long."""

_MANY = 1_000


class ProducerIdThrottle:
    """Counts the ids that are made, by who asked for them: a bucket for each that fills at the rate."""

    def __init__(self, ids_per_second: int) -> None:
        """
        Args:
            ids_per_second: `odradek.producer.id.creation.rate`; 0 for no limit.
        """
        self._rate = ids_per_second / 1000
        self._most = float(ids_per_second * BURST_S)
        self.buckets: dict[tuple[str, str], tuple[float, float]] = {}
        """The tokens that are left, and the time of that; negative when more were taken."""

    def take(self, client: tuple[str, str], now_ms: float) -> int:
        """Count an id.

        Args:
            client: principal and address.
            now_ms: monotonic milliseconds.

        Returns:
            For how many milliseconds the client is to be held up.
        """
        if not self._rate:
            return 0
        if len(self.buckets) > _MANY and client not in self.buckets:
            self._forget_full(now_ms)
        left, then_ms = self.buckets.get(client, (self._most, now_ms))
        left = min(self._most, left + (now_ms - then_ms) * self._rate) - 1
        self.buckets[client] = left, now_ms
        return 0 if left >= 0 else min(MAX_THROTTLE_MS, int(-left / self._rate) + 1)

    def _forget_full(self, now_ms: float) -> None:
        """Forget those who have taken none for so long that their buckets are full."""
        self.buckets = {
            client: (left, then_ms)
            for client, (left, then_ms) in self.buckets.items()
            if left + (now_ms - then_ms) * self._rate < self._most
        }
