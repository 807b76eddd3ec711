"""Topics that grow while a session is in use: what its Python processes knew of them before is old."""

from pathlib import Path
from typing import Any

import pytest

from odradek.client import Admin

from ..conftest import collecting, started_in_time

pytestmark = pytest.mark.spark


def grow(topic: Any, partitions: int) -> None:
    with Admin(bootstrap_servers=topic.servers) as admin:
        admin.create_partitions({topic.name: partitions})


@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
def test_a_running_stream_reads_partitions_that_come(
    fail_on_data_loss: str, new_topic: Any, read_stream: Any, tmp_path: Path
) -> None:
    def run() -> None:
        topic = new_topic(1)
        topic.produce(["old"])
        frame = read_stream(
            subscribe=topic.name,
            startingOffsets="earliest",
            columns="value",
            failOnDataLoss=fail_on_data_loss,
            minPartitions=3,
        )
        with collecting(frame, tmp_path / topic.name) as (query, seen):
            query.processAllAvailable()
            for partitions in (2, 3):
                grow(topic, partitions)
                topic.produce([f"{partitions}-{number}" for number in range(5)], partitions - 1)
                topic.produce([f"old-{partitions}"], 0)
                query.processAllAvailable()
        new = [f"{partitions}-{number}" for partitions in (2, 3) for number in range(5)]
        assert sorted(seen) == sorted(["old", "old-2", "old-3", *new])

    started_in_time(run)


def test_batch_reads_of_one_session_see_partitions_that_come(new_topic: Any, read: Any) -> None:
    topic = new_topic(1)
    topic.produce("a")
    for partitions in (1, 2, 3):
        grow(topic, partitions) if partitions > 1 else None
        topic.produce(["b"] * partitions, partitions - 1)
        rows = read(subscribe=topic.name, minPartitions=4, failOnDataLoss="false").collect()
        assert len(rows) == 1 + sum(range(1, partitions + 1))
        later = read(subscribe=topic.name, startingTimestamp=0).collect()
        assert len(later) == len(rows)


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_kept_writers_write_to_partitions_that_come(
    delivery: str, spark: Any, new_topic: Any, servers: str
) -> None:
    topic = new_topic(1)
    for partitions in (1, 2, 3):
        grow(topic, partitions) if partitions > 1 else None
        frame = spark.createDataFrame([("x", partitions - 1)], "value string, partition int")
        frame.write.format("odradek").mode("append").options(
            **{"kafka.bootstrap.servers": servers, "topic": topic.name, "deliveryGuarantee": delivery}
        ).save()
    assert set(topic.values()) == {"x"}
    assert {number: end > 0 for number, end in topic.ends().items()} == dict.fromkeys(range(3), True)
