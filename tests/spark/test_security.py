"""The data source against a broker with logins and TLS: options as Kafka's connector has them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek import Admin, Producer
from odradek.spark import tables
from odradek.testing import Broker, Security

pytestmark = pytest.mark.spark

USERS = {"alice": "s3cret;pass"}


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    security = Security(users=USERS, tls=True, configs={"connection.failed.authentication.delay.ms": "1"})
    with Broker(security=security) as broker:
        yield broker


def options(broker: Broker, mechanism: str, **more: str) -> dict[str, str]:
    configs = broker.client_configs("alice", mechanism)
    return {f"kafka.{name}": str(value) for name, value in configs.items()} | more


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_batches_are_written_and_read(spark: Any, secured: Broker, mechanism: str) -> None:
    topic = f"batch-{mechanism}"
    frame = spark.createDataFrame([(b"%d" % number,) for number in range(10)], "value binary")
    frame.write.format("odradek").options(**options(secured, mechanism, topic=topic)).mode("append").save()
    read = spark.read.format("odradek").options(**options(secured, mechanism, subscribe=topic)).load()
    assert sorted(bytes(row.value) for row in read.collect()) == [b"%d" % number for number in range(10)]


def test_a_stream_reads(spark: Any, secured: Broker, tmp_path: Path) -> None:
    with Producer(secured.client_configs("alice", "SCRAM-SHA-256")) as producer:
        for number in range(5):
            producer.send("stream", value=b"%d" % number).result(60)
    given = options(secured, "SCRAM-SHA-256", subscribe="stream", startingOffsets="earliest")
    source = spark.readStream.format("odradek").options(**given).load()
    query = (
        source.writeStream.format("memory")
        .queryName("secured")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert spark.table("secured").count() == 5


def test_a_wrong_password_is_told_and_not_shown(spark: Any, secured: Broker) -> None:
    given = options(secured, "PLAIN", subscribe="never")
    given["kafka.sasl.jaas.config"] = given["kafka.sasl.jaas.config"].replace("s3cret", "wr0ng")
    with pytest.raises(Exception, match="Authentication failed: Invalid username or password") as raised:
        spark.read.format("odradek").options(**given).load().collect()
    assert "wr0ng" not in str(raised.value)


def test_all_that_a_stream_can_do_it_does_over_sasl_and_tls(
    spark: Any, secured: Broker, tmp_path: Path
) -> None:
    """Transactions, their coordinator, dead letters and a group's offsets; an authority as PEM."""
    login = secured.client_configs("alice", "SCRAM-SHA-256")
    assert "-----BEGIN CERTIFICATE-----" in login["ssl.truststore.certificates"]
    values = [b'{"id": %d}' % number for number in range(10)]
    with Producer(login) as producer:
        for value in (*values, b"no document"):
            producer.send("orders", value=value).result(60)
    given = options(secured, "SCRAM-SHA-256")
    reader = spark.readStream.format("odradek").options(**given).option("subscribe", "orders")
    typed = {"value.format": "json", "value.schema": "id BIGINT", "mode": "DROPMALFORMED"}
    reader = reader.options(**typed, startingOffsets="earliest", deadLetterTopic="dead")
    frame = reader.option("commitOffsetsToGroup", "sight").load()
    writer = (
        frame.selectExpr("CAST(value.id AS STRING) AS value").writeStream.format("odradek").options(**given)
    )
    writer = writer.options(topic="copies", deliveryGuarantee="exactly-once")
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    query.awaitTermination()
    assert not any(word in str(query.lastProgress) for word in ("s3cret", "BEGIN CERTIFICATE"))
    committed = {"kafka.isolation.level": "read_committed", "startingOffsets": "earliest"}
    read = spark.read.format("odradek").options(**given, **committed)
    assert sorted(int(row.value) for row in read.option("subscribe", "copies").load().collect()) == [
        *range(10)
    ]
    assert [bytes(row.value) for row in read.option("subscribe", "dead").load().collect()] == [b"no document"]
    with Admin(login) as admin:
        offsets = admin.list_group_offsets("sight")
    assert sum(one.offset for one in offsets.values()) == 11


def test_views_of_all_topics_behind_a_login(spark: Any, secured: Broker) -> None:
    secured.create_topic("viewed")
    given = options(secured, "PLAIN")
    servers = given.pop("kafka.bootstrap.servers")
    assert tables(spark, servers, pattern="^viewed$", prefix="secured_", options=given) == ["secured_viewed"]
    assert spark.sql("SELECT count(*) AS n FROM secured_viewed").collect()[0].n == 0
