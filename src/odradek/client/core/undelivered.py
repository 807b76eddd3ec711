"""Sends that failed, of which the application has not heard: no callback, and nobody looked at the future."""

from __future__ import annotations

from collections import deque

from odradek.client.errors import UndeliveredError

_MOST_EVENTS = 1_000


class Undelivered:
    """Counts of them, by the kind of error.

    Any thread may add, amid whatever a signal's handler has interrupted: without a lock. Only one at a time
    sums up.
    """

    def __init__(self) -> None:
        self._events: deque[tuple[str, Exception, int]] = deque()
        self._counts: dict[str, int] = {}
        self._first: dict[str, Exception] = {}

    def add(self, error: Exception, count: int = 1) -> None:
        """So many sends failed with `error`. A negative count: the application has heard of them since."""
        self._events.append((type(error).__name__, error, count))
        if count > 0 and len(self._events) > _MOST_EVENTS:
            self._sum_up()  # batches fail in one thread alone

    def _sum_up(self) -> None:
        while self._events:
            kind, error, count = self._events.popleft()
            self._counts[kind] = self._counts.get(kind, 0) + count
            self._first.setdefault(kind, error)

    def take(self) -> UndeliveredError | None:
        """Return what is to be told, once; None if there is nothing."""
        self._sum_up()
        counts = {kind: count for kind, count in self._counts.items() if count > 0}
        first = self._first
        self._counts, self._first = {}, {}
        if not counts:
            return None
        kinds = "; ".join(f"{count} with {kind}: {first[kind]}" for kind, count in counts.items())
        problem = UndeliveredError(
            f"{sum(counts.values())} record(s) sent without a callback, and whose future nobody looked at, "
            f"were not delivered: {kinds}",
            counts,
        )
        problem.__cause__ = first[max(counts, key=lambda kind: counts[kind])]
        return problem
