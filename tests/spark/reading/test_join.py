"""`minRecordsPerPartition`: small ranges in one task."""

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from odradek.client.blocking import BlockingConnection
from odradek.client.types import TopicPartition
from odradek.spark.connections import close_idle
from odradek.spark.errors import DataLossError
from odradek.spark.options import SourceOptions, parse_source
from odradek.spark.ranges import OffsetRange, join, split
from seeds import each_seed

pytest.importorskip("pyspark")

from odradek.spark.reading.batch_reader import BatchReader
from odradek.spark.reading.joined import RangesToRead, read_task, tasks_of


def ranges(*sizes: int) -> list[OffsetRange]:
    return [OffsetRange(TopicPartition("t", n), 10, 10 + size) for n, size in enumerate(sizes)]


def shapes(tasks: list[list[OffsetRange]]) -> list[list[tuple[int, int]]]:
    return [[(r.tp.partition, r.size) for r in task] for task in tasks]


def test_without_it_each_range_is_a_task() -> None:
    assert shapes(join(ranges(1, 2), None)) == [[(0, 1)], [(1, 2)]]
    assert join([], 5) == []


def test_small_ranges_come_together_and_large_ones_stay_alone() -> None:
    assert shapes(join(ranges(3, 3, 2, 3), 100)) == [[(0, 3), (1, 3), (2, 2), (3, 3)]]
    assert shapes(join(ranges(3, 900, 2, 3), 400)) == [[(0, 3), (2, 2), (3, 3)], [(1, 900)]]
    assert shapes(join(ranges(50, 50, 50, 50), 100)) == [[(0, 50), (2, 50)], [(1, 50), (3, 50)]]


def test_there_are_not_fewer_tasks_than_are_asked_for() -> None:
    assert len(join(ranges(1, 1, 1, 1), 100, min_tasks=3)) == 3
    assert len(join(ranges(1, 1), 100, min_tasks=3)) == 2


def test_one_large_range_does_not_keep_the_small_ones_apart() -> None:
    tasks = join(ranges(1_000_000, *[10] * 99), 5_000)
    assert [len(task) for task in tasks] == [1, 99]


def read_options(**given: str) -> SourceOptions:
    return parse_source({"kafka.bootstrap.servers": "x:1", "subscribe": "t", **given}, streaming=True)


def sizes(options: SourceOptions, *given: int) -> list[int]:
    """The offsets of each task."""
    cut = split(ranges(*given), options.min_partitions, options.max_records_per_partition)
    return sorted(
        sum(one.end - one.start for one in (task.ranges if isinstance(task, RangesToRead) else (task,)))
        for task in tasks_of(options, cut)
    )


def test_without_options_many_small_ranges_come_into_few_tasks() -> None:
    few = read_options()
    assert sizes(few, *[10] * 2_000) == [1_250] * 16
    # Where there is much to read, tasks get no larger than that they are worth their cost.
    assert sizes(few, *[100] * 2_000) == [5_000] * 40
    assert sizes(few, *[10_000] * 100) == [10_000] * 100
    assert sizes(few, *[1_000_000] * 20, *[1] * 100) == [100] + [1_000_000] * 20
    # The usual topic is read as ever: a task for each partition.
    assert sizes(few, *[1] * 16) == [1] * 16
    assert sizes(few, *[1] * 17) == [1] * 15 + [2]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"minRecordsPerPartition": "1"}, [10] * 100),
        ({"minRecordsPerPartition": "5000"}, [1_000]),
        ({"minPartitions": "40"}, [10] * 100),
        ({"minPartitions": "200"}, [5] * 200),
        ({"maxRecordsPerPartition": "10"}, [10] * 100),
        ({"minRecordsPerPartition": "5000", "minPartitions": "40"}, [20] * 20 + [30] * 20),
    ],
)
def test_an_option_says_how_tasks_are_made_instead(given: dict[str, str], expected: list[int]) -> None:
    assert sizes(read_options(**given), *[10] * 100) == expected


@each_seed(100)
def test_nothing_is_lost_and_tasks_are_even(seed: int) -> None:
    rng = random.Random(seed)
    given = ranges(*(rng.choice((1, 5, 50, 2_000)) for _ in range(rng.randrange(1, 12))))
    least = rng.choice((1, 10, 500, 10_000))
    cut = split(given, rng.choice((None, 3, 20)), rng.choice((None, max(least, 700))))
    tasks = join(cut, least)
    assert sorted((r.tp, r.start) for task in tasks for r in task) == [(r.tp, r.start) for r in cut]
    for task in tasks:
        assert len({r.tp for r in task}) == len(task), seed
        assert sorted(task, key=lambda r: (r.tp, r.start)) == task
    total, largest = sum(r.size for r in cut), max(r.size for r in cut)
    assert max(sum(r.size for r in task) for task in tasks) <= total / len(tasks) + largest, seed


def test_what_it_must_not_be() -> None:
    given = {"kafka.bootstrap.servers": "x:1", "subscribe": "t", "minRecordsPerPartition": "5"}
    assert parse_source(given, streaming=True).min_records_per_partition == 5
    with pytest.raises(ValueError, match=r"minRecordsPerPartition \(5\) is higher than maxRecordsPerPart"):
        parse_source({**given, "maxRecordsPerPartition": "4"}, streaming=True)


def planned(servers: str, topics: Sequence[str], **given: str) -> tuple[SourceOptions, list[Any]]:
    """The tasks of a batch of some topics, and their options."""
    given = {"kafka.bootstrap.servers": servers, "subscribe": ",".join(topics), **given}
    options = parse_source(given, streaming=False)
    return options, list(BatchReader(options).partitions())


def values(options: SourceOptions, task: Any) -> list[bytes]:
    return [value for rows in read_task(options, task) for value in rows.column("value").to_pylist()]


def test_a_task_of_many_topics_asks_once_where_they_are(
    servers: str, new_topic: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = [new_topic() for _ in range(17)]
    for number, topic in enumerate(topics):
        topic.produce([str(number)])
    names = [topic.name for topic in topics]
    options, tasks = planned(servers, names, minRecordsPerPartition="100")
    asked = []
    send = BlockingConnection.send

    def noted(connection: BlockingConnection, request: Any, *rest: Any, **more: Any) -> Any:
        asked.append(type(request).__name__)
        return send(connection, request, *rest, **more)

    monkeypatch.setattr(BlockingConnection, "send", noted)
    close_idle()
    assert sorted(values(options, tasks[0])) == sorted(b"%d" % number for number in range(17))
    # Once for the topics of its ranges, and once for partitions that have no task.
    assert asked.count("MetadataRequest") == 2
    # By themselves they are as many tasks as a source without options has at least.
    assert len(planned(servers, names)[1]) == 16


def test_what_a_task_knows_does_not_hide_that_a_topic_was_made_again(servers: str, new_topic: Any) -> None:
    from odradek.client import Admin

    kept, again = new_topic(), new_topic()
    for topic in (kept, again):
        topic.produce("ab")
    names = [kept.name, again.name]
    named = {
        side: json.dumps({name: {"0": offset} for name in names})
        for side, offset in (("startingOffsets", 0), ("endingOffsets", 2))
    }
    options, tasks = planned(servers, names, minRecordsPerPartition="100", **named)
    assert sorted(values(options, tasks[0])) == [b"a", b"a", b"b", b"b"]
    with Admin(bootstrap_servers=servers) as admin:
        admin.delete_topics([again.name])
    new_topic(name=again.name).produce("cd")
    with pytest.raises(DataLossError, match=again.name):
        values(options, tasks[0])
    options, tasks = planned(servers, [kept.name, again.name], minRecordsPerPartition="100")
    assert sorted(values(options, tasks[0])) == [b"a", b"b", b"c", b"d"]


@pytest.mark.spark
def test_one_task_reads_several_partitions(new_topic: Any, read: Any) -> None:
    topic = new_topic(3)
    for partition in range(3):
        topic.produce([f"{partition}{number}" for number in range(4)], partition)
    frame = read(subscribe=topic.name, minRecordsPerPartition="100", where="offset != 2")
    assert frame.rdd.getNumPartitions() == 1
    rows = [(row.partition, row.offset, bytes(row.value).decode()) for row in frame.collect()]
    assert sorted(rows) == [(p, o, f"{p}{o}") for p in range(3) for o in (0, 1, 3)]
    halves = read(subscribe=topic.name, minRecordsPerPartition="6")
    assert (halves.rdd.getNumPartitions(), halves.count()) == (2, 12)


@pytest.mark.spark
def test_a_partition_of_a_task_that_is_gone(new_topic: Any, read: Any) -> None:
    from odradek.client import Admin

    topic = new_topic(2)
    topic.produce("abcd", 0)
    topic.produce("wxyz", 1)
    with Admin(bootstrap_servers=topic.servers) as admin:
        admin.delete_records({(topic.name, 1): 2})
    options = {
        "subscribe": topic.name,
        "minRecordsPerPartition": "100",
        "startingOffsets": topic.offsets(0, 0),
    }
    left = read(**options, failOnDataLoss="false").collect()
    assert sorted(bytes(row.value) for row in left) == [b"a", b"b", b"c", b"d", b"y", b"z"]
    with pytest.raises(Exception, match=f"{topic.name}-1"):
        read(**options).collect()
