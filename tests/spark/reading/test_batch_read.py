"""`spark.read.format("odradek")`."""

import datetime
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.spark


def values(frame: Any) -> list[str]:
    return sorted(bytes(row.value).decode() for row in frame.select("value").collect())


def error(action: Callable[[], Any]) -> str:
    with pytest.raises(Exception) as caught:
        action()
    return str(caught.value)


def test_the_format_is_known_without_registration_and_has_the_connectors_schema(read: Any) -> None:
    assert read(subscribe="t").dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
    ]
    assert read(subscribe="t", includeHeaders="true").dtypes[-1] == (
        "headers",
        "array<struct<key:string,value:binary>>",
    )
    assert read(subscribe="t", columns="offset, value").dtypes == [("offset", "bigint"), ("value", "binary")]


def test_every_column_holds_what_was_written(new_topic: Any, read: Any) -> None:
    topic = new_topic(2)
    moment = datetime.datetime(2026, 3, 1, 12, 30, 15, 123_000)
    time_ms = int(moment.replace(tzinfo=datetime.UTC).timestamp() * 1000)
    topic.produce(["a"], 1, key=b"k", timestamps_ms=[time_ms], headers=[("h", b"1"), ("h", None)])
    topic.produce([None], 0, timestamps_ms=[time_ms + 1])
    rows = read(subscribe=topic.name, includeHeaders="true").orderBy("partition").collect()
    tombstone, record = rows
    assert record.asDict(recursive=True) == {
        "key": bytearray(b"k"),
        "value": bytearray(b"a"),
        "topic": topic.name,
        "partition": 1,
        "offset": 0,
        "timestamp": moment,
        "timestampType": 0,
        "headers": [{"key": "h", "value": bytearray(b"1")}, {"key": "h", "value": None}],
    }
    assert (tombstone.key, tombstone.value, tombstone.headers) == (None, None, [])


def test_offsets_as_json(new_topic: Any, read: Any) -> None:
    topic = new_topic(2)
    topic.produce("abcd", 0)
    topic.produce("wxyz", 1)
    assert values(
        read(subscribe=topic.name, startingOffsets=topic.offsets(1, -2), endingOffsets=topic.offsets(3, -1))
    ) == ["b", "c", "w", "x", "y", "z"]


def test_an_end_before_the_end(new_topic: Any, read: Any) -> None:
    topic = new_topic()
    topic.produce("abcd")
    frame = read(subscribe=topic.name, endingOffsets=topic.offsets(2))
    assert values(frame) == ["a", "b"]
    topic.produce("ef")
    assert values(frame) == ["a", "b"]
    assert values(read(subscribe=topic.name)) == list("abcdef")


def test_by_timestamp(new_topic: Any, read: Any) -> None:
    topic = new_topic(2)
    topic.produce("abcd", 0, timestamps_ms=[1000, 2000, 3000, 4000])
    topic.produce("wxyz", 1, timestamps_ms=[1500, 2500, 3500, 4500])
    assert values(read(subscribe=topic.name, startingTimestamp=2000, endingTimestamp=3500)) == list("bcx")
    assert values(
        read(
            subscribe=topic.name,
            startingOffsetsByTimestamp=topic.offsets(2001, 3500),
            endingOffsetsByTimestamp=topic.offsets(9999, 4000),
        )
    ) == list("cdy")


def test_a_start_after_the_last_timestamp(new_topic: Any, read: Any) -> None:
    topic = new_topic()
    topic.produce("ab", timestamps_ms=[1000, 2000])
    message = error(read(subscribe=topic.name, startingTimestamp=2001).collect)
    assert f"No offset matched from request of topic-partition {topic.name}-0 and timestamp 2001." in message
    frame = read(subscribe=topic.name, startingTimestamp=2001, startingOffsetsByTimestampStrategy="latest")
    assert values(frame) == []


def test_topics_by_list_pattern_and_assignment(new_topic: Any, read: Any) -> None:
    first, second = new_topic(2), new_topic()
    first.produce("a", 0)
    first.produce("b", 1)
    second.produce("c")
    assert values(read(subscribe=f"{first.name}, {second.name}")) == ["a", "b", "c"]
    assert values(read(subscribePattern=f"^{first.name}$|^{second.name}$")) == ["a", "b", "c"]
    assert values(read(assign=f'{{"{first.name}":[1],"{second.name}":[0]}}')) == ["b", "c"]


def test_more_tasks_than_partitions(new_topic: Any, read: Any) -> None:
    topic = new_topic(2)
    numbers = [f"{number:03}" for number in range(100)]
    topic.produce(numbers, 0)
    topic.produce(["x"], 1)
    frame = read(subscribe=topic.name, minPartitions=4)
    assert frame.rdd.getNumPartitions() == 4
    assert values(frame) == [*numbers, "x"]
    assert read(subscribe=topic.name, maxRecordsPerPartition=30).rdd.getNumPartitions() == 5


def test_a_topic_without_records(new_topic: Any, read: Any) -> None:
    assert values(read(subscribe=new_topic().name, minPartitions=3)) == []


def test_many_rows_come_in_order_and_once(new_topic: Any, read: Any) -> None:
    topic = new_topic()
    topic.produce(str(number) for number in range(45_000))
    row = (
        read(subscribe=topic.name, columns="value,offset")
        .selectExpr(
            "count(*) AS rows",
            "count(DISTINCT offset) AS offsets",
            "sum(CASE WHEN cast(value AS string) = cast(offset AS string) THEN 1 ELSE 0 END) AS right",
        )
        .first()
    )
    assert (row["rows"], row["offsets"], row["right"]) == (45_000, 45_000, 45_000)


def test_columns_that_are_not_asked_for_are_not_needed(new_topic: Any, read: Any) -> None:
    topic = new_topic()
    topic.produce("ab")
    assert [row.asDict() for row in read(subscribe=topic.name, columns="offset").collect()] == [
        {"offset": 0},
        {"offset": 1},
    ]


def test_records_that_were_deleted(new_topic: Any, read: Any) -> None:
    from odradek.client import Admin

    topic = new_topic()
    topic.produce("abcdef")
    with Admin(bootstrap_servers=topic.servers) as admin:
        admin.delete_records({(topic.name, 0): 3})
    start = topic.offsets(1)
    message = error(read(subscribe=topic.name, startingOffsets=start).collect)
    assert "DataLossError" in message
    assert "set the source option failOnDataLoss to false" in message
    assert values(read(subscribe=topic.name, startingOffsets=start, failOnDataLoss="false")) == list("def")
    assert values(read(subscribe=topic.name)) == list("def")


def test_an_end_behind_the_log(new_topic: Any, read: Any) -> None:
    topic = new_topic()
    topic.produce("abc")
    options = {"subscribe": topic.name, "endingOffsets": topic.offsets(20), "kafka.retry.backoff.max.ms": 10}
    assert values(read(**options, failOnDataLoss="false")) == list("abc")
    message = error(read(**options).collect)
    assert "DataLossError" in message
    assert "offset 3 of the range up to 20 is not in the log, which now holds 0 to 3" in message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "One of the following options must be specified"),
        (
            {"subscribe": "no-such-topic", "fetchOffset.numRetries": "1"},
            "topic 'no-such-topic' does not exist",
        ),
        ({"subscribe": "t", "minPartition": "1"}, "did you mean 'minPartitions'?"),
        ({"subscribe": "t", "startingOffsets": "latest"}, "starting offset can't be latest"),
        ({"subscribe": "t", "kafka.acks": "all", "kafka.isolation.level": "none"}, "isolation.level"),
    ],
)
def test_what_cannot_be_read_says_why(read: Any, options: dict[str, str], message: str) -> None:
    assert message in error(lambda: read(**options).collect())


def test_offsets_must_name_every_partition(new_topic: Any, read: Any) -> None:
    topic = new_topic(2)
    message = error(read(subscribe=topic.name, startingOffsets=topic.offsets(0)).collect)
    assert "you must specify all TopicPartitions" in message
    assert f"Assigned: [{topic.name}-0, {topic.name}-1]" in message


def test_a_start_after_the_end_is_refused(new_topic: Any, read: Any) -> None:
    topic = new_topic()
    topic.produce("ab")
    message = error(read(subscribe=topic.name, startingOffsets=topic.offsets(5)).collect)
    assert "start offset 5 is greater than the resolved end offset 2" in message


def test_no_broker_there(spark: Any) -> None:
    frame = (
        spark.read.format("odradek")
        .option("kafka.bootstrap.servers", "127.0.0.1:1")
        .option("kafka.default.api.timeout.ms", 300)
        .option("fetchOffset.numRetries", 1)
        .option("subscribe", "t")
        .load()
    )
    assert "127.0.0.1:1" in error(frame.collect)
