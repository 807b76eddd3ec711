"""All topics of a cluster as temporary views: `tables(spark, "127.0.0.1:9092")`, then plain SQL.

A view is kept as text, and Spark reads it anew for each query. So a query sees the topic as it is then, with
as many tasks as it has partitions then. The text selects from a table of the session's catalog that has no
data and no options of its own; those stand in the view (`WITH`).
"""

import re
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from odradek.spark.connections import first_contact_ms, open_reader, unreachable
from odradek.spark.kafka_configs import BOOTSTRAP_SERVERS
from odradek.spark.option_values import text_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BASE = "spark_catalog.default.odradek_topics"


def tables(
    spark: "SparkSession",
    bootstrap_servers: str,
    *,
    where: str | None = None,
    pattern: str | None = None,
    prefix: str = "",
    options: Mapping[str, Any] | None = None,
) -> list[str]:
    """Register a temporary view for each topic, and return the views' names.

        tables(spark, "127.0.0.1:9092")
        spark.sql("SELECT * FROM clicks WHERE timestamp > now() - INTERVAL 1 HOUR")

    A topic whose name has a dot or a hyphen is written in backticks. A view of the same name is replaced.

    Args:
        spark: the session that gets the views.
        bootstrap_servers: of the cluster.
        where: the option `where` of all views: what is not wanted by it is not fetched. Conditions of a query
            filter rows too, but are not known to the source.
        pattern: a regular expression searched in the topics' names; None: all but Kafka's internal ones.
        prefix: of the views' names, so that several clusters have room in one session.
        options: more options of the source, by name. They can be read in the views' text; passwords too.

    Raises:
        UnreachableError: no broker could be reached.
        ValueError: an option that cannot be.
    """
    given = {**(options or {}), f"kafka.{BOOTSTRAP_SERVERS}": bootstrap_servers}
    if where is not None:
        given["where"] = where
    names = _topics({name: str(value) for name, value in given.items()}, pattern)
    if not names:
        return []
    base = _base_table(spark, given, names[0])
    views = []
    for topic in names:
        option_list = ", ".join(
            f"{_quoted(name)} = {_quoted(text_of(value))}"
            for name, value in {**given, "subscribe": topic}.items()
        )
        views.append(prefix + topic)
        name = views[-1].replace("`", "``")
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW `{name}` AS SELECT * FROM {base} WITH ({option_list})")
    return views


def _topics(given: Mapping[str, str], pattern: str | None) -> list[str]:
    from odradek.client.errors import NoBrokersAvailableError
    from odradek.spark.options import parse_source

    # Whatever else is wrong with the options is said here, and not by the first query.
    configs = parse_source({**given, "subscribe": "any"}, streaming=False).client
    try:
        with open_reader(configs, first_contact_ms(configs)) as reader:
            topics = reader.topics()
    except NoBrokersAvailableError as problem:
        raise unreachable(configs, problem) from problem
    return sorted(name for name in topics if pattern is None or re.search(pattern, name))


def _base_table(spark: "SparkSession", given: Mapping[str, Any], topic: str) -> str:
    """Return the name of the table with the columns that these options give; it is made if need be."""
    from odradek.spark.formats.ddl import ddl_of

    frame = spark.read.format("odradek").options(**given, subscribe=topic).load()
    columns = ddl_of(frame.schema)
    name = f"{_BASE}_{zlib.crc32(columns.encode()):08x}"
    # With a location of its own Spark makes no folder for it.
    spark.sql(f"CREATE TABLE IF NOT EXISTS {name} ({columns}) USING odradek LOCATION 'odradek:/topics'")
    return name


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
