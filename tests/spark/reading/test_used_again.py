"""A batch frame that is used again: planned once, its tasks read what is there now, each row once."""

import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from odradek.client import Admin, NewTopic
from odradek.client.types import TopicPartition
from odradek.spark.connections import close_idle
from odradek.spark.errors import DataLossError
from odradek.spark.options import SourceOptions, parse_source
from odradek.spark.ranges import OffsetRange, split
from odradek.spark.reading.batch_reader import BatchReader
from odradek.spark.reading.joined import read_task
from odradek.spark.reading.late_binding import Binding, Found, bound
from odradek.testing import Broker
from seeds import each_seed

from ..conftest import Topic, started_in_time

_numbers = itertools.count()
QUICK = {
    "kafka.retry.backoff.ms": "1",
    "kafka.retry.backoff.max.ms": "1",
    "kafka.fetch.max.wait.ms": "10",
    "fetchOffset.retryIntervalMs": "0",
}
Row = tuple[str, int, int, str]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(auto_create_topics_enable="false") as running:
        yield running
    close_idle()


@pytest.fixture(scope="module")
def admin(broker: Broker) -> Iterator[Admin]:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as client:
        yield client


@pytest.fixture
def topic(broker: Broker, admin: Admin) -> Topic:
    """Ten records in partition 0, three in partition 1, none in partition 2."""
    made = Topic(broker.bootstrap_servers, f"used-{next(_numbers)}-again")
    admin.create_topics([NewTopic(made.name, 3, 1)])
    write(made, 10, 0)
    write(made, 3, 1)
    return made


def write(topic: Topic, count: int, partition: int, from_ms: int = 1000) -> None:
    texts = [f"{from_ms}-{n}" for n in range(count)]
    topic.produce(texts, partition, timestamps_ms=range(from_ms, from_ms + count))


def options_for(topic: Topic, **more: str) -> SourceOptions:
    chosen = {"subscribe": topic.name} if "subscribePattern" not in more else {}
    more = {name: text.replace("TOPIC", topic.name) for name, text in more.items()}
    servers = {"kafka.bootstrap.servers": topic.servers}
    return parse_source({**servers, **chosen, **QUICK, **more}, streaming=False)


def rows(options: SourceOptions, tasks: Any) -> list[Row]:
    read = (batch for task in tasks for batch in read_task(options, task))
    columns = ("topic", "partition", "offset", "value")
    return sorted(tuple(row[name] for name in columns) for batch in read for row in batch.to_pylist())


def append(topic: Topic, admin: Admin) -> None:
    write(topic, 4, 0, 2000)
    write(topic, 2, 2, 2000)


def grow(topic: Topic, admin: Admin) -> None:
    admin.create_partitions({topic.name: 4})
    write(topic, 5, 3, 2000)


def delete(before: int) -> Callable[[Topic, Admin], None]:
    return lambda topic, admin: admin.delete_records({(topic.name, 0): before, (topic.name, 1): 3})


def delete_and_append(topic: Topic, admin: Admin) -> None:
    delete(10)(topic, admin)
    append(topic, admin)


def make_again(count: int, partitions: int) -> Callable[[Topic, Admin], None]:
    def change(topic: Topic, admin: Admin) -> None:
        admin.delete_topics([topic.name])
        admin.create_topics([NewTopic(topic.name, partitions, 1)])
        for partition in range(partitions):
            write(topic, count, partition, 2000)

    return change


def another_topic(topic: Topic, admin: Admin) -> None:
    other = Topic(topic.servers, f"{topic.name}-too")
    admin.create_topics([NewTopic(other.name, 1, 1)])
    write(other, 3, 0, 2000)


CHANGES = {
    "nothing": lambda topic, admin: None,
    "records came": append,
    "a partition came": grow,
    "some were deleted": delete(6),
    "all were deleted": delete(10),
    "all were deleted, and more came": delete_and_append,
    "made again, longer": make_again(15, 3),
    "made again, shorter": make_again(2, 3),
    "made again, with fewer partitions": make_again(12, 1),
    "made again, with more": make_again(2, 5),
    "another topic came": another_topic,
}
OPTIONS = {
    "defaults": {},
    "more tasks": {"minPartitions": "6"},
    "small tasks": {"maxRecordsPerPartition": "2"},
    "one task": {"minRecordsPerPartition": "100"},
    "pattern": {"subscribePattern": "TOPIC.*"},
    "from a time": {"startingTimestamp": "1002", "startingOffsetsByTimestampStrategy": "latest"},
    "to a time": {"endingTimestamp": "2001"},
    "where offset": {"where": "offset between 2 and 11", "minPartitions": "4"},
    "where time": {"where": "timestamp >= timestamp_millis(1004)"},
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("given", OPTIONS)
def test_it_reads_what_a_new_frame_reads(given: str, change: str, topic: Topic, admin: Admin) -> None:
    options = options_for(topic, **OPTIONS[given])
    tasks = BatchReader(options).partitions()
    first = rows(options, tasks)
    assert len(first) == len(set(first)) > 0
    CHANGES[change](topic, admin)
    again = rows(options, tasks)
    assert again == rows(options, BatchReader(options).partitions())
    if change == "nothing":
        assert again == first


def test_an_empty_topic_is_looked_at_again(topic: Topic, admin: Admin) -> None:
    admin.delete_records({(topic.name, 0): 10, (topic.name, 1): 3})
    options = options_for(topic)
    tasks = BatchReader(options).partitions()
    assert rows(options, tasks) == []
    append(topic, admin)
    assert len(rows(options, tasks)) == 6


def test_ends_that_were_named_stay(topic: Topic, admin: Admin) -> None:
    named = '{"TOPIC":{"0":4,"1":0,"2":0}}', '{"TOPIC":{"0":8,"1":-1,"2":0}}'
    options = options_for(topic, startingOffsets=named[0], endingOffsets=named[1])
    tasks = BatchReader(options).partitions()
    append(topic, admin)
    write(topic, 1, 1, 2000)
    expected = [(0, 4), (0, 5), (0, 6), (0, 7), (1, 0), (1, 1), (1, 2), (1, 3)]
    assert [row[1:3] for row in rows(options, tasks)] == expected
    admin.delete_records({(topic.name, 0): 5})
    with pytest.raises(DataLossError):
        rows(options, tasks)


def test_a_topic_that_is_gone(topic: Topic, admin: Admin) -> None:
    lost, skipped = options_for(topic), options_for(topic, failOnDataLoss="false")
    tasks = BatchReader(lost).partitions()
    admin.delete_topics([topic.name])
    assert rows(skipped, tasks) == []
    with pytest.raises(Exception, match=r"does not exist|is gone"):
        rows(lost, tasks)


def test_a_topic_of_a_pattern_that_is_gone_is_read_no_more(topic: Topic, admin: Admin) -> None:
    another_topic(topic, admin)
    options = options_for(topic, subscribePattern="TOPIC.*")
    tasks = BatchReader(options).partitions()
    admin.delete_topics([f"{topic.name}-too"])
    assert len(rows(options, tasks)) == 13


@each_seed(200)
def test_whatever_tasks_find_each_offset_is_one_s(seed: int) -> None:
    """Tasks of one partition look it up one after the other, while its log grows and is deleted from."""
    rng = random.Random(seed)
    begin, end = sorted(rng.sample(range(30), 2))
    tp = TopicPartition("t", 0)
    pieces = split([OffsetRange(tp, begin, end, "old")], rng.choice((None, 3, 7)))
    made_again = rng.random() < 0.4
    if made_again:
        begin, end = sorted(rng.sample(range(60), 2))
    read: list[int] = []
    first = begin, end
    for piece in pieces:
        begin = rng.randint(begin, end)
        end += rng.randint(0, 5)
        binding = Binding(True, True, piece == pieces[0], piece == pieces[-1])
        r = bound(piece, binding, Found(begin, end, "new" if made_again else "old"))
        assert r.start <= r.end
        read += range(r.start, r.end)
    assert sorted(read) == sorted(set(read)), seed
    # What was there all the time is read.
    assert set(range(max(begin, first[0]), first[1])) <= set(read), seed


@pytest.mark.spark
def test_a_frame_of_spark_s_and_the_static_side_of_a_stream_s_join(
    new_topic: Any, read: Any, read_stream: Any, tmp_path: Path
) -> None:
    clicks, users = new_topic(), new_topic(2)
    users.produce("ab", 0)
    frame = read(subscribe=users.name).selectExpr("cast(value as string) AS name")
    assert sorted(row.name for row in frame.collect()) == ["a", "b"]
    seen: list[str] = []

    def run() -> None:
        seen.clear()
        stream = read_stream(subscribe=clicks.name, startingOffsets="earliest", maxOffsetsPerTrigger=1)
        joined = stream.selectExpr("cast(value as string) AS name").join(frame, "name")
        query = (
            joined.writeStream.foreachBatch(lambda batch, _: seen.extend(r.name for r in batch.collect()))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(processingTime="50 milliseconds")
            .start()
        )
        try:
            query.processAllAvailable()
            clicks.produce("a")
            query.processAllAvailable()
            users.produce("c", 1)
            clicks.produce("c")
            query.processAllAvailable()
            with Admin(bootstrap_servers=users.servers) as admin:
                admin.delete_records({(users.name, 0): 2})
            clicks.produce("c")
            query.processAllAvailable()
        finally:
            query.stop()

    started_in_time(run)
    assert seen[-3:] == ["a", "c", "c"]
    assert [row.name for row in frame.collect()] == ["c"]
