"""Sticky assignment when all members subscribe to the same topics.

Everyone gets the floor of the average, as many as needed one more (the ceiling). Members keep what they
owned up to that; what is left goes round the members that have too little, in order of their ids.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from odradek.client.types import TopicPartition


def assign_uniform(
    partitions: Mapping[str, int],
    owned: Mapping[str, list[TopicPartition]],
    contested: set[TopicPartition],
) -> tuple[dict[str, list[TopicPartition]], dict[TopicPartition, str]]:
    """Distribute.

    Args:
        partitions: topic → number of partitions.
        owned: member → what it owned, each partition once.
        contested: partitions claimed twice, which nobody keeps.

    Returns: (member → partitions; those of them that somebody else had, with their new member).
    """
    total = sum(partitions.values())
    floor, over = divmod(total, len(owned))
    ceiling = floor + (over > 0)
    assignment: dict[str, list[TopicPartition]] = {member: [] for member in owned}
    given_up: dict[TopicPartition, str] = {}
    kept: set[TopicPartition] = set()
    with_ceiling = 0
    below: list[str] = []
    at_floor: list[str] = []
    for member, claimed in owned.items():
        mine = sorted((tp for tp in claimed if tp not in contested), key=lambda tp: (tp.partition, tp.topic))
        if len(mine) < floor:
            quota = len(mine)
            below.append(member)
        elif len(mine) >= ceiling and with_ceiling < over:
            quota = ceiling
            with_ceiling += 1
        else:
            quota = floor
            at_floor.append(member)
        assignment[member] = mine[:quota]
        kept.update(mine[:quota])
        given_up.update((tp, member) for tp in mine[quota:])
    if with_ceiling == over:
        at_floor.clear()
    left = [
        TopicPartition(topic, number) for topic in sorted(partitions) for number in range(partitions[topic])
    ]
    left = [tp for tp in left if tp not in kept]
    new_owners = _hand_out(left, assignment, sorted(below), sorted(at_floor), floor)
    moving = {
        tp: member
        for tp, member in new_owners.items()
        if given_up.get(tp, member) != member or tp in contested
    }
    return assignment, moving


def _hand_out(
    left: Iterable[TopicPartition],
    assignment: dict[str, list[TopicPartition]],
    below: list[str],
    at_floor: list[str],
    floor: int,
) -> dict[TopicPartition, str]:
    """Give away what nobody has kept: in turns to those below the floor, then one more each to the others.

    Args:
        left: in order.
        assignment: gets them.
        below, at_floor: members in order; those who reach the floor may get one more.
        floor: what each gets at least.

    Returns: partition → its new member.
    """
    new_owners: dict[TopicPartition, str] = {}
    may_get_one_more = deque(at_floor)
    turn = 0
    for tp in left:
        if not below:
            member = may_get_one_more.popleft()
            assignment[member].append(tp)
            new_owners[tp] = member
            continue
        turn %= len(below)
        member = below[turn]
        assignment[member].append(tp)
        new_owners[tp] = member
        if len(assignment[member]) == floor:
            del below[turn]
            may_get_one_more.append(member)
        else:
            turn += 1
    return new_owners
