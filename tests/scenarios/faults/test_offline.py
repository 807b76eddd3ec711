"""All replicas go offline one after the other, and what unclean elections cost."""

from __future__ import annotations

import os

import pytest

from cluster_processes import ClusterProcesses
from scenarios.faults.conftest import Judged
from scenarios.faults.run import Run
from scenarios.faults.workloads import TOPIC, Workload
from waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.faults]
ALONE = {"min.insync.replicas": "1"}
UNCLEAN = {**ALONE, "unclean.leader.election.enable": "true"}
#: One broker is enough for transactions to end.
SETTINGS = {"transaction.state.log.min.isr": "1"}
#: What is lost when a replica leads that was not in sync: records, and the offsets that they had.
LOSS = frozenset(
    {
        "lost-write",
        "unseen",
        "inconsistent-offsets",
        "nonmonotonic-send",
        "int-nonmonotonic-send",
        "poll-skip",
        "nonmonotonic-poll",
    }
)


def leave_one_in_sync(run: Run) -> tuple[int, list[int]]:
    """Kill one follower after the other, with writes after each. Returns who is left, and the others."""
    left = run.leader()
    others = [one for one in run.cluster.live if one != left]
    for broker in others:
        run.cluster.kill(broker)
        run.await_out_of_sync(broker)
        run.writing.go_on()
    run.cluster.await_partition(TOPIC, lambda one: one.in_sync_replicas == (left,))
    run.writing.go_on()
    return left, others


def await_both(run: Run, brokers: list[int]) -> None:
    """Wait until these are members of the cluster, and no others."""

    def look() -> bool:
        with run.cluster.admin() as admin:
            return {node.id for node in admin.describe_cluster().nodes} == set(brokers)

    run.cluster.wait_until(look)


@pytest.mark.parametrize("workload", [Workload(), Workload("lz4", transactional=True)], ids=str)
def test_the_last_in_sync_comes_back_last(judged: Judged, workload: Workload) -> None:
    fault = "replicas offline one after the other; the last in sync comes back last; unclean election off"
    with judged(fault, workload, configs=ALONE, settings=SETTINGS) as run:
        left, others = leave_one_in_sync(run)
        run.cluster.kill(left)
        run.cluster.start(*others)
        await_both(run, others)
        # Whoever is there may not lead: what only the last one has would be lost.
        partition = run.cluster.await_partition(TOPIC, lambda one: one.leader == -1)
        assert partition.in_sync_replicas == (left,)
        run.cluster.start(left)
        assert run.leader() == left


def test_an_unclean_election_loses_what_it_must(judged: Judged) -> None:
    fault = "replicas offline one after the other; the last in sync comes back last; unclean election on"
    with judged(fault, Workload(), configs=UNCLEAN) as run:
        left, others = leave_one_in_sync(run)
        run.cluster.kill(left)
        run.cluster.start(*others)
        run.await_other_leader(left)
        run.lost = LOSS
        # What is acknowledged from now on was sent after, but for what was under way.
        run.writing.go_on()
        run.since = len(run.recorder.events)
        run.writing.go_on()
        run.cluster.start(left)
        run.cluster.await_whole(TOPIC)


def ready_again_at(cluster: ClusterProcesses, broker: int) -> str:
    """Return the time in the line in which a broker's second life says that it is ready."""
    # Standard output says so first.
    lines = until(
        lambda: [line for line in cluster.log(broker).splitlines() if "broker.process.main ready" in line],
        f"broker {broker}'s second line that it is ready",
        holds=lambda lines: len(lines) == 2,
    )
    return lines[1].partition(" ")[0]


def test_who_may_have_lost_records_does_not_come_first(judged: Judged) -> None:
    """Others of the ISR have lost nothing: their machines have not booted."""
    fault = (
        "all killed at once, the leader with its machine, which loses its last records; all started at once"
    )
    # However slow the machine is, all stay in sync until they are killed.
    settings = {"zookeeper.session.timeout.ms": "8000", "replica.lag.time.max.ms": "60000"}
    with judged(fault, Workload(), settings=settings) as run:
        run.cluster.await_whole(TOPIC)
        leader = run.leader()
        others = [one for one in run.cluster.live if one != leader]
        run.writing.go_on()
        # Nobody is left to elect another one.
        for broker in (leader, *others):
            run.cluster.pause(broker)
        run.cluster.kill(leader, *others)
        *_, log = sorted((run.cluster.folder_of(leader, TOPIC) / f"{TOPIC}-0").glob("*.log"))
        os.truncate(log, log.stat().st_size - 100)
        for folder in run.cluster.folders(leader):
            (folder / ".lock").write_text("1\nanother boot\n", encoding="utf-8")
        run.cluster.launch(leader, *others)
        for broker in (leader, *others):
            run.cluster.await_ready(broker)
        first, *_ = sorted(ready_again_at(run.cluster, broker) for broker in others)
        last = ready_again_at(run.cluster, leader)
        # Unless it waited for as long as others come first, another was ready before, and led.
        assert "Others come first for" in run.cluster.log(leader) or first < last
        run.leader()
