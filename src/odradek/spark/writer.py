"""`df.write` and `df.writeStream`: each task sends its Arrow batches and waits for the acknowledgements.

At least once: a task that Spark tries again, and a batch that it runs again after a crash, write their rows
again.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
)

from odradek.errors import OdradekError
from odradek.spark.connections import borrowed_writer
from odradek.spark.errors import WriteError
from odradek.spark.kafka_configs import BOOTSTRAP_SERVERS
from odradek.spark.options import SinkOptions
from odradek.spark.schema import HEADERS_TYPE

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

_ACCEPTED: dict[str, tuple[DataType, ...]] = {
    "topic": (StringType(),),
    "key": (StringType(), BinaryType()),
    "value": (StringType(), BinaryType()),
    "headers": (HEADERS_TYPE,),
    "partition": (IntegerType(),),
}


@dataclass
class Written(WriterCommitMessage):
    """What one task wrote and had acknowledged."""

    rows: int
    bytes: int


def check_schema(schema: StructType, topic: str | None) -> tuple[str, ...]:
    """The columns of `schema` that are written; others are left alone, as the connector does.

    Raises `ValueError` for a missing `value`, for no topic, and for types that a record cannot have.
    """
    names = set(schema.fieldNames())
    if topic is None and "topic" not in names:
        raise ValueError(
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a "
            "topic."
        )
    if "value" not in names:
        raise ValueError("Required attribute 'value' not found")
    columns = [name for name in schema.fieldNames() if name in _ACCEPTED and not (topic and name == "topic")]
    for name in columns:
        given = schema[name].dataType
        if not any(_same_type(given, accepted) for accepted in _ACCEPTED[name]):
            wanted = " or ".join(accepted.simpleString() for accepted in _ACCEPTED[name])
            raise ValueError(
                f"{name} attribute unsupported type {given.simpleString()}. {name} must be a(n) {wanted}"
            )
    return tuple(columns)


def _same_type(given: DataType, accepted: DataType) -> bool:
    """Equal but for what may be null."""
    return given.simpleString() == accepted.simpleString()


def write_rows(options: SinkOptions, columns: Sequence[str], batches: Iterator["pa.RecordBatch"]) -> Written:
    """Send `batches` and wait until all is acknowledged. Raises `WriteError`."""
    servers = options.client[BOOTSTRAP_SERVERS]
    acknowledged = size = 0
    try:
        with borrowed_writer(options.client) as writer:
            before = writer.rows_written
            for batch in batches:
                chosen = batch.select(columns)
                if options.topic is None and chosen.column("topic").null_count:
                    raise WriteError(
                        "null topic present in the data. Use the topic option for setting a default topic."
                    )
                writer.write_columns(chosen, options.topic)
                size += chosen.nbytes
                acknowledged = writer.rows_written - before
            acknowledged = writer.flush() - before
    except WriteError:
        raise
    except (OdradekError, OSError, ValueError) as error:
        where = f"topic '{options.topic}'" if options.topic else "the topics of the rows"
        raise WriteError(
            f"writing to {where} at {servers} failed after {acknowledged} rows were acknowledged "
            f"({type(error).__name__}): {error}"
        ) from error
    return Written(acknowledged, size)


def _total(messages: Sequence[WriterCommitMessage | None]) -> tuple[int, int]:
    """(rows, tasks that finished)."""
    written = [message for message in messages if isinstance(message, Written)]
    return sum(message.rows for message in written), len(written)


class BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame; Spark pickles it to the executors."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._options = options
        self._columns = check_schema(schema, options.topic)

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> Written:
        return write_rows(self._options, self._columns, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        log.info("wrote %d rows in %d tasks", *_total(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        log.warning("the job failed; %d rows of %d finished tasks stay in the log", *_total(messages))


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a streaming query; Spark pickles it to the executors."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._options = options
        self._columns = check_schema(schema, options.topic)

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> Written:
        return write_rows(self._options, self._columns, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        rows, tasks = _total(messages)
        log.info("batch %d: wrote %d rows in %d tasks", batchId, rows, tasks)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        rows, tasks = _total(messages)
        log.warning("batch %d failed; %d rows of %d finished tasks stay in the log", batchId, rows, tasks)
