"""Sticky assignment when members subscribe to different topics.

First what was owned stays, then each free partition goes to the member with the fewest that may have it, then
partitions move from members with more to members with fewer until no move makes it more even. If the moves
did not make it more even in the end, they are taken back.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping

from odradek.client.core.assignors.base import Subscription
from odradek.client.types import TopicPartition


class _Movements:
    """The partitions of a topic that moved between members in this rebalance.

    If a partition of a topic has moved from A to B, and now one of the same topic is to move from B to A,
    then the first one is moved back instead: the result is as even, and one partition less changes hands.
    """

    def __init__(self) -> None:
        self._pair_of: dict[TopicPartition, tuple[str, str]] = {}
        self._by_topic: dict[str, dict[tuple[str, str], dict[TopicPartition, None]]] = {}

    def instead_of(self, tp: TopicPartition, source: str, target: str) -> TopicPartition:
        """The partition that should move from `source` to `target` when `tp` is meant to."""
        pairs = self._by_topic.get(tp.topic)
        if not pairs:
            return tp
        if tp in self._pair_of:
            source = self._pair_of[tp][0]
        back = pairs.get((target, source))
        return next(iter(back)) if back else tp

    def moved(self, tp: TopicPartition, source: str, target: str) -> None:
        earlier = self._pair_of.pop(tp, None)
        if earlier is not None:
            pairs = self._by_topic[tp.topic]
            del pairs[earlier][tp]
            if not pairs[earlier]:
                del pairs[earlier]
            source = earlier[0]
            if source == target:
                return
        self._pair_of[tp] = (source, target)
        self._by_topic.setdefault(tp.topic, {}).setdefault((source, target), {})[tp] = None


class _Balance:
    """The assignment under construction. `_order` holds (number of partitions, member), ascending."""

    def __init__(
        self,
        partitions: Mapping[str, int],
        subscriptions: Mapping[str, Subscription],
        assignment: dict[str, list[TopicPartition]],
    ) -> None:
        self.partitions = partitions
        self.assignment = assignment
        self.owner: dict[TopicPartition, str] = {}
        self.topics_of = {m: {t for t in s.topics if t in partitions} for m, s in subscriptions.items()}
        self.members_of: dict[str, list[str]] = {topic: [] for topic in partitions}
        for member, topics in self.topics_of.items():
            for topic in topics:
                self.members_of[topic].append(member)
        self.movements = _Movements()
        for member, mine in assignment.items():
            for tp in mine:
                self.owner[tp] = member
        self._order: list[tuple[int, str]] = sorted((len(mine), m) for m, mine in assignment.items())

    def most_loaded_is_empty(self) -> bool:
        return self._order[-1][0] == 0

    def _count(self, member: str) -> int:
        return len(self.assignment[member])

    def _forget(self, member: str) -> None:
        entry = (self._count(member), member)
        del self._order[bisect_left(self._order, entry)]

    def _enter(self, member: str) -> None:
        insort(self._order, (self._count(member), member))

    def give(self, tp: TopicPartition) -> None:
        """To the member with the fewest that subscribes to its topic."""
        for _, member in self._order:
            if tp.topic in self.topics_of[member]:
                self._forget(member)
                self.assignment[member].append(tp)
                self.owner[tp] = member
                self._enter(member)
                return

    def set_aside(self, members: list[str]) -> dict[str, list[TopicPartition]]:
        """Take members out of the balancing."""
        out = {}
        for member in members:
            self._forget(member)
            out[member] = self.assignment.pop(member)
        return out

    def most(self, member: str) -> int:
        """Return how many partitions a member could have at most."""
        return sum(self.partitions[topic] for topic in self.topics_of[member])

    def can_take_part(self, member: str) -> bool:
        """Return whether the member could get one more, or has one that another could get."""
        mine = self.assignment[member]
        return len(mine) < self.most(member) or any(len(self.members_of[tp.topic]) > 1 for tp in mine)

    def is_even(self) -> bool:
        """Return whether no partition can move to a member that has at least two fewer than its owner."""
        if not self._order or self._order[0][0] >= self._order[-1][0] - 1:
            return True
        for count, member in self._order:
            if count == self.most(member):
                continue
            for topic in self.topics_of[member]:
                for number in range(self.partitions[topic]):
                    owner = self.owner.get(TopicPartition(topic, number))
                    if owner is None or owner == member or owner not in self.assignment:
                        continue
                    if count + 1 < self._count(owner):
                        return False
        return True

    def move(self, tp: TopicPartition, target: str) -> None:
        tp = self.movements.instead_of(tp, self.owner[tp], target)
        source = self.owner[tp]
        self._forget(source)
        if source != target:
            self._forget(target)
        self.movements.moved(tp, source, target)
        self.assignment[source].remove(tp)
        self.assignment[target].append(tp)
        self.owner[tp] = target
        self._enter(source)
        if source != target:
            self._enter(target)

    def least_loaded(self, topic: str) -> str | None:
        return next((member for _, member in self._order if topic in self.topics_of[member]), None)

    def even_out(
        self, movable: list[TopicPartition], previous: Mapping[TopicPartition, tuple[str, int]]
    ) -> bool:
        """Move partitions until it is even or nothing moves. Returns whether anything moved."""
        moved_any = False
        moved = True
        while moved:
            moved = False
            for tp in movable:
                if self.is_even():
                    break
                owner = self.owner.get(tp)
                if owner is None or owner not in self.assignment:
                    continue
                before = previous.get(tp)
                if (
                    before is not None
                    and before[0] in self.assignment
                    and tp.topic in self.topics_of[before[0]]
                    and self._count(owner) > self._count(before[0]) + 1
                ):
                    self.move(tp, before[0])
                    moved = moved_any = True
                    continue
                target = self.least_loaded(tp.topic)
                if target is not None and self._count(owner) > self._count(target) + 1:
                    self.move(tp, target)
                    moved = moved_any = True
        return moved_any

    def spread(self) -> int:
        """The sum over all pairs of members of the difference in number: 0 is perfectly even."""
        counts = sorted(len(mine) for mine in self.assignment.values())
        # In ascending order, the i-th count is subtracted (n-1-i) times and added i times.
        return sum(count * (2 * i - len(counts) + 1) for i, count in enumerate(counts))


def assign_general(
    partitions: Mapping[str, int],
    subscriptions: Mapping[str, Subscription],
    owned: Mapping[str, list[TopicPartition]],
    previous: Mapping[TopicPartition, tuple[str, int]],
) -> dict[str, list[TopicPartition]]:
    """Distribute.

    Args:
        partitions: topic → number of partitions.
        subscriptions: member → subscription.
        owned: member → what it owned, each partition once.
        previous: partition → (member, generation) that had it before its owner; preferred when it must move.
    """
    current: dict[str, list[TopicPartition]] = {}
    had_to_give_up = False
    for member in subscriptions:
        keeps = []
        for tp in owned.get(member, ()):
            if tp.partition >= partitions.get(tp.topic, 0):
                continue
            if tp.topic in subscriptions[member].topics:
                keeps.append(tp)
            else:
                had_to_give_up = True
        current[member] = keeps
    balance = _Balance(partitions, subscriptions, current)
    fresh_start = balance.most_loaded_is_empty()
    # Topics that few may read come first: they leave the least choice.
    topics = sorted(partitions, key=lambda topic: (len(balance.members_of[topic]), topic))
    everything = [TopicPartition(topic, n) for topic in topics for n in range(partitions[topic])]
    free = [tp for tp in everything if tp not in balance.owner]
    for tp in free:
        if balance.members_of[tp.topic]:
            balance.give(tp)
    movable = [tp for tp in everything if len(balance.members_of[tp.topic]) > 1]
    free = [tp for tp in free if len(balance.members_of[tp.topic]) > 1]
    aside = balance.set_aside([m for m in subscriptions if not balance.can_take_part(m)])
    before = {member: list(mine) for member, mine in balance.assignment.items()}
    spread_before = balance.spread()
    if not had_to_give_up:
        balance.even_out(free, previous)
    moved = balance.even_out(movable, previous)
    result = balance.assignment
    if not fresh_start and moved and balance.spread() >= spread_before:
        result = before
    result.update(aside)
    return result
