"""`spark.readStream.format("odradek")`: Spark's calls, answered by `StreamPlanner`.

PySpark 4.2 brought limits and `Trigger.AvailableNow` to Python sources; on 4.1 a query with limits is
refused, since nobody would tell the source where a restarted query stands.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from odradek.client.types import OffsetAndMetadata, TopicPartition
from odradek.errors import OdradekError
from odradek.spark.connections import connecting
from odradek.spark.offsets import SourceOffset, from_spark, to_spark
from odradek.spark.options import SourceOptions
from odradek.spark.reading.joined import read_task, tasks_of
from odradek.spark.reading.offset_reader import OffsetReader
from odradek.spark.reading.stream_planner import StreamPlanner

if TYPE_CHECKING:
    import pyarrow as pa

    from odradek.client import Admin

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )

    HAS_LIMITS = True
except ImportError:  # pyspark 4.1
    HAS_LIMITS = False

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Stands where PySpark 4.2 has its own."""


logger = logging.getLogger(__name__)

_TIMEOUT_MS = 10_000
"""A batch is not held up for longer than this."""


class GroupOffsets:
    """Commits the offsets of finished batches to a group, so that lag shows where people look for it.

    The group is the one that `commitOffsetsToGroup` or `kafka.group.id` names; without one nothing is
    committed. The truth is Spark's checkpoint; nothing here reads the group. Hence a commit that fails is a
    line in the log, not the end of the query.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._admin: Admin | None = None
        self._committed: Mapping[TopicPartition, int] = {}

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit `offsets`, if there is a group to commit them to, and unless they were committed last."""
        group_id = self._options.group_id
        if group_id is None or offsets == self._committed:
            return
        try:
            if self._admin is None:
                from odradek.client import Admin

                timeouts = {"default.api.timeout.ms": _TIMEOUT_MS, "request.timeout.ms": _TIMEOUT_MS}
                self._admin = Admin({**connecting(self._options.client), **timeouts})
            commits = {tp: OffsetAndMetadata(offset) for tp, offset in offsets.items()}
            self._admin.alter_group_offsets(group_id, commits)
            self._committed = dict(offsets)
        except (OdradekError, OSError) as error:
            logger.warning("offsets were not committed to group %s: %s", group_id, error)
            self.close()

    def close(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives in one Python process next to the driver for as long as the query runs.

    Spark makes a second one to pickle its `read` to the executors; that one never talks to a broker here.

    Attributes:
        planner: decides what each batch reads.
        group: where what was read is committed.
    """

    def __init__(self, options: SourceOptions) -> None:
        if not HAS_LIMITS and (options.max_offsets_per_trigger or options.min_offsets_per_trigger):
            raise ValueError("maxOffsetsPerTrigger and minOffsetsPerTrigger need pyspark 4.2 or newer")
        logger.info("a stream reads %s", options.description)
        self._options = options
        self._brokers = OffsetReader(options)
        self.planner = StreamPlanner(options, self._brokers)
        self.group = GroupOffsets(options)
        self._planned: SourceOffset | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name, as below)
        return to_spark(self.planner.initial())

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """A sign to Spark that there is a limit; which one, `latestOffset` takes from the options.

        Spark has no limit for Python sources that says both "at most" and "at least".
        """
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: Any = None
    ) -> dict[str, Any]:
        if start is None:  # pyspark 4.1
            if self._planned is not None:
                # Spark asks for another end once the batch that was planned last is done.
                self.group.commit(self._planned.offsets)
            return to_spark(self.planner.end_without_start())
        position = from_spark(start)
        if position == self._planned:
            # The batch that ended here is done. Spark says so in `commit` only when there is another one.
            self.group.commit(self.planner.present(position.offsets))
        end = self.planner.next_end(
            position,
            unlimited=isinstance(limit, ReadAllAvailable),
            now_ms=time.monotonic_ns() // 1_000_000,
        )
        return to_spark(end)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        newest = self.planner.newest
        return to_spark(SourceOffset(newest.offsets)) if newest and newest.offsets else None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.planner.aim_at_what_is_there()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._planned = from_spark(end)
        return tasks_of(self._options, self.planner.ranges(from_spark(start), self._planned))

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        return read_task(self._options, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """The batch up to `end` is finished, and its offsets are in the checkpoint."""
        self.group.commit(self.planner.present(from_spark(end).offsets))

    def stop(self) -> None:
        self.group.close()
        self._brokers.close()


class RefusedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Stands where a reader cannot be made: raises why at whatever Spark asks first."""

    def __init__(self, problem: Exception) -> None:
        self._problem = problem

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name, as below)
        raise self._problem

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        raise self._problem

    def latestOffset(self, start: Any = None, limit: Any = None) -> Any:  # noqa: ARG002, N802
        raise self._problem

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        raise self._problem

    def partitions(self, start: Any, end: Any) -> Sequence[InputPartition]:  # noqa: ARG002
        raise self._problem

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:  # noqa: ARG002
        raise self._problem

    def stop(self) -> None:
        """Nothing was opened."""
