"""A broker that refuses one other broker's connections, and lives: nobody takes it for dead."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odradek.broker.interbroker import witnesses
from odradek.client import Producer
from odradek.cluster.controller import controller_election
from odradek.testing import Cluster

from .cluster_records import produce, read_alone

ALL = {0, 1, 2}
#: Whoever took a refusal for a death would have done so at the first.
REFUSALS = 6


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(
        3,
        min_insync_replicas=2,
        auto_leader_rebalance_enable=False,
        replica_lag_time_max_ms=2_000,
        replica_fetch_wait_max_ms=100,
    ) as cluster:
        cluster.create_topic("clicks", 3)
        produce(cluster, "clicks", [b"before"])
        yield cluster


def write(cluster: Cluster, index: int, value: bytes) -> None:
    """Have a record acknowledged by all that are in sync."""
    with Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer:
        producer.send("clicks", value=value, partition=index).result(60)


def epochs(cluster: Cluster) -> list[int]:
    return [cluster.partition("clicks", index).leader_epoch for index in range(3)]


def controller_epoch(cluster: Cluster) -> int:
    found: int = cluster.broker(cluster.controller).call(lambda b: b.controller.epoch)
    return found


def live(cluster: Cluster) -> set[int]:
    """As the controller sees it."""
    found: set[int] = cluster.broker(cluster.controller).call(lambda b: set(b.controller.image.brokers))
    return found


def test_the_controller_is_refused_by_a_broker_that_lives(cluster: Cluster) -> None:
    controller, before = cluster.controller, epochs(cluster)
    # Not who leads what is written to: the controller cannot follow it meanwhile.
    other = min(ALL - {controller, cluster.leader("clicks")})
    cluster.refuse(controller, other)
    cluster.wait_until(lambda: cluster.refusals(controller, other) >= REFUSALS)
    assert live(cluster) == ALL
    assert epochs(cluster) == before
    assert all(set(cluster.partition("clicks", index).isr) == ALL for index in range(3))
    produce(cluster, "clicks", [b"meanwhile"])
    # What it has to be told waits for it.
    cluster.heal()
    cluster.create_topic("later", 3)
    assert (cluster.controller, live(cluster)) == (controller, ALL)
    assert read_alone(cluster, "clicks", 2) == [b"before", b"meanwhile"]


def test_the_controller_refuses_a_broker_and_lives(cluster: Cluster) -> None:
    controller, epoch, before = cluster.controller, controller_epoch(cluster), epochs(cluster)
    other = min(ALL - {controller})
    cluster.refuse(other, controller)
    cluster.wait_until(lambda: cluster.refusals(other, controller) >= REFUSALS)
    assert (cluster.controller, controller_epoch(cluster)) == (controller, epoch)
    assert live(cluster) == ALL
    assert epochs(cluster) == before
    cluster.heal()
    produce(cluster, "clicks", [b"after"])
    assert read_alone(cluster, "clicks", 2) == [b"before", b"after"]


@pytest.mark.parametrize("controller_first", [False, True])
def test_two_that_refuse_each_other_leave_it_to_the_third(
    cluster: Cluster, controller_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither can tell the other one from a dead one. The third can, and is asked."""
    # However slow the machine is.
    monkeypatch.setattr(witnesses, "PATIENCE_MS", 60_000)
    monkeypatch.setattr(witnesses, "TRY_MS", 60_000)
    monkeypatch.setattr(controller_election, "STAND_BACK_MS", 60_000)
    controller, epoch, before = cluster.controller, controller_epoch(cluster), epochs(cluster)
    other, third = sorted(ALL - {controller})
    for one, two in ((controller, other), (other, controller))[:: 1 if controller_first else -1]:
        cluster.refuse(one, two)
    cluster.wait_until(lambda: cluster.controller == third)
    cluster.wait_until(lambda: live(cluster) == ALL)
    # Nobody was taken for dead: that would have cost leaders.
    after = controller_epoch(cluster)
    assert epoch < after <= epoch + 2
    assert epochs(cluster) == before
    # Whoever of the two leads does without the other one, and the third sees to that.
    for index in range(3):
        leader = cluster.leader("clicks", index)
        isr = ALL if leader == third else {leader, third}
        write(cluster, index, b"meanwhile")
        cluster.wait_for_isr("clicks", isr, index)
    assert (cluster.controller, controller_epoch(cluster)) == (third, after)
    assert (live(cluster), epochs(cluster)) == (ALL, before)
    cluster.heal()
    for index in range(3):
        cluster.wait_for_isr("clicks", ALL, index)
    assert (cluster.controller, controller_epoch(cluster)) == (third, after)
    produce(cluster, "clicks", [b"after"])
    assert read_alone(cluster, "clicks", 3) == [b"before", b"meanwhile", b"after"]


def test_two_followers_that_refuse_each_other_change_nothing(cluster: Cluster) -> None:
    """Their replicas do, but no controller looks at one by the other."""
    controller, epoch, before = cluster.controller, controller_epoch(cluster), epochs(cluster)
    one, other = sorted(ALL - {controller})
    cluster.refuse(one, other)
    cluster.refuse(other, one)
    for index in range(3):
        leader = cluster.leader("clicks", index)
        write(cluster, index, b"meanwhile")
        cluster.wait_for_isr("clicks", ALL if leader == controller else {leader, controller}, index)
    assert (cluster.controller, controller_epoch(cluster)) == (controller, epoch)
    assert (live(cluster), epochs(cluster)) == (ALL, before)
    cluster.heal()
    for index in range(3):
        cluster.wait_for_isr("clicks", ALL, index)
    assert read_alone(cluster, "clicks", 2) == [b"before", b"meanwhile"]


def test_two_alone_that_refuse_each_other_change_controllers_twice_at_most() -> None:
    """There is nobody to be asked: one of them may be left out, and comes back."""
    with Cluster(2, auto_leader_rebalance_enable=False) as cluster:
        cluster.create_topic("clicks", 2)
        controller, epoch = cluster.controller, controller_epoch(cluster)
        (other,) = {0, 1} - {controller}
        cluster.refuse(other, controller)
        cluster.refuse(controller, other)
        cluster.wait_until(
            lambda: cluster.refusals(other, controller) + cluster.refusals(controller, other) >= REFUSALS
        )
        assert controller_epoch(cluster) <= epoch + 2
        cluster.heal()
        for index in range(2):
            cluster.wait_for_isr("clicks", {0, 1}, index)
        cluster.wait_until(lambda: live(cluster) == {0, 1})
        assert controller_epoch(cluster) <= epoch + 2


def test_the_third_is_as_dead_as_the_controller() -> None:
    """Who is asked refuses as well: that is no reason to wait for a session."""
    with Cluster(3, min_insync_replicas=1, session_timeout_ms=3_600_000) as cluster:
        cluster.create_topic("clicks", 3)
        controller = cluster.controller
        other, third = sorted(ALL - {controller})
        cluster.kill(third)
        cluster.kill(controller)
        cluster.wait_until(lambda: cluster.controller == other)
        for index in range(3):
            cluster.wait_for_isr("clicks", {other}, index)


def test_a_controller_that_has_nothing_to_say_is_known_to_live() -> None:
    """The connection by which it speaks is closed when it has been silent for long, and made again."""
    with Cluster(2, auto_leader_rebalance_enable=False, connections_max_idle_ms=500) as cluster:
        controller = cluster.controller
        (other,) = {0, 1} - {controller}

        def connections() -> set[object]:
            found: set[object] = cluster.broker(other).call(
                lambda b: {
                    peer
                    for peer, broker in b.channels.presence.brokers.items()
                    if peer.is_open and broker == controller
                }
            )
            return found

        before = connections()
        cluster.wait_until(lambda: bool(connections() - before))


@pytest.mark.parametrize("dead", ["controller", "other"])
def test_who_is_dead_is_so_at_once_though_its_session_goes_on(dead: str) -> None:
    """Its connections end with it."""
    with Cluster(3, min_insync_replicas=2, session_timeout_ms=3_600_000) as cluster:
        cluster.create_topic("clicks", 3)
        produce(cluster, "clicks", [b"before"])
        controller = cluster.controller
        victim = controller if dead == "controller" else min(ALL - {controller})
        cluster.kill(victim)
        for index in range(3):
            cluster.wait_for_isr("clicks", ALL - {victim}, index)
        produce(cluster, "clicks", [b"after"])
        cluster.restart(victim)
        for index in range(3):
            cluster.wait_for_isr("clicks", ALL, index)


def test_a_broker_that_dies_while_it_refuses_the_controller(cluster: Cluster) -> None:
    controller = cluster.controller
    other = min(ALL - {controller})
    cluster.refuse(controller, other)
    cluster.wait_until(lambda: cluster.refusals(controller, other) >= REFUSALS)
    cluster.kill(other)
    for index in range(3):
        cluster.wait_for_isr("clicks", ALL - {other}, index)
