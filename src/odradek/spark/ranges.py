"""Which task reads which offsets.

Without further options each partition with new data is one task. `maxRecordsPerPartition` bounds a task's
offsets; `minPartitions` then asks for about that many tasks, taken from the partitions in proportion to
what they hold. Both as in Spark's Kafka connector. Pure.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from odradek.client.types import TopicPartition


@dataclass(frozen=True)
class OffsetRange:
    """Offsets `start` (included) to `end` (excluded) of one partition.

    `size` counts offsets: a compacted or transactional partition may hold fewer records. `topic_id` is empty
    where it is not known.
    """

    tp: TopicPartition
    start: int
    end: int
    topic_id: str = ""

    @property
    def size(self) -> int:
        return self.end - self.start


def split(
    ranges: Iterable[OffsetRange],
    min_partitions: int | None = None,
    max_records: int | None = None,
) -> list[OffsetRange]:
    """Cut `ranges` into tasks, in order; nothing is lost, empty and negative ranges are dropped.

    `min_partitions` is approximate: rounding may give a few more or fewer tasks.
    """
    tasks = [r for r in ranges if r.size > 0]
    if max_records is not None:
        tasks = [piece for r in tasks for piece in _cut(r, -(-r.size // max_records))]
    if min_partitions is None or len(tasks) >= min_partitions:
        return tasks
    return _split_in_proportion(tasks, min_partitions)


def _split_in_proportion(ranges: Sequence[OffsetRange], wanted: int) -> list[OffsetRange]:
    """About `wanted` tasks. Ranges too small for a second one take no part in sharing out the rest."""
    total = sum(r.size for r in ranges)
    small = {r for r in ranges if _share(r.size, total, wanted) == 1}
    large_total = total - sum(r.size for r in small)
    large_wanted = max(wanted - len(small), 1)
    tasks: list[OffsetRange] = []
    for r in ranges:
        tasks += _cut(r, 1 if r in small else _share(r.size, large_total, large_wanted))
    return tasks


def _share(size: int, total: int, wanted: int) -> int:
    """How many of `wanted` tasks are due to `size` of `total` offsets: rounded, at least one."""
    return max((2 * size * wanted + total) // (2 * total), 1)


def _cut(r: OffsetRange, parts: int) -> list[OffsetRange]:
    """`r` in `parts` pieces whose sizes differ by one at most; fewer where it has fewer offsets."""
    pieces = []
    start, left = r.start, r.size
    for part in range(parts):
        size = left // (parts - part)
        left -= size
        if size:
            pieces.append(replace(r, start=start, end=start + size))
            start += size
    return pieces
