"""What is cut by time, asked of brokers that are Kafkas of other releases."""

from typing import Any

import pytest

from waiting import WITHIN_S

pytest.importorskip("pyspark")

from odradek.client import Producer
from odradek.spark.options import parse_source
from odradek.spark.reading.batch_reader import BatchReader
from odradek.testing import Broker

TIMES_MS = (1000, 4000, 2000, 3000)
"""Partition 1 has the first two only."""


def planned(broker: Broker, where: str, **options: str) -> list[tuple[int, int, int]]:
    """The tasks: (partition, start, end)."""
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "t", "where": where, **options}
    tasks: Any = BatchReader(parse_source(given, streaming=False)).partitions()
    ranges = [one for task in tasks for one in getattr(task, "ranges", (task,))]
    return [(one.partition, one.start, one.end) for one in ranges]


@pytest.mark.parametrize(
    ("release", "from_4000", "from_5000"),
    [
        (None, [(0, 1, 4), (1, 1, 2)], []),
        ("3.0", [(0, 1, 4), (1, 1, 2)], []),
        # It does not tell the newest timestamp.
        ("2.2", [(0, 1, 4), (1, 1, 2)], [(0, 0, 4), (1, 0, 2)]),
        ("0.10.2", [(0, 1, 4), (1, 1, 2)], [(0, 0, 4), (1, 0, 2)]),
        # It finds no offsets by time.
        ("0.10.0", [(0, 0, 4), (1, 0, 2)], [(0, 0, 4), (1, 0, 2)]),
        ("0.9.0", [(0, 0, 4), (1, 0, 2)], [(0, 0, 4), (1, 0, 2)]),
    ],
)
def test_each_release_tells_what_it_knows(release: str | None, from_4000: Any, from_5000: Any) -> None:
    with Broker(kafka_version=release) as broker:
        broker.create_topic("t", partitions=2)
        old = release is not None and release.startswith("0.9")
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for partition, count in ((0, 4), (1, 2)):
                for time_ms in TIMES_MS[:count]:
                    time = {} if old else {"timestamp_ms": time_ms}
                    producer.send("t", value=b"x", partition=partition, **time).result(WITHIN_S)
        assert planned(broker, "timestamp >= timestamp_millis(4000)") == from_4000
        assert planned(broker, "timestamp >= timestamp_millis(5000)") == from_5000
        assert planned(broker, "timestamp < timestamp_millis(0)") == [(0, 0, 4), (1, 0, 2)]
        assert planned(broker, "offset >= 2") == [(0, 2, 4)]


def test_an_end_where_the_broker_stamps() -> None:
    with Broker() as broker:
        broker.create_topic("t", configs={"message.timestamp.type": "LogAppendTime"})
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for _ in range(3):
                producer.send("t", value=b"x").result(WITHIN_S)
        # Long before: the first record is the first that is too new, and the broker stamped it.
        assert planned(broker, "timestamp < timestamp_millis(4000)") == []
        assert planned(broker, "timestamp < now()") == [(0, 0, 3)]
        assert planned(broker, "timestamp > now() - interval 1 hour") == [(0, 0, 3)]
        committed = {"kafka.isolation.level": "read_committed"}
        assert planned(broker, "timestamp < timestamp_millis(4000)", **committed) == []


def test_many_partitions_of_which_few_have_records() -> None:
    with Broker() as broker:
        broker.create_topic("t", partitions=1_000)
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for partition in (0, 1, 499, 999):
                producer.send("t", value=b"x", partition=partition).result(WITHIN_S)
        wanted = [(0, 0, 1), (1, 0, 1), (499, 0, 1), (999, 0, 1)]
        assert planned(broker, "offset >= 0") == wanted
        assert planned(broker, "timestamp > now() - interval 1 hour") == wanted
        assert planned(broker, "timestamp > now() + interval 1 hour") == []
