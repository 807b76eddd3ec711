"""What a broker with 2,000 replicas keeps in memory: a third of them led, each with a record."""

from __future__ import annotations

import time

from benchmarks.clusters import KAFKA_KRAFT, OURS, Cluster, broker_memory, in_turns
from benchmarks.results import Measure, Outcome
from benchmarks.sections import Context
from odradek.client import Producer

REPLICAS = 2_000
SETTLE_S = 5.0
CASE = f"a broker with {REPLICAS:,} replicas"
TOPIC = "many"


def run(name: str, context: Context) -> Outcome:
    """Each cluster once; the values are those of its three brokers."""
    contenders = [OURS, KAFKA_KRAFT]
    empty = Measure("the same broker without", "resident MiB (RSS)", {}, True)
    resident = Measure(CASE, "resident MiB (RSS)", {}, True, limit=150.0)
    shared = Measure(CASE, "proportional MiB (PSS)", {}, True)

    def measure(_: int, cluster: Cluster) -> None:
        who = cluster.name
        time.sleep(SETTLE_S)
        empty.values[who] = [broker_memory(pid)[0] for pid in cluster.pids.values()]
        _fill(cluster)
        time.sleep(SETTLE_S)
        found = [broker_memory(pid) for pid in cluster.pids.values()]
        resident.values[who] = [rss for rss, _ in found]
        shared.values[who] = [pss for _, pss in found]
        context.say(f"{who}: {empty.median(who):,.0f} MiB empty, {resident.median(who):,.0f} MiB")

    versions, skipped = in_turns(dict.fromkeys(contenders, 1), measure)
    return Outcome(
        name,
        f"Memory: three brokers with {REPLICAS:,} replicas each",
        contenders,
        versions,
        [empty, resident, shared],
        {"partitions": REPLICAS, "replicas of each": 3},
        skipped=skipped,
    )


def _fill(cluster: Cluster) -> None:
    cluster.create_topic(TOPIC, REPLICAS)
    cluster.await_whole(TOPIC)
    with Producer(bootstrap_servers=cluster.servers, acks="all") as producer:
        sent = [producer.send(TOPIC, value=b"x" * 100, partition=index) for index in range(REPLICAS)]
        for one in sent:
            one.result(120)
