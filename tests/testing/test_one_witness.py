"""A broker that refuses one other broker's connections, and lives: nobody takes it for dead."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odradek.testing import Cluster

from .cluster_records import produce, read_alone

ALL = {0, 1, 2}
#: Whoever took a refusal for a death would have done so at the first.
REFUSALS = 6


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(3, min_insync_replicas=2, auto_leader_rebalance_enable=False) as cluster:
        cluster.create_topic("clicks", 3)
        produce(cluster, "clicks", [b"before"])
        yield cluster


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


def test_two_that_refuse_each_other_change_controllers_twice_at_most(cluster: Cluster) -> None:
    """Nobody can tell the other one from a dead one: one of them may be left out, and comes back."""
    controller, epoch = cluster.controller, controller_epoch(cluster)
    other = min(ALL - {controller})
    cluster.refuse(other, controller)
    cluster.refuse(controller, other)
    cluster.wait_until(
        lambda: cluster.refusals(other, controller) + cluster.refusals(controller, other) >= REFUSALS
    )
    assert controller_epoch(cluster) <= epoch + 2
    cluster.heal()
    for index in range(3):
        cluster.wait_for_isr("clicks", ALL, index)
    cluster.wait_until(lambda: live(cluster) == ALL)
    assert controller_epoch(cluster) <= epoch + 2
    produce(cluster, "clicks", [b"after"])
    assert read_alone(cluster, "clicks", 2) == [b"before", b"after"]


def test_a_controller_that_has_nothing_to_say_is_known_to_live() -> None:
    """The connection by which it speaks is closed when it has been silent for long, and made again."""
    with Cluster(2, auto_leader_rebalance_enable=False, connections_max_idle_ms=500) as cluster:
        controller = cluster.controller
        (other,) = {0, 1} - {controller}

        def connections() -> set[object]:
            found: set[object] = cluster.broker(other).call(
                lambda b: {
                    peer
                    for peer, broker in b.channels.presence._brokers.items()
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
