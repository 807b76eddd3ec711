"""The exactly-once side of the writers: Spark's task and driver calls, as the steps of `exactly_once`."""

import logging
import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from odradek.errors import OdradekError
from odradek.spark.errors import WriteError
from odradek.spark.garbage import freeze_what_stays
from odradek.spark.options import SinkOptions
from odradek.spark.writing.decisions import Report
from odradek.spark.writing.exactly_once import Batch, abort_batch, commit_batch, write_task

if TYPE_CHECKING:
    import pyarrow as pa

    # Imported by who begins or ends a transaction: each writer comes by this module, to at-least-once's
    # driver and tasks too.
    from odradek.spark.writing.coordinators import Coordinators

logger = logging.getLogger(__name__)

#: Of Spark's local properties, which reach the tasks.
_QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
_RUN_ID = "spark.jobGroup.id"

_Key = tuple[int, frozenset[tuple[str, str]]]
_open: dict[_Key, "Coordinators"] = {}


@dataclass
class TransactionCommitMessage(WriterCommitMessage):
    """A task's message to the driver: its transaction waits to be committed."""

    batch: Batch
    report: Report


@contextmanager
def coordinators_of(options: SinkOptions) -> Iterator["Coordinators"]:
    """Those of the sink's cluster, kept open for the next task or batch unless something fails."""
    from odradek.spark.writing.coordinators import Coordinators

    freeze_what_stays()
    key = (os.getpid(), frozenset(options.client.items()))
    coordinators = _open.pop(key, None) or Coordinators(options.client)
    try:
        yield coordinators
    except BaseException:
        coordinators.close()
        raise
    _open[key] = coordinators


def close_idle() -> None:
    """Close the connections that are kept."""
    for coordinators in _open.values():
        coordinators.close()
    _open.clear()


def named_batch(options: SinkOptions) -> Batch:
    """Return the identity of a batch write: that of its `writeId`, or one that nobody will recognise."""
    run = uuid.uuid4().hex
    name = f"{options.transactional_id_prefix}-{options.write_id or run}"
    return Batch(name, options.write_version, run, remembered=options.write_id is not None)


def running_batch(options: SinkOptions) -> Batch:
    """Return the batch and query that this task is of.

    Raises:
        WriteError: Spark does not say.
    """
    context = TaskContext.get()
    query = context.getLocalProperty(_QUERY_ID) if context else None
    number = context.getLocalProperty(BATCH_ID) if context else None
    if context is None or query is None or number is None:
        raise WriteError(
            "deliveryGuarantee 'exactly-once' needs to know which batch a task belongs to, and Spark did not "
            f"say ({_QUERY_ID}={query}, {BATCH_ID}={number})"
        )
    run = context.getLocalProperty(_RUN_ID) or ""
    return Batch(f"{options.transactional_id_prefix}-{query}", int(number), run)


def write_in_transaction(
    options: SinkOptions, batch: Batch, rows: Iterator["pa.RecordBatch"]
) -> TransactionCommitMessage:
    """One task's rows, in a transaction that waits for the driver.

    Raises:
        KafkaError: the brokers refuse, or do not answer.
        WriteError: the batch comes too late, or a row cannot be written.
    """
    from odradek.spark.writing.task_transaction import begin

    context = TaskContext.get()
    task, attempt = (context.partitionId(), context.attemptNumber()) if context else (0, 0)
    with coordinators_of(options) as ledger:
        report = write_task(ledger, batch, task, attempt, rows, partial(begin, options, batch))
    return TransactionCommitMessage(batch, report)


def commit(options: SinkOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Commit a batch whose tasks have all succeeded.

    Raises:
        WriteError: not all tasks said what they wrote, or the batch was not committed to its end.
        KafkaError: the brokers refuse, or do not answer.
    """
    prepared = [message for message in messages if isinstance(message, TransactionCommitMessage)]
    if not prepared or len(prepared) < len(messages):
        raise WriteError(f"{len(messages)} tasks succeeded, and only {len(prepared)} said what they wrote")
    batch = prepared[0].batch
    try:
        with coordinators_of(options) as ledger:
            commit_batch(ledger, batch, [message.report for message in prepared])
    except WriteError:
        raise
    except OdradekError as problem:
        raise WriteError(
            f"batch {batch.number} of {batch.name} was not committed, or not to its end "
            f"({type(problem).__name__}: {problem}). Run it again: what is committed is not written again"
        ) from problem
    rows = sum(message.report.rows for message in prepared)
    logger.info(
        "%s, batch %d: %d rows in %d tasks are committed", batch.name, batch.number, rows, len(prepared)
    )


def abort(options: SinkOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    """A task, or `commit`, failed. Never raises: what is left open is aborted later."""
    prepared = [message for message in messages if isinstance(message, TransactionCommitMessage)]
    if not prepared:
        return
    batch = prepared[0].batch
    try:
        with coordinators_of(options) as ledger:
            abort_batch(ledger, batch, [message.report for message in prepared])
    except OdradekError as problem:
        logger.warning("batch %d of %s was not aborted: %s", batch.number, batch.name, problem)
