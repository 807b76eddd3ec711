"""Sends that failed, of which the application has not heard: no callback, and nobody looked at the future."""

from __future__ import annotations

import threading

from odradek.client.errors import UndeliveredError


class Undelivered:
    """Counts of them, by the kind of error. May be used from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._first: dict[str, Exception] = {}

    def add(self, error: Exception, count: int = 1) -> None:
        """So many sends failed with `error`. A negative count: the application has heard of them since."""
        kind = type(error).__name__
        with self._lock:
            self._counts[kind] = self._counts.get(kind, 0) + count
            self._first.setdefault(kind, error)

    def take(self) -> UndeliveredError | None:
        """Return what is to be told, once; None if there is nothing."""
        with self._lock:
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
