"""Bursts of librdkafka with its own defaults: acks=all, and as many requests in flight as it likes.

With three replicas no answer comes before the followers have fetched, so that a burst reaches every bound of
its connection: requests unanswered, and their bytes. It goes on as answers leave, and ends within seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from odradek.testing import Cluster

pytestmark = pytest.mark.interop

LIMIT_S = 30
"""Half of what librdkafka waits for an answer (a minute): by then it gives requests up."""

BURSTS = {"many of 10 KiB": (3_000, 10 * 1024), "some of 900 KiB": (40, 900 * 1024)}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    pytest.importorskip("confluent_kafka")
    with Cluster(3) as running:
        yield running


def burst(servers: str, topic: str, count: int, size: int, **configs: Any) -> tuple[int, int]:
    """Send all at once; returns how many were acknowledged, and how many were unanswered after `LIMIT_S`."""
    from confluent_kafka import Producer

    acknowledged = 0

    def told(error: object, message: object) -> None:
        nonlocal acknowledged
        acknowledged += error is None

    producer = Producer({"bootstrap.servers": servers, **configs})
    value = bytes(range(256)) * (size // 256)
    for _ in range(count):
        producer.produce(topic, value, partition=0, on_delivery=told)
    left = producer.flush(LIMIT_S)
    if left:
        producer.purge()
        producer.flush(LIMIT_S)
    return acknowledged, left


@pytest.mark.parametrize("kind", BURSTS)
def test_a_burst_is_acknowledged_at_once(cluster: Cluster, kind: str) -> None:
    count, size = BURSTS[kind]
    topic = f"burst-{size}"
    cluster.create_topic(topic)
    # Each record a request of its own: the most that a burst can have in flight.
    configs = {"batch.num.messages": 1}
    assert burst(cluster.bootstrap_servers, topic, count, size, **configs) == (count, 0)
    leader = cluster.leader(topic)
    end = cluster.broker(leader).call(lambda broker: broker.replicas.get(topic, 0).log.log_end_offset)
    assert end == count


def test_a_burst_in_batches_is_acknowledged_at_once(cluster: Cluster) -> None:
    cluster.create_topic("burst")
    assert burst(cluster.bootstrap_servers, "burst", 3_000, 10 * 1024) == (3_000, 0)
