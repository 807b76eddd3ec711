"""`df.write` and `df.writeStream`: each task sends its Arrow batches and waits for the acknowledgements.

At least once, a task that Spark tries again, and a batch that it runs again after a crash, write their rows
again. Exactly once, tasks write in transactions, and the driver commits them (`transactional_sink`).
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
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
    StructField,
    StructType,
)

from odradek.errors import OdradekError
from odradek.spark.connections import borrowed_writer, check_reachable
from odradek.spark.errors import WriteError
from odradek.spark.kafka_configs import BOOTSTRAP_SERVERS
from odradek.spark.options import SinkOptions
from odradek.spark.schema import HEADERS_TYPE
from odradek.spark.writing import transactional_sink
from odradek.spark.writing.exactly_once import Batch
from odradek.spark.writing.transactional_sink import (
    BATCH_ID,
    TransactionCommitMessage,
    named_batch,
    running_batch,
    write_in_transaction,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from odradek.spark.formats.encoding import TypedWrite

logger = logging.getLogger(__name__)

_ACCEPTED: dict[str, tuple[DataType, ...]] = {
    "topic": (StringType(),),
    "key": (StringType(), BinaryType()),
    "value": (StringType(), BinaryType()),
    "headers": (HEADERS_TYPE,),
    "partition": (IntegerType(),),
}


@dataclass
class Written(WriterCommitMessage):
    """The acknowledged records of one task."""

    rows: int
    bytes: int


def check_schema(schema: StructType, topic: str | None) -> tuple[str, ...]:
    """The columns of `schema` that are written; others are left alone, as the connector does.

    Raises:
        ValueError: `value` is missing, there is no topic, or a type is none that a record can have.
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
            accepted_types = " or ".join(accepted.simpleString() for accepted in _ACCEPTED[name])
            raise ValueError(
                f"{name} attribute unsupported type {given.simpleString()}. {name} must be a(n) "
                f"{accepted_types}"
            )
    return tuple(columns)


def _same_type(given: DataType, accepted: DataType) -> bool:
    """Equal but for what may be null."""
    return given.simpleString() == accepted.simpleString()


@dataclass(frozen=True)
class Records:
    """The columns of rows that are written, and how.

    Attributes:
        typed: how keys and values are encoded; None: they are written as they are.
    """

    columns: tuple[str, ...]
    typed: "TypedWrite | None" = None

    def of(self, batch: "pa.RecordBatch") -> "pa.RecordBatch":
        """The rows as records.

        Raises:
            UnwritableRowError: a row cannot be encoded.
        """
        if self.typed is None:
            return batch.select(self.columns)
        return self.typed.rows(batch.select(self.columns))


def records_of(options: SinkOptions, schema: StructType) -> Records:
    """Return how rows of `schema` become records.

    Raises:
        ValueError: a column or a type is none that a record can have.
        RegistryError: the registry cannot be asked, or refuses.
    """
    if not options.sides:
        return Records(check_schema(schema, options.topic))
    from odradek.spark.formats.encoding import typed_write

    typed = typed_write(options.sides, schema, options.topic)
    # What is not encoded is as it always is.
    encoded = {side: StructField(side, BinaryType()) for side in options.sides}
    rest = [encoded.pop(name, None) or schema[name] for name in schema.fieldNames() if name in _ACCEPTED]
    rest = [field for field in rest if field.name != "headers" or not typed.headers_map]
    check_schema(StructType([*rest, *encoded.values()]), options.topic)
    return Records(typed.columns, typed)


def _chosen(
    options: SinkOptions, records: Records, batches: Iterator["pa.RecordBatch"]
) -> Iterator["pa.RecordBatch"]:
    """The records to write.

    Raises:
        WriteError: a row has no topic.
    """
    for batch in batches:
        chosen = records.of(batch)
        if options.topic is None and chosen.column("topic").null_count:
            raise WriteError(
                "null topic present in the data. Use the topic option for setting a default topic."
            )
        yield chosen


def _failed(options: SinkOptions, progress: str, error: Exception) -> WriteError:
    where = f"topic '{options.topic}'" if options.topic else "the topics of the rows"
    servers = options.client[BOOTSTRAP_SERVERS]
    return WriteError(f"writing to {where} at {servers} failed {progress} ({type(error).__name__}): {error}")


def _meet_brokers(options: SinkOptions) -> None:
    """Before the first rows of a query: see that the servers are right.

    Later ones wait for a broker that is away for as long as a producer does.

    Raises:
        UnreachableError: no broker can be reached.
    """
    context = TaskContext.get()
    if context is None or context.getLocalProperty(BATCH_ID) in (None, "0"):
        check_reachable(options.client)


def write_rows(options: SinkOptions, records: Records, batches: Iterator["pa.RecordBatch"]) -> Written:
    """Send `batches` and wait until all is acknowledged.

    Raises:
        WriteError: a row could not be written.
    """
    acknowledged = size = 0
    try:
        _meet_brokers(options)
        with borrowed_writer(options.client) as writer:
            before = writer.rows_written
            for chosen in _chosen(options, records, batches):
                writer.write_columns(chosen, options.topic)
                size += chosen.nbytes
                acknowledged = writer.rows_written - before
            acknowledged = writer.flush() - before
    except WriteError:
        raise
    except (OdradekError, OSError, ValueError) as error:
        raise _failed(options, f"after {acknowledged} rows were acknowledged", error) from error
    return Written(acknowledged, size)


def prepare_rows(
    options: SinkOptions, records: Records, batch: Batch, batches: Iterator["pa.RecordBatch"]
) -> TransactionCommitMessage:
    """Send `batches` in a transaction, which waits for the driver.

    Raises:
        WriteError: a row could not be written, or the transaction not be prepared.
    """
    try:
        _meet_brokers(options)
        return write_in_transaction(options, batch, _chosen(options, records, batches))
    except WriteError:
        raise
    except (OdradekError, OSError, ValueError) as error:
        raise _failed(options, "in a transaction that will not be committed", error) from error


def _total(messages: Sequence[WriterCommitMessage | None]) -> tuple[int, int]:
    """(rows, tasks that finished)."""
    written = [message for message in messages if isinstance(message, Written)]
    return sum(message.rows for message in written), len(written)


class BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame; Spark pickles it to the executors."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._options = options
        self._records = records_of(options, schema)
        self._batch = named_batch(options)

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        if self._options.exactly_once:
            return prepare_rows(self._options, self._records, self._batch, iterator)
        return write_rows(self._options, self._records, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._options.exactly_once:
            transactional_sink.commit(self._options, messages)
            return
        logger.info("wrote %d rows in %d tasks", *_total(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._options.exactly_once:
            transactional_sink.abort(self._options, messages)
            return
        logger.warning("the job failed; %d rows of %d finished tasks stay in the log", *_total(messages))


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a streaming query; Spark pickles it to the executors."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        if options.write_id is not None:
            raise ValueError("writeId names a batch write; a streaming query's name is its checkpoint's")
        self._options = options
        self._records = records_of(options, schema)

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        if self._options.exactly_once:
            return prepare_rows(self._options, self._records, running_batch(self._options), iterator)
        return write_rows(self._options, self._records, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        if self._options.exactly_once:
            transactional_sink.commit(self._options, messages)
            return
        rows, tasks = _total(messages)
        logger.info("batch %d: wrote %d rows in %d tasks", batchId, rows, tasks)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        if self._options.exactly_once:
            transactional_sink.abort(self._options, messages)
            return
        rows, tasks = _total(messages)
        logger.warning("batch %d failed; %d rows of %d finished tasks stay in the log", batchId, rows, tasks)
