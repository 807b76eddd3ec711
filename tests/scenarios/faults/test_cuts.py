"""Brokers that do not hear each other, one way or both, and do not reach some of the others."""

from __future__ import annotations

import time

import pytest

from cluster_network import CLIENTS, ZOOKEEPER
from scenarios.faults import brokers
from scenarios.faults.conftest import Judged
from scenarios.faults.run import Run
from scenarios.faults.workloads import TOPIC, Workload

pytestmark = pytest.mark.slow
FAULTS = pytest.mark.faults
WORKLOADS = [
    Workload(request_timeout_ms=3_000),
    Workload("gzip", transactional=True, request_timeout_ms=3_000),
]
#: How soon a request of a broker to another is given up: its connection stands while it is cut off.
SETTINGS = {"replica.socket.timeout.ms": "3000", "controller.socket.timeout.ms": "3000"}
#: Longer than a session and than a follower may lag.
CUT_S = 5


def stand(seconds: float) -> None:
    """Have a cut last until whatever would follow from it has followed: nobody tells that nothing has."""
    time.sleep(seconds)


def leader_and_follower(run: Run) -> tuple[int, int]:
    """A leader, and a follower that is not the controller: without that one no follower is given up."""
    leader, controller = run.leader(), run.cluster.controller()
    return leader, next(one for one in run.cluster.live if one not in (leader, controller))


def follower_hears_no_leader(run: Run) -> None:
    """The leader hears the follower."""
    leader, follower = leader_and_follower(run)
    run.cluster.network.cut(str(leader), str(follower), one_way=True)
    run.await_out_of_sync(follower)


def leader_hears_no_follower(run: Run) -> None:
    """The follower hears the leader."""
    leader, follower = leader_and_follower(run)
    run.cluster.network.cut(str(follower), str(leader), one_way=True)
    run.await_out_of_sync(follower)


def follower_reaches_only_zookeeper(run: Run) -> None:
    _, follower = leader_and_follower(run)
    for other in run.cluster.live:
        if other != follower:
            run.cluster.network.cut(str(follower), str(other))
    run.await_out_of_sync(follower)


def leader_reaches_all_but_zookeeper(run: Run) -> None:
    leader = run.leader()
    run.cluster.network.cut(str(leader), ZOOKEEPER)
    run.await_other_leader(leader)


def leader_reaches_nobody_but_clients(run: Run) -> None:
    """Neither the other brokers nor ZooKeeper: what it takes of clients is never acknowledged."""
    leader = run.leader()
    run.cluster.network.cut(str(leader), ZOOKEEPER)
    for other in run.cluster.live:
        if other != leader:
            run.cluster.network.cut(str(leader), str(other))
    run.await_other_leader(leader)


CUTS = (
    ("follower does not hear the leader, the leader hears it", follower_hears_no_leader),
    ("leader does not hear a follower, the follower hears it", leader_hears_no_follower),
    ("follower reaches ZooKeeper and no broker", follower_reaches_only_zookeeper),
    ("leader reaches all brokers and not ZooKeeper", leader_reaches_all_but_zookeeper),
    ("leader reaches clients alone", leader_reaches_nobody_but_clients),
)


@FAULTS
@pytest.mark.parametrize("workload", WORKLOADS, ids=str)
@pytest.mark.parametrize(("fault", "cut"), CUTS, ids=[fault for fault, _ in CUTS])
def test_others_go_on(judged: Judged, fault: str, cut: brokers.Fault, workload: Workload) -> None:
    with judged(fault, workload, network=True, settings=SETTINGS) as run:
        cut(run)
        run.writing.go_on()
        run.cluster.network.heal()
        run.cluster.await_whole(TOPIC)


@FAULTS
@pytest.mark.parametrize("workload", WORKLOADS, ids=str)
def test_a_leader_that_reaches_zookeeper_and_no_broker(judged: Judged, workload: Workload) -> None:
    """Its session lives, so it goes on leading, as in Kafka; nothing is acknowledged without the others."""
    with judged("leader reaches ZooKeeper and no broker", workload, network=True, settings=SETTINGS) as run:
        leader = run.leader()
        for other in run.cluster.live:
            if other != leader:
                run.cluster.network.cut(str(leader), str(other))
        stand(CUT_S)
        run.cluster.network.heal()
        run.cluster.await_whole(TOPIC)


@FAULTS
@pytest.mark.parametrize("workload", WORKLOADS, ids=str)
def test_the_controller_does_not_hear_the_leader(judged: Judged, workload: Workload) -> None:
    """The leader cannot do without the follower there, as in Kafka; what waits is acknowledged later."""
    fault = "controller, a follower, does not hear the leader"
    with judged(fault, workload, network=True, settings=SETTINGS) as run:
        leader = run.leader()
        while run.cluster.controller() == leader:
            run.cluster.stop(leader)
            run.cluster.start(leader)
            leader = run.leader()
        controller = run.cluster.controller()
        run.cluster.network.cut(str(leader), str(controller), one_way=True)
        stand(CUT_S)
        run.cluster.network.heal()
        run.cluster.await_whole(TOPIC)


@FAULTS
@pytest.mark.parametrize("workload", WORKLOADS, ids=str)
def test_clients_do_not_reach_the_leader(judged: Judged, workload: Workload) -> None:
    with judged("clients do not reach the leader for a while", workload, network=True) as run:
        leader = run.leader()
        run.cluster.network.cut(CLIENTS, str(leader))
        stand(CUT_S)
        run.cluster.network.heal()
