"""Our clients on our broker as every release of Kafka: the same records, whatever is spoken."""

from __future__ import annotations

import pytest

import odradek
from odradek.client.errors import UnsupportedByBrokerError
from odradek.client.simple import read_partition
from odradek.testing import Broker, kafka_versions


@pytest.mark.parametrize("release", kafka_versions())
def test_produce_fetch_and_commit(release: str) -> None:
    """A group where there are groups, a partition by hand where there are none."""
    with Broker(kafka_version=release, num_partitions=1, auto_create_topics_enable=True) as broker:
        at = broker.bootstrap_servers
        with odradek.Producer(
            bootstrap_servers=at, compression_type="gzip", linger_ms=1_000, delivery_timeout_ms=40_000
        ) as producer:
            sent = [producer.send("t", b"%d" % i, key=b"k", partition=0) for i in range(10)]
            producer.flush()
            assert [future.result(60).offset for future in sent] == list(range(10))
        tp = odradek.TopicPartition("t", 0)
        options = {"bootstrap_servers": at, "group_id": "g", "auto_offset_reset": "earliest"}
        with odradek.Consumer(**options) as consumer:
            consumer.subscribe(["t"])
            try:
                records = consumer.poll(timeout_ms=10_000)
            except UnsupportedByBrokerError as problem:
                assert "JoinGroup" in str(problem)
                assert release.startswith("0.8")
                consumer.unsubscribe()
                consumer.assign([tp])
                records = consumer.poll(timeout_ms=10_000)
            assert [record.value for record in records] == [b"%d" % i for i in range(10)]
            consumer.commit()
            committed = consumer.committed([tp])[tp]
            assert committed is not None
            assert committed.offset == 10
        by_hand = read_partition(at, "t", 0, start=4, until=10)
        assert [record.offset for record in by_hand] == list(range(4, 10))
