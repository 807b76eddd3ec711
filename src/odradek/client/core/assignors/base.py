"""The interface of an assignor."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from odradek.client.types import TopicPartition

Assignment = dict[str, list[TopicPartition]]

NO_GENERATION = -1


class RebalanceProtocol(IntEnum):
    """EAGER gives up everything before it joins; COOPERATIVE only what moves (KIP-429)."""

    EAGER = 0
    COOPERATIVE = 1


@dataclass(frozen=True)
class Subscription:
    """The subscription of one member, as it joins.

    `generation_id` is that of `owned_partitions`, None where the member's version of the format has none.
    """

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartition, ...] = field(default=())
    generation_id: int | None = None
    rack_id: str | None = None
    group_instance_id: str | None = None


class Assignor:
    """Base of the assignors; a subclass of one's own gives `name`, `protocols` and `assign`."""

    name: str = ""
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:  # noqa: ARG002
        """Bytes of the assignor's own that travel with the subscription."""
        return None

    def on_assignment(self, partitions: Sequence[TopicPartition], generation: int) -> None:
        """The member got these, in this generation."""

    def assign(self, partitions: Mapping[str, int], subscriptions: Mapping[str, Subscription]) -> Assignment:
        """Distribute; only the group's leader is asked.

        Args:
            partitions: topic → number of partitions; topics that do not exist are missing.
            subscriptions: member id → subscription.

        Returns: member id → its partitions, an entry for every member.
        """
        raise NotImplementedError


def member_order(subscriptions: Mapping[str, Subscription]) -> list[str]:
    """Member ids in the order of static ids first, so that a static member keeps its place across
    restarts.
    """

    def key(member_id: str) -> tuple[bool, str]:
        instance = subscriptions[member_id].group_instance_id
        return (instance is None, member_id if instance is None else instance)

    return sorted(subscriptions, key=key)
