"""What was planned, and what was there when it was read: every pair of the two, in batches and streams.

Each row of `TABLE` is a change that comes between a plan that reads offsets 4 to 10 of partition 0 and the
tasks that read it. A cell is the offsets that are read with `failOnDataLoss=false`; with `true` it is the
same where nothing is lost, and a `DataLossError` where something is. So is Spark's Kafka connector
(KafkaDataConsumer.get, KafkaOffsetReaderAdmin.getOffsetRangesFromResolvedOffsets), with these exceptions,
which are better: it takes a topic that was made again for the old one, and reads it at the old offsets; and
it waits `kafkaConsumer.pollTimeoutMs` (two minutes) for offsets behind the end of a log.
"""

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

pytest.importorskip("pyspark")

from odradek.client import Admin, NewTopic
from odradek.client.types import TopicPartition
from odradek.spark.connections import close_idle
from odradek.spark.errors import DataLossError, ReadError
from odradek.spark.offsets import SourceOffset, from_spark, to_spark
from odradek.spark.options import SourceOptions, parse_source
from odradek.spark.reading.batch_reader import BatchReader
from odradek.spark.reading.joined import read_task, tasks_of
from odradek.spark.reading.offset_reader import OffsetReader
from odradek.spark.reading.stream_planner import StreamPlanner
from odradek.testing import Broker

from ..conftest import Topic

_numbers = itertools.count()
START, END = 4, 10
ALL = list(range(START, END))
QUICK = {
    "kafka.retry.backoff.ms": "1",
    "kafka.retry.backoff.max.ms": "1",
    "kafka.fetch.max.wait.ms": "10",
    "fetchOffset.retryIntervalMs": "0",
}


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
    made = Topic(broker.bootstrap_servers, f"t{next(_numbers)}")
    admin.create_topics([NewTopic(made.name, 2, 1)])
    return made


def fill(topic: Topic, count: int) -> None:
    topic.produce([str(number) for number in range(count)])


def options_for(topic: Topic, fail_on_data_loss: bool, streaming: bool, **more: Any) -> SourceOptions:
    given = {
        "kafka.bootstrap.servers": topic.servers,
        "subscribe": topic.name,
        "failOnDataLoss": str(fail_on_data_loss).lower(),
        **QUICK,
        **more,
    }
    return parse_source(given, streaming=streaming)


def delete_before(offset: int) -> Callable[[Topic, Admin], None]:
    return lambda topic, admin: admin.delete_records({(topic.name, 0): offset})


def delete_topic(topic: Topic, admin: Admin) -> None:
    admin.delete_topics([topic.name])


def make_again(count: int, partitions: int = 2) -> Callable[[Topic, Admin], None]:
    def change(topic: Topic, admin: Admin) -> None:
        admin.delete_topics([topic.name])
        admin.create_topics([NewTopic(topic.name, partitions, 1)])
        topic.produce([str(number) for number in range(count)], 0)

    return change


def grow(topic: Topic, admin: Admin) -> None:
    admin.create_partitions({topic.name: 3})
    topic.produce("xyz", 2)


def append(topic: Topic, admin: Admin) -> None:
    topic.produce("xyz", 0)


def nothing(topic: Topic, admin: Admin) -> None:
    pass


class Change(NamedTuple):
    """A change, the offsets of the plan that are read after it, and whether any were lost.

    Attributes:
        written: records that were there when it was planned: fewer than `END` for a log that was cut, or for
            a plan that ends behind it.
    """

    apply: Callable[[Topic, Admin], None]
    read: list[int]
    lost: bool
    written: int = END


TABLE = {
    "nothing": Change(nothing, ALL, False),
    "deleted before the start": Change(delete_before(2), ALL, False),
    "deleted up to the start": Change(delete_before(START), ALL, False),
    "deleted in the middle": Change(delete_before(7), [7, 8, 9], True),
    "deleted to the end": Change(delete_before(END), [], True),
    "deleted, and more came": Change(
        lambda topic, admin: (append(topic, admin), delete_before(12)(topic, admin))[0], [], True
    ),
    "ends in the middle": Change(nothing, [4, 5, 6], True, written=7),
    "ends at the start": Change(nothing, [], True, written=START),
    "ends before the start": Change(nothing, [], True, written=2),
    "ends nowhere": Change(nothing, [], True, written=0),
    "ends in the middle, the beginning deleted": Change(delete_before(6), [6], True, written=7),
    "topic deleted": Change(delete_topic, [], True),
    "topic made again, longer": Change(make_again(20), [], True),
    "topic made again, shorter": Change(make_again(6), [], True),
    "topic made again, empty": Change(make_again(0), [], True),
    "topic made again without the partition": Change(make_again(20, partitions=1), [], True),
    "a partition came": Change(grow, ALL, False),
    "records came": Change(append, ALL, False),
}


def place(topic: Topic, offset: int, topic_id: str, partition: int = 0) -> SourceOffset:
    other = TopicPartition(topic.name, 1 - partition)
    offsets = {TopicPartition(topic.name, partition): offset, other: 0}
    return SourceOffset(offsets, {topic.name: topic_id} if topic_id else {})


def id_of(options: SourceOptions) -> str:
    reader = OffsetReader(options)
    try:
        return next(iter(reader.latest().topic_ids.values()))
    finally:
        reader.close()


class Planned:
    """A batch of a stream: planned, perhaps planned again by another process, and read."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.brokers = OffsetReader(options)
        self.planner = StreamPlanner(options, self.brokers)

    def crash(self) -> None:
        self.brokers.close()
        self.__init__(self.options)  # type: ignore[misc]

    def rows(self, start: SourceOffset, end: SourceOffset) -> list[int]:
        try:
            tasks = tasks_of(self.options, self.planner.ranges(start, end))
        finally:
            self.brokers.close()
        return offsets(self.options, tasks)


def offsets(options: SourceOptions, tasks: Any) -> list[int]:
    return [o for task in tasks for rows in read_task(options, task) for o in rows["offset"].to_pylist()]


def check(change: Change, fail_on_data_loss: bool, read: Callable[[], list[int]]) -> None:
    if change.lost and fail_on_data_loss:
        with pytest.raises(DataLossError, match="failOnDataLoss"):
            read()
    else:
        assert read() == change.read


both = pytest.mark.parametrize("fail_on_data_loss", [True, False], ids=["fail", "go on"])
changes = pytest.mark.parametrize("name", TABLE)


@changes
@both
def test_a_batch_between_its_plan_and_its_tasks(
    name: str, fail_on_data_loss: bool, topic: Topic, admin: Admin
) -> None:
    change = TABLE[name]
    fill(topic, change.written)
    limits = {
        side: json.dumps({topic.name: {"0": offset, "1": 0}})
        for side, offset in (("startingOffsets", START), ("endingOffsets", END))
    }
    options = options_for(topic, fail_on_data_loss, streaming=False, **limits)
    tasks = BatchReader(options).partitions()
    change.apply(topic, admin)
    check(change, fail_on_data_loss, lambda: offsets(options, tasks))


@changes
@both
def test_a_batch_of_a_stream_between_its_plan_and_its_tasks(
    name: str, fail_on_data_loss: bool, topic: Topic, admin: Admin
) -> None:
    change = TABLE[name]
    fill(topic, change.written)
    options = options_for(topic, fail_on_data_loss, streaming=True)
    topic_id = id_of(options)
    planned = Planned(options)
    start, end = place(topic, START, topic_id), place(topic, END, topic_id)
    tasks = tasks_of(options, planned.planner.ranges(start, end))
    planned.brokers.close()
    change.apply(topic, admin)
    check(change, fail_on_data_loss, lambda: offsets(options, tasks))


@changes
@both
def test_a_batch_of_a_stream_that_runs_again(
    name: str, fail_on_data_loss: bool, topic: Topic, admin: Admin
) -> None:
    change = TABLE[name]
    fill(topic, change.written)
    options = options_for(topic, fail_on_data_loss, streaming=True)
    topic_id = id_of(options)
    start, end = (from_spark(to_spark(place(topic, o, topic_id))) for o in (START, END))
    change.apply(topic, admin)
    check(change, fail_on_data_loss, lambda: Planned(options).rows(start, end))


FIRST_STARTS = {
    "offsets": {"startingOffsets": '{"T": {"0": 4, "1": -2}}'},
    "earliest": {"startingOffsets": "earliest"},
    "time": {"startingTimestamp": "1004", "startingOffsetsByTimestampStrategy": "latest"},
}


@pytest.mark.parametrize("begun", FIRST_STARTS)
@pytest.mark.parametrize("name", [name for name, change in TABLE.items() if change.written == END])
@both
def test_the_first_batch_of_a_stream_that_runs_again(
    name: str, begun: str, fail_on_data_loss: bool, topic: Topic, admin: Admin
) -> None:
    """Spark asks again where it starts; the checkpoint's end of the batch says where it did."""
    if begun == "earliest" and name == "deleted before the start":
        return  # it cannot be: the batch begins at the first offset that is there
    change = TABLE[name]
    topic.produce([str(n) for n in range(END)], timestamps_ms=range(1000, 1000 + END))
    admin.delete_records({(topic.name, 0): 4 if begun == "earliest" else 1})
    start = {option: text.replace("T", topic.name) for option, text in FIRST_STARTS[begun].items()}
    options = options_for(topic, fail_on_data_loss, streaming=True, **start)
    planned = Planned(options)
    end = planned.planner.next_end(planned.planner.initial(), unlimited=True, now_ms=0)
    checkpoint = json.dumps(to_spark(end))
    change.apply(topic, admin)
    planned.crash()

    def again() -> list[int]:
        try:
            return planned.rows(planned.planner.initial(), from_spark(json.loads(checkpoint)))
        finally:
            planned.brokers.close()

    if name == "topic deleted":
        # The connector, which knows its start without asking, fails as well: subscribe names what is not.
        with pytest.raises(Exception, match="does not exist"):
            again()
    elif begun == "offsets" and name in ("a partition came", "topic made again without the partition"):
        with pytest.raises(ValueError, match="you must specify all TopicPartitions"):
            again()
    else:
        check(change, fail_on_data_loss, again)


@pytest.mark.parametrize("count", [20, 6])
@both
def test_without_topic_ids_the_offsets_are_all_there_is(
    count: int, fail_on_data_loss: bool, topic: Topic, admin: Admin
) -> None:
    """As with the connector: a longer topic is taken for the old one, a shorter one for a cut one."""
    fill(topic, END)
    options = options_for(topic, fail_on_data_loss, streaming=True)
    make_again(count)(topic, admin)
    change = Change(nothing, ALL[: count - START], count < END)
    check(change, fail_on_data_loss, lambda: Planned(options).rows(place(topic, 4, ""), place(topic, 10, "")))


@pytest.mark.parametrize("limit", ["maxRecordsPerPartition", "minPartitions", "minRecordsPerPartition"])
def test_however_it_is_cut_into_tasks(limit: str, topic: Topic, admin: Admin) -> None:
    fill(topic, 7)
    options = options_for(topic, False, streaming=True, **{limit: "2"})
    start, end = place(topic, START, id_of(options)), place(topic, 20, id_of(options))
    assert Planned(options).rows(start, end) == [4, 5, 6]
    with pytest.raises(DataLossError):
        Planned(replace(options, fail_on_data_loss=True)).rows(start, end)


def test_the_next_batch_goes_on_behind_what_was_lost(topic: Topic, admin: Admin) -> None:
    fill(topic, END)
    options = options_for(topic, False, streaming=True)
    topic_id = id_of(options)
    admin.delete_records({(topic.name, 0): END})
    assert Planned(options).rows(place(topic, START, topic_id), place(topic, END, topic_id)) == []
    append(topic, admin)
    planned = Planned(options)
    start = place(topic, END, topic_id)
    end = planned.planner.next_end(start, unlimited=True, now_ms=0)
    assert planned.rows(start, end) == [10, 11, 12]


def test_a_time_in_nanoseconds_is_told_with_its_place_and_the_remedy(broker: Broker, admin: Admin) -> None:
    topic = Topic(broker.bootstrap_servers, f"t{next(_numbers)}")
    later = {"message.timestamp.after.max.ms": str(2**63 - 1)}
    admin.create_topics([NewTopic(topic.name, 2, 1, configs=later)])
    topic.produce("abc", 1, timestamps_ms=[1, 1_700_000_000_000_000_000, 2])
    options = options_for(topic, True, streaming=False)
    with pytest.raises(
        ReadError, match=rf"{topic.name}-1: the timestamp 17\d+ .* at offset 1 .*option columns"
    ):
        offsets(options, BatchReader(options).partitions())
    untimed = options_for(topic, True, streaming=False, columns="offset,value")
    assert offsets(untimed, BatchReader(untimed).partitions()) == [0, 1, 2]
    compared = options_for(
        topic, True, streaming=False, columns="offset", where="timestamp > timestamp_millis(1)"
    )
    with pytest.raises(ReadError, match="offset 1 "):
        offsets(compared, BatchReader(compared).partitions())
