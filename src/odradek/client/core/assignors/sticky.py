"""The sticky assignors: balanced, and as much as possible stays where it is (KIP-54, KIP-429, KIP-792).

What the members owned comes with their subscriptions: `StickyAssignor` has it in its user data, the
cooperative one in the subscription's own fields (and the generation in its user data, for the leaders of
before 3.2). Equal subscriptions are balanced by `sticky_uniform`, unequal ones by `sticky_general`.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from odradek.client.core.assignors.base import (
    NO_GENERATION,
    Assignment,
    Assignor,
    RebalanceProtocol,
    Subscription,
)
from odradek.client.core.assignors.sticky_general import assign_general
from odradek.client.core.assignors.sticky_uniform import assign_uniform
from odradek.client.types import TopicPartition

_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")


class Owned(NamedTuple):
    """The partitions that a member says it owned, and in which generation (None: it does not say)."""

    partitions: tuple[TopicPartition, ...]
    generation: int | None


@dataclass
class Claims:
    """The members' claims, once conflicts are settled.

    Attributes:
        owned: member → partitions that are its own beyond doubt.
        contested: partitions that two members of the same generation claim: nobody's.
        previous: partition → (member, generation) of older claims.
        uniform: whether all members subscribe to the same topics.
    """

    owned: dict[str, list[TopicPartition]] = field(default_factory=dict)
    contested: set[TopicPartition] = field(default_factory=set)
    previous: dict[TopicPartition, tuple[str, int]] = field(default_factory=dict)
    uniform: bool = True


def settle_claims(
    partitions: Mapping[str, int], subscriptions: Mapping[str, Subscription], claimed: Mapping[str, Owned]
) -> Claims:
    """The newest generation wins; equal generations lose both."""
    claims = Claims()
    generations = {m: NO_GENERATION if c.generation is None else c.generation for m, c in claimed.items()}
    owner: dict[TopicPartition, str] = {}
    first_topics: set[str] | None = None
    for member, subscription in subscriptions.items():
        subscribed = set(subscription.topics)
        if first_topics is None:
            first_topics = subscribed
        elif subscribed != first_topics:
            claims.uniform = False
        mine = claims.owned[member] = []
        for tp in claimed[member].partitions:
            if tp.partition >= partitions.get(tp.topic, 0):
                continue
            other = owner.get(tp)
            if other is None:
                mine.append(tp)
                owner[tp] = member
            elif generations[member] == generations[other]:
                claims.contested.add(tp)
                if tp in claims.owned[other]:
                    claims.owned[other].remove(tp)
                owner[tp] = member
            elif generations[member] > generations[other]:
                mine.append(tp)
                if tp in claims.owned[other]:
                    claims.owned[other].remove(tp)
                owner[tp] = member
    newest = max(generations.values(), default=NO_GENERATION)
    for member, claim in claimed.items():
        if generations[member] < newest:
            for tp in claim.partitions:
                if tp not in claims.previous or generations[member] > claims.previous[tp][1]:
                    claims.previous[tp] = (member, generations[member])
    return claims


class StickyAssignor(Assignor):
    """Kafka's StickyAssignor: eager; the member's last assignment travels as user data."""

    name = "sticky"

    def __init__(self) -> None:
        self._last: tuple[TopicPartition, ...] | None = None
        self._generation = NO_GENERATION

    def on_assignment(self, partitions: Sequence[TopicPartition], generation: int) -> None:
        """See `Assignor.on_assignment`."""
        self._last = tuple(partitions)
        self._generation = generation

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:  # noqa: ARG002
        """See `Assignor.subscription_user_data`: StickyAssignorUserData version 1."""
        return None if self._last is None else encode_owned(Owned(self._last, self._generation))

    def owned(self, subscription: Subscription) -> Owned:
        """Return what a member owned. User data that does not parse counts as nothing owned."""
        return decode_owned(subscription.user_data)

    def assign(self, partitions: Mapping[str, int], subscriptions: Mapping[str, Subscription]) -> Assignment:
        """See `Assignor.assign`."""
        return self._assign(partitions, subscriptions)[0]

    def _assign(
        self, partitions: Mapping[str, int], subscriptions: Mapping[str, Subscription]
    ) -> tuple[Assignment, dict[TopicPartition, str] | None]:
        claimed = {member: self.owned(subscription) for member, subscription in subscriptions.items()}
        claims = settle_claims(partitions, subscriptions, claimed)
        if claims.uniform:
            return assign_uniform(partitions, claims.owned, claims.contested)
        return assign_general(partitions, subscriptions, claims.owned, claims.previous), None


class CooperativeStickyAssignor(StickyAssignor):
    """Kafka's CooperativeStickyAssignor: what must first be given up by its owner is left out of this
    round.
    """

    name = "cooperative-sticky"
    protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:  # noqa: ARG002
        """See `Assignor.subscription_user_data`: the generation alone."""
        return _INT.pack(self._generation)

    def owned(self, subscription: Subscription) -> Owned:
        """See `StickyAssignor.owned`; the subscription's own fields count first."""
        if subscription.generation_id is not None:
            return Owned(subscription.owned_partitions, subscription.generation_id)
        data = subscription.user_data
        generation = None
        if data is not None:
            generation = _INT.unpack_from(data)[0] if len(data) >= 4 else NO_GENERATION
        return Owned(subscription.owned_partitions, generation)

    def assign(self, partitions: Mapping[str, int], subscriptions: Mapping[str, Subscription]) -> Assignment:
        """See `Assignor.assign`."""
        assignment, moving = self._assign(partitions, subscriptions)
        if moving is None:
            moving = _moving(subscriptions, assignment)
        for tp, member in moving.items():
            assignment[member].remove(tp)
        return assignment


def _moving(subscriptions: Mapping[str, Subscription], assignment: Assignment) -> dict[TopicPartition, str]:
    """Partitions that one member gives up and another gets."""
    added: dict[TopicPartition, str] = {}
    revoked: set[TopicPartition] = set()
    for member, assigned in assignment.items():
        owned = set(subscriptions[member].owned_partitions)
        added.update((tp, member) for tp in assigned if tp not in owned)
        revoked |= owned - set(assigned)
    return {tp: member for tp, member in added.items() if tp in revoked}


# StickyAssignorUserData: [previous_assignment] = [topic, [partition]], and since version 1 the generation.


def encode_owned(owned: Owned) -> bytes:
    """Version 1."""
    by_topic: dict[str, list[int]] = {}
    for tp in owned.partitions:
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    out = bytearray(_INT.pack(len(by_topic)))
    for topic, numbers in by_topic.items():
        name = topic.encode()
        out += _SHORT.pack(len(name)) + name + _INT.pack(len(numbers))
        for number in numbers:
            out += _INT.pack(number)
    out += _INT.pack(NO_GENERATION if owned.generation is None else owned.generation)
    return bytes(out)


def decode_owned(data: bytes | None) -> Owned:
    """Version 1 or 0; what is neither counts as nothing owned."""
    if not data:
        return Owned((), None)
    try:
        partitions: list[TopicPartition] = []
        at = 4
        for _ in range(_INT.unpack_from(data, 0)[0]):
            (length,) = _SHORT.unpack_from(data, at)
            topic = bytes(data[at + 2 : at + 2 + length]).decode()
            if len(topic.encode()) != length:
                raise ValueError("cut off")
            at += 2 + length
            (count,) = _INT.unpack_from(data, at)
            at += 4
            if count < 0 or count * 4 > len(data) - at:
                raise ValueError("cut off")
            partitions.extend(
                TopicPartition(topic, n) for (n,) in _INT.iter_unpack(data[at : at + 4 * count])
            )
            at += 4 * count
        generation = _INT.unpack_from(data, at)[0] if len(data) - at >= 4 else None
    except (ValueError, struct.error):
        return Owned((), NO_GENERATION)
    return Owned(tuple(partitions), generation)
