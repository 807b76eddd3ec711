"""Bursts of librdkafka's defaults at three brokers: acks=all, three replicas, in flight without a bound.

The client is one Python process with confluent-kafka, of whose configs only the servers are given. What
counts is the time from the first record to the last acknowledgement: a broker that bounds what a connection
has in work may make such a client wait, but never stand still.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from itertools import count

from benchmarks.clusters import CLUSTERS, KAFKA_KRAFT, KAFKA_ZK, Cluster, in_turns
from benchmarks.peers import package_version
from benchmarks.results import Measure, Outcome
from benchmarks.sections import Context

LEADER = 1
FLUSH_S = 120
BURSTS = {
    "burst of 3,000 records of 10 KiB": (3_000, 10 * 1024),
    "burst of 60 records of 900 KiB": (60, 900 * 1024),
}
LABEL = "MB/s until all is acknowledged"
BAR = 0.5
"""A burst is over within twice Kafka's time."""

_topics = count()


def burst(servers: str, topic: str, records: int, size: int) -> float:
    """Send all records at once; returns the seconds until all were acknowledged."""
    from confluent_kafka import Producer

    good = 0

    def told(error: object, message: object) -> None:
        nonlocal good
        good += error is None

    producer = Producer({"bootstrap.servers": servers})
    producer.produce(topic, b"first", on_delivery=told)
    producer.flush(30)
    value = bytes(range(256)) * (size // 256)
    began = time.perf_counter()
    for _ in range(records):
        producer.produce(topic, value, on_delivery=told)
    producer.flush(FLUSH_S)
    spent = time.perf_counter() - began
    if good != records + 1:
        raise RuntimeError(f"{good - 1} of {records} records were acknowledged within {FLUSH_S} s")
    return spent


def run(name: str, context: Context) -> Outcome:
    """Each burst on each cluster, in turns."""
    values: dict[str, dict[str, list[float]]] = {case: {} for case in BURSTS}

    def measure(number: int, cluster: Cluster) -> None:
        for case, (records, size) in BURSTS.items():
            _burst(cluster, 100, 1024)  # what a JVM compiles first is not measured
            rate = records * size / 1e6 / _burst(cluster, records, size)
            values[case].setdefault(cluster.name, []).append(rate)
            context.say(f"round {number}: {cluster.name}: {case}: {rate:,.4g} {LABEL}")

    versions, skipped = in_turns(dict.fromkeys(CLUSTERS, context.rounds), measure)
    versions["confluent-kafka"] = package_version("confluent-kafka") or "?"
    bars = {KAFKA_KRAFT: BAR, KAFKA_ZK: BAR}
    measures = [Measure(case, LABEL, found, False, dict(bars)) for case, found in values.items()]
    settings = {"rounds": context.rounds, "partitions": 1}
    title = "Bursts of librdkafka's defaults: three brokers, three replicas, in flight without a bound"
    return Outcome(name, title, list(CLUSTERS), versions, measures, settings, skipped=skipped)


def _burst(cluster: Cluster, records: int, size: int) -> float:
    topic = f"burst-{next(_topics)}"
    cluster.create_topic(topic, 1, LEADER)
    cluster.await_whole(topic)
    words = [
        sys.executable,
        "-m",
        "benchmarks.cluster_bursts",
        cluster.servers,
        topic,
        str(records),
        str(size),
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=2 * FLUSH_S)
    if done.returncode:
        raise RuntimeError(f"{cluster.name}: {done.stderr[-2000:]}")
    seconds: float = json.loads(done.stdout)
    return seconds


if __name__ == "__main__":
    print(json.dumps(burst(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
