"""Leaders that die or hang: how long until the next write is acknowledged.

One partition with three replicas, one producer with acks=all that writes one record at a time. Its leader is
killed, or paused (SIGSTOP), the next record is sent, and the time until its acknowledgement is what counts.
It happens at any moment between two of the heartbeats from which the broker's session counts.
The client has its defaults: it leaves a silent broker when others do not count it as alive any more.
"""

from __future__ import annotations

import random
import time

from benchmarks.clusters import KAFKA_KRAFT, KAFKA_ZK, OURS, TICK_MS, Cluster, in_turns
from benchmarks.results import Measure, Outcome, percentile
from benchmarks.sections import Context
from odradek.client import Producer

CONTENDERS = [OURS, KAFKA_KRAFT, KAFKA_ZK]
TOPIC = "deaths"
SESSION_MS = 3000
"""Shorter than elsewhere: a broker that was killed is let in again when its session is over, fifty times."""
KILLS = {OURS: 50}
PAUSES = {OURS: 11}
KILLS_OF_OTHERS = 2
PAUSES_OF_OTHERS = 3
KILL = f"kill -9 of a leader, sessions of {SESSION_MS / 1000:g} s"
PAUSE = f"a leader is paused (SIGSTOP), sessions of {SESSION_MS / 1000:g} s"

_chance = random.Random(12)
"""When a leader dies, from one heartbeat to the next: they are a third of a session apart."""


def run(name: str, context: Context) -> Outcome:
    """Each cluster once; ours has more deaths to survive, as they take less of our time."""
    killed = Measure(KILL, "p50 ms to the next acknowledged write", {}, True)
    worst = Measure(KILL, "p99 ms to the next acknowledged write", {}, True, limit=1_000.0)
    paused = Measure(PAUSE, "ms to the next acknowledged write", {}, True, limit=float(SESSION_MS))

    def measure(_: int, cluster: Cluster) -> None:
        who = cluster.name
        cluster.create_topic(TOPIC, 1)
        kills = 2 if context.quick else KILLS.get(who, KILLS_OF_OTHERS)
        killed.values[who] = [_gap(cluster, hangs=False) for _ in range(kills)]
        worst.values[who] = [percentile(killed.values[who], 99)]
        words = f"{killed.median(who):,.0f} ms, p99 {worst.values[who][0]:,.0f} ms"
        context.say(f"{who}: {kills} × {KILL}: {words}")
        pauses = 1 if context.quick else PAUSES.get(who, PAUSES_OF_OTHERS)
        paused.values[who] = [_gap(cluster, hangs=True) for _ in range(pauses)]
        context.say(f"{who}: {pauses} × {PAUSE}: {paused.median(who):,.0f} ms")

    versions, skipped = in_turns(dict.fromkeys(CONTENDERS, 1), measure, SESSION_MS)
    settings = {
        "kills": len(killed.values[OURS]),
        "pauses": len(paused.values[OURS]),
        "of the others": f"{KILLS_OF_OTHERS} and {PAUSES_OF_OTHERS}",
    }
    title = "Leaders that die: three brokers, three replicas, acks=all, min.insync.replicas=2"
    notes = [
        "The p99 of a few kills is the longest of them. ZooKeeper ends a session at its next tick, "
        f"{TICK_MS} ms long here (by default 2 s, which it adds to a pause at the most). KRaft has as long a "
        "session here as the others (`broker.session.timeout.ms`), where its default is 9 s."
    ]
    return Outcome(
        name, title, CONTENDERS, versions, [killed, worst, paused], settings, notes, skipped=skipped
    )


def _gap(cluster: Cluster, *, hangs: bool) -> float:
    """Kill or pause the leader; returns the ms until a record sent then is acknowledged."""
    leader = cluster.await_whole(TOPIC).leader
    with Producer(bootstrap_servers=cluster.servers, acks="all", linger_ms=0) as producer:
        producer.send(TOPIC, value=b"before", partition=0).result(60)
        time.sleep(_chance.uniform(0, SESSION_MS / 3) / 1000)
        if hangs:
            cluster.pause(leader)
        else:
            cluster.kill(leader)
        began = time.monotonic()
        producer.send(TOPIC, value=b"after", partition=0).result(120)
        gap_ms = 1000 * (time.monotonic() - began)
        if hangs:
            cluster.resume(leader)
        else:
            cluster.start_again(leader)
    return gap_ms
