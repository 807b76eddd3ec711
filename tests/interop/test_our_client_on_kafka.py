"""Our client on Apache Kafka 2.2.2 and the newest: produce, two members, admin, Arrow."""

from __future__ import annotations

import pytest

import odradek
from interop import kafka_peer, members, topics_of_kafka

pytestmark = pytest.mark.interop


class Ours:
    """odradek's own client, told as the others are."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def produce(self, topic: str, values: list[bytes]) -> None:
        with odradek.Producer(bootstrap_servers=self.bootstrap, compression_type="lz4") as producer:
            sent = [producer.send(topic, value=value, partition=i % 4) for i, value in enumerate(values)]
            for future in sent:
                future.result(60)

    def join(self, topic: str, group: str) -> members.Member:
        consumer = odradek.Consumer(
            topic, bootstrap_servers=self.bootstrap, group_id=group, auto_offset_reset="earliest"
        )

        class Joined:
            assigned: set[int] = set()

            def poll(self) -> list[bytes]:
                values = [record.value for record in consumer.poll(timeout_ms=100)]
                self.assigned = {p.partition for p in consumer.assignment()}
                return values

            def partitions(self) -> set[int]:
                return self.assigned

            def close(self) -> None:
                consumer.close()

        return Joined()


def test_two_members_and_a_rebalance(real_kafka: kafka_peer.RealKafka) -> None:
    with odradek.Admin(bootstrap_servers=real_kafka.bootstrap_servers) as admin:
        topics_of_kafka.create(admin, odradek.NewTopic("shared", num_partitions=4, replication_factor=1))
    members.run(Ours(real_kafka.bootstrap_servers), "shared", lambda: None)


def test_admin(real_kafka: kafka_peer.RealKafka) -> None:
    with odradek.Admin(bootstrap_servers=real_kafka.bootstrap_servers) as admin:
        topics_of_kafka.create(admin, odradek.NewTopic("managed", num_partitions=2, replication_factor=1))
        assert "managed" in admin.list_topics()
        admin.create_partitions({"managed": 3})
        topics_of_kafka.until_served(admin, "managed", 3)
        admin.delete_topics(["managed"])
        topics_of_kafka.until_gone(admin, "managed")


def test_arrow_round_trip(real_kafka: kafka_peer.RealKafka) -> None:
    pa = pytest.importorskip("pyarrow")
    at = real_kafka.bootstrap_servers
    with odradek.Admin(bootstrap_servers=at) as admin:
        topics_of_kafka.create(admin, odradek.NewTopic("columns", num_partitions=1, replication_factor=1))
    values = [b"row-%d" % i for i in range(1000)]
    table = pa.table({"key": pa.array([None] * 1000, pa.binary()), "value": pa.array(values, pa.binary())})
    with odradek.Producer(bootstrap_servers=at) as producer:
        producer.send_arrow(table, topic="columns")
        producer.flush()
    read: list[bytes] = []
    with odradek.Consumer(
        "columns", bootstrap_servers=at, group_id="columns", auto_offset_reset="earliest"
    ) as consumer:

        def all_read() -> bool:
            read.extend(consumer.poll_arrow(timeout_ms=200).column("value").to_pylist())
            return len(read) >= 1000

        members.until("all rows are read", all_read)
    assert read == values
