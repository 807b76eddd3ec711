"""Consumers that have read what is not there any more, after an unclean election (KIP-320)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cluster_processes import ClusterProcesses
from odradek import Consumer, NewTopic, Producer
from odradek.client.errors import LogTruncationError
from odradek.client.types import ConsumerRecord, TopicPartition
from scenarios.faults.page import Page, Row

pytestmark = [pytest.mark.slow, pytest.mark.faults]
TOPIC = "cut"
PARTITION = TopicPartition(TOPIC, 0)
CONFIGS = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
COMMON, GONE, NEW = 20, 10, 30


def produce(cluster: ClusterProcesses, values: list[str]) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer:
        for sent in [producer.send(TOPIC, value, partition=0) for value in values]:
            sent.result(90)


def poll(cluster: ClusterProcesses, consumer: Consumer, count: int) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []

    def look() -> bool:
        records.extend(consumer.poll(100))
        return len(records) >= count

    cluster.wait_until(look)
    return records


def values(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{n}" for n in range(count)]


def texts(records: list[ConsumerRecord]) -> list[str]:
    return [one.value.decode() for one in records]


def cut_the_log(cluster: ClusterProcesses, read: Callable[[], None]) -> None:
    """Have the only replica in sync take records, which are read, and others lead without them, at their
    offsets."""
    produce(cluster, values("common ", COMMON))
    leader = cluster.await_whole(TOPIC).leader
    others = [one for one in cluster.live if one != leader]
    cluster.kill(*others)
    cluster.await_partition(TOPIC, lambda one: one.in_sync_replicas == (leader,))
    produce(cluster, values("gone ", GONE))
    read()
    cluster.kill(leader)
    cluster.start(*others)
    cluster.await_partition(TOPIC, lambda one: one.leader in others)
    produce(cluster, values("new ", NEW))
    cluster.start(leader)
    cluster.await_whole(TOPIC)


@pytest.mark.parametrize("reset", ["none", "earliest"])
def test_a_consumer_notices(tmp_path: Path, page: Page, reset: str) -> None:
    """It has read beyond what the new leader had, and not yet what came after at the same offsets."""
    with ClusterProcesses(tmp_path) as cluster:
        with cluster.admin() as admin:
            admin.create_topics([NewTopic(TOPIC, 1, 3, configs=CONFIGS)])
        cluster.await_whole(TOPIC)
        with Consumer(
            bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset=reset, metadata_max_age_ms=500
        ) as consumer:
            consumer.assign([PARTITION])
            consumer.seek_to_beginning(PARTITION)
            read: list[ConsumerRecord] = []
            cut_the_log(cluster, lambda: read.extend(poll(cluster, consumer, COMMON + GONE)))
            assert texts(read) == values("common ", COMMON) + values("gone ", GONE)
            if reset == "none":

                def truncated() -> bool:
                    try:
                        assert consumer.poll(100) == []
                    except LogTruncationError:
                        return True
                    return False

                cluster.wait_until(truncated)
                consumer.seek(PARTITION, COMMON)
            after = poll(cluster, consumer, NEW)
            assert texts(after) == values("new ", NEW)
            assert after[0].offset == COMMON
    how = "told by LogTruncationError" if reset == "none" else "goes back by itself to where the logs part"
    page.add(
        Row(
            "unclean election: consumer had read what only the old leader had",
            f"consumer, auto.offset.reset={reset}",
            COMMON + GONE + NEW,
            COMMON + GONE + NEW,
            0,
            f"{how}; {GONE} records are lost, as configured",
        )
    )
