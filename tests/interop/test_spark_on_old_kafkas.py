"""`format("odradek")` on real Kafkas that are older than record batches, and just newer: batch and stream."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import odradek
from interop import kafka_peer, topics_of_kafka
from interop.conftest import needs_java_for
from interop.releases import ends
from spark.conftest import started_in_time

pytestmark = [pytest.mark.interop, pytest.mark.spark]

VERSIONS = ("0.10.2.2", "1.0.0", "2.2.2")
ROWS = 1_000


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    pytest.importorskip("pyspark")
    from odradek.spark import session

    conf = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    spark = session("old kafkas", "local[2]", conf=conf, log_level="OFF")
    yield spark
    spark.stop()


@pytest.fixture(scope="module", params=ends(VERSIONS))
def kafka(
    request: pytest.FixtureRequest, kafka_toolchain: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[kafka_peer.RealKafka]:
    needs_java_for(request.param)
    directory = tmp_path_factory.mktemp(f"kafka-{request.param}")
    settings = {"offsets.topic.num.partitions": "1"}
    with kafka_peer.RealKafka(request.param, directory, settings) as running:
        with odradek.Admin(bootstrap_servers=running.bootstrap_servers) as admin:
            topics_of_kafka.create(admin, *(odradek.NewTopic(name, 2, 1) for name in ("rows", "copy")))
        yield running


def table(spark: Any, servers: str, topic: str) -> list[tuple[Any, ...]]:
    """What Spark reads of a topic: (partition, offset, key, value, timestamp type), in order."""
    frame = (
        spark.read.format("odradek")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .load()
    )
    rows = frame.select("partition", "offset", "key", "value", "timestampType").collect()
    return sorted((r.partition, r.offset, bytes(r.key), bytes(r.value), r.timestampType) for r in rows)


def write(spark: Any, servers: str) -> None:
    """Write `ROWS` records to the topic `rows`, half of them to each partition."""
    frame = spark.range(ROWS).selectExpr(
        "cast(id as string) as key", "concat('value-', id) as value", "cast(id % 2 as int) as partition"
    )
    (
        frame.write.format("odradek")
        .option("kafka.bootstrap.servers", servers)
        .option("kafka.compression.type", "lz4")
        .option("topic", "rows")
        .mode("append")
        .save()
    )


def test_a_batch_is_written_and_read(spark: Any, kafka: kafka_peer.RealKafka) -> None:
    servers = kafka.bootstrap_servers
    write(spark, servers)
    rows = table(spark, servers, "rows")
    assert [(r[0], r[1]) for r in rows] == [(p, o) for p in range(2) for o in range(ROWS // 2)]
    assert {(r[2], r[3], r[0]) for r in rows} == {(b"%d" % i, b"value-%d" % i, i % 2) for i in range(ROWS)}
    assert {r[4] for r in rows} == {0}


def test_a_stream_copies_a_topic_and_goes_on(spark: Any, kafka: kafka_peer.RealKafka, tmp_path: Path) -> None:
    servers = kafka.bootstrap_servers

    def copy() -> None:
        stream = (
            spark.readStream.format("odradek")
            .option("kafka.bootstrap.servers", servers)
            .option("subscribe", "rows")
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", 400)
            .option("kafka.group.id", "copier")
            .load()
        )
        (
            stream.select("key", "value", "partition")
            .writeStream.format("odradek")
            .option("kafka.bootstrap.servers", servers)
            .option("topic", "copy")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        )

    if not table(spark, servers, "rows"):
        write(spark, servers)
    started_in_time(copy)
    assert table(spark, servers, "copy") == table(spark, servers, "rows")
    with odradek.Producer(bootstrap_servers=servers, linger_ms=100) as producer:
        for i in range(ROWS, ROWS + 10):
            producer.send("rows", b"value-%d" % i, key=b"%d" % i, partition=i % 2)
    started_in_time(copy)
    assert len(table(spark, servers, "copy")) == ROWS + 10
    assert table(spark, servers, "copy") == table(spark, servers, "rows")
    with odradek.Admin(bootstrap_servers=servers) as admin:
        committed = admin.list_group_offsets("copier", [("rows", 0), ("rows", 1)])
    assert [entry.offset for _, entry in sorted(committed.items())] == [(ROWS + 10) // 2] * 2
