"""Range: per topic, consecutive partitions to the members in order; the first ones get one more."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.client.core.assignors.base import Assignment, Assignor, Subscription, member_order
from odradek.client.types import TopicPartition


class RangeAssignor(Assignor):
    """Kafka's RangeAssignor: topics with equally many partitions are co-partitioned. Racks are not
    regarded.
    """

    name = "range"

    def assign(self, partitions: Mapping[str, int], subscriptions: Mapping[str, Subscription]) -> Assignment:
        """See `Assignor.assign`."""
        assignment: Assignment = {member: [] for member in subscriptions}
        members_in_order = member_order(subscriptions)
        for topic, count in partitions.items():
            members = [m for m in members_in_order if topic in subscriptions[m].topics]
            if not members:
                continue
            each, extra = divmod(count, len(members))
            first = 0
            for index, member in enumerate(members):
                after = first + each + (index < extra)
                assignment[member].extend(TopicPartition(topic, p) for p in range(first, after))
                first = after
        return assignment
