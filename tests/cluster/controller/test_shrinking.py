"""Reassignments to fewer replicas, of which some may not be in sync, or not alive; who leads then."""

from __future__ import annotations

import pytest

from odradek.cluster.controller.partition_reassignment import is_moving
from odradek.cluster.image import PartitionImage
from odradek.errors import InvalidReplicationFactorError

from ..brokers import World


def partition(world: World) -> PartitionImage:
    return world.active.image.topics["t"].partitions[0]


def stopped(world: World) -> set[int]:
    """Who was told to give up replicas since the last time."""
    return {broker for broker, kind in world.take_told() if kind == "StopReplica"}


def shrink(world: World, *target: int) -> None:
    world.take_told()
    world.do(world.active.broker_id, lambda active: active.reassign("t", 0, target))


@pytest.mark.parametrize(
    ("target", "leader", "told"), [((1,), 1, {2, 3}), ((3,), 3, {1, 2}), ((3, 1), 1, {2}), ((2, 3), 2, {1})]
)
def test_what_is_in_sync_is_left_at_once(target: tuple[int, ...], leader: int, told: set[int]) -> None:
    world = World()
    world.create("t", [1, 2, 3])
    epoch = partition(world).leader_epoch
    shrink(world, *target)
    after = partition(world)
    assert (after.replicas, after.leader, set(after.isr)) == (target, leader, set(target))
    assert after.leader_epoch > epoch
    assert not is_moving(after)
    assert stopped(world) == told
    world.check()


def test_who_is_not_in_sync_is_waited_for_and_nobody_goes_meanwhile() -> None:
    world = World()
    world.create("t", [1, 2, 3])
    world.join_isr("t", 0, 1, 2)
    shrink(world, 3)
    before = partition(world)
    assert (set(before.replicas), before.leader, set(before.isr)) == ({1, 2, 3}, 1, {1, 2})
    assert set(before.removing) == {1, 2}
    assert stopped(world) == set()
    world.join_isr("t", 0, 1, 2, 3)
    after = partition(world)
    assert (after.replicas, after.leader, after.isr) == ((3,), 3, (3,))
    assert stopped(world) == {1, 2}
    world.check()


def test_who_is_dead_is_waited_for() -> None:
    world = World()
    world.create("t", [1, 2, 3])
    world.kill(3)
    shrink(world, 3)
    assert partition(world).leader == 1
    assert is_moving(partition(world))
    assert stopped(world) == set()
    world.begin(3)
    world.everybody_catches_up()
    assert (partition(world).replicas, partition(world).leader) == ((3,), 3)
    world.check()


def test_whoever_alone_has_all_records_goes_when_others_have_them() -> None:
    world = World()
    world.create("t", [3, 1, 2])
    world.join_isr("t", 0, 3)
    world.kill(3)
    assert partition(world).leader == -1
    shrink(world, 1, 2)
    # Whether anybody else may lead is said by unclean.leader.election.enable alone.
    assert (partition(world).leader, partition(world).isr) == (-1, (3,))
    assert is_moving(partition(world))
    world.begin(3)
    assert partition(world).leader == 3
    world.everybody_catches_up()
    after = partition(world)
    assert (after.replicas, set(after.isr)) == ((1, 2), {1, 2})
    assert after.leader in {1, 2}
    assert 3 in stopped(world)
    world.check()


def test_an_unclean_election_lets_it_end_without_who_is_dead() -> None:
    world = World()
    world.create("t", [3, 1, 2])
    world.join_isr("t", 0, 3)
    world.kill(3)
    shrink(world, 1, 2)
    world.do(world.active.broker_id, lambda active: active.elect_leader("t", 0, unclean=True))
    assert partition(world).leader in {1, 2}
    world.join_isr("t", 0, 1, 2)
    after = partition(world)
    assert (after.replicas, set(after.isr), is_moving(after)) == ((1, 2), {1, 2}, False)
    world.begin(3)
    world.check()
    # It has not heard that it was given up; nobody leads or follows by it any more.
    assert 3 not in partition(world).replicas


def test_a_shrink_is_refused_where_the_factor_may_not_change() -> None:
    world = World()
    world.create("t", [1, 2, 3])
    with pytest.raises(InvalidReplicationFactorError):
        world.active.reassign("t", 0, [1], allow_replication_factor_change=False)
    assert partition(world).replicas == (1, 2, 3)


def test_the_preferred_leader_of_what_is_left_leads_after_the_next_look() -> None:
    world = World()
    world.create("t", [1, 2, 3])
    shrink(world, 3, 1)
    assert partition(world).leader == 1
    # While something moves its leader is left alone.
    world.join_isr("t", 0, 1, 3)
    world.do(1, lambda active: active.reassign("t", 0, [3, 2]))
    assert is_moving(partition(world))
    leader = partition(world).leader
    world.do(1, lambda active: active.rebalance_leaders())
    assert partition(world).leader == leader
    world.everybody_catches_up()
    assert not is_moving(partition(world))
    world.do(1, lambda active: active.rebalance_leaders())
    assert partition(world).leader == 3
    # One that is about to leave gets nothing.
    world.do(1, lambda active: active.controlled_shutdown(3))
    assert partition(world).leader == 2
    world.do(1, lambda active: active.rebalance_leaders())
    assert partition(world).leader == 2
    world.check()
