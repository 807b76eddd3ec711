"""Tasks of several ranges, where there are many small ones, or `minRecordsPerPartition` asks for fewer tasks.

A task costs some 10 ms in the JVM and in each Python process that takes part in it, whatever it reads. In a
small micro-batch that is most of the time, and one task for all partitions is the quickest.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from odradek.client.types import TopicPartition
from odradek.spark.offsets import SourceOffset
from odradek.spark.options import SourceOptions
from odradek.spark.ranges import MANY, SMALL, OffsetRange, join
from odradek.spark.reading.task import RangeToRead, read_range, task_reader

if TYPE_CHECKING:
    import pyarrow as pa

    from odradek.spark.reading.late_binding import Others


@dataclass
class RangesToRead(InputPartition):
    """One task: ranges of several partitions, one after the other.

    `others`: it reads besides all partitions that are not among these, see `late_binding`.
    """

    ranges: tuple[RangeToRead, ...]
    others: "Others | None" = None


def tasks_of(options: SourceOptions, ranges: Sequence[OffsetRange]) -> list[InputPartition]:
    """The tasks for `ranges`, which were cut as `minPartitions` and `maxRecordsPerPartition` say."""
    if options.says_how_tasks_are_made:
        tasks = join(ranges, options.min_records_per_partition, options.min_partitions)
    else:
        tasks = join(ranges, SMALL, MANY)
    return [
        RangeToRead.of(task[0]) if len(task) == 1 else RangesToRead(tuple(map(RangeToRead.of, task)))
        for task in tasks
    ]


def read_task(options: SourceOptions, task: InputPartition) -> Iterator["pa.RecordBatch"]:
    """The records of one task.

    Raises:
        DataLossError: as `read_range`.
    """
    others = task.others if isinstance(task, RangesToRead) else None
    for range_to_read in _bound(options, _ranges_of(task), others):
        yield from read_range(options, range_to_read)


def bind_late(
    options: SourceOptions, ends: SourceOffset, tasks: Sequence[InputPartition]
) -> list[InputPartition]:
    """Return the tasks of a batch that ends at `ends` with what they look up when they run."""
    from odradek.spark.reading.late_binding import Others, bindings, partitions_may_come

    by_task = [_ranges_of(task) for task in tasks]
    pieces = [piece for ranges in by_task for piece in ranges]
    bound_by_range = bindings(options, ends, [piece.range for piece in pieces])
    for piece in pieces:
        piece.binding = bound_by_range.get(piece.range)
    bound = list(tasks)
    if partitions_may_come(options):
        others = Others.than(TopicPartition(piece.topic, piece.partition) for piece in pieces)
        # The task that has least to read looks for what else there is.
        least = min(range(len(tasks)), key=lambda n: sum(r.range.size for r in by_task[n]), default=None)
        if least is None:
            return [RangesToRead((), others)]
        bound[least] = RangesToRead(by_task[least], others)
    return bound


def _ranges_of(task: InputPartition) -> tuple[RangeToRead, ...]:
    if isinstance(task, RangesToRead):
        return task.ranges
    # Spark makes up a partition where a batch has none: there is nothing to read.
    return (task,) if isinstance(task, RangeToRead) else ()


def _bound(
    options: SourceOptions, ranges: Sequence[RangeToRead], others: "Others | None"
) -> Iterable[RangeToRead]:
    """The ranges as they are now."""
    if others is None and not any(piece.binding for piece in ranges):
        if len(ranges) > 1:
            with task_reader(options) as reader:
                reader.learn_topics({piece.topic for piece in ranges})
        return ranges
    from odradek.spark.reading.late_binding import ranges_now

    with task_reader(options) as reader:
        now = ranges_now(options, reader, [(piece.range, piece.binding) for piece in ranges], others)
    return map(RangeToRead.of, now)
