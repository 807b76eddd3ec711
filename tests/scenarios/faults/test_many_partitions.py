"""Thousands of partitions, and brokers that are stopped and killed."""

from __future__ import annotations

import time

import pytest

from odradek import NewTopic
from scenarios.faults.conftest import Judged
from scenarios.faults.run import Run
from scenarios.faults.workloads import TOPIC, Workload

pytestmark = [pytest.mark.slow, pytest.mark.faults]
MANY = 2_000
CROWD = "crowd"
SETTINGS = {"zookeeper.session.timeout.ms": "6000", "replica.lag.time.max.ms": "10000"}


def await_led(run: Run, without: int | None) -> float:
    """Wait until all partitions are led by brokers that run; how many seconds that took."""
    began = time.monotonic()

    def look() -> bool:
        with run.cluster.admin() as admin:
            partitions = admin.describe_topics([CROWD])[CROWD].partitions
        return all(one.leader not in (-1, without) for one in partitions)

    run.cluster.wait_until(look)
    return time.monotonic() - began


def test_brokers_die_among_thousands_of_partitions(judged: Judged) -> None:
    with judged(
        f"{MANY:,} partitions; a broker stopped cleanly, another killed, the controller killed",
        Workload(),
        settings=SETTINGS,
    ) as run:
        with run.cluster.admin(request_timeout_ms=60_000) as admin:
            admin.create_topics([NewTopic(CROWD, MANY, 3)], timeout_ms=60_000)
        run.cluster.await_all_whole(CROWD)
        controller = run.cluster.controller()
        bounced, killed = (one for one in run.cluster.live if one != controller)
        seconds = []
        for broker in (bounced, killed, controller):
            (run.cluster.stop if broker == bounced else run.cluster.kill)(broker)
            seconds.append(await_led(run, broker))
            run.writing.go_on()
            run.cluster.start(broker)
            run.cluster.await_all_whole(CROWD)
            run.cluster.await_whole(TOPIC)
        told = ", ".join(f"{one:.1f} s" for one in seconds)
        run.notes.append(f"all led again after {told} (3 replicas each)")
