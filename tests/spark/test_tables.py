"""`odradek.spark.tables`: topics as views."""

from pathlib import Path
from typing import Any

import pytest

from odradek.spark.errors import UnreachableError

pytestmark = pytest.mark.spark


def count(spark: Any, query: str) -> int:
    return int(spark.sql(f"SELECT count(*) FROM {query}").first()[0])


def test_topics_are_views_that_show_what_is_there_now(spark: Any, new_topic: Any) -> None:
    from odradek.spark import tables

    plain, odd = new_topic(2, name="tables_clicks"), new_topic(name="tables.is-odd")
    plain.produce("ab", 0, timestamps_ms=[1000, 2000])
    odd.produce("c")
    views = tables(spark, plain.servers, pattern="^tables")
    assert views == ["tables.is-odd", "tables_clicks"]
    assert (count(spark, "tables_clicks"), count(spark, "`tables.is-odd`")) == (2, 1)
    plain.produce("x", 1)
    assert count(spark, "tables_clicks") == 3
    assert count(spark, "tables_clicks WHERE timestamp > now() - INTERVAL 1 HOUR") == 1
    both = "(SELECT * FROM tables_clicks WHERE offset < 1 UNION ALL SELECT * FROM tables_clicks)"
    assert count(spark, both) == 2 + 3
    assert not list(Path(spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:")).glob("odradek*"))


def test_with_conditions_options_and_a_prefix(spark: Any, new_topic: Any) -> None:
    from odradek.spark import tables

    topic = new_topic(name="tables_again")
    topic.produce("abc", timestamps_ms=[1000, 2000, 3000], headers=[("h", b"1")])
    where = "topic = 'tables_again' and timestamp >= timestamp_millis(2000)"
    options = {"includeHeaders": True}
    views = tables(spark, topic.servers, where=where, pattern="again$", prefix="old_", options=options)
    assert views == ["old_tables_again"]
    rows = spark.sql("SELECT offset, headers FROM old_tables_again WHERE offset < 2").collect()
    assert [(row.offset, row.headers[0].key) for row in rows] == [(1, "h")]
    assert tables(spark, topic.servers, pattern="no such topic") == []


def test_what_is_wrong_is_said_at_once(spark: Any, servers: str) -> None:
    from odradek.spark import tables

    with pytest.raises(ValueError, match="did you mean 'includeHeaders'"):
        tables(spark, servers, options={"includeHeader": "true"})
    with pytest.raises(ValueError, match="where: expected a whole number"):
        tables(spark, servers, where="offset < 'a'")
    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:1"):
        tables(spark, "127.0.0.1:1", options={"kafka.default.api.timeout.ms": 200})


def test_names_in_a_schema_are_names_and_no_sql(spark: Any, new_topic: Any) -> None:
    """Names come from a registry: one that ends the list of columns would say what table is made."""
    import json

    from odradek.spark import tables

    name = "a: INT>) USING csv LOCATION '/etc' -- `"
    inside = {"type": "record", "name": "I", "fields": [{"name": name, "type": "long"}]}
    schema = {"type": "record", "name": "R", "fields": [{"name": "b`c d", "type": inside}]}
    topic = new_topic(name="tables_named")
    topic.produce([b"\x08"])
    options = {"value.format": "avro", "value.schema": json.dumps(schema)}
    assert tables(spark, topic.servers, pattern="tables_named", options=options) == ["tables_named"]
    (row,) = spark.sql("SELECT `value`.`b``c d` AS found FROM tables_named").collect()
    assert row.found.asDict() == {name: 4}
