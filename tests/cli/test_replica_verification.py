"""`odradek replica-verification`: replicas compared with each other."""

from __future__ import annotations

import re
import signal
import subprocess
import sys

from odradek import Admin, ConsumerRecord, NewTopic, Producer, TopicPartition
from odradek.cli.replica_verification import Comparison, Entry, Replica, checksum, compare
from odradek.testing import Cluster
from waiting import WITHIN_S, until

TP = TopicPartition("t", 0)


def replica(broker_id: int, *entries: tuple[int, int], high_watermark: int = 100) -> Replica:
    """One whose records have these offsets and checksums."""
    return Replica(broker_id, [Entry(*entry) for entry in entries], high_watermark)


def test_replicas_that_agree_are_compared_as_far_as_all_are() -> None:
    first = replica(1, (5, 50), (6, 60), (7, 70))
    assert compare(TP, 5, [first, replica(2, (5, 50), (6, 60))]) == Comparison(7)
    assert compare(TP, 5, [first, first._replace(broker_id=2, high_watermark=6)]) == Comparison(6)
    assert compare(TP, 5, [first, replica(2)]) == Comparison(5)
    assert compare(TP, 5, [first]) == Comparison(8)


def test_what_differs_is_told_as_kafka_tells_it() -> None:
    first = replica(1, (5, 50), (6, 60), (8, 80))
    other = replica(2, (5, 50), (6, 61), (7, 80))
    assert compare(TP, 5, [first, other]) == Comparison(
        7,
        (
            "partition t-0 has unmatched checksum at offset 6; replica 1's checksum 60; replica 2's checksum "
            "61",
        ),
        "partition t-0: replica 1's offset 8 doesn't match replica 2's offset 7",
    )


def test_a_checksum_is_of_all_that_a_record_says() -> None:
    record = ConsumerRecord("t", 0, 1, 1000, 0, b"k", b"v", (("h", b"x"),), 0)
    changed = [
        record._replace(timestamp=1001),
        record._replace(key=None),
        record._replace(key=b""),
        record._replace(value=b"kv", key=b""),
        record._replace(headers=(("h", None),)),
        record._replace(headers=()),
    ]
    assert len({checksum(r) for r in [record, *changed]}) == len(changed) + 1
    assert checksum(record) == checksum(record._replace(leader_epoch=7))


def test_a_cluster_s_replicas() -> None:
    with Cluster(2) as cluster:
        servers = cluster.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
            admin.create_topics([NewTopic("t", num_partitions=2, replication_factor=2)])
            for number in range(20):
                producer.send("t", b"%d" % number, partition=number % 2)
            producer.flush()
        words = ["--broker-list", servers, "--topics-include", "t", "--time", "-2"]
        words += ["--report-interval-ms", "1", "--max-wait-ms", "100"]
        child = subprocess.Popen(
            [sys.executable, "-m", "odradek", "replica-verification", *words],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert child.stdout is not None
            assert child.stdout.readline().endswith(": verification process is started\n")
            said = until(
                child.stdout.readline,
                "a report of partitions that were compared",
                holds=lambda line: "max lag is 0" in line and "at offset 10" in line,
                every_s=0,
            )
            assert re.search(r": max lag is 0 for partition t-[01] at offset 10 among 2 partitions$", said)
            child.send_signal(signal.SIGINT)
            assert child.wait(WITHIN_S) == 130
        finally:
            child.kill()
            child.communicate(timeout=WITHIN_S)
