"""`df.write.format("odradek")`."""

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.spark


@pytest.fixture
def write(servers: str) -> Callable[..., None]:
    def save(frame: Any, mode: str = "append", **options: Any) -> None:
        writer = frame.write.format("odradek").option("kafka.bootstrap.servers", servers)
        writer.options(**options).mode(mode).save()

    return save


def refusal(action: Callable[[], Any]) -> str:
    with pytest.raises(Exception) as caught:
        action()
    return str(caught.value)


def test_keys_values_partitions_and_headers(spark: Any, new_topic: Any, read: Any, write: Any) -> None:
    topic = new_topic(3)
    frame = spark.createDataFrame(
        [
            ("k0", b"v0", 2, [("h", b"1"), ("i", None)]),
            (None, b"v1", 1, []),
            ("k2", None, 0, None),
        ],
        "key string, value binary, partition int, headers array<struct<key: string, value: binary>>",
    )
    write(frame, topic=topic.name)
    rows = read(subscribe=topic.name, includeHeaders="true").orderBy("partition").collect()
    assert [(row.partition, row.key, row.value) for row in rows] == [
        (0, b"k2", None),
        (1, None, b"v1"),
        (2, b"k0", b"v0"),
    ]
    assert [(header.key, header.value) for header in rows[2].headers] == [("h", b"1"), ("i", None)]


def test_a_key_goes_to_the_partition_where_every_kafka_client_puts_it(
    spark: Any, new_topic: Any, read: Any, write: Any
) -> None:
    from odradek.records.partitioner import partition_for_key

    topic = new_topic(5)
    frame = spark.range(200).selectExpr("cast(id AS string) AS key", "cast(id AS string) AS value")
    write(frame, topic=topic.name)
    rows = read(subscribe=topic.name).collect()
    assert sorted(int(row.value) for row in rows) == list(range(200))
    assert all(row.partition == partition_for_key(bytes(row.key), 5) for row in rows)


def test_rows_may_name_their_topics(spark: Any, new_topic: Any, write: Any) -> None:
    first, second = new_topic(), new_topic()
    frame = spark.createDataFrame([(first.name, "a"), (second.name, "b")], "topic string, value string")
    write(frame)
    assert (first.values(), second.values()) == (["a"], ["b"])
    write(frame, topic=first.name)  # the option wins
    assert sorted(first.values()) == ["a", "a", "b"]


def test_a_whole_topic_can_be_copied(new_topic: Any, read: Any, write: Any) -> None:
    source, target = new_topic(), new_topic()
    source.produce([str(number) for number in range(30_000)], key=b"k")
    write(read(subscribe=source.name, includeHeaders="true"), topic=target.name)
    assert target.values() == source.values()


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("'a' AS value", {}, "topic option required when no 'topic' attribute is present"),
        ("'a' AS key", {"topic": "t"}, "Required attribute 'value' not found"),
        ("1 AS value", {"topic": "t"}, "value attribute unsupported type int"),
        ("'a' AS value, 1.5D AS partition", {"topic": "t"}, "partition must be a(n) int"),
        ("'a' AS value, 'b' AS headers", {"topic": "t"}, "headers attribute unsupported type string"),
        ("'a' AS value, cast(null AS string) AS topic", {}, "null topic present in the data"),
        ("'a' AS value", {"topic": "t", "kafka.key.serializer": "x"}, "'key.serializer' is not supported"),
        ("'a' AS value", {"topic": "t", "topics": "x"}, "did you mean 'topic'?"),
        ("'a' AS value", {"topic": "t", "kafka.acks": "2"}, "acks"),
    ],
)
def test_what_cannot_be_written_says_why(
    spark: Any, write: Any, columns: str, options: dict[str, str], message: str
) -> None:
    frame = spark.sql(f"SELECT {columns}")
    assert message in refusal(lambda: write(frame, **options))


def test_a_topic_is_not_overwritten(spark: Any, new_topic: Any, write: Any) -> None:
    topic = new_topic()
    frame = spark.sql("SELECT 'a' AS value")
    assert "Overwrite not allowed" in refusal(lambda: write(frame, mode="overwrite", topic=topic.name))


def test_a_failed_write_fails_the_job_and_names_the_topic(spark: Any, new_topic: Any, write: Any) -> None:
    topic = new_topic()
    frame = spark.sql("SELECT repeat('a', 3000000) AS value")
    message = refusal(lambda: write(frame, topic=topic.name))
    assert "WriteError" in message
    assert f"writing to topic '{topic.name}'" in message
    assert topic.values() == []


def test_a_partition_that_is_not_there(spark: Any, new_topic: Any, write: Any) -> None:
    topic = new_topic()
    frame = spark.sql("SELECT 'a' AS value, 7 AS partition")
    options = {
        "kafka.max.block.ms": "500",
        "kafka.delivery.timeout.ms": "1500",
        "kafka.request.timeout.ms": "500",
    }
    assert "WriteError" in refusal(lambda: write(frame, topic=topic.name, **options))


def test_what_sql_can_do(spark: Any, new_topic: Any, servers: str) -> None:
    """As docs/pipeline.md has it: a table's options do not reach a Python source, others do."""
    topic = new_topic()
    topic.produce("ab")
    at = f"'kafka.bootstrap.servers' = '{servers}'"
    for name, kind in (("of_view", "TEMPORARY VIEW"), ("of_table", "TABLE")):
        spark.sql(
            f"CREATE {kind} {name} USING odradek OPTIONS ('kafka.bootstrap.servers' '{servers}', "
            f"'subscribe' '{topic.name}')"
        )
    assert spark.sql("SELECT * FROM of_view").count() == 2
    assert spark.sql(f"SELECT * FROM of_table WITH ({at}, 'subscribe' = '{topic.name}')").count() == 2
    assert "CREATE TEMPORARY VIEW" in refusal(lambda: spark.sql("SELECT * FROM of_table").count())
    spark.sql("CREATE TABLE to_write (value STRING) USING odradek")
    spark.sql(f"INSERT INTO to_write WITH ({at}, 'topic' = '{topic.name}') VALUES ('c')")
    assert topic.values() == ["a", "b", "c"]


def test_the_mode_has_to_be_said(spark: Any, new_topic: Any, servers: str, write: Any) -> None:
    topic = new_topic()
    frame = spark.range(1).selectExpr("'a' AS value")
    writer = frame.write.format("odradek").option("kafka.bootstrap.servers", servers)
    assert "ErrorIfExists" in refusal(writer.option("topic", topic.name).save)
    assert '.mode("append")' in refusal(lambda: write(frame, mode="overwrite", topic=topic.name))


def test_the_example_of_the_docs(spark: Any, new_topic: Any, write: Any) -> None:
    topic = new_topic()
    write(
        spark.range(3).selectExpr("CAST(id AS STRING) AS key", "to_json(struct(*)) AS value"),
        topic=topic.name,
    )
    assert sorted(topic.values()) == ['{"id":0}', '{"id":1}', '{"id":2}']
