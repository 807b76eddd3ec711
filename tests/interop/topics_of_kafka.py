"""Topics on real Kafkas, where the broker's metadata follows the controller's answer some time later."""

from __future__ import annotations

from odradek import Admin, NewTopic
from odradek.client.errors import ClientTimeoutError
from odradek.errors import LeaderNotAvailableError, NotLeaderOrFollowerError, UnknownTopicOrPartitionError

from . import members

_NOT_YET = (
    UnknownTopicOrPartitionError,
    LeaderNotAvailableError,
    NotLeaderOrFollowerError,
    ClientTimeoutError,
)


def create(admin: Admin, *topics: NewTopic) -> None:
    """Create topics, and wait until the broker serves them."""
    admin.create_topics(topics)
    for topic in topics:
        until_served(admin, topic.name, topic.num_partitions)


def until_served(admin: Admin, name: str, partitions: int) -> None:
    """Wait until the broker tells of all partitions of a topic, and has their logs."""

    def served() -> bool:
        try:
            found = admin.describe_topics([name])[name].partitions
            ends = admin.list_offsets({(name, index): -1 for index in range(partitions)})
        except _NOT_YET:
            return False
        return len(found) == len(ends) == partitions

    members.until(f"{name} has {partitions} partitions", served)


def until_gone(admin: Admin, name: str) -> None:
    """Wait until the broker tells of a topic no more."""
    members.until(f"{name} is gone", lambda: name not in admin.list_topics())
