"""The order of a consumer's commits: none is sent that would take a later one of the same partition back.

Commits that are tried again, or that look for their coordinator, may come to be sent in another order than
they were begun in. Partitions do not hold each other up: several tasks may commit one each.
"""

from __future__ import annotations

from collections.abc import Collection, KeysView
from dataclasses import dataclass

from odradek.client.types import TopicPartition


@dataclass(slots=True)
class _Commits:
    """Those of one partition.

    Attributes:
        under_way: how many.
        begun, sent: the number of the last that began, and of the last of which a request has left.
    """

    under_way: int = 0
    begun: int = 0
    sent: int = 0


class CommitOrder:
    """The commits of one consumer that are under way."""

    def __init__(self) -> None:
        self._begun = 0
        # Has a partition only as long as a commit of it is under way.
        self._commits: dict[TopicPartition, _Commits] = {}

    @property
    def under_way(self) -> KeysView[TopicPartition]:
        """The partitions of which a commit is under way."""
        return self._commits.keys()

    def begin(self, partitions: Collection[TopicPartition]) -> int:
        """Begin a commit; `end` follows in any case. Returns its number."""
        self._begun += 1
        for tp in partitions:
            commits = self._commits.setdefault(tp, _Commits())
            commits.under_way += 1
            commits.begun = self._begun
        return self._begun

    def is_overtaken(self, partitions: Collection[TopicPartition], number: int, *, again: bool) -> bool:
        """Return whether a request of this commit, sent now, could take a later commit back.

        Args:
            partitions: those of the commit.
            number: of the commit.
            again: one was sent and refused. Then a later commit that has begun is enough, as its request may
                leave at any time.
        """
        commits = [self._commits[tp] for tp in partitions]
        return any(number < (other.begun if again else other.sent) for other in commits)

    def sent(self, partitions: Collection[TopicPartition], number: int) -> None:
        """A request of this commit leaves now."""
        for tp in partitions:
            self._commits[tp].sent = number

    def end(self, partitions: Collection[TopicPartition]) -> None:
        """A commit of these has been made or given up."""
        for tp in partitions:
            commits = self._commits[tp]
            commits.under_way -= 1
            if not commits.under_way:
                del self._commits[tp]
