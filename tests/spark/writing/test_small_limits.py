"""Topics that take less than the sink's batches, from `df.write` and `writeStream`, with both guarantees."""

from pathlib import Path
from typing import Any

import pytest

from ..conftest import started_in_time
from .test_exactly_once import committed, numbers

pytestmark = pytest.mark.spark

GUARANTEES = ("at-least-once", "exactly-once")


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_batch(spark: Any, new_topic: Any, servers: str, guarantee: str) -> None:
    topic = new_topic(2, max_message_bytes=5_000)
    frame = spark.range(3_000).selectExpr("cast(id AS string) AS value").repartition(2)
    writer = frame.write.format("odradek").option("kafka.bootstrap.servers", servers)
    writer.options(topic=topic.name, deliveryGuarantee=guarantee).mode("append").save()
    assert committed(topic) == numbers(3_000)


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_stream(new_topic: Any, read_stream: Any, servers: str, tmp_path: Path, guarantee: str) -> None:
    source, target = new_topic(), new_topic(max_message_bytes=5_000)
    source.produce([str(number) for number in range(2_000)])
    frame = read_stream(subscribe=source.name, startingOffsets="earliest", maxOffsetsPerTrigger=1_000)

    def run() -> None:
        writer = frame.select("value").writeStream.format("odradek")
        writer.option("kafka.bootstrap.servers", servers).option("kafka.batch.size", "100000")
        writer.options(topic=target.name, deliveryGuarantee=guarantee, checkpointLocation=str(tmp_path / "c"))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(120), "the stream did not end within 120 s"

    started_in_time(run)
    assert committed(target) == numbers(2_000)
