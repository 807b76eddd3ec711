"""The controller's death in a cluster of 10,000 partitions: how long until the next one elects leaders.

The controller is killed. Counted are the time until another broker is the controller, until a record for a
partition that the dead one led is acknowledged, and until all of its partitions have another leader.
"""

from __future__ import annotations

import resource
import time

from benchmarks.clusters import ADMIN_TIMEOUT_MS, OURS, Cluster, running
from benchmarks.results import Measure, Outcome
from benchmarks.sections import Context
from odradek.client import Admin, Producer
from odradek.errors import OdradekError

PARTITIONS = 10_000
QUICK_PARTITIONS = 1_000
OF_ONE_TOPIC = 1_000
DEATHS = 3
LIMIT_S = 120


def run(name: str, context: Context) -> Outcome:
    """Our cluster alone: to make as many partitions of the others takes longer than all the rest."""
    partitions = QUICK_PARTITIONS if context.quick else PARTITIONS
    # Each replica has its log open.
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    case = f"the controller is killed, {partitions:,} partitions × 3 replicas"
    controller = Measure(case, "s to the next controller", {OURS: []}, True)
    write = Measure(case, "s to the next write to what the dead one led", {OURS: []}, True, limit=3.0)
    everything = Measure(case, "s until all of that has leaders", {OURS: []}, True)
    skipped: dict[str, str] = {}
    with running(OURS, skipped) as cluster:
        if cluster is None:
            raise RuntimeError(f"{OURS} failed: {skipped[OURS]}")
        began = time.monotonic()
        topics = [f"many-{number}" for number in range(partitions // OF_ONE_TOPIC)]
        for topic in topics:
            cluster.create_topic(topic, OF_ONE_TOPIC)
        for topic in topics:
            cluster.await_whole(topic)
        created_s = time.monotonic() - began
        context.say(f"{partitions:,} partitions in {created_s:.0f} s")
        for number in range(1 if context.quick else DEATHS):
            figures = _death(cluster, topics)
            for measure, value in zip((controller, write, everything), figures, strict=True):
                measure.values[OURS].append(value)
            context.say(f"death {number + 1}: " + ", ".join(f"{value:.2f} s" for value in figures))
        version = cluster.version
    settings = {
        "deaths": len(write.values[OURS]),
        "partitions": partitions,
        "seconds to create them": round(created_s),
    }
    title = f"A controller that dies: three brokers, {partitions:,} partitions"
    return Outcome(name, title, [OURS], {OURS: version}, [controller, write, everything], settings)


def _death(cluster: Cluster, topics: list[str]) -> tuple[float, float, float]:
    with Admin(bootstrap_servers=cluster.servers, request_timeout_ms=ADMIN_TIMEOUT_MS) as admin:
        dead = _controller(admin, but=-1)
        topic = topics[0]
        led = next(
            one.partition for one in admin.describe_topics([topic])[topic].partitions if one.leader == dead
        )
    others = ",".join(f"127.0.0.1:{port}" for broker, port in cluster.ports.items() if broker != dead)
    with (
        Producer(bootstrap_servers=cluster.servers, acks="all", linger_ms=0) as producer,
        Admin(bootstrap_servers=others, request_timeout_ms=ADMIN_TIMEOUT_MS) as admin,
    ):
        producer.send(topic, value=b"before", partition=led).result(60)
        cluster.kill(dead)
        began = time.monotonic()
        acknowledged: list[float] = []
        sent = producer.send(topic, value=b"after", partition=led)
        sent.add_done_callback(lambda _: acknowledged.append(time.monotonic() - began))
        _controller(admin, but=dead)
        controller_s = time.monotonic() - began
        sent.result(LIMIT_S)
        for name in topics:
            while any(one.leader in (-1, dead) for one in admin.describe_topics([name])[name].partitions):
                if time.monotonic() > began + LIMIT_S:
                    raise RuntimeError(f"{name} has no leaders after {LIMIT_S} s")
                time.sleep(0.02)
        everything_s = time.monotonic() - began
    cluster.start_again(dead)
    for name in topics:
        cluster.await_whole(name)
    with Admin(bootstrap_servers=cluster.servers, request_timeout_ms=ADMIN_TIMEOUT_MS) as admin:
        admin.elect_leaders(None)
    return controller_s, acknowledged[0], everything_s


def _controller(admin: Admin, *, but: int) -> int:
    """The controller as a broker tells it, when it is another one."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        try:
            node = admin.describe_cluster().controller
        except OdradekError:
            node = None
        if node is not None and node.id not in (-1, but):
            return int(node.id)
        time.sleep(0.01)
    raise RuntimeError(f"no other controller than {but} after {LIMIT_S} s")
