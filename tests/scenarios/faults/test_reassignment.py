"""20 partitions that move to other brokers: undisturbed, with brokers bounced and killed, and taken back."""

from __future__ import annotations

import pytest

from odradek.client.types import TopicPartition
from scenarios.faults.conftest import Judged
from scenarios.faults.run import Run
from scenarios.faults.workloads import TOPIC, Workload

pytestmark = [pytest.mark.slow, pytest.mark.faults]
PARTITIONS = 20
BROKERS = 4
BEFORE = {n: [(n + k) % 3 for k in range(3)] for n in range(PARTITIONS)}
#: Each leaves one broker for the fourth, which becomes the preferred leader of a third of them.
AFTER = {n: [[1, 2, 3], [3, 0, 1], [2, 3, 0]][n % 3] for n in range(PARTITIONS)}


def move(run: Run, target: dict[int, list[int]] | None) -> None:
    """Begin a move of all partitions; None takes it back."""
    wanted = {TopicPartition(TOPIC, n): None if target is None else target[n] for n in range(PARTITIONS)}
    with run.cluster.admin() as admin:
        admin.alter_partition_reassignments(wanted)


def await_placed(run: Run, target: dict[int, list[int]]) -> None:
    """Wait until nothing moves, replicas are where they should be, and in sync.

    A move that was taken back leaves them in another order, as Kafka does: those of the target come first.
    """

    def look() -> bool:
        with run.cluster.admin() as admin:
            if admin.list_partition_reassignments():
                return False
            partitions = admin.describe_topics([TOPIC])[TOPIC].partitions
        return all(
            set(one.replicas) == set(target[one.partition]) and set(one.in_sync_replicas) == set(one.replicas)
            for one in partitions
        )

    run.cluster.wait_until(look)


def undisturbed(run: Run) -> None:
    pass


def bounced(run: Run) -> None:
    for broker in run.cluster.live:
        run.cluster.stop(broker)
        run.writing.go_on()
        run.cluster.start(broker)


def controller_killed(run: Run) -> None:
    broker = run.cluster.controller()
    run.cluster.kill(broker)
    run.writing.go_on()
    run.cluster.start(broker)


def newcomer_killed(run: Run) -> None:
    """The broker that everything moves to."""
    run.cluster.kill(3)
    run.writing.go_on()
    run.cluster.start(3)


FAULTS = (
    ("undisturbed", undisturbed),
    ("all brokers bounced", bounced),
    ("controller killed", controller_killed),
    ("the broker that they move to killed", newcomer_killed),
)


@pytest.mark.parametrize("workload", [Workload(), Workload("zstd", transactional=True)], ids=str)
@pytest.mark.parametrize(("fault", "strike"), FAULTS, ids=[name for name, _ in FAULTS])
def test_partitions_move(judged: Judged, fault: str, strike: object, workload: Workload) -> None:
    with judged(
        f"reassignment of 20 partitions, {fault}",
        workload,
        assignment=BEFORE,
        partitions=PARTITIONS,
        size=BROKERS,
    ) as run:
        move(run, AFTER)
        strike(run)  # type: ignore[operator]
        await_placed(run, AFTER)


def test_a_move_is_taken_back(judged: Judged) -> None:
    """The broker that they move to does nothing: no move can end before it is taken back."""
    with judged(
        "reassignment of 20 partitions, cancelled",
        Workload(),
        assignment=BEFORE,
        partitions=PARTITIONS,
        size=BROKERS,
        settings={"zookeeper.session.timeout.ms": "60000"},
    ) as run:
        if run.cluster.controller() == 3:
            run.cluster.stop(3)
            run.cluster.start(3)
        run.cluster.pause(3)
        try:
            move(run, AFTER)
            run.writing.go_on()
            move(run, None)
            run.writing.go_on()
        finally:
            run.cluster.resume(3)
        await_placed(run, BEFORE)
        # It goes, when asked again.
        move(run, AFTER)
        await_placed(run, AFTER)


RATE = 1
"""Bytes per second, averaged over hours: what has passed stands for all of the test, however long that is."""
SLOWLY = {
    "replication.quota.window.size.seconds": "3600",
    "replica.fetch.max.bytes": "4000",
    "replica.fetch.response.max.bytes": "4000",
}
PRELOADED = 400


def throttle(run: Run, rate: int | None) -> None:
    """Throttle what the newcomer copies, as Kafka's tool does; None takes the throttle away."""
    rates = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
    lists = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
    leading = ",".join(f"{n}:{broker}" for n in range(PARTITIONS) for broker in BEFORE[n])
    following = ",".join(f"{n}:{BROKERS - 1}" for n in range(PARTITIONS))
    configs: dict[tuple[str | int, str | int], dict[str, str | None]] = {
        ("broker", broker): dict.fromkeys(rates, None if rate is None else str(rate))
        for broker in range(BROKERS)
    }
    configs["topic", TOPIC] = {
        name: None if rate is None else value for name, value in zip(lists, (leading, following), strict=True)
    }
    with run.cluster.admin() as admin:
        admin.incremental_alter_configs(configs)


def test_a_throttled_move_waits(judged: Judged) -> None:
    """Producers do not; nor does the throttle end with the death of the broker that copies."""
    with judged(
        "reassignment of 20 partitions, throttled; the broker that they move to killed meanwhile",
        Workload(),
        assignment=BEFORE,
        partitions=PARTITIONS,
        size=BROKERS,
        settings=SLOWLY,
    ) as run:
        run.writing.go_on(PRELOADED)
        throttle(run, RATE)
        move(run, AFTER)
        run.writing.go_on()
        newcomer_killed(run)
        run.writing.go_on()
        with run.cluster.admin() as admin:
            assert admin.list_partition_reassignments()
        throttle(run, None)
        await_placed(run, AFTER)
