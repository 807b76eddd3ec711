"""100,000 records there and back, over a network that fails."""

from __future__ import annotations

import time

import pytest

from cluster_network import CLIENTS
from scenarios.faults import brokers
from scenarios.faults.conftest import Judged
from scenarios.faults.run import Run
from scenarios.faults.workloads import TOPIC, Workload

pytestmark = [pytest.mark.slow, pytest.mark.faults]
RECORDS = 100_000
WORKLOAD = Workload("lz4", writers=4, batch=500)
#: Acknowledged before the fault begins, and after it is over.
FIRST, LAST = 50, 50
CUT_S = 4
DELAY_S, BYTES_PER_S = 0.1, 3_000_000 / 8


def broker_cut_off(run: Run) -> None:
    """From clients, other brokers and ZooKeeper, until another leads; then it is back."""
    broker = run.leader()
    network = run.cluster.network
    for other in (*(str(one) for one in run.cluster.live if one != broker), "zookeeper", CLIENTS):
        network.cut(str(broker), other)
    run.cluster.wait_until(lambda: run.cluster.partition(TOPIC).leader not in (-1, broker))
    run.writing.go_on()
    network.heal()


def clients_cut_off(run: Run) -> None:
    for broker in run.cluster.live:
        run.cluster.network.cut(CLIENTS, str(broker))
    time.sleep(CUT_S)  # the fault's length
    run.cluster.network.heal()


def slow_clients(run: Run) -> None:
    """Slow to the end."""
    run.cluster.network.slow(CLIENTS, DELAY_S, BYTES_PER_S)


def slow_brokers(run: Run) -> None:
    """One of them, to all; to the end."""
    run.cluster.network.slow(str(run.follower()), DELAY_S, BYTES_PER_S)


FAULTS = (
    ("leader cut off from everybody", broker_cut_off),
    ("leader paused", brokers.pause_leader),
    ("follower paused", brokers.pause_follower),
    (f"clients cut off for {CUT_S} s", clients_cut_off),
    ("clients behind 100 ms and 3 Mbit/s", slow_clients),
    ("a follower behind 100 ms and 3 Mbit/s", slow_brokers),
)


@pytest.mark.parametrize(("fault", "strike"), FAULTS, ids=[name for name, _ in FAULTS])
def test_all_arrive(judged: Judged, fault: str, strike: brokers.Fault) -> None:
    with judged(f"100,000 records: {fault}", WORKLOAD, network=True) as run:
        run.writing.go_on(FIRST)
        strike(run)
        run.writing.go_on(LAST)
        while run.writing.acknowledged * WORKLOAD.batch < RECORDS:
            run.writing.go_on(1)
        run.cluster.network.heal()
        run.cluster.await_whole(TOPIC)
