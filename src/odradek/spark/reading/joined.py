"""Tasks of several ranges, where there are many small ones, or `minRecordsPerPartition` asks for fewer tasks.

A task costs some 10 ms in the JVM and in each Python process that takes part in it, whatever it reads. In a
small micro-batch that is most of the time, and one task for all partitions is the quickest.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from odradek.spark.connections import borrowed_reader
from odradek.spark.options import SourceOptions
from odradek.spark.ranges import MANY, SMALL, OffsetRange, join
from odradek.spark.reading.task import RangeToRead, read_range, task_configs

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class RangesToRead(InputPartition):
    """One task: ranges of several partitions, one after the other."""

    ranges: tuple[RangeToRead, ...]


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
    """The records of one task; raises as `read_range`."""
    if not isinstance(task, RangesToRead):
        yield from read_range(options, task)
        return
    with borrowed_reader(task_configs(options)) as reader:
        reader.learn_topics({one.topic for one in task.ranges})
    for one in task.ranges:
        yield from read_range(options, one)
