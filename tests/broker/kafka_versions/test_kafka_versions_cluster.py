"""Three brokers that pass for each release of Kafka: what they ask each other is outside of it."""

from __future__ import annotations

import pytest

from odradek import Consumer, Producer, TopicPartition
from odradek.broker.kafka_versions.release import KRAFT_SUFFIX, names
from odradek.testing import Cluster
from waiting import gathered

PATIENCE_S = 60


def with_kraft(name: str) -> bool:
    """Return whether there is this release with ZooKeeper, and with KRaft."""
    return names().index("2.8") <= names().index(name) < names().index("4.0")


RELEASES = [*names(), *(name + KRAFT_SUFFIX for name in names() if with_kraft(name))]


@pytest.mark.parametrize("release", RELEASES)
def test_what_is_written_survives_the_leader(release: str) -> None:
    topic, partition = "t", TopicPartition("t", 0)
    with Cluster(3, kafka_version=release) as cluster:
        cluster.create_topic(topic)
        configs = {"bootstrap_servers": cluster.bootstrap_servers}
        with Producer(**configs, acks="all", enable_idempotence=False) as producer:
            producer.send(topic, b"before").result(PATIENCE_S)
            leader = cluster.leader(topic)
            cluster.kill(leader)
            producer.send(topic, b"after").result(PATIENCE_S)
        assert cluster.leader(topic) != leader
        with Consumer(**configs, auto_offset_reset="earliest") as consumer:
            consumer.assign([partition])
            found = gathered(lambda: consumer.poll(1_000), 2, "both records", within_s=PATIENCE_S)
        assert [record.value for record in found] == [b"before", b"after"]
