"""The bounds of one micro-batch: `maxOffsetsPerTrigger`, `minOffsetsPerTrigger`, `maxTriggerDelay`. Pure.

Spark knows a limit of rows and a least number of rows for a Python source, but not both at once, so the two
are put together here.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from odradek.client.types import TopicPartition
from odradek.spark.offsets import Offsets


def prorate(limit: int, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> Offsets:
    """`end`, pulled back so that about `limit` offsets lie between `start` and it.

    Each partition gets a share in proportion to what it has waiting, and at least one offset, so that a
    small partition beside a large one does not starve (hence "about"). Partitions without new data, and those
    whose end is before their start (lost data, reported elsewhere), keep their `end`. Every partition of
    `end` must be in `start`.
    """
    waiting = {tp: end[tp] - start[tp] for tp in end if end[tp] > start[tp]}
    total = sum(waiting.values())
    if total <= limit:
        return dict(end)
    bounded = dict(end)
    for tp, size in waiting.items():
        share = limit * size / total
        bounded[tp] = min(end[tp], start[tp] + (math.ceil(share) if share < 1 else math.floor(share)))
    return bounded


@dataclass
class Admission:
    """The limits of one query, and when it last ran a batch.

    A batch waits until `min_offsets` new offsets are there or `max_delay_ms` have passed since the last one,
    and takes about `max_offsets` of them. Invariant: what `admit` returns lies between its `start` and `end`.
    """

    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = 15 * 60 * 1000
    last_batch_ms: int | None = None

    @property
    def limited(self) -> bool:
        return self.max_offsets is not None or self.min_offsets is not None

    def admit(
        self, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], now_ms: int
    ) -> Offsets | None:
        """The end of the next batch, or None if it should wait for more data.

        `now_ms`: a clock that does not jump (monotonic ms).
        """
        if self.min_offsets is not None:
            waiting = sum(end[tp] - start[tp] for tp in end)
            overdue = self.last_batch_ms is None or now_ms - self.last_batch_ms >= self.max_delay_ms
            if waiting < self.min_offsets and not overdue:
                return None
            self.last_batch_ms = now_ms
        if self.max_offsets is not None:
            return prorate(self.max_offsets, start, end)
        return dict(end)
