"""The bounds of topics' batches, as far as a producer has learnt them from refusals.

A broker refuses a batch that is larger than `max.message.bytes` (MESSAGE_TOO_LARGE) or than a segment
(RECORD_LIST_TOO_LARGE), and its answer does not say how large it might be. So each refusal halves the bound,
and what comes next is kept below it: batches that are filled, those that wait, and the parts of split ones.
The bound ends up between half the limit and the limit. After `RELAXED_AFTER_MS` it is doubled, in case the
limit was raised.
"""

from __future__ import annotations

from dataclasses import dataclass

RELAXED_AFTER_MS = 600_000.0


@dataclass(slots=True)
class _Bound:
    stored: int
    ratio: float
    since_ms: float


class BatchBounds:
    """The bounds of one producer, by topic. Bytes are those of whole batches as they are sent."""

    def __init__(self) -> None:
        self._bounds: dict[str, _Bound] = {}

    def __bool__(self) -> bool:
        return bool(self._bounds)

    def refused(self, topic: str, stored: int, unpacked: int, count: int, now_ms: float) -> None:
        """A batch was too large.

        Args:
            stored: its bytes.
            unpacked: those before compression.
            count: of its records; of a single one there are no halves.
            now_ms: monotonic.
        """
        # A little more than half, so that two parts suffice.
        size = stored // 2 + stored // 64 if count > 1 else stored - 1
        bound = self._bounds.get(topic)
        if bound is not None:
            size = min(size, bound.stored)
        self._bounds[topic] = _Bound(max(1, size), max(1.0, unpacked / max(1, stored)), now_ms)

    def bound(self, topic: str, now_ms: float | None = None) -> int | None:
        """Return how large a batch may be; None: nothing is known against any size.

        Args:
            now_ms: monotonic; with it, a bound that has stood for long is relaxed.
        """
        bound = self._bounds.get(topic)
        if bound is None:
            return None
        if now_ms is not None and now_ms - bound.since_ms >= RELAXED_AFTER_MS:
            bound.stored *= 2
            bound.since_ms = now_ms
        return bound.stored

    def unpacked_bound(self, topic: str) -> int | None:
        """As `bound`, before compression, if records compress as those did that were refused."""
        bound = self._bounds.get(topic)
        return None if bound is None else int(bound.stored * bound.ratio)
