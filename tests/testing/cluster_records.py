"""Write to a topic of a `Cluster`, and read it, as a client does."""

from __future__ import annotations

from itertools import count

from odradek.client import Consumer, Producer
from odradek.testing import Cluster

_GROUPS = count()


def produce(
    cluster: Cluster, topic: str, values: list[bytes], *, acks: str = "all", partition: int = 0
) -> None:
    """Write to a partition, and wait until everything is acknowledged."""
    with Producer(bootstrap_servers=cluster.bootstrap_servers, acks=acks) as producer:
        for sent in [producer.send(topic, value=value, partition=partition) for value in values]:
            sent.result(60)


def read(cluster: Cluster, topic: str, expected: int) -> list[bytes]:
    """Read from the beginning, in a group of its own, until as many values as expected have come."""
    with Consumer(
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=f"readers-{next(_GROUPS)}",
        auto_offset_reset="earliest",
    ) as consumer:
        consumer.subscribe([topic])
        return poll_values(cluster, consumer, expected)


def read_alone(cluster: Cluster, topic: str, expected: int = 1) -> list[bytes]:
    """Read partition 0 from its beginning without a group, whose coordinator may be away."""
    with Consumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek_to_beginning((topic, 0))
        return poll_values(cluster, consumer, expected)


def poll_values(cluster: Cluster, consumer: Consumer, expected: int) -> list[bytes]:
    """Poll until as many values as expected have come."""
    values: list[bytes] = []

    def poll() -> bool:
        values.extend(bytes(record.value) for record in consumer.poll(100))
        return len(values) >= expected

    cluster.wait_until(poll)
    return values
