"""The metadata store goes away, is slow, and ends sessions of brokers that live."""

from __future__ import annotations

import time

import pytest

from cluster_network import ZOOKEEPER
from scenarios.faults import brokers
from scenarios.faults.conftest import Judged
from scenarios.faults.run import Run
from scenarios.faults.workloads import TOPIC, Workload

pytestmark = [pytest.mark.slow, pytest.mark.faults]
#: Brokers that have been replaced, and do not know it, are not waited for long.
WORKLOADS = pytest.mark.parametrize(
    "workload",
    [Workload(request_timeout_ms=3_000), Workload(transactional=True, request_timeout_ms=3_000)],
    ids=str,
)
DOWN_S = 60


def restart_zookeeper(run: Run) -> None:
    """The traffic of leaders that are known goes on meanwhile."""
    run.leader()
    run.cluster.zookeeper.kill()
    run.writing.go_on()
    run.cluster.zookeeper.start()


@WORKLOADS
def test_zookeeper_is_killed_and_started_again(judged: Judged, workload: Workload) -> None:
    with judged("ZooKeeper killed and started again, twice", workload) as run:
        brokers.again(run, restart_zookeeper, 2)


def test_zookeeper_is_down_for_a_minute(judged: Judged) -> None:
    with judged("ZooKeeper down for a minute", Workload("lz4")) as run:
        run.leader()
        run.cluster.zookeeper.kill()
        began = time.monotonic()
        run.writing.forget_gaps()
        run.writing.go_on_for(DOWN_S)
        run.notes.append(
            f"down for {time.monotonic() - began:.0f} s; longest gap between two acknowledgements "
            f"{run.writing.longest_gap_s * 1000:.0f} ms"
        )
        run.cluster.zookeeper.start()
        # What needs the metadata store goes on.
        brokers.again(run, brokers.kill_leader, 1)


@WORKLOADS
@pytest.mark.parametrize("who", ["leader", "controller"])
def test_a_session_ends_and_its_broker_lives(judged: Judged, who: str, workload: Workload) -> None:
    """It reaches the other brokers and clients all the while, and registers anew when it may."""
    with judged(f"session of the {who} ends, and its process lives", workload, network=True) as run:
        leader = run.leader()
        if who == "leader":
            run.cluster.network.cut(str(leader), ZOOKEEPER)
            run.await_other_leader(leader)
        else:
            controller = run.cluster.controller()
            run.cluster.network.cut(str(controller), ZOOKEEPER)
            run.cluster.wait_until(lambda: run.cluster.controller() != controller)
        run.writing.go_on()
        run.cluster.network.heal()
        run.cluster.await_whole(TOPIC)
        # Whoever has registered anew can lead again.
        brokers.again(run, brokers.kill_leader, 1)


def test_zookeeper_answers_slowly(judged: Judged) -> None:
    with judged(
        "ZooKeeper answers after 300 ms; leader killed meanwhile", Workload("zstd"), network=True
    ) as run:
        run.cluster.network.slow(ZOOKEEPER, 0.15)
        brokers.again(run, brokers.kill_leader, 2)
        brokers.again(run, brokers.bounce_controller, 1)
