"""The data source against a broker with logins and TLS: options as Kafka's connector has them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek import Producer
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


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_batches_are_written_and_read(spark: Any, secured: Broker, mechanism: str) -> None:
    topic = f"batch-{mechanism}"
    frame = spark.createDataFrame([(b"%d" % number,) for number in range(10)], "value binary")
    frame.write.format("odradek").options(**options(secured, mechanism, topic=topic)).mode("append").save()
    read = spark.read.format("odradek").options(**options(secured, mechanism, subscribe=topic)).load()
    assert sorted(bytes(row.value) for row in read.collect()) == [b"%d" % number for number in range(10)]


def test_a_stream_reads(spark: Any, secured: Broker, tmp_path: Path) -> None:
    with Producer(secured.client_configs("alice", "SCRAM-SHA-256")) as producer:
        for number in range(5):
            producer.send("stream", value=b"%d" % number).result(30)
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
