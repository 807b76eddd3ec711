"""Round robin: all partitions of all topics, in order, to the members in turn."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.client.core.assignors.base import Assignment, Assignor, Subscription, member_order
from odradek.client.types import TopicPartition


class RoundRobinAssignor(Assignor):
    """Kafka's RoundRobinAssignor."""

    name = "roundrobin"

    def assign(self, partitions: Mapping[str, int], subscriptions: Mapping[str, Subscription]) -> Assignment:
        """See `Assignor.assign`."""
        assignment: Assignment = {member: [] for member in subscriptions}
        members = member_order(subscriptions)
        turn = 0
        for topic in sorted({topic for s in subscriptions.values() for topic in s.topics}):
            for partition in range(partitions.get(topic, 0)):
                while topic not in subscriptions[members[turn % len(members)]].topics:
                    turn += 1
                assignment[members[turn % len(members)]].append(TopicPartition(topic, partition))
                turn += 1
        return assignment
