"""What becomes of an ISR whose members have all died: who of them leads when it comes back."""

from __future__ import annotations

import pytest

from odradek.broker.membership.unclean_return import look_for_doubts
from odradek.cluster.image import PartitionImage

from ..brokers import World

KEY = ("t", 0)


def partition(world: World) -> PartitionImage:
    return world.active.image.topics["t"].partitions[0]


@pytest.mark.parametrize("first", [2, 3])
def test_all_of_an_isr_die_and_the_first_that_is_back_leads(first: int) -> None:
    world = World()
    world.create("t", [2, 3])
    world.kill(2, 3)
    assert (partition(world).leader, partition(world).isr) == (-1, (2, 3))
    world.begin(first)
    assert (partition(world).leader, partition(world).isr) == (first, (first,))
    world.begin(5 - first)
    world.check()
    assert partition(world).leader == first


@pytest.mark.parametrize("emptied", [2, 3])
def test_who_has_lost_its_disk_leaves_the_lead_to_the_other(emptied: int) -> None:
    world = World()
    world.create("t", [2, 3])
    world.kill(2, 3)
    doubts = look_for_doubts(world.reader, emptied, (), lambda *key: True)
    assert not doubts.lost, "it waits for nobody to decide"
    world.begin(emptied)
    other = 5 - emptied
    assert (partition(world).leader, partition(world).isr) == (-1, (other,))
    world.begin(other)
    world.check()
    assert (partition(world).leader, partition(world).isr) == (other, (other,))


def test_a_controller_that_dies_with_the_isr_leaves_it_whole() -> None:
    world = World((1, 2, 3, 4))
    assert world.active.broker_id == 1
    world.create("t", [1, 2])
    world.kill(1, 2)
    assert (partition(world).leader, partition(world).isr) == (-1, (1, 2))
    epoch = partition(world).leader_epoch
    world.kill(world.active.broker_id)
    assert partition(world).leader_epoch == epoch, "nothing is written where nothing changes"
    world.begin(2)
    assert (partition(world).leader, partition(world).isr) == (2, (2,))
    world.check()


def test_whoever_led_on_alone_is_waited_for() -> None:
    """It may have committed what the others do not have."""
    world = World()
    world.create("t", [2, 3])
    world.kill(2)
    assert (partition(world).leader, partition(world).isr) == (3, (3,))
    world.kill(3)
    world.begin(2)
    assert (partition(world).leader, partition(world).isr) == (-1, (3,))
    world.begin(3)
    assert partition(world).leader == 3
    world.check()
