"""`spark.read.format("odradek")`: one look at the brokers, then one task for each range of offsets."""

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from odradek.spark.offsets import SourceOffset
from odradek.spark.options import SourceOptions
from odradek.spark.ranges import OffsetRange, split
from odradek.spark.reading.joined import bind_late, read_task, tasks_of
from odradek.spark.reading.offset_reader import OffsetReader

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)


class BatchReader(DataSourceReader):
    """Reads from the starting to the ending offsets as they are when its tasks run (`late_binding`).

    How many tasks there are, and where partitions are cut into several, is found when the query is planned.
    Spark pickles it to the executors: it holds options only.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks.

        Raises:
            ValueError: a partition would end before it starts.
        """
        options = self._options
        logger.info("a batch reads %s", options.description)
        offset_reader = OffsetReader(options)
        try:
            starts, ends = offset_reader.bounds(options.start, options.end)
            ranges = self._ranges(starts, ends)
            if options.where is not None:
                from odradek.spark.where.cuts import cut_and_tell

                ranges = cut_and_tell(ranges, options.where, offset_reader)
        finally:
            offset_reader.close()
        pieces = split(ranges, options.min_partitions, options.max_records_per_partition)
        return bind_late(options, ends, tasks_of(options, pieces))

    def _ranges(self, starts: SourceOffset, ends: SourceOffset) -> list[OffsetRange]:
        ranges = []
        for tp in sorted(starts.offsets):
            start, end = starts.offsets[tp], ends.offsets[tp]
            if start > end:
                raise ValueError(
                    f"The resolved start offset {start} is greater than the resolved end offset {end} for "
                    f"topic {tp.topic} partition {tp.partition}: the start is set too high, or the partition "
                    "was cut or created anew."
                )
            ranges.append(OffsetRange(tp, start, end, starts.topic_ids.get(tp.topic, "")))
        return ranges

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The rows of one task, in the executor."""
        return read_task(self._options, partition)
