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

    source.py          the `DataSource` that ties them together
    options.py         what the user may say, checked, as data
    offsets.py, ranges.py   offsets of many partitions and the ids of their topics; their division among tasks
    columns.py, schema.py   the columns, in Spark's and in Arrow's words
    connections.py     readers and writers kept open between the tasks of one process
    reading/           a batch planned by the driver, and read by tasks
    where/             the option `where`: its conditions, its text, what they save fetching
    formats/           typed columns: keys and values decoded where they are read, and encoded
    writing/           each task's own writes, and exactly once: the rules, the steps of tasks and driver
    watching/          how a query is doing and how far it is behind: for logs, terminals, Prometheus
    views.py           topics as views
    sessions/          a session, a Java to run it with, and the Python of its workers

This package knows Kafka through `odradek.client` only.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.spark.sessions.session import session
    from odradek.spark.source import OdradekDataSource
    from odradek.spark.views import tables
    from odradek.spark.watching.listeners import ProgressListener, PrometheusListener
    from odradek.spark.watching.watch import watch

__all__ = ["OdradekDataSource", "ProgressListener", "PrometheusListener", "session", "tables", "watch"]

_PLACES = {
    "session": "sessions.session",
    "OdradekDataSource": "source",
    "tables": "views",
    "watch": "watching.watch",
    "ProgressListener": "watching.listeners",
    "PrometheusListener": "watching.listeners",
}


def __getattr__(name: str) -> Any:
    """Import PySpark only when a name that needs it is asked for."""
    if name in _PLACES:
        return getattr(import_module(f"odradek.spark.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
