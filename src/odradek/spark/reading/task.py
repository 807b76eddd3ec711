"""The work of an executor: a range of offsets in, Arrow record batches with the table's columns out."""

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition

from odradek.client.errors import PartitionLostError, TopicRecreatedError
from odradek.client.types import TopicPartition
from odradek.errors import ErrorCode, KafkaError
from odradek.records.problems import TimestampRangeError
from odradek.spark.connections import borrowed_reader
from odradek.spark.errors import DataLossError, ReadError, made_again
from odradek.spark.options import SourceOptions
from odradek.spark.ranges import OffsetRange
from odradek.spark.schema import arrow_schema
from odradek.wire.primitives import ZERO_UUID, uuid_from_text, uuid_to_text

if TYPE_CHECKING:
    import pyarrow as pa

    from odradek.client import RawReader
    from odradek.spark.formats.shape import TypedShape
    from odradek.spark.reading.late_binding import Binding

logger = logging.getLogger(__name__)

BATCH_ROWS = 20_000
"""Rows per Arrow batch: between 10,000 and 50,000 Spark takes them fastest."""

BATCH_BYTES = 16 << 20
"""Bytes of an Arrow batch's largest column, one record aside: bounds a worker's memory."""


@dataclass
class RangeToRead(InputPartition):
    """One task: offsets `start` (included) to `end` (excluded) of one partition.

    `binding`: what of that is looked up when it is read; None: nothing.
    """

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str = ""
    binding: "Binding | None" = None

    @classmethod
    def of(cls, range_: OffsetRange) -> "RangeToRead":
        return cls(range_.tp.topic, range_.tp.partition, range_.start, range_.end, range_.topic_id)

    @property
    def range(self) -> OffsetRange:
        return OffsetRange(TopicPartition(self.topic, self.partition), self.start, self.end, self.topic_id)


def read_range(options: SourceOptions, task: RangeToRead) -> Iterator["pa.RecordBatch"]:
    """The records of one range, `BATCH_ROWS` at a time.

    Raises:
        DataLossError: some are gone, and `failOnDataLoss` is true; else they are skipped.
    """
    tp = TopicPartition(task.topic, task.partition)
    with (
        _failures_named(task, fail_on_data_loss=options.fail_on_data_loss),
        task_reader(options) as reader,
        shape_of(options, tp) as shape,
    ):
        for rows in reader.fetch_columns(
            task.topic,
            task.partition,
            task.start,
            task.end,
            BATCH_ROWS,
            with_headers=options.with_headers,
            fail_on_data_loss=options.fail_on_data_loss,
            wait_for_end=False,
            topic_id=uuid_from_text(task.topic_id) if task.topic_id else ZERO_UUID,
            timestamp_unit="us" if _times_are_wanted(options) else "ms",
            as_timestamp=True,
            batch_bytes=BATCH_BYTES,
        ):
            if options.where is not None:
                rows = options.where.rows(rows)
                if not rows.num_rows:
                    continue
            yield shape.table_rows(rows)


def task_reader(options: SourceOptions) -> "AbstractContextManager[RawReader]":
    """A reader for a task, kept for the next one."""
    return borrowed_reader({"default.api.timeout.ms": str(options.poll_timeout_ms), **options.client})


def _times_are_wanted(options: SourceOptions) -> bool:
    """Return whether anything is made of the records' times, which then have to fit Spark's microseconds."""
    if options.typed is not None or "timestamp" in options.columns:
        return True
    return options.where is not None and options.where.times_are_compared


@contextmanager
def _failures_named(task: RangeToRead, *, fail_on_data_loss: bool) -> Iterator[None]:
    """Raise the client's errors as Spark's user knows them; what may be lost is skipped, with a warning."""
    span = f"offsets [{task.start}, {task.end}) of {task.topic}-{task.partition}"
    try:
        yield
    except TopicRecreatedError as error:
        if fail_on_data_loss:
            raise DataLossError(
                made_again(task.topic, task.topic_id, uuid_to_text(error.topic_id))
            ) from error
        if error.rows_in_doubt:
            # They may be the new topic's, which the next batch reads from its beginning.
            raise ReadError(f"Could not read {span}: while they were read, the {error}") from error
        logger.warning("skipping %s: %s", span, error)
    except PartitionLostError as error:
        raise DataLossError(
            f"Could not read records in offset [{task.start}, {task.end}) for topic partition "
            f"{task.topic}-{task.partition}: {error}"
        ) from error
    except TimestampRangeError as error:
        raise ReadError(
            f"Could not read {span}: {error}. Spark's timestamps are microseconds. The option columns, "
            "without timestamp, reads such records without their times; startingOffsets can begin behind it."
        ) from error
    except KafkaError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise ReadError(f"Could not read {span}: {error}") from error
        if fail_on_data_loss:
            raise DataLossError(f"Could not read {span}: the topic or partition is gone") from error
        logger.warning("skipping %s: the topic or partition is gone", span)


def shape_of(options: SourceOptions, tp: TopicPartition) -> "AbstractContextManager[Shape | TypedShape]":
    """Return what makes the table's rows of the fetched records of `tp`."""
    if options.typed is None:
        return nullcontext(Shape(options.columns, tp))
    from odradek.spark.formats.shape import TypedShape

    return TypedShape(options.typed, tp, options.client)


class Shape:
    """Puts what the client decodes under the table's columns, in their order and with Spark's types.

    Spark compares the Arrow schema of the first batch with its own, to the unit of the timestamp.
    """

    def __init__(self, columns: tuple[str, ...], tp: TopicPartition) -> None:
        self._schema = arrow_schema(columns)
        self._tp = tp
        self._columns = columns

    def table_rows(self, rows: "pa.RecordBatch") -> "pa.RecordBatch":
        """`rows` as decoded: key, value, offset, timestamp, timestampType, and headers if wanted."""
        import pyarrow as pa

        arrays = [self._column(name, rows) for name in self._columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(self, name: str, rows: "pa.RecordBatch") -> Any:
        import pyarrow as pa

        from odradek.records import scalars

        if name == "topic":
            return pa.repeat(scalars.string(self._tp.topic), rows.num_rows)
        if name == "partition":
            return pa.repeat(scalars.int32(self._tp.partition), rows.num_rows)
        array, column_type = rows.column(name), self._schema.field(name).type
        return array if array.type == column_type else array.cast(column_type)
