"""Tasks of several ranges, where `minRecordsPerPartition` asks for fewer tasks than there are partitions.

A task costs some 10 ms in the JVM and in each Python process that takes part in it, whatever it reads. In a
small micro-batch that is most of the time, and one task for all partitions is the quickest.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from odradek.spark.options import SourceOptions
from odradek.spark.ranges import OffsetRange, join
from odradek.spark.reading.task import RangeToRead, read_range

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class RangesToRead(InputPartition):
    """One task: ranges of several partitions, one after the other."""

    ranges: tuple[RangeToRead, ...]


def tasks_of(options: SourceOptions, ranges: Sequence[OffsetRange]) -> list[InputPartition]:
    """The tasks for `ranges`, which were cut as `minPartitions` and `maxRecordsPerPartition` say."""
    tasks = join(ranges, options.min_records_per_partition, options.min_partitions)
    return [
        RangeToRead.of(task[0]) if len(task) == 1 else RangesToRead(tuple(map(RangeToRead.of, task)))
        for task in tasks
    ]


def read_task(options: SourceOptions, task: InputPartition) -> Iterator["pa.RecordBatch"]:
    """The records of one task; raises as `read_range`."""
    for one in task.ranges if isinstance(task, RangesToRead) else (task,):
        yield from read_range(options, one)
