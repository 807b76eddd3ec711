"""The controller of real brokers dies at each write of what it does: others finish it, and records stay."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest

from odradek.broker.app import Broker
from odradek.cluster.controller.partition_reassignment import is_moving
from odradek.cluster.controller.topic_manager import NewTopic
from odradek.cluster.image import PartitionImage
from odradek.cluster.store.store import Op, OpResult, StoreUnavailable
from odradek.testing import Cluster
from waiting import WITHIN_S, happened

from .cluster_records import produce, read_alone

ALL = {0, 1, 2}
VALUES = [b"value %d" % number for number in range(5)]
MAX_WRITES = 12


class Death:
    """Has a broker stand still at the n-th transaction from now of its session with the metadata store."""

    def __init__(self, cluster: Cluster, broker: int, n: int, *, after: bool) -> None:
        self.reached = threading.Event()
        self._let_go = threading.Event()
        self._left = n
        self._after = after
        self._store = cluster.broker(broker).call(lambda b: b.controller.store)
        self._multi = self._store.multi
        self._store.multi = self._count

    def _count(self, ops: Sequence[Op]) -> list[OpResult]:
        self._left -= 1
        if self._left > 0:
            return self._multi(ops)  # type: ignore[no-any-return]
        if self._left == 0 and self._after:
            self._multi(ops)
        self.reached.set()
        happened(self._let_go, "the end of the test")
        raise StoreUnavailable("/", "the process is dead")

    def __enter__(self) -> Death:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.multi = self._multi
        self._let_go.set()


class Case(NamedTuple):
    """Work of the controller. `begin` is done in its turn; `done` is waited for."""

    begin: Callable[[Broker, str], object]
    done: Callable[[Cluster, str], bool]
    prepare: Callable[[Cluster, str], object] = lambda cluster, topic: None


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, unclean_leader_election_enable=False, auto_leader_rebalance_enable=False) as cluster:
        yield cluster


def partitions(cluster: Cluster, topic: str) -> list[PartitionImage]:
    """As the controller sees them."""
    image = cluster.broker(cluster.controller).call(lambda b: b.controller.image)
    found = image.topics.get(topic)
    return [] if found is None else list(found.partitions.values())


def whole(cluster: Cluster, topic: str) -> bool:
    """All replicas are in sync, and nothing moves."""
    found = partitions(cluster, topic)
    return bool(found) and all(set(one.isr) == set(one.replicas) and not is_moving(one) for one in found)


# --- what a controller does ---------------------------------------------------------------------------------


def create(broker: Broker, topic: str) -> None:
    broker.controller.create_topics([NewTopic(f"{topic}-new", 4, 3)])


def created(cluster: Cluster, topic: str) -> bool:
    """It is there, or it never was."""
    image = cluster.broker(cluster.controller).call(lambda b: b.controller.image)
    return f"{topic}-new" not in image.topics or whole(cluster, f"{topic}-new")


def grow(broker: Broker, topic: str) -> None:
    broker.controller.create_partitions(topic, 4)


def grown(cluster: Cluster, topic: str) -> bool:
    return len(partitions(cluster, topic)) in {2, 4} and whole(cluster, topic)


def delete(broker: Broker, topic: str) -> None:
    broker.controller.delete_topics([topic])


def deleted(cluster: Cluster, topic: str) -> bool:
    """Every broker has given up its replicas, or it was never marked."""
    image = cluster.broker(cluster.controller).call(lambda b: b.controller.image)
    if topic in image.topics:
        return topic not in image.marked and whole(cluster, topic)
    return all(cluster.broker(one).call(lambda b: b.logs.get(topic, 0)) is None for one in cluster.live)


def lose_a_replica(cluster: Cluster, topic: str) -> None:
    cluster.kill(not_controller(cluster))


def not_controller(cluster: Cluster) -> int:
    return next(one for one in cluster.live if one != cluster.controller)


def reassign(broker: Broker, topic: str) -> None:
    for index in range(2):
        broker.controller.reassign(topic, index, [2, 1])


def reassigned(cluster: Cluster, topic: str) -> bool:
    """The other replicas are gone, or it was not begun."""
    return whole(cluster, topic) and all(
        one.replicas in {(2, 1), (0, 1)} for one in partitions(cluster, topic)
    )


def elect(broker: Broker, topic: str) -> None:
    for index in range(2):
        broker.controller.elect_leader(topic, index, unclean=False)


def elected(cluster: Cluster, topic: str) -> bool:
    return whole(cluster, topic) and all(one.leader in one.replicas for one in partitions(cluster, topic))


def lead_elsewhere(cluster: Cluster, topic: str) -> None:
    """Have the second replica lead."""
    first = cluster.partition(topic).replicas[0]
    cluster.stop(first)
    cluster.restart(first)
    cluster.wait_until(lambda: whole(cluster, topic))


CASES = {
    "create": Case(create, created),
    "grow": Case(grow, grown),
    "delete": Case(delete, deleted),
    "delete, a replica's broker dead": Case(delete, deleted, lose_a_replica),
    "reassign": Case(reassign, reassigned),
    "elect preferred leaders": Case(elect, elected, lead_elsewhere),
}


@pytest.mark.parametrize("after", [False, True], ids=["before it", "after it"])
@pytest.mark.parametrize("name", CASES)
def test_the_controllers_death_at_any_write(cluster: Cluster, name: str, after: bool) -> None:
    case = CASES[name]
    for n in range(1, MAX_WRITES):
        topic = re.sub("[^a-z0-9]+", "-", f"{name} {'after' if after else 'before'} {n}")
        if not _dies(cluster, case, topic, n, after):
            assert n > 1
            return
    raise AssertionError("more writes than that: a controller that never comes to an end?")


def _dies(cluster: Cluster, case: Case, topic: str, n: int, after: bool) -> bool:
    controller = cluster.controller
    create_with_replicas(cluster, topic, [0, 1])
    produce(cluster, topic, VALUES)
    case.prepare(cluster, topic)
    controller = cluster.controller
    ended = threading.Event()
    with Death(cluster, controller, n, after=after) as death:
        run_in_turn(cluster, controller, lambda b: case.begin(b, topic), ended)
        cluster.wait_until(lambda: death.reached.is_set() or ended.is_set())
        # What follows may have to be written yet: brokers come back and answer, replicas come in sync. Who
        # comes back waits until a controller has missed it, and this one may stand still before it has.
        with ThreadPoolExecutor(1) as beside:
            coming = beside.submit(bring_back, cluster) if not death.reached.is_set() else None
            cluster.wait_until(
                lambda: death.reached.is_set() or (is_over(coming) and case.done(cluster, topic))
            )
            died = death.reached.is_set()
            if died:
                cluster.kill(controller)
            if coming is not None:
                coming.result(WITHIN_S)
    bring_back(cluster)
    cluster.wait_until(lambda: case.done(cluster, topic))
    if partitions(cluster, topic):
        assert read_alone(cluster, topic, len(VALUES)) == VALUES
    return died


def is_over(coming: Future[None] | None) -> bool:
    return coming is None or coming.done()


def bring_back(cluster: Cluster) -> None:
    for one in sorted(ALL - set(cluster.live)):
        cluster.restart(one)


def create_with_replicas(cluster: Cluster, topic: str, replicas: list[int]) -> None:
    wanted = NewTopic(topic, assignment={0: replicas, 1: replicas})
    ended = threading.Event()
    ended.set()

    def look() -> bool:
        if ended.is_set() and not partitions(cluster, topic):
            # Also again: another controller may have come in between.
            ended.clear()
            run_in_turn(cluster, cluster.controller, lambda b: b.controller.create_topics([wanted]), ended)
        return ended.is_set() and whole(cluster, topic)

    cluster.wait_until(look)


def run_in_turn(
    cluster: Cluster, broker: int, work: Callable[[Broker], object], ended: threading.Event
) -> None:
    """Have a broker do something in its controller's turn; `ended` is set when it is done, or has failed."""

    def post(b: Any) -> None:
        def run() -> None:
            try:
                work(b)
            finally:
                ended.set()

        b.controller.event_queue.post(run)

    cluster.broker(broker).call(post)
