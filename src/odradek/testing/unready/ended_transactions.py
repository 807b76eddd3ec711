"""Transactions that have just ended, and whose markers are still on their way. No I/O.

In Kafka the coordinator answers EndTxn when the outcome is in its log; markers go to the partitions, and to
the groups whose offsets the transaction has, after that. In a cluster these are other brokers.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.testing.unready.unreadiness import Unreadiness
    from odradek.util.topic_partition import TopicPartition

Offset = tuple[str, str, int]
"""Of a group, in a topic's partition."""


class EndedTransactions:
    """The open transactions and those that have just ended, at all brokers of a cluster."""

    def __init__(self, unreadiness: Unreadiness) -> None:
        """
        Args:
            unreadiness: counts the answers; of all brokers.
        """
        self._unreadiness = unreadiness
        self._lock = Lock()
        self._offsets: dict[str, set[Offset]] = {}
        """By transactional id, of its open transaction; so are the next."""
        self._written: dict[str, dict[TopicPartition, int]] = {}
        """The first offset in each partition."""
        self._stable: dict[TopicPartition, int] = {}
        """The last stable offset as it is told, while the markers are on their way."""

    def commits(self, transactional_id: str, offsets: Iterable[Offset]) -> None:
        """Take up offsets that a transaction is to commit."""
        with self._lock:
            self._offsets.setdefault(transactional_id, set()).update(offsets)

    def writes(self, transactional_id: str, partition: TopicPartition, base_offset: int) -> None:
        """Take up a batch that a transaction has written."""
        with self._lock:
            self._written.setdefault(transactional_id, {}).setdefault(partition, base_offset)

    def ends(self, transactional_id: str) -> None:
        """Begin with the answers about a transaction that its producer wants ended.

        Before the work: nobody is to see an outcome that is told late to the next who asks.
        """
        with self._lock:
            offsets = list(self._offsets.get(transactional_id, ()))
            for partition, base_offset in self._written.get(transactional_id, {}).items():
                subject = ("last stable offset", *partition)
                is_told = not self._unreadiness.is_ready(subject)
                self._stable[partition] = min(
                    base_offset, self._stable[partition] if is_told else base_offset
                )
                self._unreadiness.appeared(subject)
        self._unreadiness.appeared(("transaction", transactional_id))
        for offset in offsets:
            self._unreadiness.appeared(("offset", *offset))

    def has_ended(self, transactional_id: str, *, is_refused: bool) -> None:
        """Take up what the coordinator has answered; a transaction that is refused to end is open still."""
        if is_refused:
            self._unreadiness.make_ready(("transaction", transactional_id))
        else:
            self.forget(transactional_id)

    def forget(self, transactional_id: str) -> None:
        """Forget the open transaction of a producer: it is over, or another producer takes the id over."""
        with self._lock:
            self._offsets.pop(transactional_id, None)
            self._written.pop(transactional_id, None)

    def is_ending(self, transactional_id: str) -> bool:
        """Count an answer that needs the last transaction's end; return whether it is to come."""
        return self._unreadiness.answered(("transaction", transactional_id)) > 0

    def is_unstable(self, offset: Offset) -> bool:
        """Count an answer that needs a stable offset; return whether it is to come."""
        return self._unreadiness.answered(("offset", *offset)) > 0

    def last_stable_offset(self, partition: TopicPartition, from_offset: int | None = None) -> int | None:
        """Count an answer that needs the last stable offset; return which one is told in place of it.

        Args:
            partition: whose.
            from_offset: of a fetch. One that begins before is told all, and so are those after it.

        Returns:
            None where nothing but the truth is told.
        """
        subject = ("last stable offset", *partition)
        if not self._unreadiness.answered(subject):
            return None
        stable = self._stable[partition]
        if from_offset is None or from_offset >= stable:
            return stable
        self._unreadiness.make_ready(subject)
        return None
