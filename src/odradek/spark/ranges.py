"""The division of offsets among tasks.

`maxRecordsPerPartition` bounds a task's offsets; `minPartitions` then asks for about that many tasks, taken
from the partitions in proportion to what they hold. Both as in Spark's Kafka connector.
`minRecordsPerPartition`, which it does not have, puts small ranges of several partitions into one task.
Without any of these each partition with new data is one task, as long as they are few; of more, the small
ones come together (`SMALL`, `MANY`). Pure.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from odradek.client.types import TopicPartition

MOST_TASKS = 100_000
"""More than Spark gets through; a number that asks for more was mistyped."""


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

    `min_partitions` is approximate: rounding may give a few more or fewer tasks, and it counts as
    `MOST_TASKS` at most. `max_records` is strict: `ValueError` if it would make more tasks than that.
    """
    tasks = [r for r in ranges if r.size > 0]
    if max_records is not None:
        task_count = sum(-(-r.size // max_records) for r in tasks)
        if task_count > max(MOST_TASKS, len(tasks)):
            raise ValueError(
                f"maxRecordsPerPartition {max_records} would cut {sum(r.size for r in tasks):,} offsets into "
                f"{task_count:,} tasks; Spark gets through {MOST_TASKS:,} at most: raise it, or read less at "
                "once"
            )
        tasks = [piece for r in tasks for piece in _cut(r, -(-r.size // max_records))]
    if min_partitions is None or len(tasks) >= min(min_partitions, MOST_TASKS):
        return tasks
    return _split_in_proportion(tasks, min(min_partitions, MOST_TASKS))


SMALL = 5_000
"""Offsets of a task, where no option says how tasks are made: they take about as long as a task itself."""

MANY = 16
"""So many partitions, where no option says how tasks are made, are tasks of their own however small they are:
they may be few for the cores that there are, of which nobody tells a source."""


def join(
    ranges: Sequence[OffsetRange], min_records: int | None, min_tasks: int | None = None
) -> list[list[OffsetRange]]:
    """Put `ranges` (none empty) into tasks of about `min_records` offsets or more, as even as they can be.

    Those that have as many stay alone. A task has one range of a partition at most, and there are not fewer
    than `min_tasks` (or than ranges). The ranges of a task, and the tasks by their first ranges, are in the
    order in which they were given.
    """
    small = [index for index, r in enumerate(ranges) if min_records is not None and r.size < min_records]
    if min_records is None or not small:
        return [[r] for r in ranges]
    alone = [[index] for index, r in enumerate(ranges) if r.size >= min_records]
    most_of_one = max(Counter(ranges[index].tp for index in small).values())
    total = sum(ranges[index].size for index in small)
    task_count = max(total // min_records, (min_tasks or 1) - len(alone), most_of_one)
    tasks = _dealt_out(ranges, small, min(task_count, len(small)))
    return [[ranges[index] for index in task] for task in sorted([*alone, *map(sorted, tasks)])]


def _dealt_out(ranges: Sequence[OffsetRange], chosen: Iterable[int], count: int) -> list[list[int]]:
    """Deal out some of `ranges` to `count` tasks, by their indices; a task has one of a partition at most."""
    tasks: list[list[int]] = [[] for _ in range(count)]
    # The largest first, each to the task that has least: that evens them out.
    by_size = [(0, number) for number in range(len(tasks))]
    partitions: list[set[TopicPartition]] = [set() for _ in tasks]
    for index in sorted(chosen, key=lambda number: -ranges[number].size):
        passed = []
        size, least = heapq.heappop(by_size)
        while ranges[index].tp in partitions[least]:
            passed.append((size, least))
            size, least = heapq.heappop(by_size)
        tasks[least].append(index)
        partitions[least].add(ranges[index].tp)
        for entry in (*passed, (size + ranges[index].size, least)):
            heapq.heappush(by_size, entry)
    return tasks


def _split_in_proportion(ranges: Sequence[OffsetRange], task_count: int) -> list[OffsetRange]:
    """About `task_count` tasks. Ranges too small for a second one take no part in sharing out the rest."""
    total = sum(r.size for r in ranges)
    small = {r for r in ranges if _share(r.size, total, task_count) == 1}
    large_total = total - sum(r.size for r in small)
    large_wanted = max(task_count - len(small), 1)
    tasks: list[OffsetRange] = []
    for r in ranges:
        tasks += _cut(r, 1 if r in small else _share(r.size, large_total, large_wanted))
    return tasks


def _share(size: int, total: int, task_count: int) -> int:
    """Return how many of `task_count` tasks are due to `size` of `total` offsets: rounded, at least one."""
    return max((2 * size * task_count + total) // (2 * total), 1)


def _cut(r: OffsetRange, parts: int) -> list[OffsetRange]:
    """`r` in `parts` pieces whose sizes differ by one at most; fewer where it has fewer offsets."""
    pieces = []
    parts = min(parts, r.size)
    start, left = r.start, r.size
    for part in range(parts):
        size = left // (parts - part)
        left -= size
        if size:
            pieces.append(replace(r, start=start, end=start + size))
            start += size
    return pieces
