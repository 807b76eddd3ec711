"""`option("where", …)` beside Spark's own filter on the unfiltered table, of topics of all kinds."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from odradek.testing import Broker
from seeds import each_seed

from ..odd_topics import SPAN_MS, START_MS, Manner, PartitionWriter

pytestmark = pytest.mark.spark

MANNERS = {
    "out-of-order": Manner(),
    "compacted": Manner(gaps=True, transactions=True),
    "stamped": Manner(by_broker=True, transactions=True),
    "old": Manner(formats=(0, 1, 2), gaps=True, without_time=0.3),
    "timeless": Manner(without_time=1.0),
    "some-timeless": Manner(formats=(1, 2, 1), without_time=0.5),
}
PARTITIONS = 3


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        for number, (name, manner) in enumerate(MANNERS.items()):
            config = {"message.timestamp.type": "LogAppendTime"} if manner.by_broker else {}
            broker.create_topic(name, partitions=PARTITIONS, configs=config)
            # The last partition stays empty.
            for partition in range(PARTITIONS - 1):
                rng = random.Random(f"{number} {partition}")
                PartitionWriter(broker, name, partition, rng, manner).fill(12)
        yield broker


def a_time(rng: random.Random) -> str:
    time_ms = START_MS + rng.randrange(-SPAN_MS // 10, SPAN_MS + SPAN_MS // 10)
    forms = (
        f"timestamp_millis({time_ms})",
        f"timestamp_micros({time_ms * 1000 + rng.choice((-1, 0, 1))})",
        f"timestamp_seconds({time_ms // 1000}) + interval {rng.randrange(48)} hours",
        "timestamp '2023-11-16 12:00:00Z'",
        "'2023-11-16T12:00:00+01:00'",
    )
    return rng.choice(forms)


def a_condition(rng: random.Random) -> str:
    offset = rng.randrange(-1, 90)
    forms = (
        f"timestamp >= {a_time(rng)}",
        f"timestamp > {a_time(rng)}",
        f"{a_time(rng)} >= timestamp",
        f"timestamp < {a_time(rng)}",
        f"timestamp between {a_time(rng)} and {a_time(rng)}",
        f"offset {rng.choice(('<', '<=', '>', '>=', '!=', '='))} {offset}",
        f"offset between {offset} and {offset + rng.randrange(40)}",
        f"offset not in ({offset}, {offset + 1})",
        f"partition {rng.choice(('=', '!=', '<'))} {rng.randrange(PARTITIONS)}",
        f"partition in ({rng.randrange(4)}, {rng.randrange(4)})",
        f"topic in ('{rng.choice(list(MANNERS))}', '{rng.choice(list(MANNERS))}')",
        f"topic <> '{rng.choice(list(MANNERS))}'",
    )
    return rng.choice(forms)


@each_seed(12)
def test_the_rows_are_those_that_sparks_filter_leaves(seed: int, spark: Any, broker: Broker) -> None:
    rng = random.Random(seed)
    isolation = rng.choice(("read_committed", "read_uncommitted"))
    where = " and ".join(a_condition(rng) for _ in range(rng.randrange(1, 4)))
    many = rng.choice(({}, {"minPartitions": "9"}, {"maxRecordsPerPartition": "7"}))

    def read(**options: str) -> Any:
        return (
            spark.read.format("odradek")
            .option("kafka.bootstrap.servers", broker.bootstrap_servers)
            .option("kafka.isolation.level", isolation)
            .option("subscribe", ",".join(MANNERS))
            .option("includeHeaders", "true")
            .options(**options)
            .load()
        )

    told = f"seed {seed}: where={where!r}, {isolation}, {many}"
    ours = sorted(map(repr, read(where=where, **many).collect()))
    wanted = sorted(map(repr, read().where(where).collect()))
    assert ours == wanted, told


def test_what_is_cut_is_not_fetched(spark: Any, broker: Broker) -> None:
    """Tasks are only made for what the conditions leave."""

    def tasks(where: str, topic: str) -> int:
        frame = (
            spark.read.format("odradek")
            .option("kafka.bootstrap.servers", broker.bootstrap_servers)
            .option("subscribe", topic)
            .option("where", where)
            .load()
        )
        return int(frame.rdd.getNumPartitions())

    assert tasks("partition = 1", "stamped") == 1
    assert tasks(f"timestamp >= timestamp_millis({START_MS})", "stamped") == PARTITIONS - 1
    # (Without tasks Spark makes one up.)
    later = START_MS + 50 * SPAN_MS
    assert tasks(f"timestamp > timestamp_millis({later})", "out-of-order,compacted,stamped,old") == 1
    # No broker tells of a newest timestamp where there is none, so all is looked through.
    assert tasks(f"timestamp > timestamp_millis({later})", "timeless") == PARTITIONS - 1
    assert tasks("partition = 0 and offset < 0", "stamped") == 1
    # The stamped one ends before its last record; this one gets its timestamps from producers.
    assert tasks(f"timestamp < timestamp_millis({START_MS - 7_200_000})", "stamped") == 1
    assert tasks(f"timestamp < timestamp_millis({START_MS - 7_200_000})", "out-of-order") == PARTITIONS - 1


def test_a_stream_takes_what_holds_and_goes_on(new_topic: Any, read_stream: Any, tmp_path: Any) -> None:
    from ..conftest import Query

    topic = new_topic(2)
    topic.produce("abc", 0, timestamps_ms=[1000, 3000, 2000])
    topic.produce("xyz", 1, timestamps_ms=[1000, 3000, 2000])

    def stream(where: str) -> Any:
        return read_stream(subscribe=topic.name, startingOffsets="earliest", where=where)

    first = Query(stream("timestamp >= timestamp_millis(2000) and partition = 0"), tmp_path)
    assert first.run().values == ["b", "c"]
    topic.produce("d", 0, timestamps_ms=[1000])
    topic.produce("ef", 0, timestamps_ms=[2000, 4000])
    assert first.run().values == ["e", "f"]
    topic.produce("v", 1, timestamps_ms=[500])
    assert Query(stream("offset >= 3"), tmp_path).run().values == ["v"]


def test_a_wrong_condition_says_where_and_what(read: Any) -> None:
    with pytest.raises(Exception, match=r"conditions can only be joined by AND.*position 12"):
        read(subscribe="t", where="offset < 1 or offset > 5").collect()
