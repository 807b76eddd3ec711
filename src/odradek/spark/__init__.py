"""Topics as Spark tables: the PySpark data source `odradek`, and a session with the measured settings.

    from odradek.spark import session

    spark = session("clicks")
    clicks = (
        spark.readStream.format("odradek")
        .option("kafka.bootstrap.servers", "127.0.0.1:9092")
        .option("subscribe", "clicks")
        .load()
    )

`session()` is a convenience: `format("odradek")` is known to any PySpark session of an environment in
which odradek is installed, because Spark looks for modules named `pyspark_*`.

The schema, the columns and the option names are those of Spark's own Kafka connector. The parts:

    options.py         what the user may say, checked, as data
    offsets.py         offsets of many partitions and the ids of their topics: their JSON, and where a read
                       starts and ends
    progress.py        how a query is doing and how far it is behind
    listeners.py, watching.py   the same for logs, Prometheus, terminals and notebooks
    where.py, where_parser.py, cuts.py   the option `where`: its conditions, its text, what they save fetching
    ranges.py, joined.py   which task reads which offsets (minPartitions, max- and minRecordsPerPartition)
    admission.py       how far one micro-batch goes (maxOffsetsPerTrigger, minOffsetsPerTrigger)
    schema.py          the columns, in Spark's and in Arrow's words
    offset_reader.py   the driver's questions to the brokers, tried again where that helps
    batch_reader.py, stream_reader.py   the readers that Spark calls
    task.py            what runs in an executor: offsets in, Arrow record batches out
    writer.py          the writers, batch and stream
    decisions.py, exactly_once.py   exactly once: the rules, and the steps of tasks and driver
    transactional_sink.py, task_transaction.py, coordinators.py, slots.py   the same for Spark and brokers
    source.py          the `DataSource` that ties them together
    views.py           topics as views
    formats/           typed columns: keys and values decoded where they are read, and encoded
    sessions.py, java.py   a session, and a Java to run it with

This package knows Kafka through `odradek.client` only.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.spark.listeners import ProgressListener, PrometheusListener
    from odradek.spark.sessions import session
    from odradek.spark.source import OdradekDataSource
    from odradek.spark.views import tables
    from odradek.spark.watching import watch

__all__ = ["OdradekDataSource", "ProgressListener", "PrometheusListener", "session", "tables", "watch"]

_PLACES = {
    "session": "sessions",
    "OdradekDataSource": "source",
    "tables": "views",
    "watch": "watching",
    "ProgressListener": "listeners",
    "PrometheusListener": "listeners",
}


def __getattr__(name: str) -> Any:
    """Import PySpark only when a name that needs it is asked for."""
    if name in _PLACES:
        return getattr(import_module(f"odradek.spark.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
